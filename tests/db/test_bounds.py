"""What models and tools return, as it is stored and read back."""

from collections.abc import Awaitable, Callable
from random import Random
from string import ascii_letters
from typing import Any, Final, TypeAlias

import pytest
from pydantic_core import from_json
from sqlalchemy import text

from runward.api.runs.request_models import StartRun
from runward.api.runs.resolution import ResolvedAgent
from runward.api.runs.start import build_new_run
from runward.domain.errors import ConflictError
from runward.domain.ids import CallId
from runward.domain.run import bounds
from runward.domain.run.decisions import EditDecision
from runward.domain.run.items import HostedCall, MediaPart, Message, Native, Reasoning, TextPart
from runward.domain.run.outcomes import Done, Outcome
from runward.domain.run.plan import UnusableResponseError
from runward.domain.run.resolve import CallbackCompleted, CallbackInputRequired
from runward.domain.run.response import ModelResponse, Output, RequestedCall, Usage
from runward.domain.run.settle import AwaitCallback, AwaitResult, classify_outcome, conclude
from runward.domain.run.state import CallOutcome, CallPhase, Changes, RunState
from runward.store.access.vault import CallRef, Vault
from runward.store.postgres.db import Tx
from runward.store.runs import client_results, continuation, decisions, transitions
from tests.db.store import APPROVER, MODEL, PROJECT, Store, step
from tests.unit.domain_cases import take_response, tool, turn_with

LONG_NAME = "".join(Random(1).choices(ascii_letters, k=9000))  # which no index compresses
FOUL = "a\x00b\ud800"
DEEP: Any = from_json("[" * 198 + "]" * 198)

RESPONSES: dict[str, Output] = {
    "reasoning": Reasoning("openai", {"text": FOUL, "deep": [10**5000]}),
    "deep reasoning": Reasoning("openai", {"deep": DEEP}),
    "hosted call": HostedCall("c", FOUL, "k", "openai", {FOUL: FOUL}, FOUL, {FOUL: FOUL}),
    "deep hosted call": HostedCall("c", "n", "k", "openai", {}, DEEP, {}),
    "native": Message("assistant", FOUL, native=Native("openai", {"a": FOUL})),
    "picture": Message("assistant", (TextPart(FOUL), MediaPart("image", url=FOUL))),
    "name": RequestedCall("c1", LONG_NAME, "{}"),
}
OUTCOMES: dict[str, Outcome] = {
    "parts": Done("ok", parts=(TextPart(FOUL), MediaPart("file", data="YQ==", filename=FOUL))),
    "metadata": Done("ok", metadata={"a": FOUL, "b": 10**5000}),
    "deep": Done(DEEP),
    "deep metadata": Done("ok", metadata={"a": DEEP}),
}


@pytest.mark.parametrize("output", RESPONSES.values(), ids=RESPONSES)
async def test_no_response_keeps_a_run_from_being_read(store: Store, output: Output) -> None:
    state = await store.leased()
    usage = Usage(2**63, 2**63)
    try:
        after, changes = take_response(state, ModelResponse((output,), usage=usage), turn_with())
    except UnusableResponseError:
        return
    await store.committed(step(after, changes=changes))
    again = await store.load(state.id)
    assert again.segments == after.segments
    assert again.usage == after.usage


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
async def test_no_result_keeps_a_run_from_being_read_or_a_sibling_from_its_own(
    store: Store, outcome: Outcome
) -> None:
    state = await store.started(
        RequestedCall("c1", "pay", '{"amount":1}'), RequestedCall("c2", "pay", '{"amount":2}')
    )
    first, second = state.open_calls
    changes = Changes()
    for call, one in ((first, outcome), (second, Done("its own"))):
        verdict = classify_outcome(tool(), call, one, seconds_left=0, jitter=0)
        state = conclude(state, changes, call, verdict)
    await store.committed(step(state, changes=changes))
    again = await store.load(state.id)
    assert {call.phase for call in again.calls.values()} == {CallPhase.SETTLED}
    sibling = again.calls[second.id].result
    assert sibling is not None
    assert (sibling.outcome, sibling.output) == (CallOutcome.COMPLETED, "its own")


async def test_a_run_that_is_read_knows_how_much_it_holds(store: Store) -> None:
    state = await store.leased()
    said = "x" * 10_000
    response = ModelResponse((Message("assistant", said),))
    after, changes = take_response(state, response, turn_with())
    await store.committed(step(after, changes=changes))
    assert (await store.load(state.id)).stored_bytes >= state.stored_bytes + len(said)


async def test_a_full_run_takes_no_message_and_nothing_goes_on_from_it_with_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MAX_RUN_BYTES", 20_000)
    state = await store.waiting()
    said = (Message("user", "x" * 9_000),)
    async with store.pool.begin() as tx:
        await transitions.add_input(tx, PROJECT, state.id, said)
    with pytest.raises(ConflictError, match="would exceed the limit"):
        async with store.pool.begin() as tx:
            await transitions.add_input(tx, PROJECT, state.id, said * 2)
    assert (await store.log(state.id)).count("input.received") == 1
    async with store.pool.begin() as tx:
        stopped = "UPDATE runs SET status = 'incomplete', ended_at = now(), incomplete_details"
        await tx.execute(
            text(f"{stopped} = '{{\"reason\": \"deadline\"}}' WHERE id = '{state.id}'")
        )
        with pytest.raises(ConflictError, match="would exceed the limit"):
            await continuation.prepare(tx, PROJECT, state.id, turns=None, messages=said * 2)
    asked = StartRun(input="", model=MODEL)
    with pytest.raises(ConflictError, match="would exceed the limit"):
        build_new_run(
            APPROVER, asked, ResolvedAgent(asked.to_config()), said * 3, continued_from=state.id
        )


C1: Final = CallId("c1")
LARGE: Final = "x" * 5000
COMPLETED: Final = CallbackCompleted(status="completed", output=LARGE)


def _edit(tx: Tx, vault: Vault, state: RunState) -> Awaitable[object]:
    approval = state.calls[C1].approval_id
    assert approval is not None
    edit = EditDecision(decision="edit", arguments={"amount": 1, "note": LARGE})
    return decisions.decide(tx, vault, APPROVER, approval, edit)


def _result(tx: Tx, vault: Vault, state: RunState) -> Awaitable[object]:
    return client_results.submit_result(
        tx, vault, PROJECT, state.id, C1, COMPLETED, project_has_checks=True
    )


def _callback(tx: Tx, vault: Vault, state: RunState) -> Awaitable[object]:
    ref = CallRef(PROJECT, state.id, state.calls[C1].uuid, 1)
    return transitions.take_callback(tx, vault, ref, COMPLETED, project_has_checks=True)


def _question(tx: Tx, vault: Vault, state: RunState) -> Awaitable[object]:
    ref = CallRef(PROJECT, state.id, state.calls[C1].uuid, 1)
    return transitions.take_callback(tx, vault, ref, asking(LARGE))


def _answer(tx: Tx, vault: Vault, state: RunState) -> Awaitable[object]:
    return client_results.submit_result(tx, vault, PROJECT, state.id, C1, COMPLETED)


def asking(requests: str) -> CallbackInputRequired:
    return CallbackInputRequired(status="input_required", requests=requests)


Send: TypeAlias = Callable[[Tx, Vault, RunState], Awaitable[object]]
WAYS_IN: Final[dict[str, tuple[Any, Send]]] = {
    "edit": (None, _edit),
    "result": (AwaitResult(), _result),
    "callback": (AwaitCallback(), _callback),
    "question": (AwaitCallback(), _question),
    "answer": (AwaitCallback(), _answer),
}


@pytest.mark.parametrize(("waits", "send"), WAYS_IN.values(), ids=WAYS_IN)
async def test_nobody_adds_to_a_run_what_it_has_no_room_for(
    store: Store, monkeypatch: pytest.MonkeyPatch, waits: Any, send: Send
) -> None:
    fields: Any = {"parameters": {"type": "object"}}
    fields |= {"type": "client", "url": None} if isinstance(waits, AwaitResult) else {}
    if waits is None:
        state = await store.waiting(RequestedCall("c1", "pay", "{}"), **fields)
    else:
        state = await store.conclude(
            await store.started(RequestedCall("c1", "pay", "{}"), **fields), waits
        )
    if send is _answer:
        ref = CallRef(PROJECT, state.id, state.calls[C1].uuid, 1)
        async with store.pool.begin() as tx:
            await transitions.take_callback(tx, store.vault, ref, asking("name?"))
    state = await store.load(state.id)
    monkeypatch.setattr(bounds, "MAX_RUN_BYTES", state.stored_bytes + len(LARGE))
    with pytest.raises(ConflictError, match="would exceed the limit"):
        async with store.pool.begin() as tx:
            await send(tx, store.vault, state)
