"""docs/how-to/schedules.md."""

from pathlib import Path

from tests.api.project import Project
from tests.api.test_schedules_api import processed
from tests.docs.story import Story


def test_schedules(project: Project, tmp_path: Path) -> None:
    client = project.client
    with Story("docs/how-to/schedules.md", client, tmp_path) as page:
        page.shows(page.http())
        reminder = page.http()
        [slot] = processed(client, reminder)
        assert page.http()["last_run_id"] == slot["run_id"]
        assert [run["id"] for run in page.http()["data"]] == [slot["run_id"]]
        assert page.http()["data"] == [slot]
        assert page.http()["enabled"] is False
        assert page.http()["cron"] == "0 8 * * *"
        page.http()
