"""The status table: which moves there are, and where they end."""

import pytest

from runward.domain.run.status import (
    MOVES,
    TERMINAL,
    WAIT_ENDING,
    Move,
    RunStatus,
)


def test_every_move_is_an_edge_of_the_table() -> None:
    assert set(MOVES) == set(Move)
    assert all(edge.sources for edge in MOVES.values())


@pytest.mark.parametrize("move", Move)
def test_nothing_leaves_a_terminal_status(move: Move) -> None:
    assert not MOVES[move].sources & TERMINAL


def test_only_a_worker_s_claim_makes_a_run_in_progress() -> None:
    into = [move for move in Move if MOVES[move].target is RunStatus.IN_PROGRESS]
    assert into == [Move.CLAIM]
    assert MOVES[Move.CLAIM].sources == {RunStatus.QUEUED}


def test_a_waiting_run_must_be_queued_before_anybody_works_on_it() -> None:
    out = {move for move in Move if RunStatus.REQUIRES_ACTION in MOVES[move].sources}
    assert out == {Move.WAKE, Move.CANCEL, Move.EXPIRE}
    assert MOVES[Move.WAKE].target is RunStatus.QUEUED


def test_every_status_can_be_reached_and_every_open_one_can_be_left() -> None:
    reached = {RunStatus.QUEUED}
    while more := {edge.target for edge in MOVES.values() if edge.sources & reached} - reached:
        reached |= more
    assert reached == set(RunStatus)
    left = {status for edge in MOVES.values() for status in edge.sources}
    assert left == set(RunStatus) - TERMINAL


@pytest.mark.parametrize("status", [status for status in RunStatus if status not in TERMINAL])
def test_an_open_run_can_be_cancelled(status: RunStatus) -> None:
    assert status in MOVES[Move.CANCEL].sources


def test_a_run_that_is_worked_on_does_not_expire() -> None:
    """Its deadline ends it as `incomplete` then, once what is in flight has come back."""
    assert RunStatus.IN_PROGRESS not in MOVES[Move.EXPIRE].sources


def test_a_caller_who_waits_is_let_go_when_nothing_goes_on_by_itself() -> None:
    assert set(RunStatus) - WAIT_ENDING == {RunStatus.QUEUED, RunStatus.IN_PROGRESS}
