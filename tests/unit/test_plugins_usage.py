"""`ctx.add_usage`: the usage of models that a plugin's function used itself."""

import math
from typing import Any

import pytest

from runward.domain.run.bounds import MAX_TOKENS
from runward.domain.run.response import ReportedUsage, Usage
from runward.tools import ToolContext
from runward.tools.plugin.usage import MAX_MODELS
from runward.tools.testing import run_tool
from tests.unit import plugin_samples as samples

METERED = (
    ReportedUsage("openai:gpt-4o", Usage(input=9, cached_input=1)),
    ReportedUsage("openai:gpt-4o", Usage(output=9, reasoning=2)),
    ReportedUsage("house:one", Usage(input=1, cost=0.25), priced=True),
)


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(samples.meter, id="thread"),
        pytest.param(samples.meter_apart, id="process", marks=pytest.mark.processes),
    ],
)
async def test_usage_counts_whether_or_not_the_call_succeeds(tool: Any) -> None:
    done = await run_tool(tool, {"tokens": 9, "fail": False})
    assert (done.output, done.usage) == ("metered", METERED)
    failed = await run_tool(tool, {"tokens": 9, "fail": True})
    assert (failed.message, failed.usage) == ("The meter broke.", METERED)


async def test_usage_counts_in_each_attempt_and_until_the_timeout() -> None:
    async def again(ctx: ToolContext) -> Any:
        ctx.add_usage("house:one", input_tokens=ctx.attempt)
        return await ctx.run_agent("buyer", "one")

    result = await run_tool(again, {}, agents={"buyer": 80})
    assert [one.usage.input for one in result.usage] == [1, 2]

    async def slow(ctx: ToolContext) -> None:
        ctx.add_usage("house:one", input_tokens=3)
        try:
            await ctx.run_agent("buyer", "one")
        finally:
            ctx.add_usage("house:one", input_tokens=4)

    assert [one.usage.input for one in (await run_tool(slow, {}, agents={"buyer": 1})).usage] == [
        *(3, 4, 3, 4)
    ]


@pytest.mark.parametrize(
    ("usage", "detail"),
    [
        ({"model": ""}, "model must be a string of 1 to 256 characters"),
        ({"model": 1}, "model must be"),
        ({"input_tokens": -1}, f"input_tokens must be a whole number from 0 to {MAX_TOKENS}"),
        ({"output_tokens": 1.5}, "output_tokens must be"),
        ({"output_tokens": True}, "output_tokens must be"),
        ({"input_tokens": MAX_TOKENS + 1}, "input_tokens must be"),
        ({"cached_tokens": 1}, "cached_tokens must not exceed input_tokens"),
        ({"reasoning_tokens": 1}, "reasoning_tokens must not exceed output_tokens"),
        ({"cost_usd": -1}, "cost_usd must be a number from 0 to 1000000"),
        ({"cost_usd": math.nan}, "cost_usd must be"),
        ({"cost_usd": 10**400}, "cost_usd must be"),
        ({"cost_usd": "1"}, "cost_usd must be"),
    ],
)
async def test_usage_that_cannot_be_added_is_a_clear_error(usage: Any, detail: str) -> None:
    async def report(ctx: ToolContext) -> None:
        arguments: Any = {"model": "house:one", **usage}
        ctx.add_usage(**arguments)

    result = await run_tool(report, {})
    assert str(result.error).startswith(f"ToolContextError: {detail}")
    assert result.usage == ()


async def test_the_number_of_models_is_limited() -> None:
    async def many(ctx: ToolContext) -> None:
        for number in range(MAX_MODELS + 1):
            ctx.add_usage(f"house:{number}", input_tokens=1)

    result = await run_tool(many, {})
    assert result.error == f"ToolContextError: one call can report at most {MAX_MODELS} models"
    assert len(result.usage) == MAX_MODELS
