from pathlib import Path

import pytest


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the workspace of the session `ses_1`."""
    monkeypatch.setenv("EXECUTORS_ROOT", str(tmp_path))
    folder = tmp_path / "ses_1"
    folder.mkdir()
    return folder
