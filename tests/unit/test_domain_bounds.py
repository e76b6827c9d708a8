"""What tools, plugins, MCP servers and models return, before it enters a run."""

import json
import re
from typing import Any

import pytest
from pydantic import JsonValue

from runward.domain.events.values import CallReason
from runward.domain.json import MAX_DEPTH, MAX_VALUES, UnstorableError, holds_too_many_values, parse
from runward.domain.run.bounds import (
    MAX_ARGUMENT_VALUES,
    MAX_CALL_ID,
    MAX_MESSAGE,
    MAX_NAME,
    MAX_RESPONSE_BYTES,
    MAX_RESULT_BYTES,
    MAX_RUN_BYTES,
    MAX_TOKENS,
    bounded_name,
    bounded_outcome,
    bounded_parts,
    bounded_progress,
    bounded_response,
)
from runward.domain.run.items import (
    HostedCall,
    MediaPart,
    Message,
    Native,
    Part,
    Reasoning,
    TextPart,
)
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome
from runward.domain.run.plan import UnusableResponseError
from runward.domain.run.response import ModelResponse, Output, RequestedCall, Usage
from runward.domain.run.settle import classify_outcome, conclude, settle
from runward.domain.run.state import CallOutcome, CallPhase, Changes, Result
from runward.store.runs.records import rows_to_json
from tests.unit.domain_cases import (
    call,
    event,
    response,
    state,
    take_response,
    taken,
    tool,
    turn_with,
    wants,
)

STARTED = call("c1", CallPhase.STARTED)
FOUL = "a\x00b\ud800"
CLEAN = "a�b�"


def nested(levels: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(levels):
        value = [value]
    return value


def done(**fields: Any) -> Outcome:
    values: dict[str, Any] = {"output": "ok"} | fields
    return bounded_outcome(Done(**values))


# Results.


@pytest.mark.parametrize("field", ["output", "metadata", "state"])
def test_a_result_of_too_many_values_is_a_failed_call(field: str) -> None:
    most: dict[str, Any] = {"a": [1] * (MAX_VALUES - 1)}
    assert getattr(done(**{field: most}), field) == most
    for inner in ("1", "[]", "{}"):
        failed = done(**{field: {"a": [json.loads(inner)] * MAX_VALUES}})
        assert isinstance(failed, Failed)
        assert failed.reason is FailureKind.INVALID_RESPONSE
        assert "500,000 values" in (failed.detail or "")


@pytest.mark.parametrize(
    ("member", "values"),
    [("[]", 1), ("{ }", 1), ('["a"]', 2), ('{"a,[\\"":"\\\\"}', 2), ("1", 1), ('"[,{\\\\"', 1)],
)
def test_values_are_counted_without_parsing(member: str, values: int) -> None:
    most = ",".join([member] * (MAX_VALUES // values)).encode()
    assert not holds_too_many_values(b"[" + most + b"]")
    assert holds_too_many_values(b"[" + most + b", 1 ]")


@pytest.mark.parametrize("field", ["output", "metadata", "state"])
def test_a_result_that_is_nested_too_deep_is_a_failed_call(field: str) -> None:
    deepest: dict[str, Any] = {"a": nested(MAX_DEPTH - 1)}
    assert getattr(done(**{field: deepest}), field) == deepest
    failed = done(**{field: {"a": nested(MAX_DEPTH)}})
    assert isinstance(failed, Failed)
    assert failed.reason is FailureKind.INVALID_RESPONSE
    assert "nested more than 64 levels deep" in failed.detail


@pytest.mark.parametrize(
    "number", [10**5000, -(10**309), 1e309, float("nan")], ids=["long", "negative", "inf", "nan"]
)
def test_a_number_that_cannot_be_read_back_becomes_null(number: float) -> None:
    kept = done(output=[number], metadata={"a": number}, state={"b": number})
    assert kept == Done([None], metadata={"a": None}, state={"b": None})


@pytest.mark.parametrize(
    "fields",
    [
        {"output": "x" * MAX_RESULT_BYTES},
        {"metadata": {"a": "x" * MAX_RESULT_BYTES}},
        {"parts": (TextPart("x" * (MAX_RESULT_BYTES // 2)),) * 2},
    ],
    ids=["output", "metadata", "parts"],
)
def test_a_result_that_is_too_large_is_a_failed_call(fields: dict[str, Any]) -> None:
    failed = done(**fields)
    assert isinstance(failed, Failed)
    assert (failed.reason, failed.permanent) == (FailureKind.INVALID_RESPONSE, False)
    assert f"the limit is {MAX_RESULT_BYTES}" in failed.detail


def test_every_text_of_a_result_can_be_stored() -> None:
    file = MediaPart("file", data="YQ==", media_type=f"a/{FOUL}", filename=FOUL)
    kept = done(
        output={FOUL: FOUL},
        parts=(TextPart(FOUL), file),
        metadata={FOUL: FOUL},
        state={FOUL: FOUL},
    )
    assert kept == Done(
        {CLEAN: CLEAN},
        (TextPart(CLEAN), MediaPart("file", data="YQ==", filename=CLEAN)),
        {CLEAN: CLEAN},
        {CLEAN: CLEAN},
    )
    failed = bounded_outcome(Failed(FailureKind.ERROR, FOUL, FOUL))
    assert failed == Failed(FailureKind.ERROR, CLEAN, CLEAN)


def test_the_words_of_a_guardrail_can_be_stored() -> None:
    changes = Changes()
    settle(state([STARTED]), changes, STARTED, Result(CallOutcome.REJECTED, FOUL, detail=FOUL))
    assert CLEAN in rows_to_json([event(changes, "tool_call.rejected")])


def test_a_call_whose_result_the_run_has_no_room_for_fails() -> None:
    run = state([STARTED], stored_bytes=MAX_RUN_BYTES - 1000)
    result = classify_outcome(tool(), STARTED, Done("x" * 2000), seconds_left=0, jitter=0)
    after = conclude(run, Changes(), STARTED, result)
    kept = after.calls[STARTED.id].result
    assert kept is not None
    assert (kept.outcome, kept.reason) == (CallOutcome.FAILED, CallReason.INVALID_RESPONSE)
    assert after.stored_bytes < MAX_RUN_BYTES


def test_a_run_counts_what_it_holds() -> None:
    text = "x" * 5000
    run, _ = take_response(state(), response(wants("lookup"), text=text), turn_with(tool()))
    assert run.stored_bytes > len(text)
    one = run.calls[next(iter(run.calls))]
    after = settle(run, Changes(), one, Result(CallOutcome.COMPLETED, text))
    assert after.stored_bytes > run.stored_bytes + len(text)


# Parts.


@pytest.mark.parametrize(
    "part",
    [
        MediaPart("image", url="http://["),
        MediaPart("image", url="http://a:99999/x.png"),
        MediaPart("image", url="javascript:alert(1)"),
        MediaPart("file", url="https://a b/c"),
        MediaPart("image", url="https://"),
        MediaPart("image", data="not base64", media_type="image/png"),
        MediaPart("image", data="a", media_type="image/png"),
        MediaPart("file", data="é"),
        MediaPart("image", url="data:image/png;base64,a"),
        MediaPart("image"),
    ],
)
def test_a_sentence_takes_the_place_of_a_part_that_cannot_be_shown(part: MediaPart) -> None:
    [text, kept] = bounded_parts([TextPart("seen"), part])
    assert text == TextPart("seen")
    assert isinstance(kept, TextPart)
    assert kept.text.startswith(f"(One {part.type} was removed from this result: the ")


@pytest.mark.parametrize(
    "part",
    [
        MediaPart("image", url="https://e.example/ä.png?a=b#c"),
        MediaPart("file", url="s3://bucket/a.pdf", media_type="application/pdf"),
        MediaPart("image", url="data:image/png;base64,aGk="),
        MediaPart("file", data="aGk=", media_type="text/plain", filename="a.txt"),
        MediaPart("file", data=""),
    ],
)
def test_a_part_that_a_model_can_be_shown_stays_as_it_is(part: Part) -> None:
    assert bounded_parts([part]) == (part,)


def test_base64_may_be_broken_into_lines_and_a_media_type_may_have_parameters() -> None:
    given = MediaPart("file", data="aG\r\nk=\n", media_type="text/plain; charset=utf-8")
    assert bounded_parts([given]) == (MediaPart("file", data="aGk=", media_type="text/plain"),)


# Progress.


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ((0.5, FOUL), (0.5, CLEAN)),
        ((7.0, "x" * (MAX_MESSAGE + 1)), (1.0, "x" * MAX_MESSAGE)),
        ((float("nan"), None), (None, None)),
        ((10**400, None), (None, None)),
    ],
)
def test_progress_is_bounded(
    said: tuple[float | None, str | None], kept: tuple[float | None, str | None]
) -> None:
    assert bounded_progress(*said) == kept


# Responses.


OUTPUTS: list[Output] = [
    Message("assistant", FOUL, native=Native("v", {FOUL: FOUL})),
    Message("assistant", (TextPart(FOUL), MediaPart("image", url=FOUL))),
    Reasoning("v", {FOUL: [FOUL]}),
    HostedCall(FOUL, "n", FOUL, "v", {FOUL: FOUL}, FOUL, {FOUL: FOUL}),
    RequestedCall(FOUL, FOUL, '{"a":"\\u0000"}', native=Native("v", {FOUL: FOUL})),
]


@pytest.mark.parametrize("one", OUTPUTS, ids=lambda one: type(one).__name__)
def test_every_text_of_a_response_can_be_stored(one: Output) -> None:
    run, changes = take_response(state(), ModelResponse((one,)), turn_with(tool()))
    shown = rows_to_json(
        [{"run": run.segments, "calls": [*run.calls.values()], "log": changes.events}]
    )
    assert "\\u0000" not in shown
    assert CLEAN in shown or "left out" in shown


@pytest.mark.parametrize(
    "one",
    [
        Reasoning("v", {"a": nested(MAX_DEPTH)}),
        HostedCall("c", "n", "k", "v", {}, nested(MAX_DEPTH + 1), {}),
        Message("assistant", "hi", native=Native("v", {"a": nested(MAX_DEPTH)})),
        Reasoning("v", {"a": "x" * MAX_RESPONSE_BYTES}),
    ],
    ids=["reasoning", "hosted", "native", "large"],
)
def test_a_response_that_cannot_be_stored_fails_the_run(one: Output) -> None:
    with pytest.raises(UnusableResponseError) as refused:
        take_response(state(), ModelResponse((one,)), turn_with())
    assert refused.value.code == "model_invalid_response"


def test_a_response_that_the_run_has_no_room_for_fails_the_run() -> None:
    full = state(stored_bytes=MAX_RUN_BYTES - 50)
    with pytest.raises(UnusableResponseError, match="the run would exceed its limit"):
        take_response(full, response(text="x" * 100), turn_with())


def test_names_and_ids_of_calls_are_bounded() -> None:
    run, changes = taken(wants("t" * 3000, id_="i" * 3000), tools=[tool()])
    [one] = run.calls.values()
    assert len(one.tool) == MAX_NAME
    assert len(one.id) <= MAX_CALL_ID
    assert one.result is not None
    assert one.result.reason is CallReason.UNKNOWN_TOOL
    assert len(str(event(changes, "tool_call.created")["tool"])) == MAX_NAME


def test_names_that_are_replaced_stay_different_and_fit_what_providers_take() -> None:
    given = ["t" * 3000, "t" * 3001, "a\x00", "a\ud800", "a b"]
    kept = [bounded_name(name) for name in given]
    assert len(set(kept)) == len(given)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in kept[:-1])
    assert kept[-1] == given[-1]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (2**63, MAX_TOKENS),
        (12.0, 12),
        (1e300, MAX_TOKENS),
        (float("inf"), MAX_TOKENS),
        (float("nan"), 0),
        (-5, 0),
        (True, 0),
        ("7", 0),
        (None, 0),
    ],
)
def test_numbers_of_tokens_are_bounded(said: Any, kept: int) -> None:
    usage = Usage(said, said, said, said)
    assert bounded_response(ModelResponse(usage=usage))[0].usage == Usage(kept, kept, kept, kept)


# Text that is parsed.


@pytest.mark.parametrize(
    "text", ["[" * 65 + "]" * 65, "9" * 309, "9" * 300 + "e99", '{"a":-1e308,"b":[2e308]}']
)
def test_json_that_is_beyond_the_bounds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"nested more|too large|number"):
        parse(text)


def test_the_values_in_the_arguments_of_all_calls_are_bounded() -> None:
    bounded_response(response(wants("lookup", "," * MAX_ARGUMENT_VALUES)))
    many = "[" + "1," * 400_000 + "1]"
    bounded_response(response(*[wants("lookup", many)] * 2))
    with pytest.raises(UnstorableError, match="1,048,576 values"):
        bounded_response(response(*[wants("lookup", many)] * 3))


def test_the_values_of_a_whole_response_are_bounded() -> None:
    def holding(count: int) -> ModelResponse:
        data: dict[str, Any] = {"a": [1] * (count // 2 - 2)}
        return ModelResponse(tuple(Reasoning("v", data) for _ in range(2)))

    bounded_response(holding(MAX_VALUES))
    with pytest.raises(UnstorableError, match="500,000 values"):
        bounded_response(holding(MAX_VALUES + 10))
