"""What docs/cli.md shows of demo, doctor and agents apply is what they print."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from sqlalchemy import make_url

from tests.e2e.command_line import CommandLine
from tests.e2e.conftest import Golden, Processes
from tests.e2e.recorded import compare, steady
from tests.support.client import Client
from tests.support.postgres import scratch_folder
from tests.support.service import SECRET_KEY, Service
from tests.support.tool_server import ToolServer

pytestmark = pytest.mark.timeout(240)

API = "http://127.0.0.1:8080"
TOOLS = "http://127.0.0.1:9000"
NOBODY = "http://127.0.0.1:9/refund"


def in_a_terminal(runward: CommandLine, *words: str, typed: dict[str, str]) -> tuple[int, str]:
    """Its exit code and what the terminal shows. `typed`: what the person answers to which
    question."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        runward.command(*words),
        cwd=runward.folder,
        env=runward.environment(TERM="dumb", COLUMNS="120"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown, answered = "", 0
    try:
        while True:
            try:
                piece = os.read(ours, 65_536).decode()
            except OSError:  # Linux: the other side is closed
                break
            shown += piece
            for question, answer in typed.items():
                at = shown.find(question, answered)
                if at >= 0:
                    answered = at + len(question)
                    os.write(ours, f"{answer}\n".encode())
        return process.wait(60), shown.replace("\r\n", "\n")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def in_order(printed: str) -> str:
    """Calls run at once, so which of them is told first is chance."""

    def ordered(found: re.Match[str]) -> str:
        return "".join(sorted(found[0].splitlines(keepends=True)))

    return re.sub(r"(?:^[✓?] .*\n)+", ordered, printed, flags=re.M)


def test_the_demo_is_as_it_is_shown(tmp_path: Path) -> None:
    code, shown = in_a_terminal(CommandLine(tmp_path), "demo", typed={"(n)ot now? ": "a"})
    assert code == 0, shown
    [url] = re.findall(r"It answers at (\S+)\.$", shown, re.M)
    [tools] = re.findall(r"sends to +(http://[^/]+)/", shown)
    printed = steady(in_order(shown), **{API: url, "http://127.0.0.1:8081": tools})
    compare("demo", f"$ runward demo\n{printed}")


def test_the_demo_runs_without_anybody_and_leaves_nothing(tmp_path: Path) -> None:
    folder = scratch_folder()
    try:
        done = CommandLine(tmp_path)("demo", "--yes", TMPDIR=str(folder))
        assert done.code == 0, done.err
        assert "● completed" in done.out
        assert list(folder.iterdir()) == []
    finally:
        shutil.rmtree(folder)


def test_an_interrupted_demo_takes_its_runward_with_it(tmp_path: Path) -> None:
    folder = scratch_folder()
    runward = CommandLine(tmp_path)
    process = subprocess.Popen(
        runward.command("demo"),
        cwd=tmp_path,
        env=runward.environment(TMPDIR=str(folder), PYTHONUNBUFFERED="1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        shown = ""
        while "approvals decide\n" not in shown:
            line = process.stdout.readline()
            assert line, shown
            shown += line
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        assert list(folder.iterdir()) == []
    finally:
        process.kill()
        process.communicate()
        shutil.rmtree(folder)
    [url] = re.findall(r"It answers at (\S+)\.$", shown, re.M)
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{url}/healthz", trust_env=False)


@pytest.fixture
def service(start: Processes) -> Service:
    return start("serve")


@pytest.fixture
def refund(service: Service, start: Processes, tools: ToolServer) -> Iterator[str]:
    """Where the one tool is that is registered."""
    url = tools.tool("refund")
    start.client(service).register_tool("refund", url)
    yield url


def examined(
    tmp_path: Path, service: Service, *, without: tuple[str, ...] = (), **env: str
) -> tuple[int, str]:
    """Its exit code and what it prints, with the environment of the service but for `env`."""
    runward = CommandLine(tmp_path, service.url, service.key)
    names = {
        "DATABASE_URL": service.database_url,
        "RUNWARD_SECRET_KEY": SECRET_KEY,
        "RUNWARD_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
        "OPENAI_API_KEY": "sk-test",
    } | env
    done = runward("doctor", **{name: one for name, one in names.items() if name not in without})
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
    assert 'database "nowhere" does not exist' in printed


def test_a_database_that_is_not_migrated(
    tmp_path: Path, service: Service, empty_database_url: str
) -> None:
    code, printed = examined(
        tmp_path, service, without=("RUNWARD_SECRET_KEY",), DATABASE_URL=empty_database_url
    )
    assert code == 1
    compare("doctor, not migrated", printed)


def test_a_key_that_is_not_the_database_s(tmp_path: Path, service: Service, refund: str) -> None:
    code, printed = examined(tmp_path, service, RUNWARD_SECRET_KEY=SECRET_KEY[::-1])
    assert code == 1
    compare("doctor, another secret key", printed)


def test_tools_that_cannot_be_reached(
    tmp_path: Path, service: Service, start: Processes, refund: str
) -> None:
    start.client(service).register_tool("gone", NOBODY.replace("refund", "gone"))
    code, printed = examined(tmp_path, service)
    assert code == 1
    assert "answer: refund" in printed
    code, printed = examined(tmp_path, service, RUNWARD_ALLOW_PRIVATE_TARGETS="169.254.0.0/16")
    assert code == 1
    compare("doctor, tools out of reach", with_tools_at(printed, refund))


def test_doctor_for_programs(tmp_path: Path, service: Service) -> None:
    runward = CommandLine(tmp_path, service.url, service.key)
    done = runward("doctor", "--json", DATABASE_URL=service.database_url, RUNWARD_PORT="x")
    assert done.code == 1
    found = json.loads(done.out)
    assert found["ok"] is False
    assert [one["check"] for one in found["findings"]] == ["settings"]
    assert "RUNWARD_PORT" in found["findings"][0]["detail"]


def test_an_empty_machine_is_told_how_to_begin(tmp_path: Path) -> None:
    done = CommandLine(tmp_path, "http://127.0.0.1:9")("doctor")
    assert done.code == 0, done.out
    assert re.search(r"^warn +database .*no embedded database", done.out, re.M)
    assert re.search(r"^warn +api ", done.out, re.M)
    assert not (tmp_path / "none").exists()


def test_agents_are_applied_as_it_is_shown(golden: Golden, tmp_path: Path) -> None:
    with golden.operator.new_project("agents") as client:
        runward = CommandLine(tmp_path, client.url, client.key)
        file = tmp_path / "agents.yaml"
        file.write_text(
            "agents:\n"
            "  - name: desk\n"
            "    model: offline:rules\n"
            "    instructions: Send refunds to the clerk.\n"
            "    handoffs: [clerk]\n"
            "  - name: clerk\n"
            "    model: offline:rules\n"
            "    tools: [refund]\n"
            "    limits: {max_turns: 5}\n"
        )
        shown = f"$ cat agents.yaml\n{file.read_text()}$ runward agents apply -f agents.yaml\n"
        code, printed = in_a_terminal(
            runward, "agents", "apply", "-f", "agents.yaml", typed={"[y/N]: ": "y"}
        )
        assert code == 0, printed
        shown += printed
        file.write_text(
            file.read_text().replace("max_turns: 5", "max_turns: 8").replace("desk", "frontdesk")
        )
        shown += "$ sed -i 's/max_turns: 5/max_turns: 8/; s/desk/frontdesk/' agents.yaml\n"
        shown += "$ runward agents apply -f agents.yaml --check; echo $?\n"
        checked = runward("agents", "apply", "-f", "agents.yaml", "--check")
        assert checked.code == 2
        compare("agents apply", steady(f"{shown}{checked.out}{checked.code}"))
        assert_applied(client, runward)


def assert_applied(client: Client, runward: CommandLine) -> None:
    assert client.call("GET", "/v1/agents/clerk")["limits"]["max_turns"] == 5
    applied = runward.json("agents", "apply", "-f", "agents.yaml", "--yes")
    assert [step["action"] for step in applied["plan"]] == ["create", "change"]
    assert [agent["version"] for agent in applied["agents"]] == [1, 2]
    again = runward.json("agents", "apply", "-f", "agents.yaml", "--check")
    assert [step["action"] for step in again["plan"]] == ["unchanged"] * 2
