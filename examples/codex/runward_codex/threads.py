"""The folders that keep the threads of Codex, and the usage that earlier calls have reported."""

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

THREAD_ID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"


@contextmanager
def codex_home(threads: Path | None, workspace: Path) -> Iterator[Path]:
    """Return the configuration folder of Codex: an empty one, or the folder that keeps the threads
    of this workspace. So a call can continue only the threads of its own workspace."""
    if threads is None:
        with tempfile.TemporaryDirectory(prefix="codex-", ignore_cleanup_errors=True) as home:
            yield Path(home)
        return
    home = threads / hashlib.sha256(str(workspace).encode()).hexdigest()[:32]
    home.mkdir(mode=0o700, exist_ok=True)
    yield home


def take_new_usage(home: Path, thread_id: str, total: dict[str, int]) -> dict[str, int]:
    """Return the usage since the last call that used the thread, and store the new total. Codex
    reports the usage of the whole thread."""
    if not re.match(THREAD_ID, thread_id):
        return total
    file = home / f"runward-usage-{thread_id}.json"
    before: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(total))
    if any(total.get(name, 0) < count for name, count in before.items()):
        return total
    return {name: count - before.get(name, 0) for name, count in total.items()}
