"""Measures what one run costs, for five kinds of run, in counts that do not depend on the machine.

The service runs as `serve` does, in the main thread. One client starts one run after another.
"""

# pyright: basic, reportMissingTypeStubs=false
# asyncpg has no types.

import asyncio
import gc
import os
import signal
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from typing import Final, TypeAlias

import asyncpg
from sqlalchemy import make_url

from bench import processes
from runward.serve import run_process
from runward.services import Services
from runward.settings import Settings
from tests.budgets.loop import PROFILED, CountingLoop
from tests.budgets.peers import Client, ModelAndTool
from tests.budgets.wire import Wire

Counts: TypeAlias = dict[str, int]

WARM_UP_RUNS: Final = 8
"""PostgreSQL makes a new plan for each of the first five executions of a prepared statement."""
MAX_RATIO: Final = 1.05
"""A higher count exceeds its budget. This allows for the few counts that vary."""
SCHEDULED: Final = ("tasks", "callbacks", "timers", "greenlet switches", "socket writes")
"""These counts can be higher by one, because events can arrive in another order."""
MAX_REPEATS: Final = 20
PARALLEL: Final = {"concurrency": {"limit": 10}}
QUIET_SECONDS: Final = 0.02
LONG_TEXT_WORDS: Final = 128
LONG_TEXT_LETTERS: Final = 8_192
"""Of each word, so that the answer has 1 MiB."""
_ROWS: Final = """
SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint AS "rows written"
FROM pg_stat_user_tables"""
_OPEN_RUNS: Final = "SELECT count(*) FROM runs WHERE ended_at IS NULL"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of run. `run` executes one."""

    name: str
    run: Callable[["Service"], None]
    tool: str = "lookup"
    calls: int = 1
    words: int = 20


class Service:
    """The running service, its counters, and its client. For the thread that measures."""

    def __init__(self, loop: CountingLoop, wire: Wire, client: Client) -> None:
        self._loop, self._wire = loop, wire
        self.executed = wire.executed
        self.client = client
        self._runner = asyncio.Runner()
        url = make_url(wire.target).set(drivername="postgresql")
        self._tables = self._runner.run(asyncpg.connect(url.render_as_string(hide_password=False)))

    def close(self) -> None:
        self._runner.run(self._tables.close())
        self._runner.close()
        self.client.close()

    def register(self, fake: ModelAndTool) -> None:
        parameters = {"type": "object", "properties": {"query": {"type": "string"}}}
        for tool, agent, approval in (("lookup", "tools", "never"), ("ask", "careful", "always")):
            spec = {"name": tool, "type": "webhook", "url": f"{fake.url}/tool", **PARALLEL}
            about = {"description": "Look up a fact.", "parameters": parameters}
            self.client.post("/v1/tools", {**spec, **about, "approval": approval})
            limits = {"max_parallel_tool_calls": 10}
            config = {"model": "openai:fake", "instructions": "Be brief.", "limits": limits}
            self.client.post("/v1/agents", {"name": agent, "tools": [tool], **config})
        self.client.post("/v1/agents", {"name": "plain", "model": "openai:fake"})

    def read_counts(self) -> Counter[str]:
        """Wait until the service is idle, and return all counts except rows."""
        counts = self._read()
        while True:
            time.sleep(QUIET_SECONDS)
            before, counts = counts, self._read()
            if counts == before:
                return counts

    def _read(self) -> Counter[str]:
        counts = self._loop.read_counts() + self._wire.counts
        counts["bytes to clients"] = self.client.received_bytes
        return counts

    def count(self, work: Callable[[], None]) -> Counts:
        """Return how much the work increases each count."""
        rows, counts = self._read_rows(), self.read_counts()
        work()
        after = self.read_counts()
        after.subtract(counts)
        return dict(after) | {name: n - rows[name] for name, n in self._read_rows().items()}

    def _read_rows(self) -> Counts:
        self._wire.flush_statistics()
        return dict(self._runner.run(self._tables.fetchrow(_ROWS)))

    def wait_for_end(self) -> None:
        """Wait until all runs have ended."""
        while self._runner.run(self._tables.fetchval(_OPEN_RUNS)):
            time.sleep(QUIET_SECONDS)

    @contextmanager
    def profiled(self) -> Generator[None]:
        """Count function calls meanwhile. The service is several times slower."""
        self._call(self._loop.start_profile)
        yield
        self._call(self._loop.stop_profile)

    def count_calls(self, work: Callable[[], None]) -> Counts:
        before = self.read_counts()
        work()
        after = self.read_counts()
        return {name: after[name] - before[name] for name in PROFILED}

    def _call(self, function: Callable[[], None]) -> None:
        """Call the function in the service's thread, and wait for it."""
        done = threading.Event()

        def call() -> None:
            function()
            done.set()

        self._loop.call_soon_threadsafe(call)
        assert done.wait(10)


def _stream_answer(service: Service) -> None:
    service.client.stream("/v1/runs", _make_run("plain"))


def _call_tools(service: Service) -> None:
    service.client.stream("/v1/runs", _make_run("tools"))


def _approve(service: Service) -> None:
    """No client waits for the end of the run, so that the counts do not depend on its wake-ups."""
    run = service.client.post("/v1/runs?wait=30", _make_run("careful"))
    [action] = run["required_actions"]
    service.read_counts()
    service.client.post(f"/v1/approvals/{action['approval_id']}/decision", {"decision": "approve"})
    service.wait_for_end()


def _make_run(agent: str) -> dict[str, str]:
    return {"agent": agent, "input": "How many stations does the line have?"}


KINDS: Final = (
    Kind("plain answer", _stream_answer),
    Kind("streamed answer of 200 words", _stream_answer, words=200),
    Kind("one webhook call", _call_tools),
    Kind("ten parallel webhook calls", _call_tools, calls=10),
    Kind("webhook call with an approval", _approve, tool="ask"),
)


def list_statements(database_url: str) -> set[str]:
    """Return the SQL that the service executes while clients start runs of each kind."""
    found: set[str] = set()

    def work(service: Service, fake: ModelAndTool) -> None:
        service.register(fake)
        service.read_counts()
        before = set(service.executed)
        for kind in KINDS:
            fake.prepare(tool=kind.tool, calls=kind.calls, words=kind.words)
            kind.run(service)
        service.read_counts()
        found.update(service.executed - before)

    _serve_for(database_url, work)
    return found


def measure(database_url: str, budgets: Mapping[str, Counts] | None = None) -> dict[str, Counts]:
    """Return the counts of each kind of run. `database_url`: an empty migrated database. Call this
    function in the main thread of a process. With `budgets`, a kind of run is repeated only until
    it is within its budget."""
    limits = budgets or {}
    results: dict[str, Counts] = {}

    def work(service: Service, fake: ModelAndTool) -> None:
        service.register(fake)
        for kind in KINDS:
            results[kind.name] = _measure_kind(service, fake, kind, limits.get(kind.name))

    _serve_for(database_url, work)
    return results


def _serve_for(database_url: str, work: Callable[[Service, ModelAndTool], None]) -> None:
    """Serve until `work` has ended. Raises its error."""
    failures: list[BaseException] = []

    def try_work(service: Service, fake: ModelAndTool) -> None:
        try:
            work(service, fake)
        except BaseException as error:
            failures.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    _serve(database_url, try_work)
    for failure in failures:
        raise failure


def _serve(database_url: str, work: Callable[[Service, ModelAndTool], None]) -> None:
    """Serve until `work` has ended. It runs on a thread of its own."""
    key, port = token_hex(32), processes.free_port()
    with (
        closing(Wire(database_url)) as wire,
        _restored(),
        asyncio.Runner(loop_factory=CountingLoop) as runner,
        closing(ModelAndTool(runner.get_loop().call_soon_threadsafe)) as fake,
    ):
        settings = Settings.model_validate(
            {
                "port": port,
                "bootstrap_key": key,
                "secret_key": "k" * 32,
                "allow_private_targets": "127.0.0.0/8",
                "OPENAI_BASE_URL": f"{fake.url}/v1",
                "OPENAI_API_KEY": "none",
            }
        )
        loop = runner.get_loop()
        assert isinstance(loop, CountingLoop)

        def begin(_: Services) -> None:
            def connect_and_work() -> None:
                client = Client(("127.0.0.1", port), key)
                with closing(Service(loop, wire, client)) as service:
                    work(service, fake)

            threading.Thread(target=connect_and_work, daemon=True).start()

        runner.run(run_process(settings, wire.url, with_api=True, with_worker=True, ready=begin))


@contextmanager
def _restored() -> Generator[None]:
    """Restore the signal handlers and the garbage collector, which `run_process` changes."""
    with ExitStack() as stack:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            stack.callback(signal.signal, number, signal.getsignal(number))
        stack.callback(gc.set_threshold, *gc.get_threshold())
        yield


def _measure_kind(
    service: Service, fake: ModelAndTool, kind: Kind, budget: Counts | None
) -> Counts:
    run = partial(kind.run, service)
    fake.prepare(tool=kind.tool, calls=kind.calls, words=kind.words)
    for _ in range(WARM_UP_RUNS):
        run()
    counts = _repeat(lambda: service.count(run), budget)
    counts |= _repeat(lambda: _count_garbage(service, run), budget)
    with service.profiled():
        counts |= _repeat(lambda: service.count_calls(run), budget)
    fake.prepare(tool=kind.tool, calls=kind.calls, words=LONG_TEXT_WORDS, letters=LONG_TEXT_LETTERS)
    copies = _repeat(lambda: _count_copies(service, run), budget)
    return counts | copies


def _repeat(count: Callable[[], Counts], budget: Counts | None) -> Counts:
    """Return the third lowest value of each count. Background work of the service increases the
    counts of some runs. Therefore, repeat the run until the counts are within the budget, but at
    most MAX_REPEATS times."""
    counted: list[Counts] = []
    for _ in range(MAX_REPEATS):
        counted.append(count())
        if len(counted) < 3:
            continue
        found = {name: sorted(one[name] for one in counted)[2] for name in counted[0]}
        if budget and not any(exceeds(row, n, budget.get(row, n)) for row, n in found.items()):
            break
    return found


def exceeds(name: str, count: int, budget: int) -> bool:
    return count > budget * MAX_RATIO + (name in SCHEDULED)


def _count_garbage(service: Service, run: Callable[[], None]) -> Counts:
    """Return how many objects of a run refer to each other at its end, so that only a garbage
    collection frees them."""
    service.read_counts()
    gc.collect()
    run()
    service.read_counts()
    return {"cyclic garbage": gc.collect()}


def _count_copies(service: Service, run: Callable[[], None]) -> Counts:
    """Return how many copies of a long answer are in memory at once, and how often it is sent to
    PostgreSQL."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        counts = service.count(run)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    length = LONG_TEXT_WORDS * LONG_TEXT_LETTERS
    return {
        "copies of the answer in memory": round((most - before) / length),
        "copies of the answer to PostgreSQL": round(counts["bytes to PostgreSQL"] / length),
        "copies of the answer to clients": round(counts["bytes to clients"] / length),
    }
