"""The evidence folder of one chaos run: the lines of its files, a writer and the readers.

Each file holds JSON lines, and each line is flushed when it is written, so that nothing is lost
when a writer is killed. Times are `time.time()` of one machine. The readers stream.

| file | lines | written by |
|---|---|---|
| `faults.jsonl` | `Fault` | the fault injector |
| `processes.jsonl` | `ProcessEvent` | the supervisor of the processes |
| `stalls.jsonl` | `Stall` | the stalled processes |
| `levels.jsonl` | `Level` | the supervisor, once a second |
| `tables/<table>.jsonl` | one row as JSON | the supervisor, at the end, in one snapshot |
| `settings.json` | one `Settings` | the supervisor, at the end |
| `runs.jsonl` | `Plan` | the clients, before the request that creates the run |
| `http.jsonl` | `Exchange` | the clients |
| `streams.jsonl` | `Frame`, `StreamEnd` | the clients |
| `tools.jsonl` | `ToolHit`, `ToolEnd`, `CallbackSent` | the tool servers and MCP servers |
| `models.jsonl` | `ModelRequest` | the model servers |
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal, Self, TypeVar, cast

T = TypeVar("T")
HEAD_CHARACTERS = 400
NETWORK = "network"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `kind`: `kill`, `freeze`, `stall`, `terminate`, `restart_postgres`, `end_backend`,
    `freeze_relay`, `cut_relay`. `until`: when it was over, `None` for one that has no duration.
    `detail` is NETWORK if only the network of a frozen process was cut."""

    at: float
    kind: str
    target: str
    until: float | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessEvent:
    """`event`: `started`, `ready`, `ended`, `killed`, `stopped`, `continued`, `asked_to_stop`.
    `code`: the exit code of an ended process, negative for a signal."""

    at: float
    name: str
    pid: int
    event: str
    code: int | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which the event loop of a process was blocked, while its threads went on. `runs`:
    those that it worked on. `until`: `None` if the process ended meanwhile. A stall is written
    when it begins, and again when it ends: the last line counts."""

    at: float
    name: str
    pid: int
    runs: list[str]
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """One sample. `pid` and the sizes are `None` for `name="postgres"`, which has connections.
    `cpu_seconds`: user and system time since the process started."""

    at: float
    name: str
    pid: int | None = None
    rss_bytes: int | None = None
    connections: int | None = None
    threads: int | None = None
    open_files: int | None = None
    cpu_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """`runs`: the number of runs that were asked for; `processes`: of the service, at one time.
    `load_ended_at`: the clients were done. `settled_at`: the stage stopped waiting."""

    lease_seconds: float
    polling_seconds: float
    drain_seconds: float
    processes: int
    seed: int
    runs: int
    started_at: float
    load_ended_at: float
    last_fault_at: float
    settled_at: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that a client is about to create. `plan`: the id in the run's input (`plan-000123`).

    `tools`: `{name: {"idempotent": bool, …}}`. `expects`, only where it is certain:
    `statuses` (the final statuses that are possible), `hits_at_most` and `hits_at_least`
    (`{tool: number}`), `output` (the final text)."""

    plan: str
    kind: str
    project: str
    idempotency_key: str | None = None
    agent: str | None = None
    tools: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    expects: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer. `status`: `None` without an answer, and `error` says why.
    `response`: JSON, or text cut at 4 kB. `race`: a name that requests sent at once share."""

    at: float
    ended_at: float
    client: str
    method: str
    path: str
    status: int | None
    request: Any = None
    response: Any = None
    idempotency_key: str | None = None
    error: str | None = None
    plan: str | None = None
    race: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The request, if it is an object."""
        return as_object(self.request)

    @property
    def answer(self) -> dict[str, Any]:
        """The response, if it is an object."""
        return as_object(self.response)


@dataclass(frozen=True, slots=True)
class Frame:
    """One SSE frame. `stream`: unique for each connection. `after`: the `Last-Event-ID` (or
    `after`) with which it was opened, 0 from the start. `id`: `None` for a transient frame.
    `data`: the text as received."""

    at: float
    stream: str
    run_id: str
    after: int
    event: str
    data: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The end of a connection. `closed`: `server`, `client`, or the error."""

    at: float
    stream: str
    closed: str


@dataclass(frozen=True, slots=True)
class ToolHit:
    """A request that reached a tool server, written before anything else happens. `active`: calls
    in flight, this one included. `key`: the path. `transport`: `webhook` or `mcp`. For MCP,
    `body` has at least `run_id`, `call_id`, `tool`, `arguments` where the request carries them."""

    number: int
    at: float
    key: str
    headers: dict[str, str]
    body: dict[str, Any]
    active: int
    verified: bool | None = None
    behavior: str | None = None
    transport: str = "webhook"
    line: Literal["hit"] = "hit"


@dataclass(frozen=True, slots=True)
class ToolEnd:
    """`outcome`: `answered` or `abandoned` (the client was gone, or the server cut it off)."""

    number: int
    at: float
    outcome: str
    line: Literal["end"] = "end"


@dataclass(frozen=True, slots=True)
class CallbackSent:
    """A callback that a tool server sent. `status`: `None` without an answer."""

    at: float
    url_kind: str
    call_id: str
    status: int | None
    run_id: str | None = None
    line: Literal["callback"] = "callback"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request that reached a model server. `turn`: the number of model responses that it already
    contains. `behavior`: `answer`, `429`, `500`, `hang`, `cut`, … `answered`: the whole answer was
    written. `usage`: `{"input_tokens": …, "output_tokens": …}` of that answer. A request may be
    written twice under one `number`, on arrival and at its end: the last line counts."""

    at: float
    number: int
    protocol: str
    model: str
    plan: str
    turn: int
    request_digest: str
    behavior: str
    answered: bool
    ended_at: float | None = None
    usage: dict[str, int] | None = None


def as_object(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


class Log:
    """Append dataclasses to one file of the evidence, each flushed as one line."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = (folder / name).open("a", encoding="utf-8")

    def write(self, line: Any) -> None:
        """Append a dataclass. Fields that are `None` are left out."""
        present = {key: value for key, value in asdict(line).items() if value is not None}
        self._file.write(json.dumps(present) + "\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read_lines(
    path: Path, keep: Callable[[str], bool] = lambda text: True
) -> Iterator[dict[str, Any]]:
    """Yield each JSON line whose text `keep` accepts. A missing file is empty; a line that was cut
    off is skipped."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for text in filter(keep, file):
            try:
                line = json.loads(text)
            except ValueError:
                continue
            yield line


def parse(kind: type[T], line: dict[str, Any]) -> T:
    """Build a line's dataclass. Unknown keys are ignored, missing nullable fields are `None`."""
    names = _names(kind)
    known = {key: value for key, value in line.items() if key in names}
    return kind(**{"status": None, **known} if "status" in names else known)


@cache
def _names(kind: Any) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind))


def write_settings(folder: Path, settings: Settings) -> None:
    (folder / "settings.json").write_text(json.dumps(asdict(settings), indent=2) + "\n")


def _is_page(text: str) -> bool:
    """Whether an exchange is about events: its path stands before everything long."""
    return "/events" in text[:HEAD_CHARACTERS]


@dataclass(frozen=True, slots=True)
class Folder:
    """Readers of an evidence folder. Each yields the lines of one file in order."""

    path: Path

    def settings(self) -> Settings:
        return parse(Settings, json.loads((self.path / "settings.json").read_text()))

    def faults(self) -> Iterator[Fault]:
        return self._lines("faults.jsonl", Fault)

    def processes(self) -> Iterator[ProcessEvent]:
        return self._lines("processes.jsonl", ProcessEvent)

    def stalls(self) -> list[Stall]:
        return list({(one.pid, one.at): one for one in self._lines("stalls.jsonl", Stall)}.values())

    def levels(self) -> Iterator[Level]:
        return self._lines("levels.jsonl", Level)

    def plans(self) -> Iterator[Plan]:
        return self._lines("runs.jsonl", Plan)

    def exchanges(self) -> Iterator[Exchange]:
        """All but the pages of events."""
        for line in read_lines(self.path / "http.jsonl", lambda text: not _is_page(text)):
            yield parse(Exchange, line)

    def pages(self) -> Iterator[Exchange]:
        """The pages of events."""
        for line in read_lines(self.path / "http.jsonl", _is_page):
            yield parse(Exchange, line)

    def models(self) -> Iterator[ModelRequest]:
        return self._lines("models.jsonl", ModelRequest)

    def frames(self) -> Iterator[Frame | StreamEnd]:
        for line in read_lines(self.path / "streams.jsonl"):
            yield parse(StreamEnd if "closed" in line else Frame, line)

    def tools(self) -> Iterator[ToolHit | ToolEnd | CallbackSent]:
        kinds = {"hit": ToolHit, "end": ToolEnd, "callback": CallbackSent}
        for line in read_lines(self.path / "tools.jsonl"):
            yield parse(kinds[line["line"]], line)

    def tables(self) -> set[str]:
        return {path.stem for path in (self.path / "tables").glob("*.jsonl")}

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        return read_lines(self.path / "tables" / f"{table}.jsonl")

    def _lines(self, name: str, kind: type[T]) -> Iterator[T]:
        for line in read_lines(self.path / name):
            yield parse(kind, line)
