"""Change the lines of an evidence folder so that a promise is broken."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from tests.checker.evidence import Exchange, Log
from tests.checker.history import Json
from tests.checker.story import START, uuid

GATED, PARENT, CHILD, FIRST, SECOND, CANCELLED, CALLED_BACK, REJECTED = (
    uuid("1", number) for number in range(1, 9)
)
"""The runs of the sample."""
LATER = START + 30.0
"""After everything."""


class Lines:
    """Changes the lines of an evidence folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def change(self, name: str, change: Callable[[list[Json]], Any]) -> None:
        path = self.folder / name
        lines = [json.loads(text) for text in path.read_text().splitlines()]
        change(lines)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def set(self, name: str, where: Callable[[Json], bool], **fields: Any) -> None:
        """Set fields of the lines that match. Fails if there is none."""

        def update(lines: list[Json]) -> None:
            found = [line for line in lines if where(line)]
            assert found, f"no such line in {name}"
            for line in found:
                line.update(fields)

        self.change(name, update)

    def set_settings(self, **settings: Any) -> None:
        path = self.folder / "settings.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | settings))

    def append(self, name: str, line: Any) -> None:
        with Log(self.folder, name) as log:
            log.write(line)

    def events(self, run: str, change: Callable[[list[Json]], Any]) -> None:
        """Change the events of a run as if it had happened so: no reader knows better."""

        def renumber(rows: list[Json]) -> None:
            own = [row for row in rows if row["run_id"] == run]
            others = [row for row in rows if row["run_id"] != run]
            change(own)
            for number, row in enumerate(own, 1):
                row["seq"] = number
            rows[:] = others + own
            self.set("tables/runs.jsonl", of(id=run), last_seq=len(own))

        self.change("tables/run_events.jsonl", renumber)
        self.forget_readers()

    def forget_readers(self) -> None:
        self.change("streams.jsonl", lambda lines: lines.clear())
        self.change("http.jsonl", lambda lines: keep(lines, lambda line: line["method"] != "GET"))

    def ask(self, path: str, status: int | None, response: Any = None, **more: Any) -> None:
        """A client sends one more POST."""
        at = more.pop("at", LATER)
        more = {"request": None, **more}
        line = Exchange(at, at + 1, "client-2@0", "POST", path, status, response=response, **more)
        self.append("http.jsonl", line)


def keep(lines: list[Json], kept: Callable[[Json], bool]) -> None:
    lines[:] = [line for line in lines if kept(line)]


def of(**fields: Any) -> Callable[[Json], bool]:
    """Lines with these fields."""
    return lambda line: all(line.get(name) == value for name, value in fields.items())


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def event(like: Json, kind: str, seconds: float, **data: Any) -> Json:
    return like | {"type": kind, "data": data, "created_at": at(seconds)}


def ends_as(lines: Lines, run: str, status: str, **more: Any) -> None:
    """The run ends otherwise."""
    data = {name: value for name, value in more.items() if value is not None}

    def replace_last(log: list[Json]) -> None:
        log[-1] |= {"type": f"run.{status}", "data": data}

    lines.events(run, replace_last)
    row = {"output": None, "error": None, **more}
    lines.set("tables/runs.jsonl", of(id=run), status=status, **row)


Breach: TypeAlias = Callable[[Lines], Any]
