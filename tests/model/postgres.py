"""The operations of the model on PostgreSQL, through `runward.store`."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final, cast
from uuid import UUID

from runward.domain.errors import AppError
from runward.domain.events.kinds import RunStartedEvent
from runward.domain.ids import ApprovalId, CallId, RunId
from runward.domain.run.decisions import Decision
from runward.domain.run.items import Message
from runward.domain.run.state import Call, Changes, RunState
from runward.domain.run.status import RunStatus
from runward.domain.run.tools import CompiledTool
from runward.store.access.vault import CallRef
from runward.store.postgres.db import Tx
from runward.store.registry import tool_registry
from runward.store.runs import client_results, decisions, queries, queue, sweep, transitions
from runward.store.runs.gate import Step, StepOutcome
from runward.store.runs.queue import HeldLease, NewRun
from tests.db.store import APPROVER, Store
from tests.model.operations import Operation, Refused
from tests.model.rows import PROJECT, RunRow, Tools

LEASE: Final = timedelta(hours=1)
_PAST: Final = "clock_timestamp() - interval '1 second'"


class Postgres:
    """`vault` has the tools' versions; those that are current are registered."""

    def __init__(self, store: Store, vault: Mapping[tuple[str, int], CompiledTool]) -> None:
        self._store = store
        self._vault = vault
        self._tools: dict[str, int] = {}
        self._uuids: dict[tuple[RunId, CallId], UUID] = {}

    async def begin(self, root: RunRow, tools: Tools) -> None:
        """An empty database with this run."""
        records = "run_events, run_items, tool_calls"
        await self._store.sql(f"TRUNCATE projects, tools, runs, {records} CASCADE")
        await self._store.sql("INSERT INTO projects (id, name) VALUES (:id, 'default')", id=PROJECT)
        await self.register(tools)
        changes = Changes()
        changes.add(RunStartedEvent({}))
        changes.segments += root.segments
        new = NewRun(RunState(PROJECT, root.id, root.agent, root.config), changes)
        [result] = await self._store.acceptor.write([new])
        assert not isinstance(result, BaseException), result

    async def register(self, tools: Tools) -> None:
        """Have just these tools, in these versions."""
        for name, tool in tools.items():
            if self._tools.get(name) == tool.version:
                continue
            async with self._store.pool.begin() as tx:
                found = await tool_registry.get_tool(tx, PROJECT, name)
                vault = self._store.vault
                if found is None:
                    await tool_registry.add_tool(tx, vault, PROJECT, tool.spec, "whsec_secret")
                else:
                    await tool_registry.update_tool(tx, vault, PROJECT, found, tool.spec)
            self._tools[name] = tool.version
        for name in [one for one in self._tools if one not in tools]:
            async with self._store.pool.begin() as tx:
                await tool_registry.delete_tool(tx, PROJECT, name)
            del self._tools[name]

    async def perform(self, operation: Operation) -> Any:
        """Do it. Returns the answer."""
        act = cast("Callable[..., Awaitable[Any]]", getattr(self, _METHODS[operation.name]))
        try:
            return await act(*operation.arguments)
        except AppError as error:
            return Refused(error.code)

    # Of a worker.

    async def claim(self, run_id: RunId) -> RunState:
        oldest = "UPDATE runs SET available_at = available_at - interval '1 hour' WHERE id = :id"
        await self._store.sql(oldest, id=run_id)
        async with self._store.autocommit.connect() as tx:
            claimed = await queue.claim(tx, 1, LEASE)
        [state] = claimed.states
        assert state.id == run_id
        return state

    async def step(self, step: Step, write_id: int) -> StepOutcome:
        """Both of the statements are used: the one for batches, and the one for a step alone."""
        writer = self._store.writer
        writer._lease = LEASE  # pyright: ignore[reportPrivateUsage]
        alone = step.related is not None or write_id % 2 == 0
        send = writer._send_in_transaction if alone else writer._send_on_own_connection  # pyright: ignore[reportPrivateUsage]
        id_ = UUID(int=write_id)
        written = (await send([(step, id_)]))[id_]
        assert written is not None
        return written

    async def load(self, run_id: RunId, fence: int) -> RunState | None:
        async with self._store.pool.connect() as tx:
            found = await queries.load(tx, PROJECT, run_id)
        assert found is not None
        held = found[0] is RunStatus.IN_PROGRESS and found[1].fence == fence
        return found[1] if held else None

    async def renew(self, run_id: RunId, fence: int) -> bool:
        return not await self._in(lambda tx: sweep.renew_leases(tx, LEASE, [_held(run_id, fence)]))

    async def forgive(self, run_id: RunId, fence: int) -> None:
        await self._in(lambda tx: sweep.revert_claims(tx, [_held(run_id, fence)]))

    async def cancel_below(self, run_id: RunId) -> None:
        await self._in(lambda tx: transitions.cancel_descendants(tx, PROJECT, run_id))

    # Of a sweep.

    async def free(self, run_id: RunId) -> None:
        assert await self._in(sweep.free_expired_leases) == [run_id]

    async def quarantine(self, run_id: RunId) -> Any:
        return await self._in(lambda tx: transitions.quarantine(tx, PROJECT, run_id))

    async def expire_run(self, run_id: RunId) -> Any:
        return await self._in(lambda tx: transitions.expire_run(tx, PROJECT, run_id))

    async def expire_approval(self, approval_id: ApprovalId) -> Any:
        return await self._in(lambda tx: transitions.expire_approval(tx, PROJECT, approval_id))

    async def expire_answer(self, run_id: RunId, call_id: CallId) -> Any:
        vault = self._store.vault
        return await self._in(
            lambda tx: transitions.expire_callback(tx, vault, PROJECT, run_id, call_id)
        )

    # Of others.

    async def decide(self, approval_id: ApprovalId, decision: Decision) -> str:
        vault = self._store.vault
        decided = await self._in(
            lambda tx: decisions.decide(tx, vault, APPROVER, approval_id, decision)
        )
        return decided.status

    async def call_back(self, run_id: RunId, call_id: CallId, attempt: int, said: Any) -> Any:
        vault, call = self._store.vault, await self._call(run_id, call_id)
        ref = CallRef(PROJECT, run_id, call.uuid, attempt)
        return await self._in(lambda tx: transitions.take_callback(tx, vault, ref, said))

    async def give(self, run_id: RunId, call_id: CallId, said: Any) -> None:
        vault = self._store.vault
        await self._in(
            lambda tx: client_results.submit_result(tx, vault, PROJECT, run_id, call_id, said)
        )

    async def resolve(self, run_id: RunId, call_id: CallId, how: Any) -> None:
        vault = self._store.vault
        await self._in(
            lambda tx: transitions.resolve_call(tx, vault, PROJECT, run_id, call_id, how)
        )

    async def cancel(self, run_id: RunId, after_turn: bool) -> None:  # noqa: FBT001
        await self._in(lambda tx: transitions.cancel(tx, PROJECT, run_id, after_turn=after_turn))

    async def add_input(self, run_id: RunId) -> None:
        said = [Message("user", "By the way.")]
        await self._in(lambda tx: transitions.add_input(tx, PROJECT, run_id, said))

    # Of time.

    async def end_lease(self, run_id: RunId) -> None:
        await self._store.sql(
            f"UPDATE runs SET lease_expires_at = {_PAST} WHERE id = :id", id=run_id
        )

    async def pass_deadline(self, run_id: RunId) -> None:
        await self._store.sql(f"UPDATE runs SET deadline_at = {_PAST} WHERE id = :id", id=run_id)

    async def pass_approval(self, approval_id: ApprovalId) -> None:
        await self._store.sql(
            f"UPDATE approvals SET expires_at = {_PAST} WHERE id = :id", id=approval_id
        )

    async def pass_answer(self, run_id: RunId, call_id: CallId) -> None:
        await self._store.sql(
            f"UPDATE tool_calls SET deadline_at = {_PAST} WHERE run_id = :run AND call_id = :call",
            run=run_id,
            call=call_id,
        )

    # The rows.

    async def rows(self) -> list[Any]:
        """What `shown` says of the model's rows, of the tables."""
        found: list[Any] = []
        for row in await self._store.sql(_RUNS):
            calls = await self._store.sql(_CALLS, id=row.id)
            approvals = await self._store.sql(_APPROVALS, id=row.id)
            kinds = await self._store.sql(_KINDS, id=row.id)
            found.append(
                (
                    tuple(row),
                    [tuple(one) for one in calls],
                    [tuple(one) for one in approvals],
                    [one.kind for one in kinds],
                )
            )
        return found

    async def _in(self, act: Callable[[Tx], Awaitable[Any]]) -> Any:
        async with self._store.pool.begin() as tx:
            return await act(tx)

    async def _call(self, run_id: RunId, call_id: CallId) -> Call:
        return (await self._store.load(run_id)).calls[call_id]


_RUNS: Final = """
SELECT id, status, fence, version, turn, claims, lost_leases,
  CASE WHEN lease_expires_at IS NULL THEN NULL
    WHEN lease_expires_at > clock_timestamp() THEN 'held' ELSE 'expired' END AS lease,
  available_at < 'infinity' AS available, last_write_id, cancel_requested_at IS NOT NULL,
  error ->> 'code' AS error
FROM runs ORDER BY id"""
_CALLS: Final = """
SELECT call_id, id, turn, position, tool, tool_version, phase, attempt, fence, approval_id,
  digest, approved_digest, child_run_id, result ->> 'outcome' AS outcome,
  result ->> 'reason' AS reason, received IS NOT NULL, exchange IS NOT NULL
FROM tool_calls WHERE run_id = :id ORDER BY turn, position"""
_APPROVALS: Final = """
SELECT id, call_id, status, decision ->> 'decision' AS decision FROM approvals
WHERE run_id = :id ORDER BY id"""
_KINDS: Final = "SELECT kind FROM run_items WHERE run_id = :id ORDER BY seq"


def shown(rows: tuple[RunRow, ...]) -> list[Any]:
    """The model's rows, as `Postgres.rows` reads the tables."""
    return [
        (
            (
                row.id,
                row.status,
                row.fence,
                row.version,
                row.turn,
                row.claims,
                row.lost_leases,
                row.lease,
                row.available,
                None if row.last_write is None else UUID(int=row.last_write[0]),
                row.cancel_requested,
                row.error,
            ),
            [_shown_call(one) for one in sorted(row.calls.values(), key=_place)],
            [
                (one.id, one.request.call.id, one.status, one.decision)
                for one in sorted(row.approvals.values(), key=lambda one: one.id)
            ],
            [one.kind for one in row.segments],
        )
        for row in sorted(rows, key=lambda row: row.id)
    ]


def _place(call: Call) -> tuple[int, int]:
    return call.turn, call.position


def _shown_call(call: Call) -> tuple[Any, ...]:
    result = call.result
    return (
        call.id,
        call.uuid,
        call.turn,
        call.position,
        call.tool,
        call.version,
        call.phase,
        call.attempt,
        call.fence,
        call.approval_id,
        call.digest,
        call.approved_digest,
        call.child_run_id,
        result.outcome if result else None,
        result.reason if result else None,
        call.received is not None,
        call.exchange is not None,
    )


def _held(run_id: RunId, fence: int) -> HeldLease:
    return HeldLease(PROJECT, run_id, fence)


_METHODS: Final = {
    "claim": "claim",
    "step": "step",
    "load": "load",
    "renew": "renew",
    "forgive": "forgive",
    "cancel below": "cancel_below",
    "free": "free",
    "quarantine": "quarantine",
    "expire run": "expire_run",
    "expire approval": "expire_approval",
    "expire answer": "expire_answer",
    "decide": "decide",
    "call back": "call_back",
    "give": "give",
    "resolve": "resolve",
    "cancel": "cancel",
    "input": "add_input",
    "lease ends": "end_lease",
    "deadline passes": "pass_deadline",
    "approval ends": "pass_approval",
    "answer is late": "pass_answer",
}
