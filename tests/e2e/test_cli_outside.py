"""What someone outside a run says to it: input, results, resolutions, and that it goes on."""

import re

import pytest

from tests.e2e.command_line import CommandLine
from tests.e2e.conftest import Golden
from tests.support.models.chat_server import Answer, text
from tests.support.services.client import Client, Json
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour, ToolServer

pytestmark = pytest.mark.timeout(180)

MEASURE: Json = {
    "name": "measure",
    "type": "client",
    "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
}


@pytest.mark.parametrize(
    ("options", "outcome", "output"),
    [
        (["--output", '{"cm": 12}'], "completed", {"cm": 12}),
        (["--error", "no ruler"], "failed", None),
    ],
)
def test_the_result_of_a_client_s_tool_is_given(
    client: Client, runward: CommandLine, options: list[str], outcome: str, output: object
) -> None:
    client.call("POST", "/v1/tools", MEASURE)
    started = runward(
        "runs", "start", "measure()", "-m", "offline:rules", "--tool", "measure", "--until-idle"
    )
    assert started.code == 0, started.err
    [run_id] = set(re.findall(r"run_[0-9a-f]{32}", started.out))
    assert f"runward runs result {run_id} call_1" in started.out
    listed = runward("runs", "calls", run_id).out
    assert re.search(r"^call_1 +1 +measure +awaiting_result ", listed, re.M)

    for wrong in ([], ["--output", "1", "--error", "x"]):
        assert runward("runs", "result", run_id, "call_1", *wrong).code == 2
    done = runward("runs", "result", run_id, "call_1", *options)
    assert (done.code, done.out) == (0, f"call_1 {outcome}\n"), done.err
    assert client.settle(run_id)["status"] == "completed"
    [call] = runward.json("runs", "calls", run_id)
    assert call["outcome"] == outcome
    if output is not None:
        assert call["output"] == output
    assert runward("runs", "result", run_id, "call_1", *options[:1], '"later"').code == 4


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        (["--completed", '{"paid": true}'], "completed"),
        (["--failed", "It was not paid."], "failed"),
        (["--retry"], "completed"),
    ],
)
def test_an_outcome_that_nobody_knows_is_resolved(
    client: Client, runward: CommandLine, options: list[str], outcome: str
) -> None:
    with ToolServer() as server:
        url = server.tool("pay", Behaviour("reset"), Behaviour("echo"))
        client.register_tool("pay", url, on_unknown="ask")
        run = client.start_run(model="offline:rules", tools=["pay"], input='pay(x="1")', wait=20)
        assert run["status"] == "requires_action"
        told = runward("runs", "watch", run["id"], "--until-idle").out
        assert f"runward runs resolve {run['id']} call_1" in told
        assert "resolve of call_1" in runward("runs", "show", run["id"]).out

        for wrong in ([], ["--retry", "--failed", "x"], ["--completed", "{broken"]):
            assert runward("runs", "resolve", run["id"], "call_1", *wrong).code == 2
        resolved = runward("runs", "resolve", run["id"], "call_1", *options)
        assert resolved.code == 0, resolved.err
        assert client.settle(run["id"])["status"] == "completed"
        [call] = runward.json("runs", "calls", run["id"])
        assert call["outcome"] == outcome
        assert len(server.hits("pay")) == (2 if options == ["--retry"] else 1)
    listed = runward("tools", "calls", "pay").out
    assert re.search(rf"^{run['id']} +call_1 +{outcome} ", listed, re.M)
    found = runward.json("runs", "list", "--search", 'pay(x="1")', "--status", "completed")
    assert [one["id"] for one in found] == [run["id"]]
    assert runward.json("runs", "list", "--search", "nobody said this") == []


def test_a_message_reaches_an_open_run(
    golden: Golden, client: Client, runward: CommandLine
) -> None:
    hold = Hold()
    golden.model.script("cli-input", Answer(text="a moment", hold=hold), text("I heard."))
    run = client.start_run(model="openai:cli-input")
    hold.arrived()
    said = runward("runs", "input", run["id"], "-", typed="and one thing more")
    assert (said.code, said.out) == (0, f"{run['id']} in_progress\n"), said.err
    hold.release()
    assert client.settle(run["id"])["status"] == "completed"
    items = client.items(run["id"])
    assert "and one thing more" in [item.get("content") for item in items]
    assert runward("runs", "input", run["id"], "too late").code == 4


def test_a_run_goes_on_after_its_limit(client: Client, runward: CommandLine) -> None:
    with ToolServer() as server:
        client.register_tool("pay", server.tool("pay"))
        limited = runward.json(
            "runs",
            "start",
            'pay(x="1")',
            *("-m", "offline:rules", "--tool", "pay", "--max-turns", "1"),
        )
        assert client.settle(limited["id"])["status"] == "incomplete"
        done = runward("runs", "continue", limited["id"], "go on", "--max-turns", "3", "--watch")
        assert done.code == 0, done.err
        assert done.out.splitlines()[-1] == "● completed"
    [run_id] = set(re.findall(r"run_[0-9a-f]{32}", done.out)) - {limited["id"]}
    assert client.get_run(run_id)["continued_from"] == limited["id"]
    assert runward("runs", "continue", run_id).code == 4
