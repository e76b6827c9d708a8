"""Webhook tools that return envelopes: state, handoffs, escalation and metadata, as plugins have
them."""

from typing import Any

import httpx2
import pytest

from tests.api.project import Project, call, of_type, result_of
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour


def envelope(project: Project, name: str, *bodies: Any) -> Json:
    behaviours = [Behaviour("return", body) for body in bodies]
    return project.tool(name, *behaviours, response="envelope")


def agent(project: Project, name: str, *replies: Any, **fields: Any) -> None:
    body = {"name": name, "model": project.script(*replies, name=name), **fields}
    project.client.call("POST", "/v1/agents", body)


def test_a_tool_reads_and_changes_the_state_of_the_session(project: Project) -> None:
    state = {"cart": ["tea"], "step": 1}
    session = project.client.call("POST", "/v1/sessions", {"state": state})["id"]
    envelope(project, "add", {"output": "Added.", "state": {"cart": ["tea", "milk"], "step": None}})
    run = project.run(calls(call(1, "add")), text("Done."), tools=["add"], session_id=session)
    assert run["output"] == "Done."
    assert project.hits("add")[0].body["state"] == state
    assert result_of(project.asked(), "c1") == "Added."
    [changed] = of_type(project.client.events(run["id"]), "state.updated")
    assert changed["changes"] == {"cart": ["tea", "milk"], "step": None}
    shown = project.client.call("GET", f"/v1/sessions/{session}")
    assert shown["state"] == {"cart": ["tea", "milk"]}


def test_the_next_call_of_a_run_without_a_session_reads_the_state(project: Project) -> None:
    envelope(project, "count", {"state": {"n": 1}}, {"output": {"content": [PART]}})
    turns = [calls(call(n, "count")) for n in (1, 2)]
    run = project.run(*turns, text("Done."), tools=["count"])
    assert [hit.body["state"] for hit in project.hits("count")] == [{}, {"n": 1}]
    assert result_of(project.asked(), "c1") == "null"
    assert result_of(project.asked(), "c2") == "two"
    assert run["status"] == "completed"


PART: Json = {"type": "text", "text": "two"}


def test_a_tool_without_envelopes_gets_no_state_and_returns_any_object(project: Project) -> None:
    project.tool("plain", Behaviour("return", {"output": 1, "state": {"n": 1}}))
    run = project.run(calls(call(1, "plain")), text("Done."), tools=["plain"])
    assert "state" not in project.hits("plain")[0].body
    assert result_of(project.asked(), "c1") == '{"output":1,"state":{"n":1}}'
    assert of_type(project.client.events(run["id"]), "state.updated") == []


def test_a_tool_hands_off_the_run(project: Project) -> None:
    agent(project, "second", text("mine now"))
    envelope(project, "pass_on", {"transfer_to": "second", "metadata": {"why": "rights"}})
    run = project.run(calls(call(1, "pass_on")), tools=["pass_on"], handoffs=["second"])
    assert (run["output"], run["agent"]) == ("mine now", "second")
    [done] = of_type(project.client.events(run["id"]), "tool_call.completed")
    assert done["metadata"] == {"why": "rights"}


def test_a_tool_ends_a_loop(project: Project) -> None:
    envelope(project, "finish", {"output": "enough", "escalate": True})
    replies = [calls(call(1, "finish")), text("round one")]
    agent(project, "worker", *replies, tools=["finish"])
    project.client.call(
        "POST", "/v1/agents", {"name": "again", "kind": "loop", "agents": ["worker"]}
    )
    started = project.client.call("POST", "/v1/runs", {"agent": "again", "input": "go"})
    run = project.settle(started)
    assert (run["status"], run["incomplete_details"]) == ("completed", None)
    assert len(project.hits("finish")) == 1


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"output": 1, "result": 2}, "unknown field `result`"),
        ([1], "must be a JSON object"),
        ({"state": [1]}, "the field `state` of the envelope is not valid"),
        ({"escalate": "yes"}, "the field `escalate` of the envelope is not valid"),
        ({"transfer_to": "stranger"}, "cannot hand off the run to the agent 'stranger'"),
    ],
)
def test_an_envelope_that_is_not_valid_is_an_error(
    project: Project, body: Any, detail: str
) -> None:
    envelope(project, "odd", body)
    run = project.run(calls(call(1, "odd")), text("Sorry."), tools=["odd"])
    assert run["output"] == "Sorry."
    [failed] = of_type(project.client.events(run["id"]), "tool_call.failed")
    assert failed["reason"] == "invalid_response"
    assert detail in failed["detail"]
    assert "state.updated" not in str(project.client.events(run["id"]))


def test_a_state_that_is_too_large_fails_the_call(project: Project) -> None:
    envelope(project, "fill", {"output": 1, "state": {"x": "y" * 65_536}})
    run = project.run(calls(call(1, "fill")), text("Too much."), tools=["fill"])
    [failed] = of_type(project.client.events(run["id"]), "tool_call.failed")
    assert failed["reason"] == "tool_error"
    assert of_type(project.client.events(run["id"]), "state.updated") == []


def accept_later(project: Project, **fields: Any) -> tuple[Json, str]:
    """A run whose tool returned 202, and the callback URL."""
    project.tool("slow", Behaviour("later"), **fields)
    agent(project, "second", text("mine now"))
    run = project.accepted(
        calls(call(1, "slow")), text("Done."), tools=["slow"], handoffs=["second"]
    )
    return run, project.hits("slow")[0].body["callback"]["url"]


def post(url: str, **body: Any) -> httpx2.Response:
    return httpx2.post(url, json={"status": "completed", **body}, verify=False)


def test_a_callback_delivers_an_envelope(project: Project) -> None:
    run, url = accept_later(project, response="envelope")
    body = {"output": "Done.", "state": {"n": 1}, "transfer_to": "second", "metadata": {"a": 1}}
    assert post(url, **body).status_code == 200
    assert post(url, **body).status_code == 200
    assert post(url, output="Done.").status_code == 409
    run = project.settle(run)
    assert (run["output"], run["agent"]) == ("mine now", "second")
    [changed] = of_type(project.client.events(run["id"]), "state.updated")
    assert changed["changes"] == {"n": 1}
    [done] = of_type(project.client.events(run["id"]), "tool_call.completed")
    assert (done["output"], done["metadata"]) == ("Done.", {"a": 1})


def test_a_callback_of_a_tool_without_envelopes_has_only_an_output(project: Project) -> None:
    run, url = accept_later(project)
    refused = post(url, output=1, state={"n": 1})
    assert refused.status_code == 422
    [problem] = refused.json()["errors"]
    assert (problem["path"], "envelope" in problem["message"]) == ("state", True)
    assert post(url, output=1).status_code == 200
    assert project.settle(run)["output"] == "Done."


def test_only_a_webhook_tool_can_return_envelopes(project: Project) -> None:
    body = {"type": "client", "name": "mine", "parameters": {"type": "object"}}
    refused = project.client.request("POST", "/v1/tools", {**body, "response": "envelope"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["path"] == "response"
