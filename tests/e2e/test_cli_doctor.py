"""What docs/reference/cli.md shows of doctor is what it prints: on a whole set-up, and on broken
ones."""

import asyncio
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from runward.store import migrations
from tests.e2e.command_line import CommandLine
from tests.e2e.recorded import compare, steady
from tests.support.postgres import Databases
from tests.support.programs import missing
from tests.support.services.service import SECRET_KEY, Service
from tests.support.tools.server import ToolServer

pytestmark = pytest.mark.timeout(180)

API = "http://127.0.0.1:8080"
TOOLS = "http://127.0.0.1:9000"
FAKETIME = [
    *Path("/usr/lib").glob("*/faketime/libfaketime.so.1"),
    *Path("/usr/lib").glob("faketime/libfaketime.so.1"),
]
"""Where Debian and others have it: a library that makes a process's clock another one."""


@pytest.fixture(scope="module")
def service(migrated_databases: Databases) -> Iterator[Service]:
    """Of all tests: doctor changes nothing."""
    with migrated_databases.migrated() as url, Service("serve", url) as service:
        yield service


@pytest.fixture(scope="module")
def refund(service: Service) -> Iterator[str]:
    """Where the one tool is that is registered."""
    with ToolServer() as tools, service.client() as client:
        url = tools.tool("refund")
        client.register_tool("refund", url)
        yield url


def examined(
    tmp_path: Path,
    service: Service,
    *options: str,
    without: tuple[str, ...] = (),
    forked: bool = True,
    **env: str,
) -> tuple[int, str]:
    """Its exit code and what it prints, with the environment of the service but for `env`."""
    runward = CommandLine(tmp_path, service.url, service.key)
    names = {
        "DATABASE_URL": service.database_url,
        "RUNWARD_SECRET_KEY": SECRET_KEY,
        "RUNWARD_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
        "OPENAI_API_KEY": "sk-test",
    } | env
    run = runward.run_fork if forked else runward.run_process
    done = run(
        "doctor", *options, **{name: one for name, one in names.items() if name not in without}
    )
    database = re.sub(
        r"PostgreSQL at \S+, port \d+, database \w+",
        "PostgreSQL at db.example, port 5432, database runward",
        done.out,
    )
    return done.code, f"$ runward doctor\n{steady(database, **{API: service.url})}"


def with_tools_at(printed: str, refund: str) -> str:
    url, _, name = refund.rpartition("/")
    host = url.removeprefix("http://")
    parts = {f"{TOOLS}/{name}": refund, TOOLS.removeprefix("http://"): host.split("/")[0]}
    return steady(printed, **parts)


def test_a_healthy_set_up(tmp_path: Path, service: Service, refund: str) -> None:
    code, printed = examined(tmp_path, service)
    assert code == 0, printed
    assert "no failures" in printed
    compare("doctor, healthy", printed)


def test_a_database_that_does_not_answer(tmp_path: Path, service: Service) -> None:
    url = "postgresql://runward:very-secret@127.0.0.1:9/runward"
    code, printed = examined(tmp_path, service, DATABASE_URL=url)
    assert code == 1
    assert "very-secret" not in printed
    compare("doctor, no database", printed)


def test_a_database_that_does_not_exist(tmp_path: Path, service: Service) -> None:
    parsed = make_url(service.database_url).set(database="nowhere")
    url = parsed.render_as_string(hide_password=False)
    code, printed = examined(tmp_path, service, DATABASE_URL=url)
    assert code == 1
    assert "does not exist" in printed


def test_a_database_that_is_not_migrated(
    tmp_path: Path, service: Service, empty_database_url: str
) -> None:
    code, printed = examined(
        tmp_path, service, without=("RUNWARD_SECRET_KEY",), DATABASE_URL=empty_database_url
    )
    assert code == 1
    compare("doctor, not migrated", printed)


def test_a_database_of_an_earlier_version_and_no_model(
    tmp_path: Path, service: Service, empty_database_url: str
) -> None:
    asyncio.run(migrations.upgrade(empty_database_url, revision="0005"))
    without = ("OPENAI_API_KEY",)
    code, printed = examined(tmp_path, service, without=without, DATABASE_URL=empty_database_url)
    assert code == 1
    compare("doctor, an earlier version", printed)


def test_a_clock_that_is_wrong(tmp_path: Path, service: Service, refund: str) -> None:
    """The process's own clock is another one, by a library beneath it."""
    if not FAKETIME:
        missing("libfaketime is not installed: apt-get install faketime")

    def at(offset: str) -> tuple[int, str]:
        return examined(
            tmp_path,
            service,
            forked=False,  # a library is loaded when a process starts
            FAKETIME=offset,
            LD_PRELOAD=str(FAKETIME[0]),
            FAKETIME_DONT_FAKE_MONOTONIC="1",
        )

    code, printed = at("+50s")
    assert code == 0
    assert re.search(
        r"^warn +clock +the clock of this machine is [1-5][0-9] seconds ahead of", printed, re.M
    )
    code, printed = at("-2h")
    assert code == 1
    found = re.search(r"is (\d+) seconds behind", printed)
    assert found is not None and 7100 < int(found[1]) <= 7200, printed
    compare("doctor, a wrong clock", printed.replace(found[1], "7200"))


def test_a_key_that_is_not_the_database_s(tmp_path: Path, service: Service, refund: str) -> None:
    code, printed = examined(tmp_path, service, RUNWARD_SECRET_KEY=SECRET_KEY[::-1])
    assert code == 1
    compare("doctor, another secret key", printed)


def test_tools_that_cannot_be_reached(tmp_path: Path, service: Service, refund: str) -> None:
    with service.client() as client:
        client.register_tool("gone", "http://127.0.0.1:9/gone")
        try:
            down = examined(tmp_path, service)
            refused = examined(tmp_path, service, RUNWARD_ALLOW_PRIVATE_TARGETS="169.254.0.0/16")
        finally:
            client.call("DELETE", "/v1/tools/gone")
    assert (down[0], refused[0]) == (1, 1)
    compare("doctor, a tool that is down", down[1])
    compare("doctor, tools that may not be called", with_tools_at(refused[1], refund))


def test_doctor_for_programs(tmp_path: Path, service: Service) -> None:
    runward = CommandLine(tmp_path, service.url, service.key)
    done = runward.run_fork("doctor", "--json", DATABASE_URL=service.database_url, RUNWARD_PORT="x")
    assert done.code == 1
    found = json.loads(done.out)
    assert found["ok"] is False
    assert [one["check"] for one in found["findings"]] == ["settings"]
    assert "RUNWARD_PORT" in found["findings"][0]["detail"]


def test_an_empty_machine_is_told_how_to_begin(tmp_path: Path) -> None:
    done = CommandLine(tmp_path, "http://127.0.0.1:9").run_fork("doctor")
    assert done.code == 0, done.out
    assert re.search(r"^warn +database .*no embedded database", done.out, re.M)
    assert re.search(r"^warn +api ", done.out, re.M)
    assert not (tmp_path / "none").exists()


def read_bundle(path: Path) -> dict[str, Any]:
    """Return the files of a bundle by name, and JSON files as values."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert {name.partition("/")[0] for name in files} == {"runward-doctor"}
    return {
        Path(name).name: json.loads(file) if name.endswith(".json") else file
        for name, file in files.items()
    }


def test_a_bundle_contains_the_state_of_the_deployment(
    tmp_path: Path, service: Service, refund: str
) -> None:
    with service.client() as client:
        run = {"model": "offline:rules", "input": "Hello"}
        assert client.call("POST", "/v1/runs", run, wait=30)["status"] == "completed"
    code, printed = examined(tmp_path, service, "--bundle", "b.zip", RUNWARD_LOG_LEVEL="warning")
    assert code == 0, printed
    path = tmp_path / "b.zip"
    assert path.stat().st_mode & 0o777 == 0o600
    found = read_bundle(path)
    assert found.keys() == {
        *("deployment.json", "findings.json", "metrics.txt", "postgresql.json", "settings.json"),
        "versions.json",
    }
    assert found["settings.json"]["log_level"] == "warning"
    assert found["settings.json"]["openai_api_key"] == "(set)"
    assert "ok" in {one["status"] for one in found["findings.json"]}
    assert found["versions.json"]["packages"]["fastapi"]
    deployment, server = found["deployment.json"], found["postgresql.json"]
    assert deployment["revision"] == [{"revision": found["versions.json"]["schema"]}]
    counts = {one["status"]: one["count"] for one in deployment["runs"]}
    assert counts["completed"] >= 1
    [worker] = deployment["workers"]
    assert worker["version"] == found["versions.json"]["runward"]
    parameters = {one["name"]: one["setting"] for one in server["parameters"]}
    assert parameters["fsync"] == "on"
    sizes = {one["name"]: one["total_bytes"] for one in server["tables"]}
    assert sizes["runs"] > 0
    assert server["invalid_indexes"] == []
    assert "runward_database_up 1.0" in found["metrics.txt"]


def test_a_bundle_replaces_no_file(tmp_path: Path, service: Service) -> None:
    (tmp_path / "b.zip").write_text("mine")
    code, _ = examined(tmp_path, service, "--bundle", "b.zip")
    assert code == 1
    assert (tmp_path / "b.zip").read_text() == "mine"


def test_a_bundle_without_a_database(tmp_path: Path, service: Service) -> None:
    url = "postgresql://runward:very-secret@127.0.0.1:9/runward"
    api = "http://me:very-secret@127.0.0.1:9"
    code, _ = examined(tmp_path, service, "--bundle", "b.zip", "--url", api, DATABASE_URL=url)
    assert code == 1
    found = read_bundle(tmp_path / "b.zip")
    assert not {"deployment.json", "postgresql.json"} & found.keys()
    assert "fail" in {one["status"] for one in found["findings.json"]}
    assert "no service answers at http://127.0.0.1:9" in json.dumps(found)
    assert "very-secret" not in json.dumps(found)


def test_a_bundle_of_a_database_that_is_not_migrated(
    tmp_path: Path, service: Service, empty_database_url: str
) -> None:
    examined(tmp_path, service, "--bundle", "b.zip", DATABASE_URL=empty_database_url)
    found = read_bundle(tmp_path / "b.zip")
    assert "not migrated" in found["deployment.json"]["error"]
    assert found["postgresql.json"]["parameters"]
    assert found["postgresql.json"]["tables"] == []


def test_a_bundle_with_invalid_settings(tmp_path: Path, service: Service) -> None:
    code, _ = examined(tmp_path, service, "--bundle", "b.zip", RUNWARD_LEASE="30")
    assert code == 1
    found = read_bundle(tmp_path / "b.zip")
    assert found.keys() == {"findings.json", "versions.json"}
