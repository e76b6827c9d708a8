"""docs/how-to/rate-limits.md."""

from pathlib import Path

from tests.api.project import Project
from tests.docs.story import Story


def test_rate_limits(project: Project, tmp_path: Path) -> None:
    with Story("docs/how-to/rate-limits.md", project.client, tmp_path) as page:
        urgent = page.http()
        assert (urgent["status"], urgent["priority"]) == ("completed", 10)
        assert page.http()["start_at"] == "2026-06-01T06:00:00Z"
