"""The store on a database of the test's own: runs to write, and eyes that look past the store."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID, uuid4

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from runward.domain.events.base import NewEvent
from runward.domain.ids import ApprovalId, KeyId, RunId
from runward.domain.registry.scopes import Principal
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.config import AgentConfig
from runward.domain.run.items import Message
from runward.domain.run.parsed_calls import Turn
from runward.domain.run.response import ModelResponse, RequestedCall
from runward.domain.run.settle import conclude, start
from runward.domain.run.state import Changes, RunState, Segment, SegmentKind
from runward.domain.run.status import Move
from runward.domain.run.tools import CompiledTool, compile_tool
from runward.store.access import keys
from runward.store.access.keys import DEFAULT_PROJECT
from runward.store.access.vault import DataKey, Vault
from runward.store.postgres.db import Tx, mint, open_database
from runward.store.registry import tool_registry
from runward.store.runs import queries, queue
from runward.store.runs.gate import Committed, Ending, FlushResult, Step, StepOutcome
from runward.store.runs.queue import NewRun
from runward.store.runs.writers import AcceptWriter, StepWriter
from tests.unit.domain_cases import take_response

PROJECT: Final = DEFAULT_PROJECT
LEASE: Final = timedelta(seconds=30)
MODEL: Final = "offline:rules"
APPROVER: Final = Principal(PROJECT, KeyId(UUID(int=1)), "approver", frozenset())
STOPPED_CLOCK: Final = "stopped, pg_catalog, public"
_STOPPED: Final = (
    "RETURNS timestamptz LANGUAGE plpgsql AS $$BEGIN PERFORM pg_advisory_lock_shared(1);"
    " PERFORM pg_advisory_unlock_shared(1); RETURN pg_catalog."
)
CALLS_OF_PAY: Final = tuple(f"c{n}" for n in range(1, 4))


def with_option(url: str, option: str) -> str:
    """Return the URL of the database with a setting of each connection: `name=value`."""
    return f"{url}{'&' if '?' in url else '?'}options={quote('-c' + option)}"


class Store:
    """`writer` is one worker's; a second worker is `new_writer()`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = open_database(url, pool_size=24)
        self.pool = self.database.pool
        self.autocommit = self.pool.execution_options(isolation_level="AUTOCOMMIT")
        self.vault = Vault(DataKey(b"", b"k" * 32))
        self.own_backends: set[int] = set()
        self._writers: list[StepWriter] = []
        self.writer = self.new_writer()
        self.acceptor = AcceptWriter(self.pool, LEASE)

    async def open(self) -> None:
        async with self.pool.begin() as tx:
            await keys.ensure_default_project(tx)

    async def close(self) -> None:
        for writer in self._writers:
            await writer.close()
        await self.acceptor.close()
        await self.database.close()

    def new_writer(self, *, lease: timedelta = LEASE) -> StepWriter:
        writer = StepWriter(self.pool, lease, self.own_backends)
        self._writers.append(writer)
        return writer

    # Runs.

    async def accept(self, count: int = 1, *, lease: bool = False, **config: Any) -> list[RunId]:
        """In this order; `config` over the model alone."""
        asked = AgentConfig.model_validate({"model": MODEL, **config}, strict=False)
        batch = [new_run(asked, lease=lease) for _ in range(count)]
        for result in await self.acceptor.write(batch):
            assert not isinstance(result, BaseException), result
        return [new.id for new in batch]

    async def claim(self, count: int = 100, lease: timedelta = LEASE) -> list[RunState]:
        async with self.autocommit.connect() as tx:
            claimed = await queue.claim(tx, count, lease)
        assert claimed.unreadable == []
        return claimed.states

    async def leased(self, *, lease: timedelta = LEASE, **config: Any) -> RunState:
        """A run of its own that somebody works on."""
        [run_id] = await self.accept(**config)
        [state] = [one for one in await self.claim(1, lease) if one.id == run_id]
        return state

    async def load(self, run_id: RunId) -> RunState:
        async with self.pool.connect() as tx:
            found = await queries.load(tx, PROJECT, run_id)
        assert found is not None
        return found[1]

    async def waiting(self, *calls: RequestedCall, **tool: Any) -> RunState:
        """A parked run whose calls of `pay` all wait for approval."""
        state = await self.asked(*(calls or [pay(id_) for id_ in CALLS_OF_PAY]), **tool)
        await self.park(state)
        return await self.load(state.id)

    async def asked(self, *calls: RequestedCall, **tool: Any) -> RunState:
        """A leased run whose model has just asked for these calls, and that is written."""
        armed = await self.register(**({"approval": "always"} | tool))
        state = await self.leased(tools=[armed.name])
        state, changes = taken(state, armed, *calls)
        await self.committed(step(state, changes=changes))
        return state

    async def started(self, *calls: RequestedCall, **tool: Any) -> RunState:
        """A leased run whose calls have been sent."""
        state = await self.asked(*calls, **({"approval": "never"} | tool))
        changes = Changes()
        for call in state.open_calls:
            state, _ = start(state, changes, call, seconds=30)
        await self.committed(step(state, changes=changes, seen=state.version))
        return state

    async def park(self, state: RunState) -> None:
        await self.committed(
            step(state, "run.waiting", seen=state.version, ending=Ending(Move.PARK))
        )

    async def conclude(self, state: RunState, verdict: Any) -> RunState:
        """All open calls get this verdict, and that is written."""
        changes = Changes()
        for call in state.open_calls:
            state = conclude(state, changes, call, verdict)
        await self.committed(step(state, changes=changes))
        return state

    async def register(self, **fields: Any) -> CompiledTool:
        """The tool `pay`, unless `fields` name another; a new version where they differ."""
        spec = ToolSpec.model_validate({**PAY, **fields}, strict=False)
        async with self.pool.begin() as tx:
            found = await tool_registry.get_tool(tx, PROJECT, spec.name)
            if found is None:
                found = await tool_registry.add_tool(tx, self.vault, PROJECT, spec, "whsec_secret")
            elif found.spec != spec:
                found = await tool_registry.update_tool(tx, self.vault, PROJECT, found, spec)
        assert found is not None
        return compile_tool(found.spec, found.version)

    # Writing.

    async def write(self, *steps: Step, writer: StepWriter | None = None) -> list[StepOutcome]:
        """As one flush."""
        results = await (writer or self.writer).write(steps)
        return [await settled(result) for result in results]

    async def committed(self, one: Step) -> Committed:
        [written] = await self.write(one)
        assert isinstance(written, Committed), written
        return written

    @asynccontextmanager
    async def locked(self, run_id: RunId) -> AsyncGenerator[Tx]:
        """Somebody else's transaction that holds the run; it commits at the end."""
        async with self.pool.begin() as tx:
            assert await queries.lock_and_load(tx, PROJECT, run_id) is not None
            yield tx

    async def bump(self, tx: Tx, run_id: RunId, *types: str) -> int:
        """What the API does: lock, decide, change. Returns the number of the last event."""
        found = await queries.lock_and_load(tx, PROJECT, run_id)
        assert found is not None
        last_seq, _ = await queries.change_run(tx, found[1], events(*types))
        return last_seq

    # Looking.

    async def sql(self, statement: str, **values: Any) -> Sequence[Row[Any]]:
        async with self.autocommit.connect() as tx:
            result = await tx.execute(text(statement), values)
            return result.all() if result.returns_rows else []

    async def value(self, statement: str, **values: Any) -> Any:
        [row] = await self.sql(statement, **values)
        return row[0]

    async def head(self, run_id: UUID) -> Row[Any]:
        [row] = await self.sql("SELECT * FROM runs WHERE id = :id", id=run_id)
        return row

    async def log(self, run_id: UUID) -> list[str]:
        """The types of the run's events; their numbers are 1 to n, and n is the head row's."""
        rows = await self.sql(
            "SELECT seq, type FROM run_events WHERE run_id = :id ORDER BY seq", id=run_id
        )
        assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
        assert (await self.head(run_id)).last_seq == len(rows)
        return [row.type for row in rows]

    async def phases(self, run_id: UUID) -> dict[str, str]:
        rows = await self.sql(
            "SELECT call_id, phase FROM tool_calls WHERE run_id = :id ORDER BY position", id=run_id
        )
        return {row.call_id: row.phase for row in rows}

    async def pending(self, run_id: UUID) -> list[ApprovalId]:
        rows = await self.sql(
            "SELECT id FROM approvals WHERE run_id = :id AND status = 'pending' ORDER BY id",
            id=run_id,
        )
        return [ApprovalId(row.id) for row in rows]

    async def until_blocked(self, count: int = 1) -> None:
        """Until so many sessions of this database wait for a lock of another."""
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND cardinality(pg_blocking_pids(pid)) > 0"
        )
        await self.until(waiting, count)

    async def until(self, statement: str, wanted: Any = True, **values: Any) -> None:
        """Asks the database again and again."""

        async def holds() -> bool:
            return await self.value(statement, **values) == wanted

        await until(holds)

    @asynccontextmanager
    async def stopped_clock(self) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
        """Whoever's search_path is STOPPED_CLOCK waits wherever a statement asks for the time,
        until `go_on`: behind the statement's snapshot, before it has locked a row."""
        async with self.pool.begin() as tx:  # at once, or a plan finds the schema without its clock
            await tx.execute(text("CREATE SCHEMA stopped"))
            for name in ("clock_timestamp", "statement_timestamp"):
                await tx.execute(
                    text(f"CREATE FUNCTION stopped.{name}() {_STOPPED}{name}(); END$$")
                )
        async with self.autocommit.connect() as clock:
            await clock.execute(text("SELECT pg_advisory_lock(1)"))

            async def go_on() -> None:
                await clock.execute(text("SELECT pg_advisory_unlock(1)"))

            yield go_on

    async def terminate(self, pid: int) -> None:
        await self.sql("SELECT pg_terminate_backend(:pid)", pid=pid)


PAY: Final[dict[str, Any]] = {
    "name": "pay",
    "url": "https://tools.example/pay",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {"amount": {"type": "integer"}},
        "additionalProperties": False,
    },
}


def new_run(config: AgentConfig, *, lease: bool = False, **fields: Any) -> NewRun:
    changes = events("run.created", *(["run.started"] if lease else []))
    changes.segments.append(Segment(SegmentKind.INPUT, 0, None, (Message("user", "go"),)))
    own = {
        name: fields.pop(name) for name in ("metadata", "idempotency", "waits") if name in fields
    }
    state = RunState(PROJECT, RunId(mint()), None, config, created_by=uuid4())
    return NewRun(replace(state, **fields), changes, lease=lease, **own)


def pay(id_: str, amount: int = 7) -> RequestedCall:
    return RequestedCall(id_, "pay", f'{{"amount": {amount}}}')


def taken(state: RunState, tool: CompiledTool, *calls: RequestedCall) -> tuple[RunState, Changes]:
    turn = Turn({tool.name: tool}, mint)
    return take_response(state, ModelResponse.of("", calls), turn)


def events(*types: str) -> Changes:
    changes = Changes()
    for type_ in types:
        changes.add(_make_event(type_))
    return changes


def _make_event(type_: str) -> NewEvent[Any]:
    """An event of any type, so that tests can name their steps."""

    class NamedEvent(NewEvent[Any], type=type_):
        pass

    return NamedEvent({})


def step(
    state: RunState,
    *types: str,
    seen: int | None = None,
    ending: Ending | None = None,
    changes: Changes | None = None,
) -> Step:
    """`changes`, and events of these types."""
    changes = changes or Changes()
    changes.events += events(*types).events
    return Step(
        project_id=state.project_id,
        run_id=state.id,
        fence=state.fence,
        changes=changes,
        expected_version=seen,
        turn=state.turn,
        usage=state.usage,
        ending=ending,
    )


async def settled(result: FlushResult[StepOutcome]) -> StepOutcome:
    """Raises what the step was refused with."""
    if isinstance(result, asyncio.Task):
        return await result
    if isinstance(result, BaseException):
        raise result
    return result


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await holds():
            await asyncio.sleep(0.002)


async def backend(connection: AsyncConnection) -> int:
    return (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one()
