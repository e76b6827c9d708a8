"""Tests that files change only in the workspace, for all paths and links."""

import os
from pathlib import Path
from typing import Any

import pytest
from runward_executors import apply_patch

from runward.tools.plugin.tool import make_tool
from runward.tools.testing import run_tool_sync


def patch(kind: str, path: str, diff: str | None = None) -> Any:
    operation = {"type": kind, "path": path, **({} if diff is None else {"diff": diff})}
    result = run_tool_sync(apply_patch, {"operation": operation}, session_id="ses_1")
    assert result.error is None
    return result.output


def test_a_file_is_created_changed_and_deleted(workspace: Path) -> None:
    assert patch("create_file", "src/new/a.py", "+a = 1\n+b = 2") == {
        "status": "completed",
        "output": "create_file: src/new/a.py",
    }
    file = workspace / "src" / "new" / "a.py"
    assert file.read_text() == "a = 1\nb = 2\n"
    file.chmod(0o755)
    assert patch("update_file", "src/new/a.py", "@@\n-b = 2\n+b = 3")["status"] == "completed"
    assert file.read_text() == "a = 1\nb = 3\n"
    assert file.stat().st_mode & 0o777 == 0o755
    assert patch("delete_file", "src/new/a.py")["status"] == "completed"
    assert list(file.parent.iterdir()) == []


def test_a_person_is_asked_unless_a_project_says_otherwise() -> None:
    assert make_tool(apply_patch).spec.approval == "always"


@pytest.mark.parametrize(
    ("kind", "path", "words"),
    [
        ("create_file", "there.txt", "there.txt: File exists"),
        ("update_file", "missing.txt", "missing.txt: No such file"),
        ("delete_file", "missing.txt", "missing.txt: No such file"),
        ("update_file", "folder", "folder"),
        ("delete_file", "folder", "folder"),
        ("update_file", "binary", "no text in UTF-8"),
        ("update_file", "pipe", "is no file"),
        ("update_file", "there.txt", "These lines are not in the file"),
        ("create_file", "there.txt/below", "Not a directory"),
    ],
)
def test_what_cannot_be_is_told_to_the_model(
    workspace: Path, kind: str, path: str, words: str
) -> None:
    (workspace / "there.txt").write_text("there\n")
    (workspace / "folder").mkdir()
    (workspace / "binary").write_bytes(b"\xff\xfe\n")
    os.mkfifo(workspace / "pipe")
    diff = None if kind == "delete_file" else "+x" if kind == "create_file" else "-other\n+x"
    answer = patch(kind, path, diff)
    assert answer["status"] == "failed"
    assert words in answer["output"]
    assert (workspace / "there.txt").read_text() == "there\n"


@pytest.mark.parametrize("kind", ["create_file", "update_file", "delete_file"])
@pytest.mark.parametrize(
    "path", ["../outside.txt", "/etc/hosts", "out/outside.txt", "link.txt", "", ".", "a/../../x"]
)
def test_nothing_outside_is_touched(workspace: Path, kind: str, path: str) -> None:
    outside = workspace.parent / "outside.txt"
    outside.write_text("safe\n")
    (workspace / "out").symlink_to(workspace.parent)
    (workspace / "link.txt").symlink_to(outside)
    diff = {"create_file": "+x", "update_file": "-safe\n+x", "delete_file": None}[kind]
    answer = patch(kind, path, diff)
    link = kind == "delete_file" and path == "link.txt"  # the link is deleted, and its target stays
    assert answer["status"] == ("completed" if link else "failed")
    assert outside.read_text() == "safe\n"
    assert sorted(file.name for file in workspace.parent.iterdir()) == ["outside.txt", "ses_1"]


def test_a_folder_that_is_not_ours_is_no_place_to_work_in(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "linked").symlink_to(workspace)
    monkeypatch.setenv("EXECUTORS_ROOT", str(workspace / "linked"))
    operation: Any = {"operation": {"type": "create_file", "path": "a", "diff": "+a"}}
    assert "EXECUTORS_ROOT" in str(run_tool_sync(apply_patch, operation).message)
