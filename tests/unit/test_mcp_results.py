"""What /mcp says of results and of its clients, where no run is needed to see it."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from runward.api.mcp.calls import MAX_CLIENT, McpRunSession, format_client
from runward.api.mcp.results import build_run_result, output_schema
from runward.domain.ids import RunId
from runward.domain.json import JsonObject
from runward.domain.run.status import RunStatus
from runward.store.runs.views import RunView

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OBJECT: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}}


def run(status: RunStatus, **fields: Any) -> RunView:
    values: dict[str, Any] = dict.fromkeys(RunView.__dataclass_fields__)
    values |= {"id": RunId(UUID(int=1)), "status": status, "config": {}, "created_at": NOW}
    return RunView(**(values | fields))


def test_a_session_is_read_as_it_was_written_and_names_its_requests() -> None:
    session = McpRunSession.begin(
        {"clientInfo": {"name": "ünï", "version": "1"}, "capabilities": {"elicitation": {}}}
    )
    assert McpRunSession.parse(str(session)) == session
    assert str(session).isascii()
    assert session.name_request(1) == session.name_request(1)
    assert (
        len(
            {
                session.name_request(1),
                session.name_request("1"),
                McpRunSession.begin({}).name_request(1),
            }
        )
        == 3
    )


@pytest.mark.parametrize("text", [None, "", "x", "é", "0.", "0" * 32 + ".w", "0" * 32 + "./w=="])
def test_what_is_no_session_of_ours_is_none(text: str | None) -> None:
    assert McpRunSession.parse(text) is None


def test_a_client_is_its_name_and_version_cut_to_a_sane_length() -> None:
    assert format_client({"name": "a", "version": "1"}) == "a/1"
    assert format_client({"name": "a"}) == "a"
    assert format_client({"name": "a" * 500, "version": "1"}) == "a" * MAX_CLIENT
    assert format_client({"version": "1"}) is None
    assert format_client(None) is None


def test_a_declared_result_is_an_object_or_what_runward_says_itself() -> None:
    declared = output_schema({**OBJECT, "$defs": {"a": {"$ref": "#/$defs/a"}}})
    assert declared is not None
    assert declared["type"] == "object"
    assert declared["$defs"] == {"a": {"$ref": "#/$defs/a"}}
    assert declared["anyOf"][0] == OBJECT  # pyright: ignore


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {"type": "string"},
        {},
        {**OBJECT, "properties": {"again": {"$ref": "#"}}},
        {**OBJECT, "items": [{"$ref": "#/properties/n"}]},
        {**OBJECT, "$id": "https://schemas.example/n"},
    ],
)
def test_a_schema_that_cannot_be_moved_or_is_no_object_is_not_declared(
    schema: JsonObject | None,
) -> None:
    assert output_schema(schema) is None


def test_a_run_that_ended_without_a_result_says_why() -> None:
    stopped = run(
        RunStatus.INCOMPLETE,
        incomplete_details={"reason": "max_turns", "message": "Too many turns."},
        output="So far: 3.",
    )
    result = build_run_result(stopped, ())
    assert result["isError"] is True
    assert result["content"] == [
        {
            "type": "text",
            "text": "The run ended with status incomplete: Too many turns.\nSo far: 3.",
        }
    ]
    assert build_run_result(run(RunStatus.EXPIRED), ())["content"] == [
        {"type": "text", "text": "The run ended with status expired."}
    ]


def test_an_agent_s_object_wins_over_its_text() -> None:
    done = run(RunStatus.COMPLETED, output='{"n":1}', output_parsed={"n": 1})
    result = build_run_result(done, ())
    assert result["structuredContent"] == {"n": 1}
    assert result["content"] == [{"type": "text", "text": '{"n":1}'}]
    plain = build_run_result(run(RunStatus.COMPLETED, output="done"), (), declared=True)
    assert plain["structuredContent"]["runward"]["output"] == "done"  # pyright: ignore
