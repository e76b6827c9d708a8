"""Tests of the tool with programs that replace Codex. They need no server. Runward's own test of
this example runs the real Codex."""

import asyncio
import json
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


@pytest.fixture
def threads(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that keeps threads, and allow all switches."""
    folder = root.parent / "threads"
    folder.mkdir()
    monkeypatch.setenv("CODEX_TOOL_THREADS", str(folder))
    monkeypatch.setenv("CODEX_TOOL_ALLOW", "network,web_search")
    monkeypatch.setenv("CODEX_TOOL_MODEL", "gpt-5")
    return folder


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


THREAD = "0199aaaa-0000-7000-8000-00000000000"


def finished(thread: str, message: str, **usage: int) -> str:
    """Return a script that prints what Codex prints at its end, and keeps its own arguments."""
    events = [
        {"type": "thread.started", "thread_id": thread},
        {"type": "item.completed", "item": {"type": "agent_message", "text": message}},
        {"type": "turn.completed", "usage": usage},
    ]
    lines = "\n".join(map(json.dumps, events))
    return f'echo "$@" > "$CODEX_HOME/args"; cat <<\'END\'\n{lines}\nEND'


def test_a_thread_is_continued_in_its_workspace_and_only_its_new_usage_counts(
    root: Path, threads: Path
) -> None:
    first, second = f"{THREAD}1", f"{THREAD}2"
    stand_in(root, finished(first, "Hi.", input_tokens=50, output_tokens=20))
    assert call().output["thread_id"] == first
    [home] = threads.iterdir()
    assert "resume" not in (home / "args").read_text()
    assert "--ephemeral" not in (home / "args").read_text()
    stand_in(
        root, finished(first, "Yes.", input_tokens=120, cached_input_tokens=9, output_tokens=25)
    )
    again = call(thread_id=first)
    assert (home / "args").read_text().endswith(f" resume {first} -\n")
    assert again.output["usage"] == {
        "input_tokens": 70,
        "cached_input_tokens": 9,
        "output_tokens": 5,
    }
    [reported] = again.usage
    assert (reported.model, reported.usage.input) == ("openai-responses:gpt-5", 70)
    assert (reported.usage.cached_input, reported.usage.output) == (9, 5)
    stand_in(root, finished(second, "New.", input_tokens=10, output_tokens=1))
    assert call().output["usage"]["input_tokens"] == 10
    call(workspace="other")
    assert len([*threads.iterdir()]) == 2


def test_images_a_schema_and_switches_are_passed_on(root: Path, threads: Path) -> None:
    (root / "shop").mkdir()
    (root / "shop" / "a b.png").write_bytes(b"")
    shape = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    script = """
        while [ $# -gt 0 ]; do [ "$1" = --output-schema ] && cp "$2" schema; shift; done"""
    stand_in(root, f"{finished(f'{THREAD}1', json.dumps({'ok': True}))}{script}")
    result = call(images=["a b.png"], output_schema=shape, network=True, web_search=True)
    assert result.output["output"] == {"ok": True}
    assert json.loads((root / "shop" / "schema").read_text()) == shape
    [home] = threads.iterdir()
    arguments = (home / "args").read_text()
    assert f"--image={root.resolve() / 'shop' / 'a b.png'}" in arguments
    assert "sandbox_workspace_write.network_access=true" in arguments
    assert 'web_search="live"' in arguments
    stand_in(root, finished(f"{THREAD}1", "No JSON."))
    assert "is not JSON: No JSON." in str(call(output_schema=shape).message)
    arguments = (home / "args").read_text()
    assert "sandbox_workspace_write.network_access=false" in arguments
    assert 'web_search="disabled"' in arguments


@pytest.mark.parametrize("asked", ["missing.png", "../secret.png", "/etc/passwd", "link.png", "."])
def test_an_image_outside_of_the_workspace_is_refused(root: Path, asked: str) -> None:
    (root / "secret.png").write_bytes(b"")
    (root / "shop").mkdir()
    (root / "shop" / "link.png").symlink_to(root / "secret.png")
    stand_in(root, EVENTS)
    assert "The workspace has no image" in str(call(images=[asked]).message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"network": True}, "does not allow `network`"),
        ({"web_search": True}, "does not allow `web_search`"),
        ({"thread_id": f"{THREAD}1"}, "Threads cannot be continued here"),
        ({"thread_id": "--last"}, "thread_id"),
    ],
)
def test_an_option_that_the_operator_does_not_allow_is_refused(
    root: Path, arguments: dict[str, Any], message: str
) -> None:
    stand_in(root, "touch started")
    assert message in str(call(**arguments).message)
    assert not (root / "shop" / "started").exists()


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
    [
        ("CODEX_TOOL_ROOT", "/no/such/folder"),
        ("CODEX_TOOL_SANDBOX", "none"),
        ("CODEX_TOOL_THREADS", "/no/such/folder"),
        ("CODEX_TOOL_ALLOW", "network,everything"),
    ],
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
