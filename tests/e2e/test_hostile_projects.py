"""Projects attack one running service with their models, tools, rules and approvals. The service
stays, and a neighbor's runs go on. `-s` prints the neighbor's latency during each attack; figures
are printed, never asserted."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.conftest import Processes
from tests.support.models.chat_server import Call, Garbage, ModelServer, Reply, calls, text
from tests.support.services.client import ApiError, Client, Json
from tests.support.services.neighbor import working
from tests.support.services.service import Service
from tests.support.tools.server import Behaviour, ToolServer

LEASE_SECONDS = 3.0
MACROS = 26
TOOL_CALLS = 100_000
ANYTHING: Json = {"type": "object", "properties": {}, "additionalProperties": True}
NOTHING: Json = {"type": "object", "properties": {}, "additionalProperties": False}

Attack = Callable[["Target"], None]


@dataclass(slots=True)
class Target:
    """The service, and a project that attacks it."""

    service: Service
    attacker: Client
    model: ModelServer
    tools: ToolServer

    def run(
        self, name: str, *replies: Reply | bytes, tools: tuple[str, ...] = ("open",), **fields: Any
    ) -> Json:
        """Start a run of the attacker, whose model gives `replies`. Bytes are a whole body."""
        answers = [Garbage(reply) if isinstance(reply, bytes) else reply for reply in replies]
        self.model.respond(name, lambda request: answers[min(request.number, len(answers) - 1)])
        return self.attacker.start_run(model=f"openai:{name}", tools=list(tools), **fields)

    def ends(self, run: Json) -> Json:
        return self.attacker.settle(run["id"], ("completed", "failed", "incomplete", "cancelled"))


def chunk(delta: Json, **more: object) -> bytes:
    """One frame of a streamed answer, as a hostile server would write it."""
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "x"}
    return b"data: " + json.dumps({**head, "choices": [choice], **more}).encode() + b"\n\n"


def called(name: str, arguments: str = "{}", index: int = 0) -> Json:
    function = {"name": name, "arguments": arguments}
    return {
        "tool_calls": [
            {"index": index, "id": f"c{index}", "type": "function", "function": function}
        ]
    }


DONE = b"data: [DONE]\n\n"


def deep_arguments(target: Target) -> None:
    """Arguments nested 199 to 250 deep, and integers of 5,000 digits, reach the tool-call log."""
    for depth in (63, 199, 225, 250):
        nested = '{"x":' * depth + "1" + "}" * depth
        target.ends(target.run(f"deep-{depth}", calls(Call("c1", "open", nested)), text("done")))
    huge = '{"x":' + "9" * 5_000 + "}"
    target.ends(target.run("huge", calls(Call("c1", "open", huge)), text("done")))


def deep_results(target: Target) -> None:
    """A tool answers with JSON nested 250 deep and integers of 5,000 digits."""
    for number, body in enumerate(("[" * 250 + "]" * 250, "[" + "9" * 5_000 + "]")):
        behaviour = Behaviour("raw", value=body, content_type="application/json")
        target.tools.tool("open", behaviour)
        target.ends(target.run(f"result-{number}", calls(Call("c1", "open", "{}")), text("done")))


def streamed_names(target: Target) -> None:
    """A name of 9,000 characters, which no notification holds, and half of a surrogate pair."""
    for number, name in enumerate(("n" * 9_000, "half \ud800", "nul \x00")):
        body = chunk(called(name)) + chunk({"content": name}) + DONE
        target.ends(target.run(f"name-{number}", body, text("done")))


def endless_usage(target: Target) -> None:
    """Token counts beyond 64 bits."""
    usage = {"prompt_tokens": 2**63, "completion_tokens": 1e300, "total_tokens": 2**65}
    target.ends(target.run("usage", chunk({"content": "hi"}, usage=usage) + DONE))


def many_calls(target: Target) -> None:
    """100,000 tool calls in one response."""
    frames = (chunk(called("open", index=number)) for number in range(TOOL_CALLS))
    target.ends(target.run("many", b"".join(frames) + DONE))


def orphaned_approvals(target: Target) -> None:
    """A gated call in a response that ends its run; deciding it, and letting it expire."""
    both = calls(Call("c1", "gated", "{}"), Call("c2", "unknown", "{}"))
    run = target.ends(target.run("orphan", both, tools=("gated",), on_unknown_tool="fail_run"))
    assert run["status"] == "failed", run
    assert target.attacker.approvals(run_id=run["id"]) == []
    for approval in target.attacker.approvals(run_id=run["id"], status=None):
        with pytest.raises(ApiError) as refused:
            target.attacker.decide(approval["id"], "approve")
        assert refused.value.status == 409


def flapping_tools(target: Target) -> None:
    """Retries of idempotent tools while tools of the same runs call back."""
    flaps = (Behaviour("raw", status=503), Behaviour("reset"), Behaviour("raw", status=503))
    names = [f"flap{number}" for number in range(4)] + [f"later{number}" for number in range(4)]
    for name in names:
        if name.startswith("flap"):
            target.tools.tool(name, *flaps, Behaviour("return", value=1))
            settings: Json = {"idempotent": True, "retry": {"max_attempts": 5}}
        else:
            target.tools.tool(name, Behaviour("later"))
            settings = {}
        url = target.tools.url_of(name)
        target.attacker.register_tool(name, url, parameters=NOTHING, **settings)
    asked = calls(*(Call(f"c{number}", name) for number, name in enumerate(names)))
    run = target.run("flap", asked, text("done"), tools=tuple(names))
    for name in names[4:]:
        [hit] = target.tools.wait_for(name)
        callback = hit.body["callback"]
        path = callback["url"].removeprefix(target.service.url)
        with Client(target.service.url, callback["token"]) as client:
            answer = client.request("POST", path, {"status": "completed", "output": name})
        assert answer.status_code == 200, answer.text
    assert target.ends(run)["status"] == "completed"


def hostile_rules(target: Target) -> None:
    """Rules whose cost a comment hides: the lists that they build, and the time that they take."""
    maps = "[1,2,3,4,5,6,7,8,9,10]" + ".map(x, x + x)" * MACROS
    doubled = "['aaaaaaaaaaaaaaaa']" + ".map(x, x + x)" * MACROS
    lists = "[1,2,3,4,5,6,7,8,9,10]"
    deep = lists + f".all(a, {lists}.all(b, {lists}.all(c, {lists}.all(d, {lists}.all(e, true)))))"
    for number, body in enumerate((maps, doubled, deep)):
        hidden = f"size(args) >= 0 // '\n && {body} != null // '"
        try:
            target.attacker.register_tool(
                f"rule{number}",
                target.tools.url_of("open"),
                parameters=ANYTHING,
                strict=False,
                enabled={"when": hidden},
            )
        except ApiError as error:
            assert error.status == 422, error
            continue
        asked = calls(Call("c1", f"rule{number}", "{}"))
        target.ends(target.run(f"rule-{number}", asked, text("done"), tools=(f"rule{number}",)))


ATTACKS: tuple[Attack, ...] = (
    deep_arguments,
    deep_results,
    streamed_names,
    endless_usage,
    many_calls,
    orphaned_approvals,
    flapping_tools,
    hostile_rules,
)


@pytest.fixture
def target(start: Processes, model: ModelServer, tools: ToolServer) -> Iterator[Target]:
    service = start("serve", lease_seconds=LEASE_SECONDS)
    attacker = start.client(service).new_project("attacker")
    start.keep(attacker)
    fields: Json = {"parameters": ANYTHING, "strict": False}
    attacker.register_tool("open", tools.tool("open"), **fields)
    gate: Json = {"approval": "always", "approval_expires_seconds": 1}
    attacker.register_tool("gated", tools.tool("gated"), **gate, **fields)
    yield Target(service, attacker, model, tools)


@pytest.mark.timeout(300)
def test_attacks_of_one_project_leave_the_service_and_the_others_as_they_were(
    start: Processes, target: Target, model: ModelServer, tools: ToolServer
) -> None:
    client = start.client(target.service).new_project("neighbor")
    start.keep(client)
    client.register_tool("greet", tools.tool("greet"))
    model.by_turn("neighbor", calls(Call("c1", "greet", '{"x":"1"}')), text("done"))
    with working(client) as neighbor:
        with neighbor.measured("before", runs=15):
            pass
        for attack in ATTACKS:
            with neighbor.measured(attack.__name__):
                attack(target)
            assert target.service.alive, attack.__name__
    statuses = target.attacker.statuses + client.statuses
    assert [seen for seen in statuses if seen[1] >= 500] == []
    assert "Traceback" not in target.service.output()
