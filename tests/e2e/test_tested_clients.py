"""Clients of OpenAI's APIs, unmodified and with their default settings, against the real service:
the programs in tests/clients and tests/node/clients, and the table in docs/reference/clients.md."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.e2e.own_machine import needs
from tests.support.programs import NODE_BINARIES, missing
from tests.support.services.client import Client
from tests.support.services.service import ROOT
from tests.support.tools.server import Behaviour, ToolServer

pytestmark = pytest.mark.timeout(120)

NEWEST: Final = ".venv/tested-clients"
OPENAI_2: Final = ".venv/tested-clients-openai-2"
BASIC: Final = ("text", "stream", "function", "output")
ALL: Final[Mapping[str, tuple[str, ...]]] = {"chat": BASIC, "responses": BASIC}
PROGRAMS: Final[dict[str, tuple[str, Mapping[str, tuple[str, ...]]]]] = {
    "openai_client.py": (sys.prefix, ALL),
    "openai_agents.py": (NEWEST, {api: (*BASIC, "handoff") for api in ALL}),
    "langchain_client.py": (NEWEST, ALL),
    "llama_index_client.py": (OPENAI_2, ALL),
    "pydantic_ai_client.py": (sys.prefix, ALL),
    "litellm_client.py": (OPENAI_2, ALL),
    "instructor_client.py": (
        OPENAI_2,
        {"chat": ("tool_call", "json_schema_mode"), "responses": ("responses_tools",)},
    ),
    "openai.mjs": ("node", ALL),
    "ai_sdk.mjs": ("node", ALL),
    "langchain.mjs": ("node", ALL),
}
"""The virtual environment of each program, or `node`, and the checks for each API."""
APPROVES: Final = {
    "openai_client.py": "cashier",
    "openai_agents.py": "offline:rules",
    "langchain_client.py": "cashier",
    "openai.mjs": "cashier",
    "ai_sdk.mjs": "cashier",
}
"""The model of the programs that decide an approval. They use the Responses API."""
TEXT: Final = (
    "(offline model) This model follows fixed rules. It is not a language model. "
    'Your message: "Hello.". No tools are available.'
)
RESULTS: Final[dict[str, Any]] = {
    "text": TEXT,
    "stream": TEXT,
    "function": "(offline model) get_weather returned: sunny in Rome",
    "handoff": "able",
    "approval": "(offline model) refund returned: refund(500)",
}
"""The result of each check. All other checks return an object."""
AMOUNT: Final = {"type": "object", "properties": {"amount": {"type": "number"}}}
UNREACHABLE: Final = "http://127.0.0.1:9"
LOCK_FILES: Final = (
    "requirements-dev.lock",
    "tests/clients/requirements.lock",
    "tests/clients/requirements-openai-2.lock",
)
PROGRAM: Final = re.compile(r"/([\w.]+)\) \|$")
VERSION: Final = re.compile(r"`([@\w/-]+)` ([\d.]+)")


def command(program: str, environment: str) -> list[str]:
    if environment == "node":
        if not (NODE_BINARIES.parent / "ai").exists():
            missing("the AI SDK is not installed: make tests/node/node_modules/.installed")
        return [needs("node", "nodejs"), str(ROOT / "tests" / "node" / "clients" / program)]
    python = ROOT / environment / "bin" / "python"
    if environment != sys.prefix and not (ROOT / environment / ".installed").exists():
        missing(f"the clients are not installed: make {environment}/.installed")
    return [str(python), str(ROOT / "tests" / "clients" / program)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_client_needs_only_the_address_the_key_and_the_model(
    program: str, client: Client, tools: ToolServer
) -> None:
    environment, checks = PROGRAMS[program]
    client.register_tool(
        "refund",
        tools.tool("refund", Behaviour("return", value="refund(500)")),
        approval="always",
        parameters=AMOUNT,
    )
    cashier = {"name": "cashier", "model": "offline:rules", "tools": ["refund"]}
    client.call("POST", "/v1/agents", cashier)
    client.call("POST", "/v1/agents", {"name": "clerk", "model": "offline:rules"})
    done = subprocess.run(
        command(program, environment),
        env=os.environ
        | {
            "RUNWARD_URL": client.url,
            "RUNWARD_KEY": client.key,
            "HTTPS_PROXY": UNREACHABLE,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = {tuple(line[:3]): line[3] for line in map(json.loads, done.stdout.splitlines())}
    made = {
        (api, model, check)
        for api, names in checks.items()
        for model in ("offline:rules", "clerk")
        for check in names
    }
    if program in APPROVES:
        made.add(("responses", APPROVES[program], "approval"))
    assert results == {line: RESULTS.get(line[2], {"amount": 50}) for line in made}
    assert len(tools.hits("refund")) == (program in APPROVES)


def locked_versions() -> dict[str, set[str]]:
    """Return the versions of all packages in the lock files of the tested clients."""
    versions: dict[str, set[str]] = {}
    for file in LOCK_FILES:
        for name, version in re.findall(r"^([\w-]+)==(\S+)", (ROOT / file).read_text(), re.M):
            versions.setdefault(name, set()).add(version)
    packages = json.loads((ROOT / "tests/node/package-lock.json").read_text())["packages"]
    for path, package in packages.items():
        versions.setdefault(path.removeprefix("node_modules/"), set()).add(package.get("version"))
    return versions


def test_the_page_lists_each_program_with_the_installed_versions() -> None:
    page = (ROOT / "docs" / "reference" / "clients.md").read_text("utf-8")
    lines = page.splitlines()
    programs = [PROGRAM.search(line) for line in lines]
    table = [line for line, found in zip(lines, programs, strict=True) if found]
    assert {found[1] for found in programs if found} == set(PROGRAMS)
    versions = locked_versions()
    for line in table:
        found = VERSION.findall(line)
        assert found, line
        for name, version in found:
            assert version in versions[name], f"{name} {version}: {versions[name]}"
