"""A tool that runs Codex in a workspace, reports its progress, and ends all its processes."""

import asyncio
import json
import os
import tempfile
from asyncio.subprocess import Process
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from runward_commands import clean_environment, guarded

from runward.tools import ToolContext, ToolError, tool
from runward_codex.events import Story
from runward_codex.settings import KEY_VARIABLE, Request, Settings, image_in, workspace_in
from runward_codex.threads import THREAD_ID, codex_home, take_new_usage

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
    strict=False,  # because of `output_schema`
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
    *,
    thread_id: Annotated[
        str | None,
        Field(
            pattern=THREAD_ID,
            description="Continue the thread of an earlier call in the same workspace.",
        ),
    ] = None,
    images: Annotated[
        list[str], Field(max_length=16, description="Paths of images in the workspace to look at.")
    ] = [],  # noqa: B006  # never changed
    output_schema: Annotated[
        dict[str, Any] | None, Field(description="JSON Schema of the final answer.")
    ] = None,
    network: Annotated[bool, Field(description="Whether commands can use the network.")] = False,
    web_search: Annotated[bool, Field(description="Whether it can search the web.")] = False,
) -> dict[str, Any]:
    """Let Codex, a coding agent, work on files in a workspace.

    It reads, writes and runs programs there. It knows nothing of this conversation.
    """
    settings = Settings.read()
    folder = workspace_in(settings.root, workspace or ctx.session_id or ctx.run_id)
    pictures = tuple(image_in(folder, image) for image in images)
    request = Request(thread_id, pictures, network=network, web_search=web_search)
    settings.check(request)
    before = await asyncio.to_thread(snapshot, folder)
    with (
        codex_home(settings.threads, folder) as codex_folder,
        tempfile.TemporaryDirectory(prefix="codex-", ignore_cleanup_errors=True) as home,
    ):
        if output_schema is not None:
            request = replace(request, schema=Path(home) / "schema.json")
            (Path(home) / "schema.json").write_text(json.dumps(output_schema))
        env = environment(Path(home), codex_folder, ctx.secret(settings.secret))
        command = settings.arguments(folder, request)
        async with guarded(command, cwd=folder, env=env, stdin=task) as process:
            story = await follow(process, ctx)
        if story.usage is not None and story.thread_id is not None:
            story.usage = take_new_usage(codex_folder, story.thread_id, story.usage)
        if story.usage is not None:
            report_usage(ctx, settings, story.usage)
    after = await asyncio.to_thread(snapshot, folder)
    result: dict[str, Any] = {"message": story.message or "", "workspace": folder.name}
    if output_schema is not None:
        result["output"] = read_output(story)
    if story.thread_id is not None:
        result["thread_id"] = story.thread_id
    if before is not None and after is not None:
        pairs = before.items() ^ after.items()
        result["changed_files"] = sorted({path for path, _ in pairs})
    return result if story.usage is None else result | {"usage": story.usage}


def environment(home: Path, codex_folder: Path, key: str) -> dict[str, str]:
    """Return the environment of Codex, with a configuration folder of its own."""
    ways_out = {name: os.environ[name] for name in WAYS_OUT if name in os.environ}
    own = {"CODEX_HOME": str(codex_folder), KEY_VARIABLE: key}
    return clean_environment(home, **own, **ways_out)


def report_usage(ctx: ToolContext, settings: Settings, usage: dict[str, int]) -> None:
    """Add the usage to the run. Without a configured model, its price is unknown."""
    ctx.add_usage(
        "codex" if settings.model is None else f"openai-responses:{settings.model}",
        input_tokens=usage.get("input_tokens", 0),
        output_tokens=usage.get("output_tokens", 0),
        cached_tokens=usage.get("cached_input_tokens", 0),
        reasoning_tokens=usage.get("reasoning_output_tokens", 0),
    )


def read_output(story: Story) -> Any:
    """Return the final message as JSON. Raises ToolError."""
    try:
        return json.loads(story.message or "")
    except ValueError as error:
        raise ToolError(
            f"The final answer of Codex is not JSON: {str(story.message)[:500]}. What it changed "
            "stays in the workspace."
        ) from error


async def follow(process: Process, ctx: ToolContext) -> Story:
    """Follow Codex until it ends. Raises ToolError if it has not completed its task."""
    assert process.stdout is not None
    assert process.stderr is not None
    printed = asyncio.create_task(last_lines(process.stderr))
    story = Story()
    try:
        while line := await process.stdout.readline():
            if (news := story.take(line)) is not None:
                ctx.progress(None, news)
        code = await process.wait()
        errors = await printed
    finally:
        printed.cancel()
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
