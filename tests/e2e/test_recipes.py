"""Every program of docs/how-to/recipes.md, taken from the page and run against the real service.
The proxy before it breaks streams off, so that those who follow a run must come back."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks
from tests.docs.story import Story
from tests.e2e.cutting_proxy import CuttingProxy
from tests.e2e.own_machine import needs
from tests.support.services.client import Client, Json

pytestmark = pytest.mark.timeout(300)

PAGE = "docs/how-to/recipes.md"
SECONDS = 120
REFUND: Json = {
    "name": "refund",
    "type": "client",
    "approval": {"when": "args.amount > 100"},
    "parameters": {
        "type": "object",
        "required": ["order", "amount"],
        "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
    },
}


@pytest.fixture
def proxy(client: Client) -> Iterator[CuttingProxy]:
    with CuttingProxy(client.url) as proxy:
        yield proxy


class Programs:
    """Runs blocks of the page as whole programs, which reach the service through the proxy."""

    def __init__(self, client: Client, proxy: CuttingProxy, folder: Path) -> None:
        self._reader = {"RUNWARD_URL": proxy.url, "RUNWARD_KEY": client.key}
        self._folder = folder
        self._count = 0

    def run(self, block: Block) -> str:
        """What it printed. Fails if it does."""
        self._count += 1
        name, command = {
            "python": (f"program_{self._count}.py", [sys.executable]),
            "js": (f"program_{self._count}.mjs", ["node"]),
            "go": (f"program_{self._count}.go", ["go", "run"]),
        }[block.language]
        file = self._folder / name
        file.write_text(block.text, "utf-8")
        done = subprocess.run(
            [*command, str(file)],
            env=os.environ | self._reader,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{block}:\n{done.stdout}\n{done.stderr}"
        return done.stdout.strip()


def waiting(client: Client, amount: int) -> Json:
    """A run that waits for a person."""
    asked = f'refund(order="A-1017", amount={amount})'
    started = client.start_run(model="offline:rules", tools=["refund"], input=asked)
    run = client.settle(started["id"])
    assert run["status"] == "requires_action"
    return run


def decided(client: Client, programs: Programs, block: Block) -> None:
    """Of two runs it approves one, and edits the other one's arguments."""
    runs = [waiting(client, amount) for amount in (150, 500)]
    printed = programs.run(block).splitlines()
    assert sorted(line.split()[0] for line in printed) == ["approved", "edited"]
    calls = [client.tool_calls(client.settle(run["id"])["id"])[0] for run in runs]
    assert [call["arguments"]["amount"] for call in calls] == [150, 200]
    assert client.approvals() == []
    for run in runs:
        client.cancel(run["id"])


def followed(client: Client, proxy: CuttingProxy, printed: str) -> None:
    """It told of every event of the newest run once, though its stream broke."""
    run = client.call("GET", "/v1/runs")["data"][0]
    log = [f"{event['sequence']} {event['type']}" for event in client.events(run["id"])]
    told = [line for line in printed.splitlines() if not line.startswith("reconnecting")]
    assert told == log
    assert proxy.came_back[-2:] == ["0", "1"]


def test_the_recipes(client: Client, proxy: CuttingProxy, tmp_path: Path) -> None:
    needs("node", "nodejs")
    programs = Programs(client, proxy, tmp_path)
    with Story("docs/how-to/recipes.md", client, tmp_path) as page:
        assert page.curl()["type"] == "client"

        assert page.curl()["output"].startswith("(offline model)")
        for language in ("python", "js"):
            assert programs.run(page.take(language)).startswith("completed (offline model)")
        page.take("go")

        streams = page.sh()
        assert streams.count("event: run.created") == 1
        assert streams.count("event: run.completed") == 2  # also behind number 3
        for language in ("python", "js"):
            followed(client, proxy, programs.run(page.take(language)))
        page.take("go")

        assert page.curl()["status"] == "requires_action"
        approval = page.curl()
        assert (approval["status"], approval["message"]) == ("edited", "50 is enough.")
        assert approval["edited_arguments"]["amount"] == 50
        for language in ("python", "js"):
            decided(client, programs, page.take(language))
        page.take("go")

        for language in ("python", "js"):
            assert '"refunded":50' in programs.run(page.take(language)).replace(" ", "")

        assert page.curl()["object"] == "run"
        for language in ("python", "js"):
            same, *refused = programs.run(page.take(language)).splitlines()
            assert same.lower() == "true"
            assert "unknown_tool" in refused[0] and "tools.0" in "".join(refused)
        page.take("go")

        assert page.curl()["status"] == "cancelled"

        listed = page.curl()
        assert len(listed["data"]) == 2 and listed["has_more"]
        count = len(client.call("GET", "/v1/runs", limit=200)["data"])
        for language in ("python", "js"):
            assert programs.run(page.take(language)) == f"{count} runs"

        found = page.curl()["data"]
        assert len(found) == 5
        assert {run["status"] for run in found} <= {"completed", "cancelled"}
        assert {run["created_by"]["type"] for run in found} == {"key"}
        called = page.curl()
        assert {call["tool"] for call in called["data"]} == {"refund"}
        assert called["summary"]["calls"] > len(called["data"]) == 5


def test_the_recipes_in_go(client: Client, proxy: CuttingProxy, tmp_path: Path) -> None:
    needs("go", "golang-go")
    client.call("POST", "/v1/tools", REFUND)
    programs = Programs(client, proxy, tmp_path)
    wait, follow, decide, again = (block for block in blocks(PAGE) if block.language == "go")
    assert programs.run(wait).startswith("completed (offline model)")
    followed(client, proxy, programs.run(follow))
    decided(client, programs, decide)
    same, refused = programs.run(again).splitlines()
    assert same == "true"
    assert refused.startswith("unknown_tool: ") and "tools.0" in refused


def test_the_page_has_no_program_twice() -> None:
    texts = [json.dumps(block.text) for block in blocks(PAGE)]
    assert len(set(texts)) == len(texts) >= 24
