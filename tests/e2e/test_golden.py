"""Runward does in every golden scenario what the OpenAI Agents SDK did, or better and on purpose.

The scenarios are in `tests/golden/scenarios.json`, the differences that are meant in
`tests/golden/expectations.py`, each with its reason.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.checker import Evidence, broken
from tests.e2e.conftest import Golden
from tests.golden.expectations import EXPECTATIONS, LATER, Exactly, Expectation, Wanted
from tests.golden.replay import Replay, Replayed, Scenario, group, scenarios
from tests.support.models.chat_server import ModelRequest, content_text
from tests.support.tools.server import ToolServer

AS_THE_ORACLE = Expectation("as the oracle")
STATUS = {"paused": "requires_action", "completed": "completed"}
TIMING_ATTEMPTS = 3
"""A call whose 0.05 s pass before it is even sent, on a busy machine, is another story."""


def cases() -> Iterator[Any]:
    for scenario in scenarios():
        reason = LATER.get(group(scenario))
        marks = [pytest.mark.xfail(run=False, reason=reason)] if reason else []
        yield pytest.param(scenario, id=scenario["id"], marks=marks)


@pytest.mark.parametrize("scenario", list(cases()))
@pytest.mark.timeout(240)
def test_golden(scenario: Scenario, golden: Golden) -> None:
    before = len(golden.model.violations)
    replayed = play(scenario, golden)
    assert golden.model.violations[before:] == []
    expectation = EXPECTATIONS.get(scenario["id"], AS_THE_ORACLE)
    compare_rounds(scenario, expectation, replayed)
    compare_end(scenario, expectation, replayed)
    compare_requests(scenario, expectation, replayed)
    compare_results(scenario, expectation, replayed)
    assert replayed.refused == list(expectation.refused)
    assert replayed.guardrails == scenario["expected"]["guardrail_log"]
    run_id = replayed.run["id"]
    evidence = Evidence(
        runs={run_id: replayed.run},
        logs={run_id: replayed.events},
        hits=[hit for hit in replayed.hits if hit.run_id == run_id],
        statuses=replayed.statuses,
    )
    assert broken(evidence) == []


def play(scenario: Scenario, golden: Golden) -> Replayed:
    timed = any("timeout" in tool for tool in scenario["agent"]["tools"])
    expected = len(scenario["expected"]["tool_log"])
    for attempt in range(TIMING_ATTEMPTS if timed else 1):
        with ToolServer() as tools:
            replayed = Replay(scenario, golden.operator, golden.model, tools).play()
        if len(replayed.hits) == expected or attempt == TIMING_ATTEMPTS - 1 or not timed:
            return replayed
    raise AssertionError("unreachable")


def compare_rounds(scenario: Scenario, expectation: Expectation, replayed: Replayed) -> None:
    """Pending calls at each pause, and what reached the tools in each round."""
    rounds = scenario["expected"]["rounds"]
    pending = [[call["id"] for call in each.get("pending", [])] for each in rounds]
    assert [each.pending for each in replayed.rounds] == pending
    started = expectation.started
    if started is None:
        started = tuple(tuple(each["tools_started"]) for each in rounds)
    sent = [tuple(each.sent) for each in replayed.rounds]
    if started == (("*",),):
        [[made]] = sent
        assert made
    elif scenario.get("max_concurrency") == 1:
        assert sent == list(started)
    else:
        assert [Counter(each) for each in sent] == [Counter(each) for each in started]
    peak = scenario["expected"]["peak_concurrency"]
    if peak > 1 or scenario.get("max_concurrency") == 1:
        assert replayed.peak == peak
    if expectation.started is None:
        hits = Counter((hit.tool, json.dumps(hit.arguments)) for hit in replayed.hits)
        log = scenario["expected"]["tool_log"]
        assert hits == Counter((each["tool"], json.dumps(each["args"])) for each in log)


def compare_end(scenario: Scenario, expectation: Expectation, replayed: Replayed) -> None:
    *pauses, last = scenario["expected"]["rounds"]
    run = replayed.run
    if expectation.status is not None:
        status = expectation.status
    elif last.get("error") == "MaxTurnsExceeded":
        status = "incomplete"
        assert run["incomplete_details"]["reason"] == "max_turns"
    else:
        status = STATUS.get(last["status"], "failed")
    assert [each.status for each in replayed.rounds] == [
        *(STATUS[each["status"]] for each in pauses),
        status,
    ]
    if status == "failed":
        assert run["error"]["code"]
    elif status == "completed":
        wanted = last.get("final_output") if expectation.output is None else expectation.output
        if isinstance(wanted, str):
            assert run["output"] == wanted
        else:
            assert json.loads(run["output"]) == run["output_parsed"] == wanted
        assert run["error"] is None


def compare_requests(scenario: Scenario, expectation: Expectation, replayed: Replayed) -> None:
    """How often the model was asked, with which tools, and the conversation it was shown."""
    for agent, inputs in scenario["expected"]["model_inputs"].items():
        requests = replayed.requests[agent]
        asked = len(inputs)
        if agent == "main" and expectation.requests is not None:
            asked = expectation.requests
        assert len(requests) == asked
        for request, wanted in zip(requests, inputs, strict=False):
            assert_conversation(request, in_call_order(wanted), expectation)
    choices = scenario["expected"]["tool_choice_seen"]
    shown = scenario["expected"]["tools_seen"]
    main = replayed.requests["main"]
    for request, choice, names in zip(main, choices, shown, strict=False):
        assert request.body.get("tool_choice", "auto") == (choice or "auto")
        own = [name for name in request.tool_names if not name.startswith("transfer_to_")]
        assert sorted(own) == sorted(names)


def in_call_order(entries: list[Any]) -> list[Any]:
    """The oracle lists results in the order in which they came."""
    order = [entry["call"]["id"] for entry in entries if "call" in entry]
    found = list(entries)
    slots = [at for at, entry in enumerate(entries) if "output" in entry]
    results = sorted((entries[at] for at in slots), key=lambda it: order.index(it["output"]["id"]))
    for at, entry in zip(slots, results, strict=True):
        found[at] = entry
    return found


def assert_conversation(request: ModelRequest, wanted: list[Any], expectation: Expectation) -> None:
    seen = list(entries_of(request))
    assert [next(iter(entry)) for entry in seen] == [next(iter(entry)) for entry in wanted]
    for entry, want in zip(seen, wanted, strict=True):
        match want:
            case {"call": {"id": call_id, "name": name, "arguments": raw}}:
                call = entry["call"]
                assert (call["id"], call["function"]["name"]) == (call_id, name)
                upstream = json.loads(call["function"]["arguments"])
                assert upstream in (as_object(raw), {} if call_id in expectation.errors else None)
            case {"output": {"id": call_id, "value": value}}:
                assert entry["output"][0] == call_id
                assert_text(expectation.results.get(call_id, Exactly(value)), entry["output"][1])
            case _:
                assert entry == want


def entries_of(request: ModelRequest) -> Iterator[dict[str, Any]]:
    for message in request.messages:
        match message["role"]:
            case "tool":
                yield {"output": (message["tool_call_id"], content_text(message["content"]))}
            case "assistant":
                text = content_text(message.get("content"))
                yield from [{"text": text}] if text else []
                yield from ({"call": call} for call in message.get("tool_calls", []))
            case role:
                yield {role: content_text(message["content"])}


def as_object(raw: str) -> Any:
    try:
        value = json.loads(raw)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def assert_text(wanted: Wanted, text: str) -> None:
    assert wanted.holds(text), f"{text!r} is not {wanted}"


def compare_results(scenario: Scenario, expectation: Expectation, replayed: Replayed) -> None:
    """Results by call id in the last upstream request, and which of them are errors."""
    results = dict(replayed.requests["main"][-1].results) if replayed.requests["main"] else {}
    if len(replayed.requests["main"]) > 1:
        for call_id, wanted in expectation.results.items():
            [made, *_] = results  # the only call, where its id was made by Runward
            assert_text(wanted, results[made if call_id == "*" else call_id])
    is_error = {
        item["call_id"]: item["is_error"]
        for item in replayed.items
        if item.get("type") == "tool_result"
    }
    for call_id in expectation.errors:
        assert is_error[call_id] is True
    for call_id in {hit.call_id for hit in replayed.hits} - set(expectation.errors):
        if scenario["expected"]["rounds"][-1]["status"] == "completed":
            assert is_error[call_id] is False


def test_every_scenario_is_either_replayed_or_listed_as_not_yet() -> None:
    groups = Counter(group(scenario) for scenario in scenarios())
    replayed = {name: count for name, count in groups.items() if name not in LATER}
    assert sum(groups.values()) == 67
    assert sum(replayed.values()) == 67 - sum(groups[name] for name in LATER)
    assert sum(replayed.values()) >= 51


def test_every_meant_difference_belongs_to_a_scenario_and_gives_a_reason() -> None:
    by_id = {scenario["id"]: scenario for scenario in scenarios()}
    assert set(EXPECTATIONS) <= set(by_id)
    assert all(len(expectation.reason) > 20 for expectation in EXPECTATIONS.values())
    choices = {each["id"] for each in by_id.values() if each["policy"] == "choice"}
    assert choices - set(EXPECTATIONS) == set(), "every choice has to say what was chosen"
