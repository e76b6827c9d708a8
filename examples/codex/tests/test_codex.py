"""Tests of the tool with programs that replace Codex. They need no server. Runward's own test of
this example runs the real Codex."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from runward_codex import codex
from runward_codex.settings import KEY_VARIABLE, Settings, workspace_in

from runward.tools import ToolError
from runward.tools.testing import ToolResult, run_tool, run_tool_sync

KEY = "sk-from-the-operator"
EVENTS = """
cat <<'END'
{"type":"thread.started","thread_id":"t-1"}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"i0","type":"reasoning","text":"I look\\n around"}}
{"type":"item.started","item":{"id":"i1","type":"command_execution","command":"make","status":"in_progress"}}
{"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"make","exit_code":2}}
not JSON at all
{"type":"item.updated","item":{"id":"i2","type":"todo_list","items":[{"completed":true},{"completed":false}]}}
{"type":"something.new","item":7}
{"type":"item.completed","item":{"id":"i3","type":"agent_message","text":"Done."}}
{"type":"turn.completed","usage":{"input_tokens":3,"output_tokens":4}}
END
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder for workspaces. `stand_in` replaces Codex with a program."""
    workspaces = tmp_path / "workspaces"
    workspaces.mkdir()
    monkeypatch.setenv("CODEX_TOOL_ROOT", str(workspaces))
    monkeypatch.setenv("CODEX_TOOL_COMMAND", str(tmp_path / "program"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "operators"))
    return workspaces


def stand_in(root: Path, script: str) -> None:
    program = root.parent / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def call(**arguments: Any) -> ToolResult:
    fields = {"task": "do it", "workspace": "shop", **arguments}
    return run_tool_sync(codex, fields, secrets={"OPENAI_API_KEY": KEY}, session_id="ses_1")


def test_a_person_is_always_asked() -> None:
    assert codex.options["approval"] == "always"


def test_progress_the_answer_and_what_has_changed(root: Path) -> None:
    (root / "shop").mkdir()
    for name in ("kept.txt", "removed.txt"):
        (root / "shop" / name).write_text("before")
    stand_in(root, f"cat > made.txt; rm removed.txt; {EVENTS}")
    result = call()
    assert result.output == {
        "message": "Done.",
        "workspace": "shop",
        "thread_id": "t-1",
        "changed_files": ["made.txt", "removed.txt"],
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
    assert [message for _, message in result.progress] == [
        "Codex has started",
        "thinks: I look around",
        "runs: make",
        "exit code 2: make",
        "1 of 2 steps done",
        "says: Done.",
    ]
    assert (root / "shop" / "made.txt").read_text() == "do it"


def test_without_a_workspace_it_is_the_conversations(root: Path) -> None:
    stand_in(root, EVENTS)
    assert call(workspace=None).output["workspace"] == "ses_1"
    assert (root / "ses_1").is_dir()


def test_the_key_is_in_the_environment_alone_and_nothing_of_the_operators_is_read(
    root: Path,
) -> None:
    stand_in(root, f'echo "$@" > args; env > env; ls -A "$CODEX_HOME" > home; {EVENTS}')
    assert call().error is None
    told = (root / "shop" / "env").read_text()
    assert f"{KEY_VARIABLE}={KEY}\n" in told
    assert "CODEX_TOOL_ROOT" not in told
    assert str(root.parent / "operators") not in told
    assert (root / "shop" / "home").read_text() == ""
    arguments = (root / "shop" / "args").read_text()
    assert KEY not in arguments
    assert "--sandbox workspace-write" in arguments
    [home] = [line[5:] for line in told.splitlines() if line.startswith("HOME=")]
    assert not Path(home).exists()


@pytest.mark.parametrize("asked", ["..", "../other", "/etc", ".", "link", "link/below", "a/../.."])
def test_a_workspace_outside_of_the_root_is_refused(root: Path, asked: str) -> None:
    (root / "link").symlink_to("/tmp")
    with pytest.raises(ToolError, match="must be the name of a folder"):
        workspace_in(root.resolve(), asked)
    stand_in(root, EVENTS)
    assert "must be the name of a folder" in str(call(workspace=asked).message)


def test_a_file_is_no_workspace(root: Path) -> None:
    (root / "shop").write_text("")
    assert "cannot be used as a folder" in str(call().message)


def test_a_failure_says_why(root: Path) -> None:
    stand_in(root, """echo '{"type":"turn.failed","error":{"message":"no such model"}}'; exit 1""")
    assert "Codex gave up (exit code 1): no such model" in str(call().message)
    stand_in(root, "echo first >&2; echo 'no space left' >&2; exit 5")
    assert "(exit code 5): first\nno space left" in str(call().message)
    (root.parent / "program").unlink()
    assert "cannot be started on this machine" in str(call().message)


def test_a_key_that_codex_prints_is_not_shown(root: Path) -> None:
    stand_in(root, f"echo {KEY} >&2; exit 1")
    result = call()
    assert "Codex gave up" in str(result.message)
    assert KEY not in str(result.message)
    assert KEY not in str(result.error)


@pytest.mark.parametrize(
    ("name", "value"),
    [("CODEX_TOOL_ROOT", "/no/such/folder"), ("CODEX_TOOL_SANDBOX", "none")],
)
def test_what_the_operator_set_wrong_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ToolError, match=name):
        Settings.read()
    assert "trying again will not help" in str(call().message)


def test_a_timeout_ends_codex_and_what_it_started(root: Path) -> None:
    """Every started process holds the pipe `alive` open, so its reader ends with the last one."""
    (root / "shop").mkdir()
    os.mkfifo(root / "shop" / "alive")
    stand_in(root, "exec 3>alive; setsid sleep 1000 & wait")

    async def timed() -> tuple[ToolResult, bytes]:
        alive = asyncio.create_task(asyncio.to_thread((root / "shop" / "alive").read_bytes))
        secrets = {"OPENAI_API_KEY": KEY}
        arguments: Any = {"task": "wait", "workspace": "shop"}
        result = await run_tool(codex, arguments, secrets=secrets, timeout_seconds=3)
        os.close(os.open(root / "shop" / "alive", os.O_RDWR))  # in case it had not started yet
        return result, await alive

    result, left = asyncio.run(asyncio.wait_for(timed(), 60))
    assert result.timed_out
    assert left == b""
