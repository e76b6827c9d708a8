"""Clients that are generated from openapi/openapi.json: the programs of examples/clients are
type-checked against them, and run against the real service with a scripted model."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.story import Story
from tests.e2e.conftest import Golden
from tests.e2e.own_machine import needs
from tests.support.models.chat_server import Call, calls, text
from tests.support.programs import missing
from tests.support.services.client import Client
from tests.support.services.service import ROOT

pytestmark = pytest.mark.timeout(300)

PYTHON = ROOT / ".venv" / "clients" / "bin" / "python"
PROGRAM = ROOT / "examples" / "clients" / "python" / "edit_and_approve.py"
TYPESCRIPT = ROOT / "examples" / "clients" / "typescript"
GO_PACKAGE = Path("/usr/share/gocode/src/gopkg.in/validator.v2")
INSTALLED = (
    ".venv/clients/.installed",
    "examples/clients/typescript/node_modules/.installed",
)


LINT = """
import { createConfig, lint } from "@redocly/openapi-core";
const config = await createConfig({ extends: ["recommended"] });
for (const { ruleId, message, location } of await lint({ ref: process.argv[1], config })) {
  console.log(ruleId, location[0].pointer, message);
}
"""
"""What `redocly lint` does, by the library that openapi-typescript brings along."""


@pytest.fixture
def generators() -> None:
    """What `make clients` would else install."""
    needs("npm", "npm")
    needs("go", "go")
    if not GO_PACKAGE.exists():
        missing("the package golang-gopkg-validator.v2-dev is not installed")
    for stamp in INSTALLED:
        if not (ROOT / stamp).exists():
            missing(f"the generators of clients are not installed: make {' '.join(INSTALLED)}")


def judge(client: Client, printed: str) -> None:
    """The program saw every event of the newest run, and its tool got what was approved."""
    run = client.call("GET", "/v1/runs")["data"][0]
    assert (run["status"], run["output"]) == ("completed", "Refunded 50.")
    [call] = client.tool_calls(run["id"])
    assert call["arguments"] == {"order": "A-1017", "amount": 50}
    assert call["output"] == {"refunded": 50}
    [approval] = client.approvals(status=None, run_id=run["id"])
    assert approval["status"] == "edited"
    log = [f"{event['sequence']:3} {event['type']}" for event in client.events(run["id"])]
    assert [line for line in printed.splitlines() if line] == [*log, "Refunded 50."]


def test_the_contract_is_one_by_the_specification(generators: None) -> None:
    command = [str(PYTHON.with_name("openapi-spec-validator")), "openapi/openapi.json"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == "openapi/openapi.json: OK\n", done.stdout + done.stderr


def test_redocly_finds_nothing_in_the_contract(generators: None) -> None:
    command = ["node", "--input-type=module", "--eval", LINT, str(ROOT / "openapi/openapi.json")]
    done = subprocess.run(
        command, cwd=TYPESCRIPT, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == ""


def check_strictly(folder: Path) -> None:
    """The types of the Python program, against the client that was generated beside it."""
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(PROGRAM.parent)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = (sys.executable, "-m", "pyright", "--stats", "--pythonpath", str(PYTHON))
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Found 1 source file" in done.stdout


def test_the_generated_clients(
    generators: None, golden: Golden, client: Client, tmp_path: Path
) -> None:
    """Their model asks for one refund of 500."""
    asked = calls(Call("c1", "refund_here", '{"order":"A-1017","amount":500}'))
    golden.model.by_turn("generated-clients", asked, text("Refunded 50."))
    env = {"MODEL": "openai:generated-clients"}
    with Story("examples/clients/README.md", client, tmp_path, env=env) as page:
        made = page.sh()
        assert "Warning" not in made and "runward.ts" in made
        check_strictly(tmp_path / "checked")
        judge(client, page.sh())
        judge(client, page.sh())
        assert "error" not in page.sh().lower()
