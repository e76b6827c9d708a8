"""`ctx.run_agent`: what a plugin's function that runs agents reads, attempt by attempt."""

import asyncio
from typing import Any

import pytest

from runward.domain.json import JsonObject
from runward.domain.run.outcomes import AgentRequest, Done, Failed, Waits
from runward.tools import AgentRunError, ToolContext
from runward.tools.plugin.registry import PluginHost
from runward.tools.testing import run_tool
from tests.unit import plugin_samples as samples
from tests.unit.test_plugins import collect, failure, invocation, outcome

AGENTS: Any = {"buyer": 80, "judge": {"fair": True}}


def result_of(agent: str, said: str, **result: Any) -> JsonObject:
    return {"digest": AgentRequest(agent, said).digest, **result}


async def ask(ctx: ToolContext) -> Any:
    return await ctx.run_agent("buyer", "one")


async def test_a_function_runs_again_after_each_agent_and_reads_its_output() -> None:
    samples.ATTEMPTS.clear()
    result = await run_tool(samples.negotiate, {"price": 100}, agents=AGENTS)
    assert (result.output, result.state) == ([80, True], {"offer": 80})
    assert samples.ATTEMPTS == [("call_1", 1, False), ("call_1", 2, True), ("call_1", 3, True)]


async def test_the_first_request_ends_the_attempt() -> None:
    found = await outcome(ask, agent_results=())
    assert found == Waits(on="child", agents=(AgentRequest("buyer", "one"),))


async def test_a_function_that_catches_everything_still_waits() -> None:
    async def stubborn(ctx: ToolContext) -> Any:
        try:
            return await ctx.run_agent("buyer", "one")
        except BaseException:
            return "never mind"

    found = await outcome(stubborn, agent_results=())
    assert found == Waits(on="child", agents=(AgentRequest("buyer", "one"),))


async def test_agents_that_are_gathered_are_requested_together() -> None:
    async def both(ctx: ToolContext) -> Any:
        return await asyncio.gather(ctx.run_agent("a", "one"), ctx.run_agent("b", "two"))

    first = result_of("a", "one", output=1)
    second = result_of("b", "two", output=2)
    requests = (AgentRequest("a", "one"), AgentRequest("b", "two"))
    assert await outcome(both, agent_results=()) == Waits("child", requests)
    for results in [(first, second), (second, first)]:  # the order in which the runs ended
        assert await outcome(both, agent_results=results) == Done([1, 2])


async def steps(ctx: ToolContext, name: str) -> Any:
    """Two requests, and the second one depends on the first one's result."""
    first = await ctx.run_agent(name, "one")
    return await ctx.run_agent(name, f"{first}")


async def with_gather(ctx: ToolContext) -> Any:
    return await asyncio.gather(steps(ctx, "a"), steps(ctx, "b"))


async def with_errors_as_results(ctx: ToolContext) -> Any:
    found = await asyncio.gather(steps(ctx, "a"), steps(ctx, "b"), return_exceptions=True)
    assert not any(isinstance(one, BaseException) for one in found), "a request raised an exception"
    return found


async def with_task_group(ctx: ToolContext) -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(steps(ctx, name)) for name in "ab"]
    return [task.result() for task in tasks]


async def with_semaphore(ctx: ToolContext) -> Any:
    limit = asyncio.Semaphore(2)

    async def one(name: str) -> Any:
        async with limit:
            return await steps(ctx, name)

    return await asyncio.gather(one("a"), one("b"))


async def in_the_background(ctx: ToolContext) -> Any:
    task = asyncio.create_task(steps(ctx, "b"))
    mine = await steps(ctx, "a")
    return [mine, await task]


async def beside_something_slow(ctx: ToolContext) -> Any:
    async def slow() -> Any:
        await asyncio.sleep(0.05)
        return await steps(ctx, "b")

    return await asyncio.gather(steps(ctx, "a"), slow())


@pytest.mark.parametrize(
    ("function", "attempts"),
    [
        (with_gather, 3),
        (with_errors_as_results, 3),
        (with_task_group, 3),
        (with_semaphore, 3),
        (in_the_background, 3),
        (beside_something_slow, 5),
    ],
)
async def test_concurrent_agents_replay_in_the_same_way(function: Any, attempts: int) -> None:
    """Each attempt reads all results so far, in whatever order the child runs have ended."""
    results: tuple[JsonObject, ...] = ()
    for _ in range(attempts - 1):
        found = await outcome(function, agent_results=results)
        assert isinstance(found, Waits)
        for request in found.agents:
            said: JsonObject = {
                "digest": request.digest,
                "output": f"{request.agent}{len(results)}",
            }
            results = (said, *results)
    assert isinstance(await outcome(function, agent_results=results), Done)
    assert len(results) == 4


async def test_equal_requests_have_a_result_each() -> None:
    async def twice(ctx: ToolContext) -> Any:
        return await asyncio.gather(*(ctx.run_agent("a", "one") for _ in range(2)))

    request = AgentRequest("a", "one")
    assert await outcome(twice, agent_results=()) == Waits("child", (request, request))
    results = tuple(result_of("a", "one", output=number) for number in (1, 2))
    assert await outcome(twice, agent_results=results) == Done([1, 2])


async def test_a_function_that_is_not_async_runs_agents_one_after_the_other() -> None:
    def plain(ctx: ToolContext) -> Any:
        return [ctx.run_agent_sync(name, "one") for name in "ab"]

    results = tuple(result_of(name, "one", output=name) for name in "ab")
    for number, name in enumerate("ab"):
        expected = Waits("child", (AgentRequest(name, "one"),))
        assert await outcome(plain, agent_results=results[:number]) == expected
    assert await outcome(plain, agent_results=results) == Done(["a", "b"])


async def test_another_request_in_the_same_place_is_an_error() -> None:
    found = await failure(ask, agent_results=(result_of("buyer", "two", output=1),))
    assert "the tool is not deterministic: an earlier attempt ran an agent" in found.detail


async def test_an_agent_that_failed_is_an_error_that_the_model_reads() -> None:
    found = await failure(ask, agent_results=(result_of("buyer", "one", error="It failed."),))
    assert (found.message, found.detail) == ("It failed.", "AgentRunError: It failed.")


@pytest.mark.processes
async def test_a_process_can_run_agents_too() -> None:
    host = PluginHost(collect([samples.ask_apart]))
    call = invocation(host, "ask_apart", arguments={"question": "why"}, agent_results=())
    assert await host.invoke(call) == Waits(on="child", agents=(AgentRequest("buyer", "why"),))
    result = await run_tool(samples.ask_apart, {"question": "why"}, agents={"buyer": "so"})
    assert result.output == "so"


async def many(ctx: ToolContext) -> None:
    for _ in range(100):
        await ctx.run_agent("buyer", "one")


async def no_turns(ctx: ToolContext) -> None:
    await ctx.run_agent("buyer", "one", max_turns=0)


async def no_text(ctx: ToolContext) -> None:
    await ctx.run_agent("buyer", 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def no_name(ctx: ToolContext) -> None:
    await ctx.run_agent("a\x00", "one")


async def long_text(ctx: ToolContext) -> None:
    await ctx.run_agent("buyer", "x" * 2_000_000)


async def no_schema(ctx: ToolContext) -> None:
    await ctx.run_agent("buyer", "one", output={"type": "nothing"})


@pytest.mark.parametrize(
    ("function", "detail"),
    [
        (many, "one call can run at most 32 agents"),
        (no_turns, "max_turns must be from 1 to 1000"),
        (no_text, "input must be a string, not int"),
        (no_schema, "output"),
        (no_name, "'a\\x00' is not the name of an agent"),
        (long_text, "input must have at most "),
    ],
)
async def test_a_request_that_cannot_be_made_is_a_clear_error(function: Any, detail: str) -> None:
    earlier = (result_of("buyer", "one", output=1),) * 32
    found = await failure(function, agent_results=earlier)
    assert found.detail.startswith(f"ToolContextError: {detail}")


async def test_a_request_is_storable() -> None:
    async def foul(ctx: ToolContext) -> Any:
        return await ctx.run_agent("buyer", "a\x00", output={"const": "a\ud800"})

    expected = AgentRequest("buyer", "a\ufffd", None, {"const": "a\ufffd"})
    assert await outcome(foul, agent_results=()) == Waits(on="child", agents=(expected,))


async def test_an_output_that_does_not_fit_its_type_is_an_error_of_the_agent() -> None:
    result = await run_tool(samples.negotiate, {"price": 1}, agents={**AGENTS, "judge": {}})
    assert result.error is not None
    assert result.error.startswith(f"{AgentRunError.__name__}: The output of the agent is not")


async def test_outside_of_a_run_there_are_no_agents() -> None:
    found = await failure(ask)
    assert isinstance(found, Failed)
    assert "agents cannot be run here" in found.detail
