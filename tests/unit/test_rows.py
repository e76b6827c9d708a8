"""Dataclasses as rows, and the parts of statements that the tables give."""

from dataclasses import fields, replace
from uuid import UUID

import pytest
from pydantic_core import from_json, to_json

from runward.domain.ids import CallId
from runward.domain.run.outcomes import InputRequest
from runward.domain.run.state import Call, CallOutcome, CallPhase, Result
from runward.store import codec
from runward.store.postgres.columns import RowMapping, insert_select, recordset
from runward.store.postgres.tables import approvals, runs, tool_calls

CALL = Call(
    id=CallId("c1"),
    uuid=UUID(int=1),
    turn=1,
    position=0,
    tool="pay",
    version=2,
    arguments={"amount": 7},
    digest="d",
    phase=CallPhase.SETTLED,
    attempt=1,
    original={"amount": 8},
    result=Result(CallOutcome.COMPLETED, {"ok": True}),
    exchange=InputRequest(1, 1, requests=[{"ask": "name"}], state=None),
)
OF_THE_RUN = {"project_id", "run_id", "created_at", "started_at", "deadline_at", "ended_at"}


def test_every_column_of_a_call_is_a_field_or_is_given_by_its_run() -> None:
    assert {*codec.CALL.columns, *OF_THE_RUN} == {column.name for column in tool_calls.c}
    assert len(codec.CALL.columns) == len(fields(Call))


@pytest.mark.parametrize("call", [CALL, replace(CALL, result=None, exchange=None, original=None)])
def test_a_call_is_read_back_from_its_row(call: Call) -> None:
    row = codec.CALL.to_row(call)
    assert tuple(row) == codec.CALL.columns
    assert codec.CALL.from_row(from_json(to_json(row))) == call


def test_a_field_without_a_column_is_refused_when_the_code_is_imported() -> None:
    with pytest.raises(KeyError):
        RowMapping(Call, approvals)
    with pytest.raises(KeyError):
        insert_select(runs, {"no_such_column": "1"})


def test_the_types_of_json_rows_are_those_of_the_table() -> None:
    rows = recordset(runs, "steps", "s", ("id", "tool_names", "cost_usd"), "k int")
    assert rows == (
        "json_to_recordset(CAST(:steps AS json))"
        " AS s(id UUID, tool_names TEXT[], cost_usd DOUBLE PRECISION, k int)"
    )
