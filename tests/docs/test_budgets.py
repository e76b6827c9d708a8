"""docs/how-to/budgets.md."""

from pathlib import Path

from tests.api.project import Project
from tests.api.test_budgets_api import add
from tests.docs.story import Story
from tests.support.models.chat_server import text


def test_budgets(project: Project, tmp_path: Path) -> None:
    with Story(
        "docs/how-to/budgets.md", project.key("admin", "approvals:decide"), tmp_path
    ) as page:
        whole = page.http()
        page.shows(whole)
        clerk = page.http()
        tokens = page.http()
        assert (tokens["limit_tokens"], tokens["limit_usd"]) == (100000, None)
        assert page.http()["data"] == [tokens, clerk, whole]
        assert page.http()["limit_usd"] == 100
        page.http()
        _, asking = add(project, 0.000001)
        page.remember(asking["id"])
        assert page.http()["on_limit"] == "ask"
        run = project.run(model=project.script(text("done"), name="priced"))
        page.remember(run["required_actions"][0]["approval_id"])
        assert page.http()["status"] == "approved"
        assert project.settle(run)["output"] == "done"
