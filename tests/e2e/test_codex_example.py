"""The example that makes the Codex CLI a tool: the real Codex, against a scripted server of the
Responses API, in runs that a person approves, cancels, or that take too long."""

import base64
import json
import os
import select
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Processes
from tests.support import packages
from tests.support.models.responses_items import Call, Reasoning, Text
from tests.support.models.responses_server import ResponsesServer, answer
from tests.support.programs import node_program
from tests.support.services.client import Client, Json
from tests.support.serving import Hold

KEY = "sk-of-the-operator-0123456789"
GONE_SECONDS = 60.0
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAAC0lEQVR42mNgAAIAAAUAAen63NgAAAAASUVORK5CYII="
)
PATCH = """apply_patch <<'EOF'
*** Begin Patch
*** Add File: hello.txt
+Hello from Codex.
*** End Patch
EOF
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    packages.install(target, tmp_path_factory.mktemp("sources"), "commands", "codex")
    return target


@pytest.fixture
def responses() -> Iterator[ResponsesServer]:
    with ResponsesServer() as server:
        yield server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    workspaces = tmp_path / "workspaces"
    workspaces.mkdir()
    (tmp_path / "threads").mkdir()
    return workspaces


@pytest.fixture
def client(start: Processes, site: Path, root: Path, responses: ResponsesServer) -> Client:
    """Without Codex's sandbox: not every machine that runs tests can have it."""
    env = {
        "CODEX_TOOL_ROOT": str(root),
        "CODEX_TOOL_THREADS": str(root.parent / "threads"),
        "CODEX_TOOL_ALLOW": "web_search",
        "CODEX_TOOL_COMMAND": node_program("codex"),
        "CODEX_TOOL_BASE_URL": responses.base_url,
        "CODEX_TOOL_MODEL": "scripted",
        "CODEX_TOOL_SANDBOX": "danger-full-access",
        "RUNWARD_SECRET_OPENAI_API_KEY": KEY,
    }
    return start.client(start("serve", env=env, site=site))


def command(call_id: str, line: str, *, patience_ms: int = 30_000) -> Call:
    """Codex's own tool. After `patience_ms` it lets the model go on while the command runs."""
    return Call(call_id, "exec_command", json.dumps({"cmd": line, "yield_time_ms": patience_ms}))


def begin(client: Client, more: str = "") -> str:
    """A run that has called Codex, and whose call a person has approved."""
    asked = f'codex(task="Say hello in a file.", workspace="shop"{more})'
    run = client.start_run(model="offline:rules", tools=["codex"], input=asked)
    waiting = client.settle(run["id"])
    assert waiting["status"] == "requires_action"
    [action] = waiting["required_actions"]
    decision = {"decision": "approve", "digest": action["digest"]}
    client.call("POST", f"/v1/approvals/{action['approval_id']}/decision", decision)
    return str(run["id"])


def events(client: Client, run_id: str, kind: str) -> list[dict[str, Any]]:
    return [event["data"] for event in client.events(run_id) if event["type"] == kind]


def living_in(folder: Path) -> list[int]:
    """The processes that work below `folder`."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended, or is none
            if Path(os.readlink(entry / "cwd")).is_relative_to(folder):
                found.append(int(entry.name))
    return found


def wait_until_gone(folder: Path) -> None:
    """Waits for the end of each process itself: pidfd_open(2) becomes readable."""
    while living := living_in(folder):
        with suppress(ProcessLookupError):
            opened = os.pidfd_open(living[0])
            try:
                ended, _, _ = select.select([opened], [], [], GONE_SECONDS)
            finally:
                os.close(opened)
            assert ended, f"{Path(f'/proc/{living[0]}/cmdline').read_bytes()!r} is still there"


@pytest.mark.timeout(180)
def test_codex_works_in_a_folder_once_a_person_has_approved(
    client: Client, root: Path, responses: ResponsesServer
) -> None:
    responses.script(
        "scripted",
        answer(Reasoning(("I write the file.",)), command("c1", PATCH), command("c2", "env")),
        answer(Text("It says hello.")),
        answer(Text('{"ok": true}')),
    )
    tool = client.call("GET", "/v1/tools/codex")
    assert tool["approval"] == "always"
    run_id = begin(client)
    assert client.settle(run_id)["status"] == "completed"
    assert (root / "shop" / "hello.txt").read_text() == "Hello from Codex.\n"
    [done] = events(client, run_id, "tool_call.completed")
    output = done["output"]
    assert output["message"] == "It says hello."
    assert output["changed_files"] == ["hello.txt"]
    assert output["usage"]["input_tokens"] == 100
    assert output["thread_id"]
    told = [event["message"] for event in events(client, run_id, "tool_call.progress")]
    assert {"Codex has started", "thinks: I write the file.", "says: It says hello."} <= set(told)
    first, second = responses.requests("scripted")
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.items[-1]["content"][0]["text"] == "Say hello in a file."
    printed = dict(second.results)["c2"]
    assert "CODEX_HOME" not in printed
    assert "PWD=" in printed
    assert KEY not in printed
    assert responses.violations == []
    wait_until_gone(root)
    continue_thread(client, root, responses, output)


def continue_thread(client: Client, root: Path, responses: ResponsesServer, former: Any) -> None:
    """A second run continues the thread, with an image and a schema of the answer. The usage of the
    thread's first two requests counts only for the first run."""
    (root / "shop" / "a.png").write_bytes(PNG)
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    more = f', thread_id="{former["thread_id"]}", images=["a.png"], web_search=true'
    run_id = begin(client, f"{more}, output_schema={json.dumps(schema)}")
    run = client.settle(run_id)
    assert [one["output"] for one in events(client, run_id, "tool_call.failed")] == []
    [done] = events(client, run_id, "tool_call.completed")
    output = done["output"]
    assert (output["output"], output["thread_id"]) == ({"ok": True}, former["thread_id"])
    assert output["usage"]["input_tokens"] == former["usage"]["input_tokens"] / 2
    [counted] = [one for one in events(client, run_id, "usage.updated") if "model" in one]
    assert counted["model"] == "openai-responses:scripted"
    assert run["usage"]["input_tokens"] >= output["usage"]["input_tokens"]
    last = responses.requests("scripted")[-1]
    assert last.body["text"]["format"]["schema"] == schema
    assert "web_search" in [tool["type"] for tool in last.body["tools"]]
    said: list[Json] = [part for item in last.items for part in item.get("content") or ()]
    assert [part["type"] for part in said].count("input_image") == 1
    assert "It says hello." in [part.get("text") for part in said]
    assert responses.violations == []


@pytest.mark.timeout(180)
def test_a_cancelled_run_leaves_no_codex_and_no_command_of_it(
    client: Client, root: Path, responses: ResponsesServer
) -> None:
    (root / "shop").mkdir()
    os.mkfifo(root / "shop" / "up")
    hold = Hold()
    line = "setsid sleep 1000 & echo both > up; sleep 1000"
    responses.script(
        "scripted",
        answer(command("c1", line, patience_ms=250)),
        answer(Text("never"), hold=hold),
    )
    run_id = begin(client)
    assert (root / "shop" / "up").read_text() == "both\n"
    hold.arrived()
    assert len(living_in(root)) >= 3  # Codex and both sleeps
    client.call("POST", f"/v1/runs/{run_id}/cancel")
    assert client.settle(run_id)["status"] == "cancelled"
    wait_until_gone(root)


@pytest.mark.timeout(180)
def test_a_call_that_takes_too_long_leaves_no_codex_and_the_model_is_told(
    client: Client, root: Path, responses: ResponsesServer
) -> None:
    responses.script("scripted", answer(Text("never"), hold=Hold()))
    client.call("PATCH", "/v1/tools/codex", {"timeout_seconds": 5})
    run_id = begin(client)
    assert client.settle(run_id)["status"] == "completed"
    [timed_out] = events(client, run_id, "tool_call.timed_out")
    assert timed_out["tool"] == "codex"
    wait_until_gone(root)


@pytest.mark.timeout(180)
def test_a_service_that_is_killed_leaves_no_codex(
    start: Processes, client: Client, root: Path, responses: ResponsesServer
) -> None:
    hold = Hold()
    responses.script("scripted", answer(Text("never"), hold=hold))
    begin(client)
    hold.arrived()
    assert living_in(root)
    start.started[-1].kill()
    wait_until_gone(root)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["commands", "codex"])
def test_the_packages_own_tests_pass(site: Path, name: str) -> None:
    packages.run_own_tests(site, name)
