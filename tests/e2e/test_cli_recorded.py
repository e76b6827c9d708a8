"""What docs/reference/cli.md shows of demo, doctor and agents apply is what they print."""

import re
import shutil
import signal
import subprocess
from pathlib import Path

import httpx2
import pytest

from tests.e2e.command_line import CommandLine, in_a_terminal
from tests.e2e.conftest import Golden
from tests.e2e.recorded import compare, steady
from tests.support.postgres import scratch_folder
from tests.support.services.client import Client

pytestmark = pytest.mark.timeout(240)

API = "http://127.0.0.1:8080"


def in_order(printed: str) -> str:
    """Calls run at once, so which of them is told first is chance."""

    def ordered(found: re.Match[str]) -> str:
        return "".join(sorted(found[0].splitlines(keepends=True)))

    return re.sub(r"(?:^[✓?] .*\n)+", ordered, printed, flags=re.M)


def test_the_demo_is_as_it_is_shown(tmp_path: Path) -> None:
    code, shown = in_a_terminal(CommandLine(tmp_path), "demo", typed={"(n)ot now? ": "a"})
    assert code == 0, shown
    [url] = re.findall(r"Runward is ready at (\S+)\.$", shown, re.M)
    [tools] = re.findall(r"sends to +(http://[^/]+)/", shown)
    printed = steady(in_order(shown), **{API: url, "http://127.0.0.1:8081": tools})
    compare("demo", f"$ runward demo\n{printed}")


def test_the_demo_runs_without_anybody_and_leaves_nothing(tmp_path: Path) -> None:
    folder = scratch_folder()
    try:
        done = CommandLine(tmp_path).run_fork("demo", TMPDIR=str(folder))
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
        while "Runward is ready at" not in shown:
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
    [url] = re.findall(r"Runward is ready at (\S+)\.$", shown, re.M)
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{url}/livez", trust_env=False)


def test_agents_are_applied_as_it_is_shown(golden: Golden, tmp_path: Path) -> None:
    with golden.operator.new_project("agents") as client:
        runward = CommandLine(tmp_path, client.url, client.key)
        file = tmp_path / "agents.yaml"
        file.write_text(
            "agents:\n"
            "  - name: desk\n"
            "    model: offline:rules\n"
            "    instructions: |\n"
            "      You are at the desk.\n"
            "      Send refunds to the clerk.\n"
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
        edit = "s/max_turns: 5/max_turns: 8/; s/Send refunds/Hand refunds over/; s/clerk/office/"
        subprocess.run(["sed", "-i", edit, "agents.yaml"], cwd=tmp_path, check=True)
        shown += f"$ sed -i '{edit}' agents.yaml\n"
        shown += "$ runward agents apply -f agents.yaml --prune --check; echo $?\n"
        checked = runward("agents", "apply", "-f", "agents.yaml", "--prune", "--check")
        assert checked.code == 2
        compare("agents apply", steady(f"{shown}{checked.out}{checked.code}"))
        assert_applied(client, runward)


def assert_applied(client: Client, runward: CommandLine) -> None:
    assert client.call("GET", "/v1/agents/clerk")["limits"]["max_turns"] == 5
    applied = runward.json("agents", "apply", "-f", "agents.yaml", "--prune", "--yes")
    assert [step["action"] for step in applied["plan"]] == ["update", "create", "delete"]
    assert [agent.get("version") for agent in applied["agents"]] == [2, 1, None]
    again = runward.json("agents", "apply", "-f", "agents.yaml", "--prune", "--check")
    assert [step["action"] for step in again["plan"]] == ["unchanged"] * 2
