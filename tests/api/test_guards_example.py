"""The example's guardrail and hook, served as the page says, behind the real service."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime

import httpx2

from runward.tools.signing import make_secret, signed_headers
from tests.api.project import Project, call, of_type, result_of
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.services.service import ROOT, free_port
from tests.support.tools.server import Behaviour

GUARDS = ROOT / "examples" / "guards"
REFUND: Json = {
    "parameters": {
        "type": "object",
        "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
        "required": ["order", "amount"],
    }
}


def policy_set(project: Project, url: str) -> str:
    """By examples/guards/set.sh; the secret that it prints."""
    done = subprocess.run(
        ["/bin/sh", str(GUARDS / "set.sh"), url],
        env=os.environ | {"RUNWARD_URL": project.client.url, "RUNWARD_KEY": project.client.key},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return re.findall(r"^export GUARDS_SECRET=(whsec_\S+)$", done.stdout)[0]


@contextmanager
def serving(port: int, secret: str) -> Generator[str]:
    process = subprocess.Popen(
        [sys.executable, str(GUARDS / "server.py")],
        env=os.environ | {"PORT": str(port), "GUARDS_SECRET": secret},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"Listening on http://127.0.0.1:{port}\n"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


def test_the_example_rejects_what_is_too_much_and_masks_cards(project: Project) -> None:
    project.tool("refund", Behaviour("return", value={"card": "4111 1111 1111 1234"}), **REFUND)
    port = free_port()
    with serving(port, policy_set(project, f"http://127.0.0.1:{port}")):
        small = call(1, "refund", '{"order":"A-1017","amount":50}')
        large = call(2, "refund", '{"order":"A-1017","amount":5000}')
        run = project.run(calls(small, large), text("done"), tools=["refund"])
        assert run["status"] == "completed"
        assert json.loads(result_of(project.asked(), "c1")) == {"card": "… 1234"}
        assert result_of(project.asked(), "c2") == "Refunds above 1000 go through the bank."
        closed = call(1, "refund", '{"order":"A-0666","amount":1}')
        failed = project.run(
            model=project.script(calls(closed), name="other"), tools=["refund"], input="go"
        )
    assert (failed["status"], failed["error"]["code"]) == ("failed", "guardrail")
    assert [hit.arguments["amount"] for hit in project.hits("refund")] == [50]
    (rejected,) = of_type(project.client.events(run["id"]), "tool_call.rejected")
    assert rejected["reason"] == "guardrail"


def test_the_example_answers_nobody_without_the_secret() -> None:
    secret, port = make_secret(), free_port()
    body = json.dumps({"tool": "lookup", "arguments": {}}).encode()
    with serving(port, secret) as url, httpx2.Client(base_url=url, trust_env=False) as http:

        def status(by: str) -> int:
            headers = signed_headers([by], "call_1_input_0", datetime.now(UTC), body)
            return http.post("/no_large_refunds", content=body, headers=headers).status_code

        assert status(secret) == 200
        assert status(make_secret()) == 401
        assert http.post("/no_large_refunds", content=body).status_code == 401
