"""What the commands decide without a service: a plan, a stream's frames, what is safe to print."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import typer
import typer.core
import typer.main

from runward.__main__ import app
from runward.cli import event_stream, printing
from runward.cli.connection import Runward
from runward.cli.editor import diff_lines
from runward.cli.escaping import escape_line, escape_text
from runward.cli.event_stream import follow_run, parse_frames, split_lines
from runward.cli.plan import AgentSchema, plan_changes
from runward.cli.printing import Columns, format_age, print_table

CONTRACT = AgentSchema(json.loads(Path("openapi/openapi.json").read_text()))


@pytest.mark.processes
def test_the_commands_start_without_the_service_s_libraries() -> None:
    heavy = (
        "fastapi",
        "sqlalchemy",
        "pydantic",
        "asyncpg",
        "structlog",
        "runward.store",
        "runward.api",
    )
    code = f"import sys, runward.__main__; print([one for one in {heavy} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain, ünïcode, 日本語, 🙂", "plain, ünïcode, 日本語, 🙂"),
        ("two\nlines", "two\nlines"),
        ("\x1b[31mred\x1b]0;title\x07", "\\u001b[31mred\\u001b]0;title\\u0007"),
        ("\x9b2J", "\\u009b2J"),
        ("a\u202eb\u2066c", "a\\u202eb\\u2066c"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("no\u3164ink\u2800", "no\\u3164ink\\u2800"),
        ("over\rwritten\ttab", "over\\rwritten\\ttab"),
        ("\U000e0041tag", "\\U000e0041tag"),
        ("line\u2028separator", "line\\u2028separator"),
    ],
)
def test_what_a_terminal_would_obey_or_hide_is_shown_as_an_escape(given: str, shown: str) -> None:
    assert escape_text(given) == shown
    assert "\n" not in escape_line(given)


def test_a_stream_s_frames_are_read_by_the_standard_s_rules() -> None:
    lines = ["retry: 1000", "", ": still here", "id: 7", "event: x", 'data: {"a":', "data:1}", ""]
    lines += ['data: {"transient": true}', "", "id: 8", "", 'data: {"unfinished": 1}']
    assert list(parse_frames(lines)) == [("7", {"a": 1}), (None, {"transient": True})]


def test_a_stream_is_split_at_its_line_ends_alone() -> None:
    """Not at what `str.splitlines` takes for one, which JSON leaves as it is in a text."""
    data = json.dumps({"text": "a\u2028b\u2029c\x85d"}, ensure_ascii=False)
    stream = f"id: 1\r\ndata: {data}\r\n\r\nid: 2\ndata: {{}}\n\n"
    for size in (1, 7, len(stream)):
        chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert list(parse_frames(split_lines(chunks))) == [("1", json.loads(data)), ("2", {})]


class FullService(httpx2.BaseTransport):
    """Has no room for a stream so many times; then it sends the run's last event."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.refusals -= 1
        if self.refusals >= 0:
            problem = {"code": "too_many_requests", "detail": "This key has 20 streams open."}
            return httpx2.Response(429, json=problem, request=request)
        event = json.dumps({"run_id": "run_1", "type": "run.completed"})
        return httpx2.Response(200, text=f"id: 1\ndata: {event}\n\n", request=request)


def followed(refusals: int) -> list[str]:
    with httpx2.Client(base_url="http://x", transport=FullService(refusals)) as http:
        return [event["type"] for event in follow_run(Runward("http://x", http), "run_1")]


def test_a_run_is_followed_as_soon_as_there_is_room_for_a_stream() -> None:
    assert followed(1) == ["run.completed"]


def test_a_run_that_cannot_be_followed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(event_stream, "DELAYS", (0,))
    with pytest.raises(typer.Exit):
        followed(3)
    assert "runward runs watch run_1" in capsys.readouterr().err


def test_a_difference_names_what_was_asked_for_and_what_was_edited() -> None:
    lines = list(diff_lines({"amount": 500, "order": "A"}, {"amount": 400, "order": "A"}))
    assert lines[:2] == ["--- requested", "+++ edited"]
    assert [line for line in lines[2:] if line[0] in "+-"] == [
        '-  "amount": 500,',
        '+  "amount": 400,',
    ]
    assert list(diff_lines({"a": 1}, {"a": 1})) == []


def stored(**fields: Any) -> dict[str, Any]:
    """An agent as Runward shows it: complete, with unset limits as null."""
    whole = CONTRACT.complete(fields)
    whole["limits"] = {"max_tokens": None, **whole["limits"]}
    return {**whole, "name": "desk", "version": 3, "object": "agent"}


def changes(declared: dict[str, Any], former: dict[str, Any] | None) -> dict[str, tuple[Any, Any]]:
    [step] = plan_changes([{"name": "desk", **declared}], {"desk": former}, CONTRACT)
    return {one.field: (one.before, one.after) for one in step.changes}


def test_a_new_agent_is_created_with_what_the_file_says_alone() -> None:
    [step] = plan_changes([{"name": "desk", "model": "offline:rules"}], {"desk": None}, CONTRACT)
    assert step.action == "create"
    assert step.as_json()["changes"] == [
        {"field": "model", "before": None, "after": "offline:rules"}
    ]


def test_a_field_that_the_file_leaves_out_goes_back_to_its_default() -> None:
    former = stored(model="offline:rules", instructions="Be brief.", tools=["refund"])
    assert changes({"model": "offline:rules", "tools": ["refund"]}, former) == {
        "instructions": ("Be brief.", "")
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"limits": {"max_turns": 5}},
        {"limits": {"max_turns": 5, "max_tokens": None}},
        {"tool_choice": {"name": "refund"}},
        {"tool_use_behavior": {"stop_at": ["refund"]}},
        {"on_max_turns": {"output": "Ask again."}},
        {"model": ["offline:rules", "openai:x"]},
        {"model_settings": {"temperature": 0.5, "reasoning": {"effort": "low"}}},
        {"guardrails": [{"stage": "run_input", "type": "webhook", "url": "https://a.example/g"}]},
        {"hooks": [{"on": "before_tool", "type": "plugin", "name": "check"}]},
        {"output_schema": {"type": "object", "properties": {"limits": {"type": "null"}}}},
        {"metadata": {"team": None}},
    ],
)
def test_what_is_there_already_is_unchanged(fields: dict[str, Any]) -> None:
    assert changes(fields, stored(**fields)) == {}


def test_a_changed_field_is_shown_whole_with_its_defaults() -> None:
    found = changes({"limits": {"max_turns": 5}}, stored(limits={"max_turns": 6}))
    assert {name: (old["max_turns"], new["max_turns"]) for name, (old, new) in found.items()} == {
        "limits": (6, 5)
    }
    assert found["limits"][1]["max_tool_calls"] == 200


def test_a_field_that_no_agent_has_is_named_with_those_there_are() -> None:
    [problem] = CONTRACT.problems({"name": "desk", "modell": "x"})
    assert problem.startswith("Agent desk: the field 'modell' does not exist. The fields are: ")
    assert list(CONTRACT.problems({"model": "x"})) == [
        "An agent has no name. Add the field `name`."
    ]


def commands(group: typer.core.TyperGroup, *names: str) -> Iterator[tuple[str, Any]]:
    """All that there are, with the words that they are called by."""
    for name, command in group.commands.items():
        yield " ".join([*names, name]), command
        if isinstance(command, typer.core.TyperGroup):
            yield from commands(command, *names, name)


def parsed(group: typer.core.TyperGroup, words: list[str]) -> None:
    """Raises UsageError; runs nothing."""
    command: Any = group
    context = None
    while isinstance(command, typer.core.TyperGroup):
        found, command, words = command.resolve_command(typer.Context(command), words)
        assert command is not None, found
    context = command.make_context("example", words)
    assert context is not None


def test_every_example_in_the_help_is_understood() -> None:
    """What a shell would make of it first, is taken off: a variable, and where input comes from."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    seen = 0
    for _, command in [("", group), *commands(group)]:
        for line in (command.epilog or "").replace("\\[", "[").splitlines():
            if "runward " in line:
                bare = re.sub(r"^\s*\w+=\$\((.*)\)$", r"\1", line).partition(" < ")[0]
                parsed(group, shlex.split(bare)[1:])
                seen += 1
    assert seen > 15


def test_every_command_says_in_a_line_what_it_does() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    for name, command in commands(group):
        first = (command.help or "").partition("\n\n")[0]
        assert first.endswith("."), name
        assert len(" ".join(first.split())) <= 80, name


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-90, "1 min ago"), (-7300, "2 h ago"), (90_000, "in 1 d")],
)
def test_times_in_tables_are_as_people_say_them(seconds: int, said: str) -> None:
    now = datetime.now(UTC)
    moment = now + timedelta(seconds=seconds)
    assert format_age(moment.isoformat()) == said


def test_a_narrow_terminal_breaks_no_id_and_no_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "PIPED_WIDTH", 70)
    columns: Columns = {name: lambda one, name=name: one[name] for name in ("id", "status", "text")}
    rows = [
        {"id": f"run_{at:032}", "status": "requires_action", "text": "word " * 12} for at in (1, 2)
    ]
    print_table(columns, rows)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:53].split() for line in lines if "run_" in line] == [
        [row["id"], "requires_action"] for row in rows
    ]
    assert sum(line.count("word") for line in lines) == 24
