"""File changes by models, in the format of OpenAI's `apply_patch` tool."""

from typing import Any

from runward.tools import ToolContext, tool
from runward_executors import v4a
from runward_executors.files import FileError, Files
from runward_executors.workspace import workspace


@tool(implements="apply_patch", timeout_seconds=30, concurrency={"limit": 1, "group": "workspace"})
def apply_patch(ctx: ToolContext, operation: dict[str, Any]) -> dict[str, str]:
    """Create, update or delete one file in this conversation's own folder.

    A diff is in the V4A format: lines that begin with a space, + or -, in sections that begin
    with @@. A new file's lines all begin with +.
    """
    files, path = Files(workspace(ctx)), operation["path"]
    try:
        match operation["type"]:
            case "create_file":
                files.create(path, v4a.created(operation["diff"]))
            case "update_file":
                files.replace(path, v4a.updated(files.read(path), operation["diff"]))
            case _:
                files.delete(path)
    except (FileError, v4a.DiffError) as error:
        return {"status": "failed", "output": str(error)}
    return {"status": "completed", "output": f"{operation['type']}: {path}"}
