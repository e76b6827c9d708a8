"""Write a history of runs as the evidence of a chaos folder."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.checker.calls import call_digest
from tests.checker.evidence import (
    Exchange,
    Frame,
    Log,
    ModelRequest,
    StreamEnd,
    ToolEnd,
    ToolHit,
)
from tests.checker.history import Json

START = 1_800_000_000.0
STEP_SECONDS = 0.1
PROJECT = "00000000-0000-7000-8000-00000000aaaa"
URL = "http://127.0.0.1:9000/"


def uuid(kind: str, number: int) -> str:
    return f"00000000-0000-7000-8000-{kind}{number:011d}"


def shown(prefix: str, value: str) -> str:
    return f"{prefix}_{value.replace('-', '')}"


def usage_of(plan: str, turn: int) -> dict[str, int]:
    return {"input_tokens": 10 + int(plan[-1]), "output_tokens": 3 + turn}


@dataclass
class Story:
    """Everything that is written down, in order. `now` moves with each event."""

    folder: Path
    now: float = START
    rows: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    numbers: dict[str, int] = field(default_factory=dict[str, int])

    def at(self, seconds: float | None = None) -> str:
        return datetime.fromtimestamp(self.now if seconds is None else seconds, UTC).isoformat()

    def next(self, name: str) -> int:
        self.numbers[name] = self.numbers.get(name, 0) + 1
        return self.numbers[name]

    def write(self, name: str, line: Any) -> None:
        with Log(self.folder, name) as log:
            log.write(line)

    def add(self, table: str, **row: Any) -> Json:
        self.rows.setdefault(table, []).append(row)
        return row

    def close(self) -> None:
        (self.folder / "tables").mkdir()
        for table, rows in self.rows.items():
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (self.folder / "tables" / f"{table}.jsonl").write_text(text)

    def ask(
        self, method: str, path: str, status: int | None, response: Any = None, **more: Any
    ) -> None:
        exchange = Exchange(
            self.now, self.now + 0.02, "client-1@0", method, path, status, response=response, **more
        )
        self.write("http.jsonl", exchange)


class Told:
    """One run of the story."""

    def __init__(self, story: Story, plan: str, *, agent: str = "main", **columns: Any) -> None:
        self.story, self.plan, self.agent = story, plan, agent
        self.uuid = uuid("1", story.next("run"))
        self.id = shown("run", self.uuid)
        self.seq = self.turn = 0
        self.fence = 1
        self.tokens = [0, 0]
        self.events: list[Json] = []
        self.row = story.add(
            "runs",
            **{
                "project_id": PROJECT,
                "id": self.uuid,
                "status": "queued",
                "config": {"model": f"openai:{agent}"},
                "created_at": story.at(),
                "available_at": story.at(),
                "lease_expires_at": None,
                "started_at": None,
                "ended_at": None,
                "output": None,
                "error": None,
                "incomplete_details": None,
                "continued_from": None,
                "parent_run_id": None,
                "parent_call_id": None,
                "ancestors": [],
                "session_id": None,
                "session_seq": None,
                **columns,
            },
        )
        items = [{"role": "user", "content": f"{plan}: go"}]
        story.add("run_items", run_id=self.uuid, kind="input", items=items)
        self.event("run.created", agent=None)
        self.event("run.started")
        self.row["started_at"] = story.at()

    def event(self, kind: str, **data: Any) -> None:
        story = self.story
        story.now = round(story.now + STEP_SECONDS, 3)
        self.seq += 1
        at = story.at()
        story.add("run_events", run_id=self.uuid, seq=self.seq, type=kind, data=data, created_at=at)
        self.events.append(
            {
                "id": f"evt_{self.id[4:]}_{self.seq}",
                "type": kind,
                "sequence": self.seq,
                "run_id": self.id,
                "created_at": at.replace("+00:00", "Z"),
                "data": data,
            }
        )
        self.row["last_seq"] = self.seq

    def respond(self, **calls: tuple[str, Json]) -> None:
        """A model response: the calls by id, or a text."""
        story, usage = self.story, usage_of(self.plan, self.turn)
        request = ModelRequest(
            at=story.now + 0.01,
            number=story.next("model"),
            protocol="chat",
            model=self.agent,
            plan=self.plan,
            turn=self.turn,
            request_digest="d",
            behavior="answer",
            answered=True,
            ended_at=story.now + 0.02,
            usage=usage,
        )
        story.write("models.jsonl", request)
        self.turn += 1
        if not calls:
            self.event("message.completed", turn=self.turn, text="done")
        for position, (call_id, (tool, arguments)) in enumerate(calls.items()):
            self._call(call_id, tool, arguments, position)
        self.count(usage)

    def count(self, usage: dict[str, int], **about: Any) -> None:
        self.tokens[0] += usage["input_tokens"]
        self.tokens[1] += usage["output_tokens"]
        total = {"input_tokens": self.tokens[0], "output_tokens": self.tokens[1]}
        self.row |= total
        self.event("usage.updated", turn=self.turn, **total, **about)

    def _call(self, call_id: str, tool: str, arguments: Json, position: int) -> None:
        call = {"call_id": call_id, "tool": tool, "turn": self.turn}
        self.event("tool_call.created", **call, arguments=arguments)
        self.story.add(
            "tool_calls",
            project_id=PROJECT,
            run_id=self.uuid,
            id=uuid("2", self.story.next("call")),
            position=position,
            arguments=arguments,
            digest=call_digest(tool, 1, URL + tool, arguments),
            phase="ready",
            attempt=0,
            result=None,
            received=None,
            approval_id=None,
            child_run_id=None,
            **call,
        )

    def call(self, call_id: str) -> Json:
        rows = self.story.rows["tool_calls"]
        return next(row for row in rows if (row["run_id"], row["call_id"]) == (self.uuid, call_id))

    def start(self, call_id: str) -> None:
        call = self.call(call_id)
        call["attempt"] += 1
        self.event(
            "tool_call.started", call_id=call_id, attempt=call["attempt"], digest=call["digest"]
        )

    def send(self, call_id: str, outcome: str = "answered") -> None:
        """Start the call, and log the request at its tool."""
        self.start(call_id)
        call, number = self.call(call_id), self.story.next("hit")
        webhook_id = shown("call", call["id"])
        body = {
            "type": "tool_call",
            "run_id": self.id,
            "call_id": call_id,
            "tool": call["tool"],
            "tool_version": 1,
            "arguments": call["arguments"],
            "attempt": call["attempt"],
            "fence": self.fence,
        }
        headers = {"webhook-id": webhook_id, "idempotency-key": webhook_id}
        at = self.story.now + 0.01
        hit = ToolHit(number, at, call["tool"], headers, body, 1, verified=True, behavior="answer")
        self.story.write("tools.jsonl", hit)
        self.story.write("tools.jsonl", ToolEnd(number, at + 0.02, outcome))

    def settle(self, call_id: str, outcome: str = "completed", **data: Any) -> None:
        call = self.call(call_id)
        call |= {"phase": "settled", "result": {"outcome": outcome, "output": "ok"}}
        self.event(f"tool_call.{outcome}", call_id=call_id, output="ok", **data)

    def request_approval(self, call_id: str) -> Json:
        call, approval_id = self.call(call_id), uuid("3", self.story.next("approval"))
        call["approval_id"] = approval_id
        self.event(
            "tool_call.approval_requested",
            call_id=call_id,
            approval_id=shown("apr", approval_id),
            digest=call["digest"],
        )
        return self.story.add(
            "approvals",
            id=approval_id,
            run_id=self.uuid,
            call_id=call_id,
            status="pending",
            decision=None,
        )

    def decide(self, approval: Json, *bodies: Json) -> None:
        """The first one wins."""
        status = {"approve": "approved", "reject": "rejected"}[bodies[0]["decision"]]
        approval |= {"status": status, "decision": bodies[0]}
        shown_id = shown("apr", approval["id"])
        self.event(
            "tool_call.approval_decided",
            call_id=approval["call_id"],
            approval_id=shown_id,
            decision=bodies[0]["decision"],
            status=status,
            digest=self.call(approval["call_id"])["digest"],
        )
        path = f"/v1/approvals/{shown_id}/decision"
        won = {"id": shown_id, "status": status, "decision": bodies[0]}
        lost = {"code": "approval_already_decided", "approval": won}
        for number, body in enumerate(bodies):
            answer = lost if number else {"id": shown_id, "status": status}
            self.story.ask(
                "POST", path, 409 if number else 200, answer, request=body, race=shown_id
            )

    def finish(self, status: str = "completed") -> None:
        output = {"output": "done"} if status == "completed" else {}
        self.event(f"run.{status}", **output)
        self.row |= {"status": status, "ended_at": self.story.at(), **output}

    def read(self) -> None:
        """A client polls the run, and reads its stream in two connections."""
        story, path = self.story, f"/v1/runs/{self.id}"
        told = {name: self.row.get(name) for name in ("status", "output", "error")}
        usage = {"input_tokens": self.tokens[0], "output_tokens": self.tokens[1]}
        story.ask("GET", path, 200, {"id": self.id, "usage": usage, **told})
        page = {"data": self.events, "has_more": False}
        story.ask("GET", f"{path}/events?after=0&limit=1000", 200, page)
        for after, events in ((0, self.events[:3]), (3, self.events[3:])):
            stream = f"s{story.next('stream')}"
            for event in events:
                frame = Frame(
                    story.now,
                    stream,
                    self.id,
                    after,
                    event["type"],
                    json.dumps(event),
                    str(event["sequence"]),
                )
                story.write("streams.jsonl", frame)
            story.write("streams.jsonl", StreamEnd(story.now, stream, "server"))
