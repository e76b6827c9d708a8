"""The workspace folder of a conversation."""

import os
import tempfile
from pathlib import Path

from runward.tools import ToolContext, ToolError

ROOT = "EXECUTORS_ROOT"


def workspace(ctx: ToolContext) -> Path:
    """Return the folder of the session, or of a run without one, created if it is missing. Raises
    ToolError."""
    folder = root() / (ctx.session_id or ctx.run_id)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def root() -> Path:
    """Return the root folder. Raises ToolError if other users can change it, because they could
    place a link there and decide where commands run."""
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
