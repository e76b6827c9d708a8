"""The domain's plain values: JSON, ids, usage, scopes, texts, changes, agents and tools."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from runward.domain import ids
from runward.domain.errors import (
    FieldError,
    InsufficientScopeError,
    InvalidRequestError,
    PayloadTooLargeError,
    UnauthenticatedError,
)
from runward.domain.events.kinds import RunStartedEvent
from runward.domain.ids import CallId, KeyId, Prefix, ProjectId
from runward.domain.json import canonical, clean_json, compact, compute_digest, is_same_json, parse
from runward.domain.registry.scopes import READ_RUNS, Principal, Scope
from runward.domain.registry.tools import ToolSpec
from runward.domain.run import texts
from runward.domain.run.config import AgentConfig
from runward.domain.run.response import Usage
from runward.domain.run.state import ApprovalRequest, CallPhase, Changes, Segment, SegmentKind
from runward.domain.run.tools import is_enabled, needs_approval
from tests.unit.domain_cases import AGENT, call, state, tool

TEXT = st.text()
HOSTILE = st.text(st.characters(exclude_categories=[]) | st.sampled_from("\x00\ud800\udfff"))


def json_of(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    floats = st.floats(allow_nan=False, allow_infinity=False, width=32)
    plain = st.none() | st.booleans() | st.integers() | floats | text
    return st.recursive(
        plain, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=8
    )


def shuffled(value: JsonValue) -> JsonValue:
    """The same value with its keys the other way round."""
    match value:
        case dict():
            return {key: shuffled(value[key]) for key in reversed(value)}
        case list():
            return [shuffled(item) for item in value]
        case _:
            return value


# JSON.


@given(json_of(TEXT))
def test_a_digest_does_not_depend_on_the_order_of_keys(value: JsonValue) -> None:
    assert compute_digest(value) == compute_digest(shuffled(value))
    assert canonical(value) == canonical(shuffled(value))
    assert len(compute_digest(value)) == len("sha256:") + 64


@given(json_of(TEXT), json_of(TEXT))
def test_different_values_have_different_digests(one: JsonValue, other: JsonValue) -> None:
    assert (compute_digest(one) == compute_digest(other)) is is_same_json(one, other)


@pytest.mark.parametrize("text", ["1e999", '{"x":[-1E+999]}', "1" + "0" * 400 + ".0", "NaN"])
def test_a_number_that_no_json_can_hold_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"number|NaN|value"):
        parse(text)


@pytest.mark.parametrize("text", ["1e100", '[{"a":1e-999},"1e999",null]', "9" * 308])
def test_a_number_that_only_looks_too_large_is_read(text: str) -> None:
    assert is_same_json(parse(text), json.loads(text))


@given(json_of(TEXT))
def test_what_is_printed_reads_back(value: JsonValue) -> None:
    assert is_same_json(parse(compact(value)), json.loads(compact(value)))
    assert canonical(parse(canonical(value))) == canonical(json.loads(canonical(value)))


def test_the_canonical_form_is_fixed_since_stored_digests_depend_on_it() -> None:
    value: JsonValue = {"b": [1, 2.0, True, None], "a": {"ü": 'x"\n', "A": ""}}
    assert canonical(value) == '{"a":{"A":"","ü":"x\\"\\n"},"b":[1,2.0,true,null]}'
    assert compute_digest({}) == (
        "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), ([1], [True]), (1, 1.0)])
def test_what_python_takes_for_equal_may_be_different_json(one: Any, other: Any) -> None:
    assert one == other
    assert not is_same_json(one, other)
    assert is_same_json(one, one)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "[-Infinity]", "{", "", "'a'"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


@given(json_of(HOSTILE))
def test_a_cleaned_value_can_be_stored(value: JsonValue) -> None:
    clean, changed = clean_json(value)
    stored = compact(clean)
    assert "\\u0000" not in stored.replace("\\\\", "")
    assert changed is (clean != value)
    assert clean_json(clean) == (clean, False)


@given(json_of(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))))
def test_cleaning_changes_nothing_that_can_be_stored(value: JsonValue) -> None:
    assert clean_json(value) == (value, False)


# Ids.


@given(st.uuids(), st.sampled_from(Prefix), st.sampled_from(Prefix))
def test_an_id_reads_back_as_its_own_kind_only(value: UUID, prefix: Prefix, other: Prefix) -> None:
    shown = ids.format_id(prefix, value)
    assert ids.parse_id(prefix, shown) == value
    assert prefix is other or ids.parse_id(other, shown) is None


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "run",
        "run_",
        "run_1",
        "0" * 32,
        f"run_{'0' * 31}",
        f"run_{'0' * 33}",
        f"run_{'G' * 32}",
        f"run_{'A' * 32}",
        f"run_{'٣' * 32}",
        f" run_{'0' * 32}",
        "run_00000000-0000-0000-0000-000000000000",
    ],
)
def test_what_is_no_id_is_an_unknown_one(shown: str) -> None:
    assert ids.parse_id(Prefix.RUN, shown) is None


# Usage, scopes, errors.


def test_usage_adds_up_part_by_part() -> None:
    total = Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40)
    assert total == Usage(11, 22, 33, 44)
    assert total.total == 33


def test_a_key_may_do_what_any_one_of_its_scopes_allows() -> None:
    scopes = frozenset({Scope.RUNS_WRITE})
    key = Principal(ProjectId(UUID(int=1)), KeyId(UUID(int=2)), "mine", scopes)
    assert key.may(READ_RUNS)
    assert key.may(())
    assert not key.may((Scope.RUNS_READ,))
    assert not key.may((Scope.ADMIN, Scope.TOOLS_WRITE))


def test_an_error_keeps_what_is_wrong_with_each_field() -> None:
    problem = FieldError("a.0", "must be text")
    error = InvalidRequestError(errors=[problem], extra={"limit": 1}, retry_after=2.5)
    assert (error.errors, error.extra, error.retry_after) == ((problem,), {"limit": 1}, 2.5)
    assert error.detail == error.text


def test_an_error_says_what_only_it_knows() -> None:
    assert UnauthenticatedError(token_given=True).token_given
    assert not UnauthenticatedError().token_given
    assert InsufficientScopeError(["a", "b"]).needed == ("a", "b")
    assert "larger than 5 bytes" in str(PayloadTooLargeError(5))


# Texts that the model reads.


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(30, "30"), (2.5, "2.5"), (0.01, "0.01"), (60.0, "60"), (3600, "3600"), (1 / 3, "0.333333")],
)
def test_a_timeout_begins_with_these_exact_words(seconds: float, shown: str) -> None:
    text = f"Tool 'pay' timed out after {shown} seconds."
    assert texts.timed_out("pay", seconds, idempotent=True) == text
    assert texts.timed_out("pay", seconds, idempotent=False) == (
        f"{text} The call may or may not have taken effect. Check before you repeat it."
    )


def test_an_unknown_tool_s_text_lists_what_there_is() -> None:
    assert texts.unknown_tool("x", ["a", "b"]) == (
        "Tool 'x' not found. Tools that can be called now: a, b."
    )
    assert texts.unknown_tool("x", []) == "Tool 'x' not found. No tools can be called now."


def test_problems_are_listed_one_a_line() -> None:
    problems = [("arguments.a", "is missing"), ("arguments.b", "must be text")]
    lines = "- arguments.a: is missing\n- arguments.b: must be text"
    assert texts.invalid_arguments("pay", problems) == (
        f"Tool 'pay' was not run, because its arguments are not valid:\n{lines}"
    )
    assert texts.repair(problems).endswith(
        f"Reply with only valid JSON that matches the schema.\n{lines}"
    )


def test_the_words_that_models_and_people_rely_on() -> None:
    assert texts.NOT_APPROVED == "Tool execution was not approved."
    assert "not a rejection" in texts.NOBODY_ANSWERED
    assert "may or may not have taken effect" in texts.INTERRUPTED
    assert texts.NOT_SENT == "The tool could not be reached. The tool has not run."


# State and changes.


def test_a_call_s_last_state_is_written_where_its_row_is() -> None:
    changes = Changes()
    new, old = call("c1"), call("c2")
    changes.inserted[new.id] = new
    started = call("c1", CallPhase.STARTED)
    changes.put_call(started)
    changes.put_call(old)
    assert changes.inserted == {CallId("c1"): started}
    assert changes.updated == {CallId("c2"): old}


def test_nothing_to_write_is_nothing() -> None:
    changes = Changes()
    assert changes.is_empty
    changes.progress = True
    assert changes.is_empty
    changes.add(RunStartedEvent({}))
    assert not changes.is_empty
    assert changes.events == [RunStartedEvent({})]


def test_what_is_added_to_a_copy_is_not_in_the_original() -> None:
    changes, one = Changes(progress=True), call("c1")
    copied = changes.copy()
    assert copied == changes
    copied.add(RunStartedEvent({}))
    copied.inserted[one.id] = copied.updated[one.id] = one
    copied.segments.append(Segment(SegmentKind.INPUT, 0, AGENT, ()))
    copied.approvals.append(ApprovalRequest(ids.ApprovalId(UUID(int=1)), one, AGENT, None, 60))
    copied.closed_approvals[ids.ApprovalId(UUID(int=1))] = "superseded"
    assert changes == Changes(progress=True)


def test_every_kind_of_row_is_something_to_write() -> None:
    segment = Segment(SegmentKind.INPUT, 0, AGENT, ())
    one = call("c1")
    assert not Changes(segments=[segment]).is_empty
    assert not Changes(inserted={one.id: one}).is_empty
    assert not Changes(updated={one.id: one}).is_empty


def test_a_person_may_do_four_things_unless_told_otherwise() -> None:
    asked = ApprovalRequest(ids.ApprovalId(UUID(int=1)), call(), AGENT, None, 60)
    assert asked.allowed_decisions == ("approve", "reject", "edit", "respond")


def test_a_run_without_segments_has_said_nothing() -> None:
    assert state().last_text == ""
    assert state().turn_calls == ()


# Agents and tools.


@pytest.mark.parametrize(
    ("given", "models"), [("openai:a", ("openai:a",)), (["openai:a", "offline:rules"],) * 2]
)
def test_an_agent_has_one_model_or_several_in_order(given: Any, models: Any) -> None:
    assert AgentConfig.model_validate({"model": given}, strict=False).models == tuple(models)


@pytest.mark.parametrize(
    "limits",
    [{"max_turns": 0}, {"max_turns": 51}, {"max_tool_calls": 201}, {"unknown": 1}],
)
def test_limits_have_limits(limits: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        AgentConfig.model_validate({"model": "openai:a", "limits": limits})


@pytest.mark.parametrize("name", ["a", "A1_-", "a" * 64])
def test_a_name_that_every_provider_takes_is_taken(name: str) -> None:
    assert ToolSpec(name=name, parameters={}).name == name


@pytest.mark.parametrize("name", ["", "1a", "_a", "a b", "a.b", "a" * 65, "ä", "a\n"])
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        ToolSpec(name=name, parameters={})


@pytest.mark.parametrize(("enabled", "answer"), [(True, True), (False, False)])
def test_a_tool_is_shown_or_hidden_as_its_spec_says(*, enabled: bool, answer: bool) -> None:
    assert is_enabled(tool(enabled=enabled)) is answer


@pytest.mark.parametrize(("approval", "answer"), [("never", False), ("always", True)])
def test_a_call_needs_approval_as_its_tool_s_spec_says(approval: str, *, answer: bool) -> None:
    assert needs_approval(tool(approval=approval)) is answer


POLICIES = pytest.mark.parametrize("policy", [{"callable": "plugin:rule"}, {"when": "true"}])


@POLICIES
@pytest.mark.parametrize(("answered", "answer"), [({}, False), ({"lookup": True}, True)])
def test_a_tool_is_hidden_until_its_rule_or_callable_shows_it(
    policy: Any, answered: dict[str, bool], *, answer: bool
) -> None:
    shown = tool(enabled=policy)
    assert is_enabled(shown, answered) is answer


@POLICIES
@pytest.mark.parametrize(("answered", "answer"), [(None, True), (False, False), (True, True)])
def test_a_person_is_asked_unless_the_rule_or_callable_said_that_nobody_has_to(
    policy: Any, *, answered: bool | None, answer: bool
) -> None:
    assert needs_approval(tool(approval=policy), answer=answered) is answer


def test_a_tool_is_compiled_with_its_schemas() -> None:
    made = tool(output_schema={"type": "string"})
    assert made.name == "lookup"
    assert made.output is not None
    assert [problem.path for problem in made.output.problems(5)] == ["output"]
