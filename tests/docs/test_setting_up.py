"""The pages that start the service: for the first time, on servers, with the examples."""

import asyncio
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from sqlalchemy import text as sql

from runward.domain.schema.validator import Validator
from runward.store.data_keys.key_ring import KeyRing, format_key_id
from runward.store.data_keys.wrapping import LocalKey
from runward.store.postgres.db import open_database
from runward.store.readiness import WrongSecretKeyError
from tests.deploy.kubernetes import CHART, list_pods, read_container, read_manifests, run
from tests.docs.blocks import ROOT
from tests.docs.conftest import Own
from tests.docs.story import Story
from tests.support import prometheus
from tests.support.models.chat_server import ModelServer, text
from tests.support.services.service import SECRET_KEY, free_port
from tests.unit.test_docs import settings

pytestmark = pytest.mark.timeout(180)


def test_getting_started(own: Own, tmp_path: Path) -> None:
    weather = f"{free_port()}"
    with ModelServer() as model:
        model.script("house", text("Fine."))
        here = {"http://127.0.0.1:11434/v1": model.base_url, "9100": weather, "sk-…": "sk-test"}
        key = tmp_path / "api-key"  # kept there by `make run` on a database of its own
        key.write_text(own.client.key, "utf-8")
        here |= {".runward/api-key": str(key)}
        with Story(
            "docs/tutorials/getting-started.md", own.client, tmp_path, here, own.env
        ) as page:
            assert "make run" in page.not_run()
            page.sh()
            with_key = f"{free_port()}"
            page.run(f"OWN=$RUNWARD_PORT; export RUNWARD_PORT={with_key}")
            page.serve()
            page.run("export RUNWARD_PORT=$OWN")
            page.serve()
            asked = {"model": "openai:house", "input": "?"}
            assert own.client.call("POST", "/v1/runs", asked, wait=30)["output"] == "Fine."
            page.program(until="Listening on")
            page.shows(page.curl())


def test_deploying(own: Own, tmp_path: Path) -> None:
    with Story("docs/how-to/deploying.md", own.client, tmp_path) as page:
        assert "docker compose up" in page.not_run()
        assert "docker build" in page.not_run()
        image = page.not_run()
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    assert set(re.findall(r"--from=\w+ (\S+) (\S+)", image)) == {("/opt/venv", "/opt/venv")}
    assert "python3 -m venv --without-pip /opt/venv" in dockerfile
    written = (ROOT / "docs/how-to/deploying.md").read_text("utf-8")
    [_, table, *_] = written.partition("| build argument |")[2].split("\n", 1)
    named = set(re.findall(r"^\| `([A-Z_]+)` \|", table.partition("\n\n")[0], re.MULTILINE))
    assert named == set(re.findall(r"^ARG (\w+)", dockerfile, re.MULTILINE))
    assert all(
        (ROOT / lock).is_file() for lock in re.findall(r"requirements-image[\w-]*\.lock", written)
    )
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    started = [service.get("command") for service in compose["services"].values()]
    assert started == [
        None,
        *(["python", "-m", "runward", it] for it in ("migrate", "api", "worker")),
    ]
    example = (ROOT / ".env.example").read_text("utf-8")
    named = set(re.findall(r"^(?:# )?(\w+)=", example, re.MULTILINE))
    asked_for = set(re.findall(r"\$\{(\w+):\?", (ROOT / "docker-compose.yml").read_text("utf-8")))
    assert named <= {name for name, _ in settings()} | {"POSTGRES_PASSWORD"}
    assert asked_for <= named


def test_monitoring(own: Own, tmp_path: Path) -> None:
    with Story("docs/how-to/monitoring.md", own.client, tmp_path) as page:
        config = tmp_path / "prometheus.yml"
        config.write_text(page.take("yaml").text, "utf-8")
    (tmp_path / prometheus.ALERTS.name).write_text(prometheus.ALERTS.read_text("utf-8"), "utf-8")
    assert "SUCCESS" in prometheus.promtool("check", "config", config)
    worker = read_container(list_pods(read_manifests("base"))["worker"])
    [port] = worker["ports"]
    jobs = yaml.safe_load(config.read_text("utf-8"))["scrape_configs"]
    targets = [one for job in jobs for one in job["static_configs"][0]["targets"]]
    assert {one.partition(":")[2] for one in targets} == {"8080", str(port["containerPort"])}


def test_kubernetes(own: Own, tmp_path: Path) -> None:
    """tests/deploy renders and validates the manifests."""
    with Story("docs/how-to/kubernetes.md", own.client, tmp_path) as page:
        create = page.not_run()
        values = tmp_path / "values.yaml"
        values.write_text(page.take("yaml").text, "utf-8")
        install = page.not_run()
        apply = page.not_run()
        certificates = tmp_path / "certificates.yaml"
        certificates.write_text(page.take("yaml").text, "utf-8")
    secret = set(re.findall(r"--from-literal=(\w+)=", create))
    assert {"DATABASE_URL", "RUNWARD_SECRET_KEY"} <= secret <= {name for name, _ in settings()}
    assert f"install runward {CHART.relative_to(ROOT)} " in install
    done = run("helm", "lint", "--strict", CHART, "--values", values, "--values", certificates)
    assert done.returncode == 0, done.stdout
    [folder] = re.findall(r"apply -k deploy/kustomize/(\S+)", apply)
    manifests = read_manifests(folder)
    names = {f"{one['kind']}/{one['metadata']['name']}".lower() for one in manifests}
    assert set(re.findall(r"(?:job|deployment)/[\w-]+", apply)) <= names
    [name] = {one["metadata"]["namespace"] for one in manifests}
    assert f"create namespace {name}" in create


def test_rotate_the_secret_key(own: Own, tmp_path: Path) -> None:
    first = asyncio.run(open_key_ring(own, SECRET_KEY))
    with pytest.raises(WrongSecretKeyError) as refused:
        asyncio.run(open_key_ring(own, SECRET_KEY[::-1]))
    here = {"OLD_KEY": first}
    with Story("docs/how-to/rotate-the-secret-key.md", own.client, tmp_path, here, own.env) as page:
        written = re.sub("local:[0-9a-f]{16}", "local:", page.take("text").text)
        refusal = re.sub("local:[0-9a-f]{16}", "local:", str(refused.value))
        assert refusal.startswith(written.strip().removesuffix("…"))
        listed = page.sh()
        assert re.search(rf"^{first} +current ", listed, re.MULTILINE)
        assert re.search(r"^[0-9a-f]{16} +next ", listed, re.MULTILINE)
        asyncio.run(make_active(own))
        assert f"The data key {first} was removed." in page.sh()


async def open_key_ring(own: Own, secret_key: str) -> str:
    """As a process does that starts. The ID of the current data key."""
    database = open_database(own.env["DATABASE_URL"], pool_size=1)
    try:
        vault = await KeyRing(database, [LocalKey(secret_key)]).open()
    finally:
        await database.close()
    return format_key_id(vault.current_id)


async def make_active(own: Own) -> None:
    database = open_database(own.env["DATABASE_URL"], pool_size=1)
    async with database.pool.begin() as tx:
        await tx.execute(sql("UPDATE data_keys SET created_at = created_at - interval '1 hour'"))
    await database.close()


def test_systemd(own: Own, tmp_path: Path) -> None:
    with Story("docs/how-to/systemd.md", own.client, tmp_path) as page:
        commands = page.not_run() + page.not_run() + page.not_run()
    for path in re.findall(r"\b(deploy/\S+)", commands):
        assert [*ROOT.glob(path)], path
    units = {path.name for path in (ROOT / "deploy/systemd").glob("*.service")}
    started = set(re.findall(r"runward-[\w-]+@?", commands))
    assert started - {"runward-"} <= {unit.removesuffix(".service") for unit in units}


def pip(folder: Path) -> dict[str, str]:
    """The environment in which pip installs into `folder`, without a network, and programs find it
    there."""
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    return {"PIP_TARGET": str(folder), "PYTHONPATH": str(folder), **offline}


def test_the_example_of_plugins(own: Own, tmp_path: Path) -> None:
    env = own.env | pip(tmp_path / "site")
    with Story("examples/plugins/README.md", own.client, tmp_path, env=env) as page:
        page.serve()
        names = [tool["name"] for tool in own.client.call("GET", "/v1/tools")["data"]]
        assert {"convert", "refund", "ship"} <= set(names)


def test_the_example_of_executors(own: Own, tmp_path: Path) -> None:
    env = own.env | pip(tmp_path / "site") | {"EXECUTORS_ROOT": str(tmp_path / "work")}
    env |= {"URL": own.client.url, "AUTH": f"Authorization: Bearer {own.client.key}"}
    with Story("examples/executors/README.md", own.client, tmp_path, env=env) as page:
        page.serve()
        shell = own.client.call("GET", "/v1/tools/shell")
        assert (shell["type"], shell["implements"]) == ("plugin", "shell")
        page.not_run()
        for given in re.findall(r"/examples(/\S+)", page.not_run()):
            assert (ROOT / "examples" / given.strip("/:")).exists(), given
        assert page.curl()["type"] == "webhook"


def test_the_example_of_codex(own: Own, tmp_path: Path) -> None:
    env = own.env | pip(tmp_path / "site")
    here = {"/srv/workspaces": str(tmp_path / "workspaces"), "sk-…": "sk-test"}
    with Story("examples/codex/README.md", own.client, tmp_path, here, env) as page:
        arguments = page.json()
        assert set(page.json()) == {"message", "workspace", "thread_id", "changed_files", "usage"}
        page.not_run()
        page.serve()
        tool = own.client.call("GET", "/v1/tools/codex")
        assert tool["type"] == "plugin"
        assert Validator(tool["parameters"]).problems(arguments) == []


def layers() -> list[str]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return config["tool"]["importlinter"]["contracts"][0]["layers"]


def packages() -> Iterator[Path]:
    """Return the packages of Runward that stand in one of its two upper levels."""
    for depth in ("*", "*/*"):
        yield from (init.parent for init in ROOT.glob(f"app/runward/{depth}/__init__.py"))


def test_architecture(own: Own, tmp_path: Path) -> None:
    with Story("docs/explanation/architecture.md", own.client, tmp_path) as page:
        drawn = page.take("text").text.splitlines()
        assert [re.split(r"\s{2,}", line)[0] for line in drawn] == layers()
        folders = [line.split()[0] for line in page.take("text").text.splitlines()]
        assert [name for name in folders if not list(ROOT.glob(f"app/**/{name}"))] == []
        assert len(folders) == 1 + len([*packages()])
        gate = (ROOT / "app" / "runward" / "store" / "runs" / "gate.py").read_text("utf-8")
        conditions = page.take("sql").text.removeprefix("… WHERE ").strip().split(" AND ")
        assert len(conditions) == 5
        for condition in conditions:
            assert condition.removesuffix("…") in gate.replace("r.", ""), condition


def test_contributing(own: Own, tmp_path: Path) -> None:
    with Story("CONTRIBUTING.md", own.client, tmp_path) as page:
        assert page.take("text").text.strip() == " > ".join(layers())
        variable, make, *words = page.not_run().splitlines()[0].split()
        test = words[1].removeprefix("ARGS=")
        assert variable.partition("=")[0] in (ROOT / test).read_text("utf-8")
        assert test in page.run(" ".join([make, "--dry-run", *words]))
        page.not_run()
