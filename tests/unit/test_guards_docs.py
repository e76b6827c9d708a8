"""What the pages about rules, guardrails and hooks show is what happens."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.guards import Instead, Reject
from runward.domain.registry.rules import RuleError, RuleFailure, compile_rule
from runward.domain.registry.tools import CelRule, ToolSpec
from runward.domain.run import texts
from runward.domain.run.config import AgentConfig
from runward.domain.run.tools import build_rule_values, compile_tool
from runward.tools import GuardContext
from tests.docs.blocks import blocks
from tests.unit.test_docs import DOCS, ROOT, read

POLICY = ROOT / "examples" / "guards" / "policy.json"


def table(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table below `heading`, its head left out; `\\|` is a bar."""
    lines = iter(read(page).partition(f"\n{heading}\n")[2].splitlines())
    found: list[list[str]] = []
    for line in lines:
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line.strip("|"))
            found.append([cell.strip().replace("\\|", "|").strip("`") for cell in cells])
        elif found:
            break
    assert len(found) > 3, heading
    return found[2:]


def block(page: str, language: str) -> str:
    """The page's first block of code in that language."""
    return next(one.text for one in blocks(f"docs/{page}") if one.language == language)


def tool() -> ToolSpec:
    """That docs/reference/rules.md registers."""
    request, _, body = block("reference/rules.md", "http").partition("\n")
    assert request == "POST /v1/tools"
    return ToolSpec.model_validate_json(body)


@pytest.mark.parametrize(
    ("rule", "given", "answer"), table(DOCS / "reference/rules.md", "## Syntax")
)
def test_every_rule_that_is_shown_answers_as_it_says(rule: str, given: str, answer: str) -> None:
    decided = compile_rule(rule).evaluate(json.loads(given))
    if answer == "fails":
        assert isinstance(decided, RuleFailure)
    else:
        assert decided is json.loads(answer)


@pytest.mark.parametrize(("rule", "said"), table(DOCS / "reference/rules.md", "## Validation"))
def test_every_rule_that_is_shown_as_bad_is_refused(rule: str, said: str) -> None:
    with pytest.raises(RuleError, match=re.escape(said)):
        compile_rule(rule)


@pytest.mark.parametrize(
    ("amount", "context", "asked"),
    [(50, {}, False), (500, {}, True), (500, {"role": "lead"}, False), (500, {"role": 1}, True)],
)
def test_the_tool_that_is_shown_asks_about_what_it_says(
    amount: int, context: Any, *, asked: bool
) -> None:
    spec = tool()
    assert isinstance(spec.approval, CelRule)
    values = build_rule_values(compile_tool(spec, 1), {"order": "A-1", "amount": amount})
    decided = compile_rule(spec.approval.when).evaluate({**values, "context": context})
    assert (decided is not False) is asked


@pytest.mark.parametrize(
    ("context", "turn", "shown"),
    [
        ({"shop": "eu"}, 1, True),
        ({"shop": "us"}, 1, False),
        ({"shop": "eu"}, 5, False),
        ({}, 1, False),
    ],
)
def test_the_tool_that_is_shown_is_hidden_where_it_says(
    context: Any, turn: int, *, shown: bool
) -> None:
    spec = tool()
    assert isinstance(spec.enabled, CelRule)
    values: JsonObject = {"context": context, "run": {"id": "run_1", "agent": None, "turn": turn}}
    assert (compile_rule(spec.enabled.when).evaluate(values) is True) is shown


def test_the_policy_of_the_example_is_one() -> None:
    shown = POLICY.read_text().replace("URL/", "https://guards.example.com/")
    config = AgentConfig.model_validate_json(shown)
    assert [one.stage for one in config.guardrails] == ["input"]
    assert [one.on for one in config.hooks] == ["after_tool"]


def about(stage: str, tool: str | None = None, **context: JsonValue) -> GuardContext:
    return GuardContext(
        stage=stage, run_id="run_1", agent=None, tool=tool, call_id=None, context=context
    )


def test_the_guardrail_of_a_plugin_that_is_shown_works() -> None:
    names: dict[str, Any] = {}
    exec(block("how-to/guardrails.md", "python"), names)
    ask = names["no_large_refunds"].function
    refund = about("input", tool="refund")
    assert ask(refund, {"arguments": {"amount": 1001}}) == Reject(
        "Refunds above 1000 go through the bank."
    )
    assert ask(refund, {"arguments": {"amount": 1000}}) is None


def test_the_hook_of_a_plugin_that_is_shown_works() -> None:
    names: dict[str, Any] = {}
    exec(block("how-to/hooks.md", "python"), names)
    ask = names["opening_hours"].function
    assert ask(about("before_model", closed=True), {}) == Instead("We are closed.")
    assert ask(about("before_model"), {}) is None


def test_the_hook_that_is_shown_drops_calls() -> None:
    names: dict[str, Any] = {}
    last = [one for one in blocks("docs/how-to/hooks.md") if one.language == "python"][-1]
    exec(last.text, names)
    ask = names["limit_refunds"].function
    pay: JsonObject = {"call_id": "c1", "name": "pay"}
    refund: JsonObject = {"call_id": "c2", "name": "refund"}
    said = Instead("I cannot refund orders.", calls=[pay])
    assert ask(about("after_model"), {"calls": [pay, refund]}) == said
    assert ask(about("after_model"), {"calls": [pay]}) is None


def test_the_fixed_texts_of_guardrails_and_hooks_are_all_told() -> None:
    page = read(DOCS / "reference/model-texts.md")
    for text in (
        texts.GUARDED,
        texts.OUTPUT_GUARDED,
        texts.HOOK_FAILED,
        texts.OUTPUT_HOOK_FAILED,
    ):
        assert f"`{text}`" in page
