"""A small evidence folder in which every promise was kept, made by code.

Eight runs, one after another: a gated call whose worker is killed, a child run, two runs of a
session, a cancelled run, a callback, a rejected call.
"""

from pathlib import Path
from typing import Any

from tests.checker.evidence import (
    CallbackSent,
    Fault,
    Level,
    Plan,
    ProcessEvent,
    Settings,
    Stall,
    write_settings,
)
from tests.checker.story import PROJECT, START, URL, Story, Told

SESSION = "00000000-0000-7000-8000-00000000bbbb"
TOOLS = {"pay": True, "charge": False, "refund": False}


def write_sample(folder: Path) -> None:
    """Write the good folder."""
    story = Story(folder)
    for name, idempotent in TOOLS.items():
        spec = {"url": URL + name, "idempotent": idempotent}
        story.add("tool_versions", project_id=PROJECT, name=name, version=1, spec=spec)
    story.add("sessions", id=SESSION)
    _tell_processes(story)
    for tell in (_gated, _child, _session, _cancelled, _called_back, _rejected):
        tell(story)
    story.close()
    _tell_levels(story)
    write_settings(
        folder,
        Settings(
            lease_seconds=2.0,
            polling_seconds=1.0,
            drain_seconds=3.0,
            processes=3,
            seed=1,
            runs=7,
            started_at=START,
            load_ended_at=story.now,
            last_fault_at=START + 3.0,
            settled_at=story.now + 8.0,
        ),
    )


def _plan(story: Story, number: int, kind: str, statuses: str, **expects: Any) -> str:
    plan = f"plan-{number:06d}"
    tools = {name: {"idempotent": idempotent} for name, idempotent in TOOLS.items()}
    expects = {"statuses": [statuses], **expects}
    story.write("runs.jsonl", Plan(plan, kind, "shop", f"key-{plan}", None, tools, expects))
    return plan


def _create(story: Story, plan: str, **columns: Any) -> Told:
    told = Told(story, plan, **columns)
    key, body = f"key-{plan}", {"input": plan}
    answer = {"id": told.id, "status": "in_progress"}
    story.ask("POST", "/v1/runs", 202, answer, request=body, idempotency_key=key, plan=plan)
    story.add("idempotency_keys", project_id=PROJECT, key=key, resource_id=told.uuid)
    return told


def _gated(story: Story) -> None:
    plan = _plan(story, 1, "gated_approve", "completed", hits_at_least={"pay": 1})
    run = _create(story, plan)
    same = {"request": {"input": plan}, "idempotency_key": f"key-{plan}", "plan": plan}
    story.ask("POST", "/v1/runs", 202, {"id": run.id}, **same, race="key")
    story.ask("POST", "/v1/runs", 422, {"code": "idempotency_mismatch"}, **same | {"request": {}})
    run.respond(c1=("pay", {"amount": 5}))
    approval = run.request_approval("c1")
    run.event("run.waiting")
    run.decide(approval, {"decision": "approve"}, {"decision": "reject"})
    run.event("run.resumed")
    run.send("c1", "abandoned")
    story.write("faults.jsonl", Fault(story.now + 0.03, "kill", "worker-0"))
    run.event("run.resumed")
    run.fence = 2
    run.send("c1")
    run.settle("c1")
    story.write("faults.jsonl", Fault(story.now, "restart_postgres", "postgres", story.now + 1.0))
    story.ask("GET", "/v1/runs", 503, {"code": "unavailable"})
    run.respond()
    run.finish()
    run.read()


def _child(story: Story) -> None:
    run = _create(story, _plan(story, 2, "child", "completed", hits_at_most={"charge": 1}))
    run.respond(c1=("ask_clerk", {"input": "plan-000002"}))
    run.start("c1")
    above = {
        "parent_run_id": run.uuid,
        "parent_call_id": "c1",
        "ancestors": [run.uuid],
    }
    child = Told(story, run.plan, agent="clerk", **above)
    run.call("c1")["child_run_id"] = child.uuid
    run.event("tool_call.progress", call_id="c1", status="child_started", run_id=child.id)
    child.respond(k1=("charge", {"amount": 1}))
    child.send("k1")
    child.settle("k1")
    child.respond()
    child.finish()
    child.read()
    used = {"input_tokens": child.tokens[0], "output_tokens": child.tokens[1]}
    run.count(used, call_id="c1")
    run.settle("c1")
    run.respond()
    run.finish()
    run.read()


def _session(story: Story) -> None:
    for number in (3, 4):
        plan = _plan(story, number, "session", "completed", output="done")
        run = _create(story, plan, session_id=SESSION, session_seq=number - 2)
        calls = {"c1": ("charge", {"amount": 1}), "c2": ("pay", {"amount": 2})}
        run.respond(**calls)
        for call_id in ("c2", "c1"):
            run.send(call_id)
            run.settle(call_id)
        run.respond()
        run.finish()
        run.read()
        asked = [{"type": "tool_call", "call_id": call_id} for call_id in calls]
        given = [{"type": "tool_result", "call_id": call_id} for call_id in calls]
        items = [{"role": "user", "content": plan}, *asked, *given]
        story.add("session_items", session_id=SESSION, run_id=run.uuid, seq=number, items=items)


def _cancelled(story: Story) -> None:
    run = _create(story, _plan(story, 5, "cancel", "cancelled"))
    run.respond(c1=("charge", {"amount": 1}))
    run.send("c1", "abandoned")
    run.settle("c1", "cancelled", reason="run_cancelled")
    run.finish("cancelled")
    path = f"/v1/runs/{run.id}/cancel"
    story.ask("POST", path, 200, {"id": run.id}, request={"mode": "immediate"})
    run.read()


def _called_back(story: Story) -> None:
    run = _create(story, _plan(story, 6, "callback", "completed"))
    run.respond(c1=("charge", {"amount": 1}))
    run.send("c1")
    run.event("tool_call.progress", call_id="c1", status="accepted")
    run.settle("c1")
    story.write("tools.jsonl", CallbackSent(story.now + 0.02, "first", "c1", 200, run.id))
    run.event("run.resumed")
    run.respond()
    run.finish()
    run.read()


def _rejected(story: Story) -> None:
    plan = _plan(story, 7, "gated_reject", "completed", hits_at_most={"refund": 0})
    run = _create(story, plan)
    run.respond(c1=("refund", {"amount": 5}))
    approval = run.request_approval("c1")
    run.event("run.waiting")
    run.decide(approval, {"decision": "reject"})
    run.settle("c1", "rejected", reason="declined")
    run.event("run.resumed")
    run.respond()
    run.finish()
    run.read()


def _tell_processes(story: Story) -> None:
    for at, name, pid, event, code in (
        (-20.0, "worker-1", 15, "started", None),
        (-7.0, "worker-1", 15, "ended", 70),
        (-2.0, "api-0", 11, "started", None),
        (-2.0, "worker-0", 12, "started", None),
        (-2.0, "worker-1", 13, "started", None),
        (1.5, "worker-0", 12, "killed", None),
        (1.5, "worker-0", 12, "ended", -9),
        (1.6, "worker-0", 14, "started", None),
        (3.0, "worker-1", 13, "asked_to_stop", None),
        (5.0, "worker-1", 13, "ended", 0),
    ):
        story.write("processes.jsonl", ProcessEvent(START + at, name, pid, event, code))
    story.write("stalls.jsonl", Stall(START - 17.5, "worker-1", 15, []))


def _tell_levels(story: Story) -> None:
    for second in range(-5, int(story.now - START) + 8):
        at, cpu = START + second + 0.5, 1.0 + 0.01 * second
        for name, pid in (("api-0", 11), ("worker-0", 14)):
            level = Level(at, name, pid, 150 * 2**20, 8, 7, 20, cpu)
            story.write("levels.jsonl", level)
        story.write("levels.jsonl", Level(at, "postgres", connections=20))
