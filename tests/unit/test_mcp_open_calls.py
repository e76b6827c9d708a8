"""A server of the protocol of 2025 asks while a call is open: what becomes of the call."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from runward.domain.ids import RunId
from runward.domain.json import JsonObject
from runward.domain.run.outcomes import Done, Failed, FailureKind, NeedsInput, Outcome
from runward.tools.base import Invocation
from runward.tools.mcp import open_calls
from runward.tools.mcp.open_calls import HeldCall, HeldCalls, OpenCall
from tests.support.mcp.server import McpServer
from tests.unit.test_mcp import PROJECT, Host, hosting, invocation

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def asking() -> Iterator[McpServer]:
    with McpServer(module="tests.support.mcp.asking") as server:
        yield server


@pytest.fixture
async def host(asking: McpServer, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Host]:
    monkeypatch.setattr(open_calls, "CHECK_SECONDS", 0.05)
    async with hosting(asking.url) as host:
        yield host


def about(tool: str = "ask", *questions: str, idempotent: bool = False) -> Invocation:
    call = invocation(tool, 20.0, {"questions": [*questions]})
    return replace(call, tool=call.tool.model_copy(update={"idempotent": idempotent}))


def questions(outcome: Outcome) -> list[str]:
    assert isinstance(outcome, NeedsInput), outcome
    asked = cast(dict[str, dict[str, JsonObject]], outcome.requests)["elicitations"]
    return [str(one["message"]) for one in asked.values()]


def answering(call: Invocation, outcome: Outcome, responses: Any) -> Invocation:
    """The next attempt of the call, with the client's answer."""
    assert isinstance(outcome, NeedsInput)
    given: JsonObject = {"responses": responses, "state": outcome.state}
    return replace(call, attempt=call.attempt + 1, input=given)


async def test_a_call_that_asks_twice_is_sent_once(host: Host, asking: McpServer) -> None:
    call = about("ask", "Who?", "And who?")
    first = await host.mcp.invoke(call)
    assert questions(first) == ["Who?"]
    second = await host.mcp.invoke(answering(call, first, {"name": "Ada"}))
    assert questions(second) == ["And who?"]
    done = await host.mcp.invoke(answering(call, second, {"action": "decline"}))
    assert done == Done({"result": "Ada and decline"})
    sent = [one for one in asking.seen() if one.get("questions") == ["Who?", "And who?"]]
    assert len(sent) == 1


async def test_the_same_question_is_asked_again_if_the_server_repeats_it(host: Host) -> None:
    call = about("ask", "Name?", "Name?")
    first = await host.mcp.invoke(call)
    second = await host.mcp.invoke(answering(call, first, {"name": "x"}))
    assert questions(second) == ["Name?"]
    done = await host.mcp.invoke(answering(call, second, {"name": "Ada"}))
    assert done == Done({"result": "x and Ada"})


@pytest.mark.parametrize("tool", ["ask", "ask_anywhere"])
async def test_each_of_many_open_calls_gets_its_own_answer(host: Host, tool: str) -> None:
    """On the stream of the session a question does not name its call. So the calls that ask there
    are open alone, one in each session."""
    calls = [about(tool, f"Question {number}?") for number in range(4)]
    asked: list[Outcome] = []
    if tool == "ask":
        asked += await asyncio.gather(*map(host.mcp.invoke, calls))
    else:
        asked += [await host.mcp.invoke(call) for call in calls]
    assert [questions(one) for one in asked] == [[f"Question {n}?"] for n in range(4)]
    given = [
        answering(call, outcome, {"name": f"Answer {number}"})
        for number, (call, outcome) in enumerate(zip(calls, asked, strict=True))
    ]
    done = await asyncio.gather(*map(host.mcp.invoke, reversed(given)))
    assert done == [Done({"result": f"Answer {number}"}) for number in (3, 2, 1, 0)]


async def test_a_question_waits_until_it_is_certain_which_call_it_belongs_to(
    host: Host, asking: McpServer
) -> None:
    slow = asyncio.create_task(host.call("slow"))
    await asyncio.to_thread(asking.wait_for, "slow")
    call = about("ask_anywhere", "Which?")
    asked = asyncio.create_task(host.mcp.invoke(call))
    await asyncio.to_thread(asking.wait_for, "call")
    asking.release()
    assert await slow == Done({"result": "done"})
    outcome = await asked
    assert questions(outcome) == ["Which?"]
    assert await host.mcp.invoke(answering(call, outcome, {"name": "this"})) == Done(
        {"result": "this"}
    )


@pytest.mark.parametrize("idempotent", [False, True])
async def test_an_answer_to_a_call_of_another_process(
    host: Host, asking: McpServer, *, idempotent: bool
) -> None:
    """The outcome is unknown. An idempotent call is sent again, and gets all answers so far."""
    call = about("ask", "One?", "Two?", "Three?", idempotent=idempotent)
    first = await host.mcp.invoke(call)
    second = await host.mcp.invoke(answering(call, first, {"name": "1"}))
    async with hosting(asking.url) as other:
        third = await other.mcp.invoke(answering(call, second, {"name": "2"}))
        if not idempotent:
            assert isinstance(third, Failed)
            assert (third.reason, third.permanent) == (FailureKind.UNKNOWN, False)
            assert "does not have the open call" in third.detail
            return
        assert questions(third) == ["Three?"]
        done = await other.mcp.invoke(answering(call, third, {"name": "3"}))
    assert done == Done({"result": "1 and 2 and 3"})


async def test_an_open_call_is_cancelled_when_its_run_no_longer_needs_it(
    host: Host, asking: McpServer
) -> None:
    call = about("ask", "Still?")
    assert questions(await host.mcp.invoke(call)) == ["Still?"]
    host.settled.add(call.call_uuid)
    await asyncio.to_thread(asking.wait_for, "cancelled")


async def test_the_check_of_open_calls_belongs_to_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It checks the calls of all projects. If it had the project of the run that started it,
    row-level security would hide the calls of the others, which would be cancelled."""
    monkeypatch.setattr(open_calls, "CHECK_SECONDS", 0.0)
    project = ContextVar("project", default="all")
    projects = asyncio.Queue[str]()

    async def find_open(_: Sequence[HeldCall]) -> set[UUID]:
        projects.put_nowait(project.get())
        return set()

    async def send(_: OpenCall) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError

    held, call = HeldCalls(find_open), OpenCall(report=lambda _share, _message: None)
    call.send(send)
    project.set("one")
    held.put(HeldCall(PROJECT, RunId(uuid4()), uuid4()), call)
    assert await projects.get() == "all"
    await held.aclose()


async def test_a_call_that_ends_before_its_answer_has_the_outcome_of_its_end() -> None:
    with McpServer(module="tests.support.mcp.asking") as server:
        async with hosting(server.url) as host:
            call = about("ask", "Too late?")
            outcome = await host.mcp.invoke(call)
            server.kill()
            lost = await host.mcp.invoke(answering(call, outcome, {"name": "late"}))
    assert isinstance(lost, Failed)
    assert lost.reason is FailureKind.UNKNOWN


async def test_no_more_calls_are_kept_open_than_the_limit(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_calls, "MAX_HELD", 1)
    assert questions(await host.mcp.invoke(about("ask", "One?"))) == ["One?"]
    refused = await host.mcp.invoke(about("ask", "Two?"))
    assert isinstance(refused, Failed)
    assert refused.reason is FailureKind.UNKNOWN
