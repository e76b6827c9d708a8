"""The folder that a conversation works in."""

import os
import tempfile
from pathlib import Path

from runward.tools import ToolContext, ToolError

ROOT = "EXECUTORS_ROOT"


def workspace(ctx: ToolContext) -> Path:
    """Of the session, or of a run without one; made if it is missing. Raises ToolError."""
    folder = root() / (ctx.session_id or ctx.run_id)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def root() -> Path:
    """Raises ToolError for a folder that others may change: whoever can put a link there decides
    where commands run."""
    given = os.environ.get(ROOT)
    folder = Path(given or Path(tempfile.gettempdir(), f"runward-executors-{os.getuid()}"))
    if not given:
        folder.mkdir(mode=0o700, exist_ok=True)
    if not folder.is_dir() or folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise ToolError(
            f"There is no place to work in, and trying again will not help: {ROOT} must be a "
            "folder that belongs to the service's user."
        )
    return folder.resolve()
