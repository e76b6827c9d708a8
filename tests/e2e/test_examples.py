"""Every example is executed: each tool server behind the real service, each client against it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from standardwebhooks import Webhook

from tests.e2e.own_machine import needs
from tests.support.services.client import Client, Json
from tests.support.services.service import ROOT, free_port

pytestmark = pytest.mark.timeout(180)

EXAMPLES = ROOT / "examples"
TOOLS = EXAMPLES / "tools"
CALLS = (
    'lookup_order(order="A-1018") refund(order="A-1017", amount=50) '
    'refund(order="A-1018", amount=500)'
)
CLIENT_SECONDS = 60

Secrets = dict[str, str]


def tool_command(language: str) -> list[str]:
    match language:
        case "python":
            return [sys.executable, str(TOOLS / "python" / "server.py")]
        case "cart":
            return [sys.executable, str(TOOLS / "python" / "cart.py")]
        case "node":
            return [needs("node", "nodejs"), str(TOOLS / "node" / "server.mjs")]
        case _:
            needs("perl", "perl-base")
            needs("openssl", "openssl")
            return [needs("bash", "bash"), str(TOOLS / "shell" / "serve.sh")]


def client_command(language: str) -> list[str]:
    match language:
        case "python":
            return [sys.executable, str(EXAMPLES / "runs" / "run.py")]
        case "node":
            return [needs("node", "nodejs"), str(EXAMPLES / "runs" / "run.mjs")]
        case _:
            needs("curl", "curl")
            return ["/bin/sh", str(EXAMPLES / "runs" / "run.sh")]


def register(client: Client, url: str) -> Secrets:
    """By examples/tools/register.sh; what it prints, as a dict."""
    needs("curl", "curl")
    done = subprocess.run(
        ["/bin/sh", str(TOOLS / "register.sh"), url],
        env=os.environ | {"RUNWARD_URL": client.url, "RUNWARD_KEY": client.key},
        capture_output=True,
        text=True,
        check=False,
        timeout=CLIENT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    secrets = dict(re.findall(r"^export (\w+)=(whsec_[A-Za-z0-9+/=]+)$", done.stdout, re.MULTILINE))
    assert secrets.keys() == {"LOOKUP_ORDER_SECRET", "REFUND_SECRET"}
    return secrets


@contextmanager
def serving(language: str, port: int, secrets: Secrets, folder: Path) -> Generator[str]:
    """The example's tool server as a process of its own; its address."""
    refunds = folder / "refunds"
    refunds.mkdir(exist_ok=True)
    process = subprocess.Popen(
        tool_command(language),
        env=os.environ | secrets | {"PORT": str(port), "REFUNDS": str(refunds)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said == f"Listening on http://127.0.0.1:{port}\n", said + process.stdout.read()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


def signed(
    secret: str, call_id: str, body: Json, age: timedelta = timedelta(0)
) -> tuple[dict[str, str], bytes]:
    raw, now = json.dumps(body), datetime.now(UTC) - age
    headers = {
        "webhook-id": call_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": f"v1,bm90IHRoaXMgb25l {Webhook(secret).sign(call_id, now, raw)}",
        "content-type": "application/json",
    }
    return headers, raw.encode()


def a_refund(amount: int) -> Json:
    return {
        "type": "tool_call",
        "tool": "refund",
        "call_id": "call_1",
        "arguments": {"order": "A-1017", "amount": amount},
        "context": {"note": 'say "arguments": {"amount": 1}'},
    }


@pytest.mark.parametrize("language", ["python", "node", "shell"])
def test_a_tool_example_serves_runs_and_checks_signatures(
    language: str, client: Client, tmp_path: Path
) -> None:
    tool_command(language)  # skips at once where its language is missing
    port = free_port()
    secrets = register(client, f"http://127.0.0.1:{port}")
    with serving(language, port, secrets, tmp_path) as url:
        run = client.start_run(
            wait=30, model="offline:rules", tools=["lookup_order", "refund"], input=CALLS
        )
        [action] = run["required_actions"]
        assert (run["status"], action["arguments"]["amount"]) == ("requires_action", 500)
        client.decide(action["approval_id"], "approve")
        assert client.settle(run["id"])["status"] == "completed"
        calls = client.tool_calls(run["id"])
        assert [call["outcome"] for call in calls] == ["completed"] * 3
        looked_up, small, large = (call["output"] for call in calls)
        assert looked_up == {
            "order": "A-1018",
            "item": "Standing desk",
            "paid": 640,
            "delivered": True,
        }
        assert (small["order"], small["amount"], small["currency"]) == ("A-1017", 50, "EUR")
        assert (large["order"], large["amount"]) == ("A-1018", 500)

        unknown = client.start_run(
            wait=30,
            model="offline:rules",
            tools=["lookup_order"],
            input='lookup_order(order="Z-9")',
        )
        [call] = client.tool_calls(unknown["id"])
        assert (call["is_error"], call["output"]) == (True, "There is no order Z-9.")

        check_signatures(url, secrets["REFUND_SECRET"], secrets["LOOKUP_ORDER_SECRET"])


def check_signatures(url: str, secret: str, other: str) -> None:
    with httpx2.Client(base_url=url, trust_env=False, timeout=20) as http:

        def post(headers: dict[str, str], body: bytes, path: str = "/refund") -> tuple[int, Any]:
            answer = http.post(path, headers=headers, content=body)
            return answer.status_code, answer.json()

        headers, body = signed(secret, "call_a", a_refund(7))
        first = post(headers, body)
        assert (first[0], first[1]["amount"]) == (200, 7)
        assert post(headers, body) == first, "the same call id, the same answer"
        again = post(*signed(secret, "call_b", a_refund(7)))
        assert again[1]["refund"] != first[1]["refund"]

        assert post(headers, body.replace(b"7", b"8"))[0] == 401, "another body"
        assert post({**headers, "webhook-id": "call_c"}, body)[0] == 401, "another id"
        assert post(*signed(other, "call_d", a_refund(9)))[0] == 401, "another tool's secret"
        later = str(int(headers["webhook-timestamp"]) + 1)
        assert post({**headers, "webhook-timestamp": later}, body)[0] == 401, "another time"
        old = signed(secret, "call_e", a_refund(9), age=timedelta(minutes=6))
        assert post(*old)[0] == 401, "too old"
        assert post({**headers, "webhook-signature": "v1,"}, body)[0] == 401, "no signature"
        assert post({}, body)[0] == 401, "nothing at all"
        notice = signed(secret, "call_a_cancelled", {"type": "tool_call.cancelled"})
        assert post(*notice)[0] == 200, "a notice"
        assert post(headers, body, "/elsewhere")[0] == 404


def test_the_cart_changes_the_state_and_hands_off_the_run(client: Client, tmp_path: Path) -> None:
    port = free_port()
    parameters = {"type": "object", "properties": {"item": {"type": "string"}}}
    tool = client.register_tool(
        "add_to_cart",
        f"http://127.0.0.1:{port}/",
        parameters={**parameters, "required": ["item"]},
        response="envelope",
    )
    client.call("POST", "/v1/agents", {"name": "cashier", "model": "offline:rules"})
    session = client.call("POST", "/v1/sessions", {"state": {"cart": ["tea"]}})["id"]
    started: Json = {"model": "offline:rules", "tools": ["add_to_cart"], "handoffs": ["cashier"]}
    with serving("cart", port, {"CART_SECRET": tool["secret"]}, tmp_path):
        agents: list[str | None] = []
        for item in ("milk", "bread"):
            said = f'add_to_cart(item="{item}")'
            run = client.start_run(wait=30, **started, input=said, session_id=session)
            assert run["status"] == "completed"
            agents.append(run["agent"])
    state = client.call("GET", f"/v1/sessions/{session}")["state"]
    assert (agents, state) == ([None, "cashier"], {"cart": ["tea", "milk", "bread"]})


def test_registering_again_moves_the_tools_and_makes_new_secrets(
    client: Client, tmp_path: Path
) -> None:
    first = register(client, "http://127.0.0.1:9")
    port = free_port()
    second = register(client, f"http://127.0.0.1:{port}")
    assert set(first.values()).isdisjoint(second.values())
    with serving("python", port, second, tmp_path):
        run = client.start_run(
            wait=30, model="offline:rules", tools=["refund"], input='refund(order="A-1", amount=5)'
        )
    assert run["status"] == "completed"
    [call] = client.tool_calls(run["id"])
    assert (call["outcome"], call["output"]["amount"]) == ("completed", 5)


@pytest.mark.parametrize("language", ["python", "node", "shell"])
def test_a_run_example_starts_follows_and_approves(
    language: str, client: Client, tmp_path: Path
) -> None:
    command = client_command(language)
    port = free_port()
    with serving("python", port, register(client, f"http://127.0.0.1:{port}"), tmp_path):
        done = subprocess.run(
            command,
            env=os.environ | {"RUNWARD_URL": client.url, "RUNWARD_KEY": client.key},
            capture_output=True,
            text=True,
            check=False,
            timeout=CLIENT_SECONDS,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    run_id = re.findall(r"^started (run_[0-9a-f]{32})$", done.stdout, re.MULTILINE)[0]
    run = client.get_run(run_id)
    assert run["status"] == "completed"
    shown = re.findall(r"^ *(\d+)  ([a-z_.]+)", done.stdout, re.MULTILINE)
    logged = [(str(event["sequence"]), event["type"]) for event in client.events(run_id)]
    assert shown == logged
    assert done.stdout.count("approved ") == 1
    assert '"amount":500' in done.stdout.replace("\\", "").splitlines()[-1]
