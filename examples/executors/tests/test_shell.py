"""Tests of a command's folder, time limit, output limit, and cleanup."""

from pathlib import Path
from typing import Any

from runward_executors import shell

from runward.tools.plugin.tool import make_tool
from runward.tools.testing import ToolResult, run_tool_sync


def run(*commands: str, seconds: float = 30, **arguments: Any) -> ToolResult:
    asked = {"commands": list(commands), **arguments}
    return run_tool_sync(shell, asked, session_id="ses_1", timeout_seconds=seconds)


def test_a_person_is_asked_unless_a_project_says_otherwise() -> None:
    assert make_tool(shell).spec.approval == "always"


def test_each_command_answers_in_its_turn(workspace: Path) -> None:
    result = run("echo one > file; cat file", "echo bad >&2; exit 3", "pwd")
    assert result.output == {
        "output": [
            {"stdout": "one\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": "", "stderr": "bad\n", "outcome": {"type": "exit", "exit_code": 3}},
            {"stdout": f"{workspace}\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
        ]
    }
    assert [message for _, message in result.progress][1:] == [
        "runs: echo bad >&2; exit 3",
        "runs: pwd",
    ]


def test_the_services_environment_is_not_the_commands(workspace: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("RUNWARD_SECRET_KEY", "hidden")
    monkeypatch.setenv("DATABASE_URL", "hidden")
    [printed] = run("env").output["output"]
    assert "hidden" not in printed["stdout"]
    assert f"HOME={workspace}\n" in printed["stdout"]


def test_a_command_that_takes_too_long_is_killed_and_the_next_not_started(
    workspace: Path,
) -> None:
    result = run("echo begun; setsid sleep 1000 & wait", "echo never", timeout_ms=4000)
    first, second = result.output["output"]
    assert first == {"stdout": "begun\n", "stderr": "", "outcome": {"type": "timeout"}}
    assert second["outcome"] == {"type": "timeout"}
    assert second["stderr"].startswith("Not started")


def test_the_calls_own_time_ends_commands_early_enough_to_answer(workspace: Path) -> None:
    result = run("sleep 1000", seconds=5, timeout_ms=3_600_000)
    assert result.error is None
    assert result.output["output"][0]["outcome"] == {"type": "timeout"}


def test_long_outputs_keep_their_ends(workspace: Path) -> None:
    line = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done"
    result = run(line, max_output_length=200)
    [printed] = result.output["output"]
    assert printed["stdout"].startswith("line 0\nline 1\n")
    assert printed["stdout"].endswith("line 2999\n")
    assert "bytes are left out here" in printed["stdout"]
    assert len(printed["stdout"]) < 300
    assert result.output["max_output_length"] == 200


def test_what_goes_on_in_the_background_ends_with_its_command(workspace: Path) -> None:
    [printed] = run("sleep 1000 & echo started").output["output"]
    assert printed == {
        "stdout": "started\n",
        "stderr": "",
        "outcome": {"type": "exit", "exit_code": 0},
    }


def test_bytes_that_are_no_text_are_shown_as_such(workspace: Path) -> None:
    [printed] = run(r"printf 'a\377b'").output["output"]
    assert printed["stdout"] == "a\ufffdb"
