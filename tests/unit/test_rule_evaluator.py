"""Rules of users run in a process of their own: what it answers, and that it can be ended."""

import asyncio
import os
import resource
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import JsonValue

from runward.domain.ids import ProjectId
from runward.domain.json import JsonObject
from runward.domain.registry.rules import DECISION, RuleFailure
from runward.domain.run.plan import parse_response
from runward.loop.engine import ToolRules
from runward.loop.tool_rules import add_approvals, find_enabled_tools
from runward.loop.toolbox import SignedTool, ToolSet
from runward.tools import rule_process
from runward.tools.plugin.loader import collect
from runward.tools.plugin.registry import PluginHost
from runward.tools.rule_process import (
    Kept,
    _bytes_of,  # pyright: ignore[reportPrivateUsage]
    _compiled,  # pyright: ignore[reportPrivateUsage]
)
from runward.tools.rules import TOO_SLOW, RuleEvaluator, RuleQuestion
from tests.unit.domain_cases import response, state, tool, turn_with, wants
from tests.unit.test_plugins_isolated import is_alive

pytestmark = pytest.mark.processes

OURS = ProjectId(UUID(int=1))
SLOW = "args.s.matches('(.|x){900}y')"
TEXT: JsonObject = {"args": {"s": "x" * 1_000_000}}
LARGE = "[args.s].map(x, [x + x + x + x]).map(x, [x[0] + x[0] + x[0] + x[0]]) == []"


@pytest.fixture
async def rules() -> AsyncGenerator[RuleEvaluator]:
    evaluator = RuleEvaluator()
    yield evaluator
    await evaluator.aclose()


async def decide(rules: RuleEvaluator, rule: str, values: Any, project: ProjectId = OURS) -> Any:
    [answer] = await rules.decide(project, [RuleQuestion(rule, values)], {})
    return answer


def make_projects(count: int) -> list[ProjectId]:
    """On a busy machine, the rules of a project may become slow. They then use another process."""
    return [ProjectId(uuid4()) for _ in range(count)]


def process_of(rules: RuleEvaluator) -> int:
    process = rules._normal._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    return process.pid


async def test_every_rule_has_its_answer_in_order(rules: RuleEvaluator) -> None:
    shared: dict[str, JsonValue] = {"context": {"tier": "gold"}, "run": {"turn": 2}}
    questions = [
        RuleQuestion("args.amount > 100 && context.tier == 'gold'", {"args": {"amount": 500}}),
        RuleQuestion("args.amount > 100", {"args": {"amount": 5}}),
        RuleQuestion("args.nothing > 100", {"args": {}}),
        RuleQuestion("args.x >", {}),
        RuleQuestion("run.turn == 2 && tool.name == 'pay'", {"tool": {"name": "pay"}}),
    ]
    answers = await rules.decide(OURS, questions, shared)
    assert [isinstance(one, RuleFailure) or one for one in answers] == [
        *(True, False, True, True, True)
    ]
    assert [isinstance(one, RuleFailure) for one in answers] == [False, False, True, True, False]


async def test_no_process_is_started_for_no_rule(rules: RuleEvaluator) -> None:
    assert await rules.decide(OURS, [], {}) == []
    assert rules._normal._process is None  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(("rule", "problem"), [("args.x > 1", None), ("args.x >", "Line 1")])
async def test_a_rule_is_compiled_where_it_is_evaluated(
    rules: RuleEvaluator, rule: str, problem: str | None
) -> None:
    found = await rules.problem(OURS, rule)
    assert (found or "").startswith(problem or "") and (found is None) is (problem is None)


async def test_a_rule_that_takes_too_long_is_ended_with_its_process_and_the_next_is_answered(
    rules: RuleEvaluator,
) -> None:
    before = [RuleQuestion("true", {}), RuleQuestion(SLOW, TEXT), RuleQuestion("true", {})]
    answers = await rules.decide(OURS, before, {})
    assert answers == [True, RuleFailure(TOO_SLOW), RuleFailure(TOO_SLOW)]
    assert await decide(rules, "args.x == 1", {"args": {"x": 1}}) is True
    assert await decide(rules, "args.x == 1", {"args": {"x": 1}}, ProjectId(uuid4())) is True


async def test_other_projects_do_not_wait_for_one_whose_rules_are_slow(
    rules: RuleEvaluator,
) -> None:
    await decide(rules, SLOW, TEXT)
    slow = [asyncio.create_task(decide(rules, SLOW, TEXT)) for _ in range(3)]
    await asyncio.sleep(0)
    for theirs in make_projects(20):
        assert await decide(rules, "args.x == 1", {"args": {"x": 1}}, theirs) is True
    assert not all(task.done() for task in slow)
    assert await asyncio.gather(*slow) == [RuleFailure(TOO_SLOW)] * 3


async def test_a_rule_that_makes_values_too_large_fails(rules: RuleEvaluator) -> None:
    large: JsonObject = {"args": {"s": "x" * 16_000_000}}
    assert isinstance(await decide(rules, LARGE, large), RuleFailure)
    assert await decide(rules, "true", {}) is True


async def test_a_concurrency_key_can_have_a_long_text(rules: RuleEvaluator) -> None:
    async def compute(text: str) -> Any:
        [value] = await rules.compute_keys(OURS, ["context.x"], {"context": {"x": text}})
        return value

    assert await compute("é" * 1_000) == "é" * 1_000
    long = "é" * 100_000
    assert await compute(long) == await compute(long) != await compute(long + "é")


async def test_a_value_that_cannot_be_sent_fails(rules: RuleEvaluator) -> None:
    for values in ({"args": {"x": "\ud800"}}, {"args": {"x": 10**5000}}):
        assert isinstance(await decide(rules, "args.x == 'x'", values), RuleFailure)
    assert await decide(rules, "true", {}) is True


async def test_an_answer_that_nobody_waits_for_is_not_taken_for_the_next(
    rules: RuleEvaluator,
) -> None:
    one, two, three = make_projects(3)
    assert await decide(rules, "true", {}, one) is True
    first = process_of(rules)
    abandoned = asyncio.create_task(decide(rules, SLOW, TEXT, two))
    while not rules._normal.turn.locked():  # pyright: ignore[reportPrivateUsage]
        await asyncio.sleep(0)
    abandoned.cancel()
    with pytest.raises(asyncio.CancelledError):
        await abandoned
    assert await decide(rules, "args.x == 1", {"args": {"x": 2}}, three) is False
    assert process_of(rules) != first
    assert not is_alive(first)


async def test_a_process_that_was_ended_from_outside_is_replaced(rules: RuleEvaluator) -> None:
    one, two, three = make_projects(3)
    assert await decide(rules, "true", {}, one) is True
    first = process_of(rules)
    os.kill(first, signal.SIGTERM)  # what a supervisor sends to all processes of the service
    assert await decide(rules, "true", {}, two) is True
    assert process_of(rules) == first
    os.kill(first, signal.SIGKILL)
    await rules._normal._process.wait()  # pyright: ignore
    assert await decide(rules, "true", {}, three) is True
    assert process_of(rules) != first


async def test_the_process_ends_with_the_evaluator() -> None:
    rules = RuleEvaluator()
    assert await decide(rules, "true", {}) is True
    pid = process_of(rules)
    await rules.aclose()
    assert not is_alive(pid)


async def test_it_knows_no_secrets(rules: RuleEvaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNWARD_SECRET_KEY", "canary")
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    assert await decide(rules, "true", {}) is True
    with open(f"/proc/{process_of(rules)}/environ", "rb") as environment:
        assert b"canary" not in environment.read()


# What the loop asks it.


async def test_a_call_needs_approval_by_its_tool_s_rule_and_where_that_fails(
    rules: RuleEvaluator,
) -> None:
    gated = tool("pay", approval={"when": "args.amount > 100 || context.tier != 'gold'"})
    wanted = [wants("pay", '{"amount": 50}', "c1"), wants("pay", '{"amount": 500}', "c2")]
    tool_rules = ToolRules(PluginHost(collect(())), rules)
    for context, few in (({"tier": "gold"}, False), ({"tier": "tin"}, True), (None, True)):
        run = state(context=context)
        calls = parse_response(run, response(*wanted), turn_with(gated)).calls
        reviewed = await add_approvals(calls, run, tool_rules)
        assert [one.needs_approval for one in reviewed] == [few, True]


async def test_a_tool_is_shown_by_its_rule_and_hidden_where_that_fails(
    rules: RuleEvaluator,
) -> None:
    made = [
        tool("gold", enabled={"when": "context.tier == 'gold'"}),
        tool("first", enabled={"when": "run.turn < 1 || tool.metadata.always"}),
        tool("later", enabled={"when": "run.turn > 5"}),
        tool("plain"),
    ]
    tools = ToolSet({(one.name, 1): SignedTool(one, ()) for one in made})
    run = state(
        config={"tools": tuple(one.name for one in made)},
        context={"tier": "gold"},
        tool_versions={one.name: 1 for one in made},
    )
    shown = await find_enabled_tools(tools, run, ToolRules(PluginHost(collect(())), rules))
    assert list(shown) == ["gold", "first", "plain"]


def test_rules_that_are_kept_compiled_leave_memory_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One process keeps the rules of all projects. Before, 450 long ones took all of its memory,
    and no further rule was compiled."""
    long = "||[1].all(x,[1].all(y,[1].all(z,true)))" * 100
    texts = [f"args.a == {number}{long}" for number in range(12)]
    kept: Kept = {}
    _compiled("true", DECISION, kept)
    before = resident_bytes()
    for text in texts:
        _compiled(text, DECISION, kept)
    assert resident_bytes() - before < sum(map(_bytes_of, texts))
    monkeypatch.setattr(rule_process, "KEPT_BYTES", 3 * _bytes_of(texts[-1]))
    _compiled(texts[5], DECISION, kept)
    _compiled("args.a == 1", DECISION, kept)
    assert list(kept) == [(text, DECISION) for text in (texts[11], texts[5], "args.a == 1")]
    _compiled("x" * 1_000_000, DECISION, kept)
    assert len(kept) == 1


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
