"""docs/how-to/budgets.md."""

from pathlib import Path

from tests.api.project import Project
from tests.docs.story import Story


def test_budgets(project: Project, tmp_path: Path) -> None:
    with Story("docs/how-to/budgets.md", project.key("admin"), tmp_path) as page:
        whole = page.http()
        page.shows(whole)
        clerk = page.http()
        assert page.http()["data"] == [clerk, whole]
        assert page.http()["limit_usd"] == 100
        page.http()
