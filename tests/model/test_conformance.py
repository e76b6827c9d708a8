"""Random walks of the model are repeated on PostgreSQL. The twin must return what SQL returns."""

import random
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import pytest
from sqlalchemy import TextClause, text
from sqlalchemy.exc import DBAPIError

from runward.domain.run.state import RunState
from runward.store.postgres.held_connection import FrequentStatement
from runward.store.runs import gate, queries, queue, sweep
from runward.store.runs.gate import Committed, VersionChanged
from tests.db.store import Store
from tests.model.explore import modeled
from tests.model.operations import Refused, replacing
from tests.model.postgres import Postgres, shown
from tests.model.scopes import SCOPES, Scope
from tests.model.system import System
from tests.model.world import Journal, World

STEPS: Final = 90
SEEDS: Final = 3
MOST_SEEDS: Final = 25
"""Walks until an edit must have been noticed."""


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    store = Store(database_url)
    await store.open()
    yield store
    await store.close()


def walk(scope: Scope, seed: int) -> tuple[Journal, System]:
    """A random path. Steps of the database are preferred to crashes and ends of leases."""
    choose = random.Random(f"{scope.name} {seed}")
    with modeled(scope) as system:
        journal: Journal = []
        system.journal = journal
        world = system.initial()
        for _ in range(STEPS):
            after = _next(system, world, choose)
            if after is None:
                break
            world = after
    return journal, system


def _next(system: System, world: World, choose: random.Random) -> World | None:
    choices = list(system.choices(world))
    return choose.choice(choices)[1]() if choices else None


async def replay(store: Store, scope: Scope, seed: int) -> int:
    """Number of operations. AssertionError: the database did something else."""
    journal, system = walk(scope, seed)
    database = Postgres(store, system.vault)
    await database.begin(scope.root, scope.current)
    for number, (operation, answer, rows, tools) in enumerate(journal):
        await database.register(tools)
        about = f"{scope.name}, seed {seed}, operation {number}: {operation.name}"
        assert told(await database.perform(operation)) == told(answer), about
        assert await database.rows() == shown(rows), about
    return len(journal)


def told(answer: Any) -> Any:
    """What can be compared of an answer: not the time or the numbers of events."""
    match answer:
        case Committed():
            return "committed"
        case VersionChanged(version=version):
            return "moved", version
        case Refused() | bool() | str():
            return answer
        case RunState():
            return (
                (answer.fence, answer.version, answer.turn, answer.cancel_after_turn),
                (answer.segments, answer.calls, answer.children, answer.tool_versions),
            )
        case _:  # the rows say what it did
            return None


@pytest.mark.parametrize("name", SCOPES)
async def test_the_database_does_what_the_model_says(store: Store, name: str) -> None:
    operations = [await replay(store, SCOPES[name], seed) for seed in range(SEEDS)]
    assert sum(operations) > SEEDS


def edited(
    statement: TextClause | FrequentStatement, old: str, new: str
) -> TextClause | FrequentStatement:
    assert old in statement.text, old
    clause = text(statement.text.replace(old, new))
    return clause if isinstance(statement, TextClause) else FrequentStatement(clause)


def of_gate(old: str, new: str) -> Callable[[], list[tuple[Any, str, Any]]]:
    return lambda: [
        (gate, name, edited(getattr(gate, name), old, new)) for name in ("STEP", "STEP_ALONE")
    ]


def of(module: Any, name: str, old: str, new: str) -> Callable[[], list[tuple[Any, str, Any]]]:
    return lambda: [(module, name, edited(getattr(module, name), old, new))]


EDITS: Final = {
    "another fence": ("freeze", of_gate("AND l.fence = s.fence\n", "\n")),
    "an expired lease": ("freeze", of_gate("AND l.lease_expires_at > clock_timestamp()", "")),
    "a write id again": ("commit", of_gate("AND (l.last_write_id IS NULL", "AND (true")),
    "an older version": ("retry", of_gate("AND (s.seen IS NULL OR", "AND (true OR")),
    "no version to compare": ("retry", of_gate("s.seen IS NULL OR ", "")),
    "another claim's write": (
        "freeze",
        of_gate("l.fence = s.fence AND l.last_write_id", "l.last_write_id"),
    ),
    "progress": ("crashes", of_gate("WHEN s.progress THEN 0", "")),
    "a deferred run": (
        "callback",
        of_gate("WHEN s.defers THEN 'infinity'", "WHEN false THEN null"),
    ),
    "closed approvals": ("gate", of(queries, "CHANGE", "a.status = 'pending' OR", "true OR")),
    "an outside change": (
        "retry",
        of(queries, "CHANGE", "version = r.version + 1", "version = r.version"),
    ),
    "a cancel": ("cancel", of(queries, "CHANGE", "CASE WHEN s.fences THEN 1 ELSE 0 END", "0")),
    "a claim's fence": ("freeze", of(queue, "CLAIM", "fence = r.fence + 1,", "fence = r.fence,")),
    "a claim's write id": (
        "crashes",
        of(queue, "CLAIM", "last_write_id = CAST(:mark AS uuid),", ""),
    ),
    "a claim's count": ("crashes", of(queue, "CLAIM", "claims = r.claims + 1,", "")),
    "a freed lease": ("freeze", of(sweep, "_LEASES", "status = 'queued', ", "")),
    "an agent of a function": (
        "agents again",
        of(queue, "CLAIM", "c.child_run_id <= k.id", "c.child_run_id = k.id"),
    ),
    "a crash loop": (
        "callback",
        of(sweep, "_IS_CRASH_LOOP", "lost_leases >=", "true OR lost_leases >="),
    ),
}


@pytest.mark.parametrize("name", EDITS)
async def test_an_edited_statement_is_noticed(store: Store, name: str) -> None:
    scope, edit = EDITS[name]
    with replacing(*edit()), pytest.raises((AssertionError, DBAPIError)):
        for seed in range(MOST_SEEDS):
            await replay(store, SCOPES[scope], seed)
