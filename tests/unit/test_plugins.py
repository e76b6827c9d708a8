"""How the functions of plugins are called: what they are told, what they give back, how they
fail, and how long they may take."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel

from runward.domain.errors import UnavailableError
from runward.domain.ids import CallId, ProjectId, RunId
from runward.domain.json import JsonObject
from runward.domain.registry.guards import Allow, Fail, HookFailure, Instead, NoChange, Reject
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.items import MediaPart, TextPart
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome
from runward.tools import (
    BaseTool,
    Content,
    File,
    GuardContext,
    Image,
    RuleContext,
    Text,
    ToolContext,
    ToolError,
    guardrail,
    hook,
    tool,
)
from runward.tools.base import DATABASE_UNAVAILABLE, LEASE_LOST, Invocation
from runward.tools.plugin.loader import collect
from runward.tools.plugin.registry import PluginHost
from runward.tools.testing import approval_of, run_tool, run_tool_sync
from runward.tools.webhook.invoker import call_id_of

UUID_ = UUID(int=7)


@tool(isolation="process")
def in_a_process() -> str:
    return "called"


def invocation(host: PluginHost, name: str, **fields: Any) -> Invocation:
    spec = host.spec_of(name) or ToolSpec(name=name, parameters={"type": "object"})
    call = Invocation(
        project_id=ProjectId(UUID_),
        run_id=RunId(UUID_),
        call_id=CallId("c1"),
        call_uuid=UUID_,
        tool=spec,
        tool_version=1,
        agent="a",
        arguments={},
        context=None,
        attempt=2,
        fence=1,
        seconds=5.0,
        callback_url="",
        callback_token="",
        secrets=(),
    )
    return replace(call, **fields)


async def outcome(function: Any, **fields: Any) -> Outcome:
    host = PluginHost(collect([function]), secrets={"TOKEN": "s3cret"})
    [spec] = host.specs
    try:
        return await host.invoke(invocation(host, spec.name, **fields))
    finally:
        host.close()


async def failure(function: Any, **fields: Any) -> Failed:
    found = await outcome(function, **fields)
    assert isinstance(found, Failed)
    return found


# -- results --------------------------------------------------------------------------------------


class Shape(BaseModel):
    size: int
    at: datetime | None = None


@dataclass
class Pair:
    one: int
    two: str


class Kind(Enum):
    A = "a"


RESULTS: dict[str, tuple[Any, Any]] = {
    "nothing": (None, None),
    "a text": ("hello", "hello"),
    "an empty text": ("", ""),
    "a number": (1.5, 1.5),
    "a model": (Shape(size=1), {"size": 1, "at": None}),
    "a dataclass": (Pair(1, "b"), {"one": 1, "two": "b"}),
    "an enum": (Kind.A, "a"),
    "a date": (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
    "a tuple": ((1, "b"), [1, "b"]),
    "a set": ({1}, [1]),
    "keys that are no text": ({1: 2}, {"1": 2}),
    "an id": (UUID_, str(UUID_)),
    "nothing of a number": ([float("nan"), float("inf")], [None, None]),
    "what PostgreSQL cannot hold": ("a\x00b", "a\ufffdb"),
    "a list without parts": ([1, Kind.A], [1, "a"]),
    "an empty list": ([], []),
}


@pytest.mark.parametrize("name", RESULTS)
async def test_a_result_is_json(name: str) -> None:
    given, expected = RESULTS[name]

    def function() -> Any:
        return given

    assert await outcome(function) == Done(expected)


async def test_parts_are_a_result_with_its_text() -> None:
    image = MediaPart("image", url="https://example.com/a.png")
    for given, expected in (
        (Text("a"), ("a", (TextPart("a"),))),
        (Image(url="https://example.com/a.png"), ("", (image,))),
        ([Text("a"), Text("b")], ("a\nb", (TextPart("a"), TextPart("b")))),
        (
            Content(Text("a"), File(data=b"x", media_type="text/plain", filename="a.txt")),
            (
                "a",
                (
                    TextPart("a"),
                    MediaPart("file", data="eA==", media_type="text/plain", filename="a.txt"),
                ),
            ),
        ),
    ):

        def function(given: Any = given) -> Any:
            return given

        assert await outcome(function) == Done(*expected)


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        (object(), "Unable to serialize unknown type"),
        ({"a": [threading.Lock()]}, "Unable to serialize unknown type"),
        (b"\xff", "invalid utf-8"),
        (Image(), "Image requires either url or data"),
        (Image(data=b"x"), "Image with data requires a media_type"),
        ([Text("a")] * 257, "at most 256 parts"),
        (Content(cast(Any, "a")), "str is not a valid part"),
    ],
    ids=["an object", "an object inside", "bytes", "no image", "no type", "many", "no part"],
)
async def test_what_is_no_json_is_an_invalid_response(given: Any, detail: str) -> None:
    def function() -> Any:
        return given

    found = await failure(function)
    assert found.reason is FailureKind.INVALID_RESPONSE
    assert detail in found.detail


# -- what a function is told, and says ------------------------------------------------------------


async def test_a_call_is_told_what_it_is_about() -> None:
    def function(ctx: ToolContext) -> Any:
        about = [ctx.run_id, ctx.call_id, ctx.idempotency_key, ctx.attempt, ctx.agent]
        return [*about, ctx.session_id, ctx.context, dict(ctx.state), ctx.secret("TOKEN")]

    host = PluginHost(collect([function]), secrets={"TOKEN": "s3cret"})
    call = invocation(
        host,
        "function",
        context={"user": 1},
        session_id="s1",
        state={"seen": True},
        seconds=3.0,
    )
    found = await host.invoke(call)
    key = call_id_of(call)
    facts: list[Any] = [
        f"run_{UUID_.hex}",
        "c1",
        key,
        2,
        "a",
        "s1",
        {"user": 1},
        {"seen": True},
        "s3cret",
    ]
    assert found == Done(facts)


async def test_the_time_that_is_left_runs_down() -> None:
    def function(ctx: ToolContext) -> Any:
        before = ctx.deadline()
        time.sleep(0.05)
        return before <= 3 and before - ctx.deadline() >= 0.05

    assert await outcome(function, seconds=3.0) == Done(output=True)


async def test_changes_of_the_state_come_with_the_result() -> None:
    def function(ctx: ToolContext) -> None:
        ctx.state["new"] = Pair(1, "b")
        ctx.state["list"].append(2)
        ctx.state["same"] = 1
        del ctx.state["gone"]
        ctx.state.setdefault("set", []).append(1)

    before: JsonObject = {"list": [1], "same": 1, "gone": 1, "left": 1}
    found = await outcome(function, state=before)
    assert isinstance(found, Done)
    assert found.state == {
        "new": {"one": 1, "two": "b"},
        "list": [1, 2],
        "set": [1],
        "gone": None,
    }
    assert before == {"list": [1], "same": 1, "gone": 1, "left": 1}


async def test_a_tool_may_hand_over_escalate_and_take_notes() -> None:
    async def function(ctx: ToolContext) -> str:
        ctx.transfer_to("billing")
        ctx.escalate()
        ctx.metadata["took"] = Kind.A
        return "ok"

    found = await outcome(function, handoffs=("billing",))
    expected = Done("ok", metadata={"took": "a"}, transfer_to="billing", escalate=True)
    assert found == expected


def state_of_objects(ctx: ToolContext) -> None:
    ctx.state["a"] = object()


def state_of_numbers(ctx: ToolContext) -> None:
    ctx.state[cast(Any, 1)] = 1


def stranger(ctx: ToolContext) -> None:
    ctx.transfer_to("nobody")


def unknown_secret(ctx: ToolContext) -> None:
    ctx.secret("OTHER")


def late_state(ctx: ToolContext) -> None:
    ctx.state["a"] = [1]
    ctx.state["a"].append(object())


def odd_notes(ctx: ToolContext) -> None:
    ctx.metadata["a"] = object()


def no_notes(ctx: ToolContext) -> None:
    ctx.metadata = cast(Any, [1])


@pytest.mark.parametrize(
    ("function", "why", "detail"),
    [
        (
            state_of_objects,
            FailureKind.ERROR,
            "ToolContextError: state['a'] cannot be converted to JSON",
        ),
        (
            state_of_numbers,
            FailureKind.ERROR,
            "ToolContextError: a key of the state must be a string",
        ),
        (
            stranger,
            FailureKind.ERROR,
            "cannot be handed off to agent 'nobody'; the current agent can hand off only to: "
            "billing",
        ),
        (unknown_secret, FailureKind.ERROR, "the operator must set RUNWARD_SECRET_OTHER"),
        (late_state, FailureKind.INVALID_RESPONSE, "state['a'] cannot be converted to JSON"),
        (odd_notes, FailureKind.INVALID_RESPONSE, "the metadata"),
        (no_notes, FailureKind.INVALID_RESPONSE, "the metadata is not a dict"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_what_the_context_cannot_do_is_a_clear_error(
    function: Any, why: FailureKind, detail: str
) -> None:
    found = await failure(function, handoffs=("billing",))
    assert (found.reason, found.message) == (why, None)
    assert detail in found.detail


async def test_progress_is_told_from_the_loop_and_from_threads() -> None:
    async def on_loop(ctx: ToolContext) -> None:
        await ctx.progress(0.25, "a")
        ctx.progress(2.0)

    def on_thread(ctx: ToolContext) -> None:
        ctx.progress(0.25, "a")
        ctx.progress(-1)
        ctx.progress(float("nan"), "c")

    assert (await run_tool(on_loop, {})).progress == ((0.25, "a"), (1.0, None))
    told = (await run_tool(on_thread, {})).progress
    assert told == ((0.25, "a"), (0.0, None), (None, "c"))


async def test_progress_after_the_end_is_not_told() -> None:
    released, told = threading.Event(), threading.Event()

    def function(ctx: ToolContext) -> None:
        released.wait(5)
        ctx.progress(1.0)
        told.set()

    result = await run_tool(function, {}, timeout_seconds=0.02)
    assert result.timed_out
    released.set()
    await asyncio.to_thread(told.wait, 5)
    assert result.progress == ()


# -- failures -------------------------------------------------------------------------------------


def raising(error: BaseException) -> Callable[[], Any]:
    def function() -> Any:
        raise error

    return function


def raising_on_the_loop(error: BaseException) -> Callable[[], Any]:
    async def function() -> Any:
        raise error

    return function


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


ERRORS: dict[str, tuple[BaseException, str]] = {
    "an error": (ValueError("a\x00b"), "ValueError: a\ufffdb"),
    "a timeout of its own": (TimeoutError("mine"), "TimeoutError: mine"),
    "an exit": (SystemExit(3), "SystemExit: 3"),
    "an interrupt": (KeyboardInterrupt(), "KeyboardInterrupt"),
    "a group": (ExceptionGroup("many", [ValueError("a")]), "many (1 sub-exception)"),
    "an unspeakable error": (
        UnspeakableError(),
        "the text of the error cannot be shown: RuntimeError",
    ),
    "a long error": (ValueError("x" * 10_000), "ValueError: xxx"),
    "a stop": (StopIteration("x"), "StopIteration"),
}


@pytest.mark.parametrize("make", [raising, raising_on_the_loop])
@pytest.mark.parametrize("name", ERRORS)
async def test_whatever_a_tool_raises_is_its_error_and_no_text_for_the_model(
    name: str, make: Callable[[BaseException], Any]
) -> None:
    error, detail = ERRORS[name]
    found = await failure(make(error))
    assert (found.reason, found.message, found.permanent) == (FailureKind.ERROR, None, False)
    assert detail in found.detail
    assert len(found.detail) <= 2000


async def test_cancelling_itself_is_a_tools_error() -> None:
    found = await failure(raising_on_the_loop(asyncio.CancelledError()))
    assert found == Failed(
        FailureKind.ERROR,
        "The function raised CancelledError, although the call was not cancelled.",
    )


async def test_a_tool_error_is_read_by_the_model() -> None:
    found = await failure(raising(ToolError("The shop is closed.")))
    assert (found.reason, found.message) == (FailureKind.ERROR, "The shop is closed.")


class UnsayableError(ToolError):
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def test_a_tool_error_without_a_text_is_an_error_like_any_other() -> None:
    found = await failure(raising(UnsayableError()))
    assert (found.reason, found.message) == (FailureKind.ERROR, None)
    assert found.detail == "UnsayableError: (the text of the error cannot be shown: RuntimeError)"


async def test_secrets_do_not_come_back_in_errors() -> None:
    def function(ctx: ToolContext) -> None:
        raise ToolError(f"GET /?key={ctx.secret('TOKEN')} failed")

    found = await failure(function)
    assert found.message == "GET /?key=… failed"
    assert "s3cret" not in found.detail


async def say_more(error: Exception) -> str:
    return f"Ask again: {error}"


def say_nothing(error: Exception) -> Any:
    return None


def give_up(error: Exception) -> str:
    raise RuntimeError("no text")


@pytest.mark.parametrize("make", [raising, raising_on_the_loop])
@pytest.mark.parametrize(
    ("on_error", "detail", "message"),
    [
        (say_more, "LookupError: gone", "Ask again: gone"),
        (give_up, "on_error raised RuntimeError: no text for LookupError: gone", None),
        (
            say_nothing,
            "on_error raised TypeError: the function returned NoneType instead of a string for "
            "LookupError: gone",
            None,
        ),
    ],
)
async def test_a_function_of_the_tool_explains_an_error_or_fails_the_run(
    make: Callable[[BaseException], Any], on_error: Any, detail: str, message: str | None
) -> None:
    found = await failure(tool(make(LookupError("gone")), on_error=on_error))
    assert (found.detail, found.message, found.fails_run) == (detail, message, message is None)


async def test_an_explanation_does_not_tell_the_secrets_that_the_call_read() -> None:
    def function(ctx: ToolContext) -> None:
        raise LookupError(ctx.secret("TOKEN"))

    found = await failure(tool(function, on_error=say_more))
    assert (found.detail, found.message) == ("LookupError: …", "Ask again: …")


async def test_an_exit_is_not_explained() -> None:
    found = await failure(tool(raising(SystemExit(3)), on_error=say_more))
    assert (found.detail, found.message) == ("SystemExit: 3", None)


async def test_a_project_can_replace_the_function_that_explains_errors() -> None:
    host = PluginHost(collect([tool(raising(LookupError("gone")), on_error=say_more)]))
    [spec] = host.specs
    own = spec.model_copy(update={"on_error": "return_error"})
    found = await host.invoke(replace(invocation(host, spec.name), tool=own))
    assert found == Failed(FailureKind.ERROR, "LookupError: gone")


async def test_a_plugin_that_is_not_loaded_is_not_called() -> None:
    host = PluginHost(collect([]))
    found = await host.invoke(invocation(host, "gone"))
    assert isinstance(found, Failed)
    assert (found.reason, found.permanent) == (FailureKind.NOT_SENT, True)
    assert "gone" in found.detail


async def test_arguments_that_the_types_refuse_are_explained_to_the_model() -> None:
    def function(x: int) -> None: ...

    found = await failure(function, arguments={"x": "a"})
    assert (found.reason, found.permanent) == (FailureKind.ERROR, True)
    assert found.message is not None
    assert found.message.startswith("The arguments are not valid. arguments.x: ")


# -- time -----------------------------------------------------------------------------------------


async def test_a_coroutine_is_cancelled_at_its_timeout() -> None:
    ended = asyncio.Event()

    async def function() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    found = await failure(function, seconds=0.02)
    assert found.reason is FailureKind.TIMEOUT
    assert ended.is_set()


async def test_a_coroutine_that_does_not_listen_is_left_behind() -> None:
    release = asyncio.Event()

    async def function() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    before = asyncio.get_running_loop().time()
    found = await failure(function, seconds=0.02)
    assert found.reason is FailureKind.TIMEOUT
    assert asyncio.get_running_loop().time() - before < 1.0
    release.set()


async def test_a_cancelled_call_cancels_its_function() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def function() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    task = asyncio.create_task(outcome(function))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_synchronous_functions_run_together_on_threads() -> None:
    together = threading.Barrier(3)

    def function() -> bool:
        together.wait(5)
        return threading.current_thread() is not threading.main_thread()

    host = PluginHost(collect([function]), threads=3)
    calls = [host.invoke(invocation(host, "function")) for _ in range(3)]
    assert await asyncio.gather(*calls) == [Done(output=True)] * 3


async def test_no_more_threads_run_than_are_allowed() -> None:
    running, most = [0], [0]
    lock = threading.Lock()

    def function() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.01)
        with lock:
            running[0] -= 1

    host = PluginHost(collect([function]), threads=2)
    await asyncio.gather(*(host.invoke(invocation(host, "function")) for _ in range(8)))
    assert most[0] == 2


async def test_a_function_without_a_thread_was_not_called() -> None:
    release, count = threading.Event(), [0]

    def function() -> None:
        count[0] += 1
        release.wait(5)

    host = PluginHost(collect([function]), threads=1)
    first = asyncio.create_task(host.invoke(invocation(host, "function")))
    while not count[0]:
        await asyncio.sleep(0)
    found = await host.invoke(invocation(host, "function", seconds=0.02))
    assert isinstance(found, Failed)
    assert (found.reason, found.permanent) == (FailureKind.NOT_SENT, False)
    release.set()
    assert await first == Done(None)
    assert count[0] == 1


@pytest.mark.parametrize("may", [False, UnavailableError()])
async def test_a_function_that_waited_for_a_thread_is_not_called_without_the_lease(
    may: Any,
) -> None:
    release, count = threading.Event(), [0]

    def function() -> None:
        count[0] += 1
        release.wait(5)

    async def may_send() -> bool:
        if may is False:
            return False
        raise may

    host = PluginHost(collect([function]), threads=1)
    first = asyncio.create_task(host.invoke(invocation(host, "function")))
    while not count[0]:
        await asyncio.sleep(0)
    second = asyncio.create_task(host.invoke(invocation(host, "function", may_send=may_send)))
    await asyncio.sleep(0)
    release.set()
    assert await first == Done(None)
    assert await second == (DATABASE_UNAVAILABLE if may else LEASE_LOST)
    assert await host.invoke(invocation(host, "function")) == Done(None), "the thread is free"
    assert count[0] == 2


@pytest.mark.processes
async def test_a_function_in_a_process_is_not_called_without_the_lease() -> None:
    async def lost() -> bool:
        return False

    host = PluginHost(collect([in_a_process]))
    assert await host.invoke(invocation(host, "in_a_process", may_send=lost)) == LEASE_LOST


async def test_a_thread_that_cannot_be_started_leaves_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def function() -> None:
        pass

    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    host = PluginHost(collect([function]), threads=1)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        assert isinstance(await host.invoke(invocation(host, "function")), Failed)
    assert await host.invoke(invocation(host, "function", seconds=2.0)) == Done(None)


class Stop(BaseException):
    pass


@pytest.mark.parametrize("kind", [Stop, GeneratorExit, SystemExit, KeyboardInterrupt])
async def test_nothing_that_a_plugin_raises_ends_more_than_its_call(
    kind: type[BaseException],
) -> None:
    async def on_the_loop() -> None:
        raise kind

    @guardrail(name="g")
    def g(ctx: GuardContext, payload: JsonObject) -> bool:
        raise kind

    host = PluginHost(collect([on_the_loop, g]))
    assert isinstance(await host.invoke(invocation(host, "on_the_loop")), Failed)
    assert isinstance(await host.run_guardrail("g", {}), Reject)


async def test_an_abandoned_thread_makes_room_until_there_are_too_many() -> None:
    release = threading.Event()

    def function(*, wait: bool) -> str:
        if wait:
            release.wait(5)
        return "done"

    host = PluginHost(collect([function]), threads=1)

    async def call(*, wait: bool) -> FailureKind | str:
        arguments: JsonObject = {"wait": wait}
        found = await host.invoke(
            invocation(host, "function", arguments=arguments, seconds=0.05 if wait else 0.2)
        )
        return found.reason if isinstance(found, Failed) else str(cast(Done, found).output)

    assert await call(wait=True) is FailureKind.TIMEOUT
    assert await call(wait=False) == "done"
    assert await call(wait=True) is FailureKind.TIMEOUT
    assert await call(wait=False) is FailureKind.NOT_SENT
    release.set()
    while await call(wait=False) is FailureKind.NOT_SENT:
        pass
    assert await call(wait=False) == "done"


# -- objects and functions that give coroutines ---------------------------------------------------


class Lookup(BaseTool):
    """Find it."""

    name = "lookup"
    parameters: JsonObject = {"type": "object", "properties": {"x": {}}}  # noqa: RUF012

    async def run(self, ctx: ToolContext, arguments: JsonObject) -> Any:
        return [ctx.call_id, arguments]


class Slow(Lookup):
    def run(self, ctx: ToolContext, arguments: JsonObject) -> Any:  # pyright: ignore
        return threading.current_thread() is not threading.main_thread()


@pytest.mark.parametrize("item", [Lookup, Lookup()])
async def test_a_tool_may_be_an_object_or_its_class(item: Any) -> None:
    assert await outcome(item, arguments={"x": 1}) == Done(["c1", {"x": 1}])


async def test_an_object_may_run_on_a_thread() -> None:
    assert await outcome(Slow()) == Done(output=True)


async def test_a_function_may_give_a_coroutine() -> None:
    async def later() -> str:
        return "later"

    def function() -> Any:
        return later()

    assert await outcome(function) == Done("later")


def test_a_decorated_function_is_still_one() -> None:
    @tool(approval="always")
    def double(x: int) -> int:
        """Double it."""
        return 2 * x

    assert (double(2), double.__doc__, "double" in repr(double)) == (4, "Double it.", True)
    assert run_tool_sync(double, {"x": 2}).output == 4


# -- callables that decide ------------------------------------------------------------------------


ABOUT = RuleContext(run_id="run_1", agent="a", turn=1, context={"staff": True}, state={})


def gated(ctx: RuleContext, arguments: JsonObject) -> Any:
    match arguments["x"]:
        case "raise":
            raise ValueError
        case "exit":
            raise SystemExit
        case "text":
            return "no"
        case answer:
            arguments["x"] = "changed"
            return answer


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(True, True), (False, False), ("raise", True), ("exit", True), ("text", True), (None, True)],
)
async def test_only_a_clear_no_needs_no_person(answer: Any, *, expected: bool) -> None:
    @tool(approval=gated)
    def function(x: Any) -> None: ...

    arguments: JsonObject = {"x": answer}
    assert await approval_of(function, arguments) is expected
    assert arguments == {"x": answer}


async def test_a_callable_that_takes_too_long_is_a_careful_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runward.tools.plugin.registry.RULE_SECONDS", 0.02)

    async def never(*_: Any) -> bool:
        await asyncio.sleep(60)
        return True

    async def not_needed(ctx: RuleContext, arguments: JsonObject) -> bool:
        await asyncio.sleep(60)
        return False

    @tool(approval=not_needed, enabled=never)
    def function() -> None: ...

    host = PluginHost(collect([function]))
    [spec] = host.specs
    assert await host.needs_approval(spec, {}, ABOUT) is True
    assert await host.is_enabled(spec, ABOUT) is False


async def test_a_tool_is_shown_where_its_callable_says_so() -> None:
    async def staff(ctx: RuleContext) -> bool:
        return ctx.context["staff"] is True

    def broken(ctx: RuleContext) -> bool:
        raise asyncio.CancelledError

    @tool(enabled=staff)
    def shown() -> None: ...

    @tool(enabled=broken)
    def hidden() -> None: ...

    host = PluginHost(collect([shown, hidden]))
    assert [await host.is_enabled(spec, ABOUT) for spec in host.specs] == [True, False]
    assert not await host.is_enabled(host.specs[0], replace(ABOUT, context={}))
    other = host.specs[0].model_copy(update={"name": "other"})
    newer = host.specs[0].model_copy(update={"enabled": host.specs[1].enabled})
    assert [await host.is_enabled(spec, ABOUT) for spec in (other, newer)] == [False, False]
    assert await host.needs_approval(other, {}, ABOUT) is True


# -- guardrails and hooks -------------------------------------------------------------------------


PAYLOAD: JsonObject = {
    "stage": "input",
    "run_id": "run_1",
    "agent": None,
    "tool": "pay",
    "call_id": "c1",
    "context": {"a": 1},
    "arguments": {"x": 1},
}


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (None, Allow()),
        (True, Allow()),
        (False, Reject("")),
        ("Not so.", Reject("Not so.")),
        (Reject("No."), Reject("No.")),
        (Fail("Stop."), Fail("Stop.")),
        (7, Reject("", detail="The guardrail returned int, which is not a verdict.")),
        (ValueError("x"), Reject("", detail="ValueError: x")),
        (SystemExit(), Reject("", detail="RuntimeError: SystemExit")),
    ],
)
@pytest.mark.parametrize("on_loop", [True, False])
async def test_a_guardrail_s_answer_is_a_verdict(
    answer: Any, verdict: Any, *, on_loop: bool
) -> None:
    seen: list[GuardContext] = []

    def check(ctx: GuardContext, payload: JsonObject) -> Any:
        seen.append(ctx)
        payload["arguments"] = "changed"
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def check_later(ctx: GuardContext, payload: JsonObject) -> Any:
        return check(ctx, payload)

    host = PluginHost(collect([guardrail(name="g")(check_later if on_loop else check)]))
    assert await host.run_guardrail("g", PAYLOAD) == verdict
    assert seen == [GuardContext("input", "run_1", None, "pay", "c1", {"a": 1})]
    assert PAYLOAD["arguments"] == {"x": 1}
    assert (host.guardrail_names, host.hook_names) == ({"g"}, set())


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, NoChange()),
        (Instead(Pair(1, "b")), Instead({"one": 1, "two": "b"})),  # type: ignore[arg-type]
        (Instead(None, {"a": 1}), Instead(None, {"a": 1})),
        (Instead(calls=({"name": "a\x00"},)), Instead(calls=[{"name": "a\ufffd"}])),  # type: ignore[arg-type]
        (
            Instead(1, cast(Any, [1])),
            HookFailure("The metadata of the returned Instead must be a dict."),
        ),
        ("text", HookFailure("The hook returned str. It must return None or Instead(value).")),
        (ValueError("x"), HookFailure("ValueError: x")),
    ],
)
async def test_a_hook_s_answer_is_used_or_it_has_failed(answer: Any, expected: Any) -> None:
    @hook()
    async def watch(ctx: GuardContext, payload: JsonObject) -> Any:
        assert ctx.stage == "before_tool"
        if isinstance(answer, Exception):
            raise answer
        return answer

    host = PluginHost(collect([watch]))
    assert await host.run_hook("watch", {"on": "before_tool"}) == expected


async def test_what_no_plugin_has_never_allows() -> None:
    host = PluginHost(collect([]))
    assert isinstance(await host.run_guardrail("x", {}), Reject)
    assert isinstance(await host.run_hook("x", {}), HookFailure)


async def test_many_calls_of_one_tool_do_not_see_each_other() -> None:
    def function(ctx: ToolContext, x: int) -> Any:
        ctx.state["x"] = x
        return ctx.call_id

    host = PluginHost(collect([function]))
    found = await asyncio.gather(
        *(
            host.invoke(
                invocation(
                    host, "function", arguments={"x": n}, call_id=CallId(str(n)), call_uuid=uuid4()
                )
            )
            for n in range(40)
        )
    )
    assert found == [Done(str(n), state={"x": n}) for n in range(40)]
