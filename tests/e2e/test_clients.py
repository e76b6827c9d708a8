"""Clients that are generated from openapi/openapi.json: the programs of examples/clients are
type-checked against them, and run against the real service with a scripted model."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Processes
from tests.e2e.own_machine import needs
from tests.support.client import Client
from tests.support.model_server import Call, ModelServer, calls, text
from tests.support.programs import missing
from tests.support.service import ROOT

pytestmark = pytest.mark.timeout(300)

CLIENTS = ROOT / "examples" / "clients"
CONTRACT = ROOT / "openapi" / "openapi.json"
GENERATOR = ROOT / ".venv" / "clients" / "bin"
MODULES = CLIENTS / "typescript" / "node_modules"
SECONDS = 120


def run(*command: str, cwd: Path, **env: str) -> str:
    """What it prints. Fails with all of it where it does not end well."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def client(start: Processes, model: ModelServer) -> Iterator[Client]:
    """Of a new project, whose model asks for one refund of 500."""
    asked = calls(Call("c1", "refund_here", '{"order":"A-1017","amount":500}'))
    model.by_turn("clerk", asked, text("Refunded 50."))
    service = start("serve")
    with start.client(service).new_project("clients") as client:
        yield client


def surroundings(client: Client) -> dict[str, str]:
    return {"RUNWARD_URL": client.url, "RUNWARD_KEY": client.key, "MODEL": "openai:clerk"}


def judge(client: Client, printed: str) -> None:
    """The program saw every event, and the tool got what was approved."""
    [made] = client.call("GET", "/v1/runs")["data"]
    assert (made["status"], made["output"]) == ("completed", "Refunded 50.")
    [call] = client.tool_calls(made["id"])
    assert call["arguments"] == {"order": "A-1017", "amount": 50}
    assert call["output"] == {"refunded": 50}
    [approval] = client.approvals(status=None)
    assert approval["status"] == "edited"
    log = [f"{event['sequence']:3} {event['type']}" for event in client.events(made["id"])]
    assert printed.splitlines() == [*log, "Refunded 50."]


def test_the_python_program_fits_a_generated_client_and_does_what_it_says(
    client: Client, tmp_path: Path
) -> None:
    if not (GENERATOR / "openapi-python-client").exists():
        missing("openapi-python-client is not installed: make .venv/clients/.installed")
    path = f"{GENERATOR}{os.pathsep}{os.environ['PATH']}"
    program = str(shutil.copy(CLIENTS / "python" / "edit_and_approve.py", tmp_path))
    run(
        "openapi-python-client",
        *("generate", "--meta", "none", "--fail-on-warning", "--path", str(CONTRACT)),
        *("--output-path", "runward_client"),
        cwd=tmp_path,
        PATH=path,
    )
    strict = '{"typeCheckingMode": "strict", "include": ["edit_and_approve.py"]}'
    (tmp_path / "pyrightconfig.json").write_text(strict)
    python = str(GENERATOR / "python")
    run(sys.executable, "-m", "pyright", "--pythonpath", python, cwd=tmp_path)
    first = run(python, program, cwd=tmp_path, **surroundings(client))
    judge(client, first)


def test_the_typescript_program_fits_generated_types_and_does_what_it_says(
    client: Client, tmp_path: Path
) -> None:
    node = needs("node", "nodejs")
    if not (MODULES / ".bin" / "openapi-typescript").exists():
        missing(f"openapi-typescript is not installed: make {MODULES.relative_to(ROOT)}/.installed")
    shutil.copytree(CLIENTS / "typescript" / "src", tmp_path / "src")
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(CLIENTS / "typescript" / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(MODULES)
    run(
        str(MODULES / ".bin" / "openapi-typescript"),
        *(str(CONTRACT), "--output", "src/runward.ts"),
        *("--root-types", "--root-types-no-schema-prefix", "--default-non-nullable=false"),
        cwd=tmp_path,
    )
    run(str(MODULES / ".bin" / "tsc"), cwd=tmp_path)
    printed = run(node, "dist/edit_and_approve.js", cwd=tmp_path, **surroundings(client))
    judge(client, printed)
