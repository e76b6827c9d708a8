"""What examples/README.md says to type, typed one after the other."""

from pathlib import Path

import pytest

from tests.api.project import ALL_SCOPES, Project
from tests.docs.story import Story
from tests.e2e.own_machine import needs
from tests.support.models.responses_items import Text
from tests.support.models.responses_server import answer
from tests.support.services.service import free_port

pytestmark = pytest.mark.timeout(180)


def test_the_examples(project: Project, tmp_path: Path) -> None:
    needs("node", "nodejs")
    client = project.key(*ALL_SCOPES)
    providers = project.running.providers
    assert providers is not None
    providers.responses.script(project.model_name(), answer(Text("Fish.")))
    here = {"gpt-5.2": project.model_name(), "9000": f"{free_port()}", "9001": f"{free_port()}"}
    env = {"RUNWARD_URL": client.url}  # the default of the examples is where `make run` serves
    with Story("examples/README.md", client, tmp_path, here, env) as page:
        page.serve(until="Listening on")
        assert "run.completed" in page.sh()
        assert "completed: " in page.sh()
        assert "completed: " in page.sh()
        assert "answered ask_user" in page.sh()
        assert "continued from run_" in page.sh()
        assert "completed: " in page.sh()
        page.serve(until="Listening on")
        assert "completed\nstock_count" in page.sh()
        assert "approved refund" in page.sh()
        assert "completed Fish." in page.sh()


def test_commands(project: Project, tmp_path: Path) -> None:
    with Story("examples/commands/README.md", project.client, tmp_path) as page:
        page.run(f"cd {tmp_path}; export PYTHONPATH={Path('examples/commands').resolve()}")
        page.program()
