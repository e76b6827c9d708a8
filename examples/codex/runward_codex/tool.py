"""A tool that runs Codex in a workspace, reports its progress, and ends all its processes."""

import asyncio
import os
import tempfile
from asyncio.subprocess import Process
from collections import deque
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from runward_commands import clean_environment, guarded

from runward.tools import ToolContext, ToolError, tool
from runward_codex.events import Story
from runward_codex.settings import KEY_VARIABLE, Settings, workspace_in

KEPT_LINES = 20
"""Of what Codex prints to standard error; the last of them are shown when it fails."""
MAX_FILES = 20_000
"""In larger workspaces nobody looks for what has changed."""
WAYS_OUT = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE")
"""Codex reaches its model as the service reaches others."""

STOPPED = (
    "Codex was stopped because it took too long. What it changed so far stays in the workspace; "
    "ask for a smaller task there."
)


@tool(
    approval="always",
    timeout_seconds=1800,
    on_timeout={"message": STOPPED},
    concurrency={"limit": 2, "group": "codex"},
)
async def codex(
    ctx: ToolContext,
    task: Annotated[str, Field(min_length=1, description="What is to be done, in full.")],
    workspace: Annotated[
        str | None,
        Field(description="The folder to work in. Without one, the conversation's own."),
    ] = None,
) -> dict[str, Any]:
    """Let Codex, a coding agent, work on files in a workspace.

    It reads, writes and runs programs there. It knows nothing of this conversation.
    """
    settings = Settings.read()
    folder = workspace_in(settings.root, workspace or ctx.session_id or ctx.run_id)
    key = ctx.secret(settings.secret)
    before = await asyncio.to_thread(snapshot, folder)
    with tempfile.TemporaryDirectory(prefix="codex-", ignore_cleanup_errors=True) as home:
        env = environment(Path(home), key)
        async with guarded(settings.arguments(folder), cwd=folder, env=env, stdin=task) as process:
            story = await follow(process, ctx)
    after = await asyncio.to_thread(snapshot, folder)
    result: dict[str, Any] = {"message": story.message or "", "workspace": folder.name}
    if story.thread_id is not None:
        result["thread_id"] = story.thread_id
    if before is not None and after is not None:
        pairs = before.items() ^ after.items()
        result["changed_files"] = sorted({path for path, _ in pairs})
    return result if story.usage is None else result | {"usage": story.usage}


def environment(home: Path, key: str) -> dict[str, str]:
    """Return the environment of Codex, with an empty configuration folder of its own."""
    (home / ".codex").mkdir()
    ways_out = {name: os.environ[name] for name in WAYS_OUT if name in os.environ}
    own = {"CODEX_HOME": str(home / ".codex"), KEY_VARIABLE: key}
    return clean_environment(home, **own, **ways_out)


async def follow(process: Process, ctx: ToolContext) -> Story:
    """Follow Codex until it ends. Raises ToolError if it has not completed its task."""
    assert process.stdout is not None
    assert process.stderr is not None
    printed = asyncio.create_task(last_lines(process.stderr))
    story = Story()
    while line := await process.stdout.readline():
        if (news := story.take(line)) is not None:
            ctx.progress(None, news)
    code = await process.wait()
    errors = await printed
    if code == 127 and story.thread_id is None:
        raise ToolError(f"Codex cannot be started on this machine: {errors}. Tell the operator.")
    failure = story.failure
    if failure is None and code != 0:
        failure = "; ".join(story.complaints) or errors or "it said nothing"
    if failure is not None:
        raise ToolError(
            f"Codex gave up (exit code {code}): {failure[:2000]}. What it changed so far stays in "
            "the workspace."
        )
    return story


async def last_lines(stream: asyncio.StreamReader) -> str:
    kept = deque[str](maxlen=KEPT_LINES)
    while line := await stream.readline():
        kept.append(line.decode(errors="replace").strip())
    return "\n".join(line for line in kept if line)


def snapshot(folder: Path) -> dict[str, tuple[int, int]] | None:
    """Return size and change time of every file below, except Git's. None if there are too many."""
    found: dict[str, tuple[int, int]] = {}
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        if ".git" in relative.parts or not (path.is_symlink() or path.is_file()):
            continue
        if len(found) == MAX_FILES:
            return None
        status = path.lstat()
        found[str(relative)] = (status.st_size, status.st_mtime_ns)
    return found
