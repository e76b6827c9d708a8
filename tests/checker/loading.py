"""Read a chaos folder into the evidence that the rules read.

Only the events of the tables are kept. The pages that clients polled and the frames that they
received are compared with them one by one. Other responses are cut to the parts that rules need.
"""

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from tests.checker.clients import CREATES, run_id_of
from tests.checker.evidence import (
    CallbackSent,
    Exchange,
    Folder,
    Frame,
    Plan,
    StreamEnd,
    ToolEnd,
    ToolHit,
    as_object,
)
from tests.checker.history import ENDED, Event, Evidence, Json, Reader
from tests.support.tools.hits import Hit

LAG_SECONDS: Final = 1.5
"""How late a busy server of the load may log a request that was on its way."""
PLAN: Final = re.compile(r"plan-\d+")
AFTER: Final = re.compile(r"[?&]after=(\d+)(?:&|$)")
PREFIXES: Final = {
    "run_id": "run",
    "parent_run_id": "run",
    "child_run_id": "run",
    "continued_from": "run",
    "resource_id": "run",
    "session_id": "sess",
    "approval_id": "apr",
}
OWN_PREFIX: Final = {"runs": "run", "sessions": "sess", "approvals": "apr", "tool_calls": "call"}
KEPT_TABLES: Final = (
    "runs",
    "tool_calls",
    "approvals",
    "sessions",
    "session_items",
    "idempotency_keys",
    "late_callbacks",
    "remembered_decisions",
    "tool_versions",
)
KEPT_OF_ANSWERS: Final = {
    "id",
    "status",
    "output",
    "error",
    "incomplete_details",
    "usage",
    "code",
    "approval",
}
HIT_FIELDS: Final = {field.name for field in fields(Hit)}


def load(path: Path) -> Evidence:
    """Read the folder."""
    folder = Folder(path)
    plans = {plan.plan: plan for plan in folder.plans()}
    tables = {table: list(_rows(folder, table)) for table in KEPT_TABLES}
    answers = _Answers()
    exchanges = [answers.take(each) for each in folder.exchanges()]
    hits, callbacks = _tools(folder, tables)
    return Evidence(
        runs=answers.runs_with(tables["runs"]),
        logs=_logs(folder),
        hits=hits,
        readers=Readers(folder),
        idempotent=_repeatable(plans.values()),
        settings=folder.settings(),
        faults=list(folder.faults()),
        processes=list(folder.processes()),
        stalls=[
            replace(stall, runs=[_shown("run", run) for run in stall.runs])
            for stall in folder.stalls()
        ],
        levels=list(folder.levels()),
        plans=plans,
        plan_of=_plan_of(folder, tables["runs"], answers.plan_of),
        exchanges=exchanges,
        seen_ids=answers.seen,
        models=list({request.number: request for request in folder.models()}.values()),
        callbacks=callbacks,
        tables=tables,
        lag_seconds=LAG_SECONDS,
    )


class _Answers:
    """What the answers of the service say about runs; each is cut to what the rules read."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        self.plan_of: dict[str, str] = {}
        self._last: dict[str, Json] = {}

    def take(self, exchange: Exchange) -> Exchange:
        path, run_id = exchange.path.split("?")[0], run_id_of(exchange)
        ok = exchange.status is not None and exchange.status < 300
        if ok and run_id is not None:
            self.seen.setdefault(run_id, f"{exchange.method} {path}")
            if exchange.method == "POST" and exchange.plan is not None and _creates(path):
                self.plan_of.setdefault(run_id, exchange.plan)
            if path == f"/v1/runs/{run_id}" and exchange.method == "GET":
                self._last[run_id] = exchange.response
        answer = {key: exchange.answer[key] for key in KEPT_OF_ANSWERS & exchange.answer.keys()}
        says = path.endswith(("/decision", "/cancel", "/result"))
        request = exchange.request if says else _digest(exchange.request)
        return replace(exchange, request=request, response=answer)

    def runs_with(self, rows: list[Json]) -> dict[str, Json]:
        """The last GET of each run, if it was final, else its row."""
        found: dict[str, Json] = {}
        for row in rows:
            last = self._last.get(row["id"], {})
            found[row["id"]] = last if last.get("status") in ENDED else {"status": row["status"]}
        return found


def _creates(path: str) -> bool:
    return path in CREATES or path.endswith("/continue")


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Readers:
    """Streams what each reader received: the pages of events, then each SSE connection."""

    folder: Folder

    def __iter__(self) -> Iterator[Reader]:
        for page in self.folder.pages():
            after = AFTER.search(page.path)
            if page.status == 200 and "data" in page.answer:
                number = int(after[1]) if after else None
                yield from _by_run(f"{page.client} {page.path}", page.answer["data"], number)
        yield from self._streams()

    def _streams(self) -> Iterator[Reader]:
        open_streams: dict[str, list[Frame]] = {}
        for line in self.folder.frames():
            if isinstance(line, StreamEnd):
                yield from _of_stream(open_streams.pop(line.stream, []))
            elif line.id is not None and not line.event.startswith("response."):
                open_streams.setdefault(line.stream, []).append(line)
        for frames in open_streams.values():
            yield from _of_stream(frames)


def _of_stream(frames: list[Frame]) -> Iterator[Reader]:
    events: list[Event] = []
    for frame in frames:
        event = _parsed(frame.data)
        if event.get("type") != frame.event or not {"sequence", "run_id"} <= event.keys():
            wrong = f"frame {frame.id} {frame.event} has the data {frame.data[:200]}"
            yield Reader(frame.run_id, frame.stream, [], wrong=wrong)
            return
        events.append(event)
        if (frame.id or "").isdigit() and frame.id != str(event["sequence"]):
            wrong = f"frame {frame.id} has the event {event['sequence']}"
            yield Reader(frame.run_id, frame.stream, [], wrong=wrong)
    if frames:
        numbered = (frames[0].id or "").isdigit()
        yield from _by_run(frames[0].stream, events, frames[0].after if numbered else None)


def _parsed(text: str) -> Event:
    try:
        return as_object(json.loads(text))
    except ValueError:
        return {}


def _by_run(name: str, events: list[Event], after: int | None) -> Iterator[Reader]:
    """A log that includes child runs has the events of each run in their order."""
    runs: dict[str, list[Event]] = {}
    for event in events:
        runs.setdefault(event["run_id"], []).append(event)
    for run_id, own in runs.items():
        yield Reader(run_id, name, own, after if len(runs) == 1 else None)


def _rows(folder: Folder, table: str) -> Iterator[Json]:
    """The rows, with ids as the API shows them."""
    own = OWN_PREFIX.get(table)
    for row in folder.rows(table):
        for name, prefix in PREFIXES.items():
            if row.get(name) is not None:
                row[name] = _shown(prefix, row[name])
        if own is not None:
            row["id"] = _shown(own, row["id"])
        if "ancestors" in row:
            row["ancestors"] = [_shown("run", each) for each in row["ancestors"]]
        yield row


def _shown(prefix: str, value: str) -> str:
    return f"{prefix}_{value.replace('-', '')}"


def _logs(folder: Folder) -> dict[str, list[Event]]:
    logs: dict[str, list[Event]] = {}
    for row in folder.rows("run_events"):
        run_id = _shown("run", row["run_id"])
        at = datetime.fromisoformat(row["created_at"]).astimezone(UTC)
        event = {
            "id": f"evt_{run_id[4:]}_{row['seq']}",
            "type": sys.intern(row["type"]),
            "sequence": row["seq"],
            "run_id": run_id,
            "created_at": at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "data": row["data"],
        }
        logs.setdefault(run_id, []).append(event)
    for log in logs.values():
        log.sort(key=itemgetter("sequence"))
    return logs


def _plan_of(folder: Folder, runs: list[Json], answered: dict[str, str]) -> dict[str, str]:
    """The plan of each run: of the request that created it, else of its input, else its
    parent's."""
    inputs: dict[str, str] = {}
    for row in folder.rows("run_items"):
        if row["kind"] == "input" and (plan := PLAN.search(json.dumps(row["items"]))):
            inputs.setdefault(_shown("run", row["run_id"]), plan[0])
    found: dict[str, str] = {}
    for row in runs:
        for run_id in (row["id"], *row["ancestors"]):
            plan = answered.get(run_id) or inputs.get(run_id)
            if plan is not None:
                found.setdefault(row["id"], plan)
    return found


def _repeatable(plans: Iterable[Plan]) -> frozenset[str]:
    """Names of tools that each plan lets Runward send again."""
    repeated: dict[str, bool] = {}
    for plan in plans:
        for name, tool in plan.tools.items():
            may = bool(tool.get("idempotent") or tool.get("retry_on"))
            repeated[name] = repeated.get(name, True) and may
    return frozenset(name for name, may in repeated.items() if may)


def _tools(folder: Folder, tables: dict[str, list[Json]]) -> tuple[list[Hit], list[CallbackSent]]:
    hits: dict[int, Hit] = {}
    callbacks: list[CallbackSent] = []
    for line in folder.tools():
        match line:
            case ToolHit():
                known = {name: getattr(line, name) for name in HIT_FIELDS if hasattr(line, name)}
                hits[line.number] = Hit(**known)
            case ToolEnd() if line.number in hits:
                hits[line.number].ended_at, hits[line.number].outcome = line.at, line.outcome
            case CallbackSent():
                callbacks.append(line)
            case _:
                pass
    calls = {
        (row["tool"].rpartition("__")[2], _digest(row["arguments"])): row
        for row in (
            tables["tool_calls"] if any(h.transport == "mcp" for h in hits.values()) else ()
        )
    }
    for hit in hits.values():
        row = calls.get((hit.tool, _digest(hit.arguments)))
        if hit.transport == "mcp" and row is not None:
            hit.body |= {"run_id": row["run_id"], "call_id": row["call_id"], "tool": row["tool"]}
    return [hit for hit in hits.values() if hit.type == "tool_call"], callbacks
