"""A hostile tool server affects only its own call."""

from datetime import datetime
from typing import Any

import pytest

from tests.api.project import Project, Running, call
from tests.hostile.figures import record
from tests.hostile.peers import Memory, Peers
from tests.hostile.webhooks import BEHAVIORS, FINE, Behavior
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.unit.raw_server import RawServer, keeping_alive

MAX_GROWTH_BYTES = 160 * 1024 * 1024
"""Of the service's memory, while all behaviors are at work at once."""
SLACK_SECONDS = 3.0
"""Beyond a call's timeout. Calls that wait for a callback expire in a sweep, once a second."""


def begin(project: Project, name: str, behavior: Behavior, server: RawServer) -> Json:
    """Start a run that calls the hostile tool, and then a tool of the same host again."""
    hostile = server.url.replace("http:", "https:") if behavior.secure else server.url
    fields: Json = {"timeout_seconds": behavior.seconds, "idempotent": behavior.idempotent}
    project.client.register_tool(f"a_{name}", hostile, **fields)
    tools = [f"a_{name}"]
    if behavior.secure:
        tools.append(f"b_{name}")
        project.client.register_tool(f"b_{name}", server.url)
    asked = calls(call(1, tools[0])), calls(call(2, tools[-1]))
    model = project.script(*asked, text("done"), name=name)
    return project.client.start_run(model=model, tools=tools)


def seconds_between(first: Json, last: Json) -> float:
    began, ended = (datetime.fromisoformat(event["created_at"]) for event in (first, last))
    return (ended - began).total_seconds()


def wrong(project: Project, run: Json, behavior: Behavior, server: RawServer) -> dict[str, Any]:
    """Return whatever was not as it is documented, by what it is about."""
    problems: dict[str, Any] = {}
    ended = project.settle(run)
    events = [one for one in project.client.events(run["id"]) if "call_id" in one["data"]]
    about = {
        number: [one for one in events if one["data"]["call_id"] == number]
        for number in ("c1", "c2")
    }
    first, last = about["c1"][0], about["c1"][-1]
    started = next((one for one in about["c1"] if one["type"] == "tool_call.started"), first)
    if ended["status"] != "completed":
        problems["run"] = ended["status"], ended["error"]
    if last["type"] != behavior.event or behavior.said not in str(last["data"]):
        problems["event"] = last["type"], last["data"]
    if seconds_between(started, last) > behavior.seconds + SLACK_SECONDS:
        problems["seconds"] = seconds_between(started, last)
    outputs = {one["call_id"]: one for one in project.client.tool_calls(run["id"])}
    if behavior.event == "tool_call.completed" and outputs["c1"]["output"] != behavior.output:
        problems["output"] = outputs["c1"]["output"]
    if "c2" not in outputs or outputs["c2"]["output"] != {"fine": True}:
        problems["next call"] = outputs.get("c2")
    if "poison" in str(events) or any(b"elsewhere" in one for one in server.requests):
        problems["poison"] = events
    if any(b"\r\ncookie:" in one.lower() for one in server.requests):
        problems["cookie"] = server.requests
    return problems


@pytest.mark.timeout(240)
def test_every_behavior_of_a_tool_server_ends_as_documented(running: Running) -> None:
    scripts = {
        name: (*[one.script] * one.connections, keeping_alive(FINE))
        for name, one in BEHAVIORS.items()
    }
    with running.project() as project, Peers(scripts) as peers:
        project.tool("warm")
        project.run(calls(call(1, "warm")), text("done"), tools=["warm"])
        memory = Memory(running.service.pid)
        runs = {
            name: begin(project, name, one, peers.servers[name]) for name, one in BEHAVIORS.items()
        }
        found = {
            name: wrong(project, run, BEHAVIORS[name], peers.servers[name])
            for name, run in runs.items()
        }
        growth = memory.growth_bytes
    assert [f"{name}: {problems}" for name, problems in found.items() if problems] == []
    assert len(BEHAVIORS) >= 34
    assert growth < MAX_GROWTH_BYTES
    record(webhook_behaviors=len(BEHAVIORS), webhook_growth_mb=round(growth / 1e6))
