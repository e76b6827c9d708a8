"""The example that carries out what models know by kind: a shell and patches in a folder, as
plugins and as a webhook, in runs that a person approves."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runward.tools.signing import make_secret, signed_headers
from tests.e2e.conftest import Processes
from tests.support import packages
from tests.support.models.chat_server import Call, ModelServer, calls, text
from tests.support.models.responses_items import Patch, Reasoning, Shell, Text
from tests.support.models.responses_server import ResponsesServer, answer
from tests.support.programs import chromium
from tests.support.services.client import Client

EXITED = {"type": "exit", "exit_code": 0}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    packages.install(target, tmp_path_factory.mktemp("sources"), "commands", "executors")
    return target


@pytest.fixture
def client(start: Processes, site: Path, tmp_path: Path) -> Client:
    return start.client(start("serve", env={"EXECUTORS_ROOT": str(tmp_path)}, site=site))


def approve_all(client: Client, run_id: str) -> dict[str, Any]:
    """Approves whatever waits until the run ends."""
    while (run := client.settle(run_id))["status"] == "requires_action":
        for action in run["required_actions"]:
            client.decide(action["approval_id"], "approve", digest=action["digest"])
    return run


def outputs(client: Client, run_id: str) -> list[Any]:
    """What the calls answered, in the order of their ends."""
    events = client.events(run_id)
    return [event["data"]["output"] for event in events if event["type"] == "tool_call.completed"]


@pytest.mark.timeout(180)
def test_a_model_that_knows_no_kinds_works_with_files_and_commands_as_functions(
    client: Client, model: ModelServer, tmp_path: Path
) -> None:
    create = '{"operation": {"type": "create_file", "path": "add.py", "diff": "+print(1 + 1)"}}'
    change = (
        '{"operation": {"type": "update_file", "path": "add.py",'
        ' "diff": "@@\\n-print(1 + 1)\\n+print(2 + 2)"}}'
    )
    model.by_turn(
        "main",
        calls(Call("c1", "apply_patch", create)),
        calls(Call("c2", "apply_patch", change)),
        calls(Call("c3", "shell", '{"commands": ["cat add.py", "ls; exit 3"]}')),
        text("4"),
    )
    run = client.start_run(model="openai:main", tools=["shell", "apply_patch"], input="add")
    waiting = client.settle(run["id"])
    assert waiting["status"] == "requires_action"
    assert list(tmp_path.iterdir()) == []  # nothing happens before a person says so
    assert approve_all(client, run["id"])["status"] == "completed"
    assert (tmp_path / run["id"] / "add.py").read_text() == "print(2 + 2)\n"
    created, changed, printed = outputs(client, run["id"])
    assert (created["status"], changed["status"]) == ("completed", "completed")
    assert printed["output"] == [
        {"stdout": "print(2 + 2)\n", "stderr": "", "outcome": EXITED},
        {"stdout": "add.py\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 3}},
    ]
    shown = {tool["function"]["name"]: tool for tool in model.requests("main")[0].body["tools"]}
    assert shown["shell"]["function"]["parameters"]["required"] == ["commands"]
    assert model.violations == []


@pytest.mark.timeout(180)
def test_a_model_that_knows_the_kinds_is_given_its_own_tools(
    start: Processes, site: Path, tmp_path: Path
) -> None:
    create = {"type": "create_file", "path": "add.py", "diff": "+print(1 + 1)"}
    with ResponsesServer() as responses:
        responses.by_turn(
            "main",
            answer(Reasoning(), Patch("c1", create)),
            answer(Reasoning(), Shell("c2", ("cat add.py", "exit 3"), max_output_length=100)),
            answer(Text("2")),
        )
        env = {"EXECUTORS_ROOT": str(tmp_path), "OPENAI_BASE_URL": responses.base_url}
        client = start.client(start("serve", env=env, site=site))
        tools = ["shell", "apply_patch"]
        run = client.start_run(model="openai-responses:main", tools=tools, input="add")
        assert client.settle(run["id"])["status"] == "requires_action"
        assert list(tmp_path.iterdir()) == []
        assert approve_all(client, run["id"])["status"] == "completed"
        assert (tmp_path / run["id"] / "add.py").read_text() == "print(1 + 1)\n"
        last = responses.requests("main")[-1]
        assert sorted(last.tool_names) == ["apply_patch", "shell"]
        given = {item["call_id"]: item for item in last.items if "output" in item}
        assert (given["c1"]["type"], given["c1"]["status"]) == (
            "apply_patch_call_output",
            "completed",
        )
        assert (given["c2"]["type"], given["c2"]["output"], given["c2"]["max_output_length"]) == (
            "shell_call_output",
            [
                {"stdout": "print(1 + 1)\n", "stderr": "", "outcome": EXITED},
                {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 3}},
            ],
            100,
        )
        assert responses.violations == []


@pytest.mark.timeout(180)
def test_a_rejected_command_never_runs(client: Client, model: ModelServer, tmp_path: Path) -> None:
    model.by_turn("main", calls(Call("c1", "shell", '{"commands": ["touch x"]}')), text("well"))
    run = client.start_run(model="openai:main", tools=["shell"], input="touch")
    [action] = client.settle(run["id"])["required_actions"]
    client.decide(action["approval_id"], "reject")
    assert client.settle(run["id"])["status"] == "completed"
    assert list(tmp_path.iterdir()) == []


class Webhook:
    """examples/executors/webhook.py as a process; `url` is known when it listens."""

    def __init__(self, site: Path, root: Path) -> None:
        self._site, self._root = site, root
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self, secret: str) -> None:
        own = {"PYTHONPATH": str(self._site), "ROOT": str(self._root)}
        self._process = subprocess.Popen(
            [sys.executable, str(packages.EXAMPLES / "executors" / "webhook.py")],
            env=os.environ | own | {"PORT": "0", "SHELL_SECRET": secret},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        label, _, self.url = self._process.stdout.readline().strip().rpartition(" ")
        assert label == "Listening on"

    def post(self, secret: str, call_id: str, body: dict[str, Any]) -> httpx2.Response:
        content = json.dumps(body).encode()
        headers = signed_headers([secret], call_id, datetime.now(UTC), content)
        return httpx2.post(self.url, content=content, headers=headers, timeout=60)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture
def webhook(site: Path, tmp_path: Path) -> Iterator[Webhook]:
    process = Webhook(site, tmp_path)
    yield process
    process.close()


def call(command: str) -> dict[str, Any]:
    arguments = {"commands": [command]}
    return {"type": "tool_call", "run_id": "run_1", "arguments": arguments, "deadline_ms": 60_000}


@pytest.mark.timeout(180)
def test_the_same_shell_is_a_webhook(
    start: Processes, model: ModelServer, webhook: Webhook, tmp_path: Path
) -> None:
    client = start.client(start("serve"))
    fields = {"name": "shell", "type": "webhook", "implements": "shell"}
    tool = client.call("POST", "/v1/tools", fields | {"url": "http://127.0.0.1:9/shell"})
    assert (tool["implements"], tool["approval"]) == ("shell", "always")
    webhook.start(tool["secret"])
    client.call("PATCH", "/v1/tools/shell", {"url": webhook.url})
    model.by_turn("main", calls(Call("c1", "shell", '{"commands": ["pwd"]}')), text("there"))
    run = client.start_run(model="openai:main", tools=["shell"], input="where")
    assert approve_all(client, run["id"])["status"] == "completed"
    printed = {"stdout": f"{tmp_path / run['id']}\n", "stderr": "", "outcome": EXITED}
    assert outputs(client, run["id"]) == [{"output": [printed]}]


@pytest.mark.timeout(180)
def test_the_webhook_believes_signatures_alone_and_runs_each_call_once(
    webhook: Webhook, tmp_path: Path
) -> None:
    secret = make_secret()
    webhook.start(secret)
    append = call("echo once >> file")
    assert webhook.post(make_secret(), "call_1", append).status_code == 401
    assert httpx2.post(webhook.url, json=append).status_code == 401
    first = webhook.post(secret, "call_1", append)
    assert first.json()["output"][0]["outcome"] == EXITED
    assert webhook.post(secret, "call_1", append).json() == first.json()
    assert (tmp_path / "run_1" / "file").read_text() == "once\n"


@pytest.mark.timeout(180)
def test_a_notice_that_nobody_waits_ends_the_webhooks_command(
    webhook: Webhook, tmp_path: Path
) -> None:
    secret = make_secret()
    webhook.start(secret)
    (tmp_path / "run_1").mkdir()
    alive = tmp_path / "run_1" / "alive"
    os.mkfifo(alive)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(webhook.post, secret, "call_1", call("exec 3>alive; sleep 1000"))
        with alive.open("rb") as held:
            notice = {"type": "tool_call.cancelled", "run_id": "run_1"}
            assert webhook.post(secret, "call_1_cancelled", notice).status_code == 200
            assert held.read() == b""  # whoever held it has ended
        assert waiting.result().json()["is_error"] is True


@pytest.mark.timeout(300)
def test_the_packages_own_tests_pass(site: Path) -> None:
    packages.run_own_tests(site, "executors", EXECUTORS_BROWSER=chromium())
