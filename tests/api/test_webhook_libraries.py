"""Notifications that the service sent are accepted by the libraries of Standard Webhooks. For Go,
no registry of the tests has the library: RUNWARD_STANDARD_WEBHOOKS_GO is the path of its source."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.project import ALL_SCOPES, Project
from tests.e2e.own_machine import needs
from tests.support.models.chat_server import text
from tests.support.programs import node_package, node_script
from tests.support.receiver import Received, Receiver

MODULE = "github.com/standard-webhooks/standard-webhooks/libraries"
MAIN = """
package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"

	standardwebhooks "{module}/go"
)

func main() {{
	fields, headers := map[string]string{{}}, http.Header{{}}
	if err := json.Unmarshal([]byte(os.Args[2]), &fields); err != nil {{
		log.Fatal(err)
	}}
	for name, value := range fields {{
		headers.Set(name, value)
	}}
	webhook, err := standardwebhooks.NewWebhook(os.Args[1])
	if err != nil {{
		log.Fatal(err)
	}}
	body, _ := io.ReadAll(os.Stdin)
	if err := webhook.Verify(body, headers); err != nil {{
		log.Fatal(err)
	}}
	os.Stdout.Write(body)
}}
"""

Verify = Callable[[str, Received], subprocess.CompletedProcess[bytes]]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def in_python(secret: str, received: Received) -> subprocess.CompletedProcess[bytes]:
    received.verify(secret)
    return subprocess.CompletedProcess([], 0, received.raw)


def by_program(command: list[str]) -> Verify:
    def verify(secret: str, received: Received) -> subprocess.CompletedProcess[bytes]:
        arguments = [*command, secret, json.dumps(received.headers)]
        return subprocess.run(arguments, input=received.raw, capture_output=True, check=False)

    return verify


def in_javascript() -> Verify:
    node_package("standardwebhooks")
    return by_program([needs("node", "nodejs"), node_script("verify_webhook.mjs")])


def in_go(folder: Path) -> Verify:
    go, source = needs("go", "golang-go"), os.environ.get("RUNWARD_STANDARD_WEBHOOKS_GO")
    if source is None:
        pytest.skip("RUNWARD_STANDARD_WEBHOOKS_GO is not set")
    requires = f"require {MODULE} v0.0.0\nreplace {MODULE} => {source}\n"
    (folder / "go.mod").write_text(f"module verify\n\ngo 1.19\n\n{requires}")
    (folder / "main.go").write_text(MAIN.format(module=MODULE))
    subprocess.run([go, "build", "-o", "verify", "."], cwd=folder, check=True)
    return by_program([str(folder / "verify")])


@pytest.mark.parametrize("language", ["python", "javascript", "go"])
def test_a_library_accepts_a_notification_and_rejects_a_wrong_secret(
    project: Project, receiver: Receiver, tmp_path: Path, language: str
) -> None:
    admin = project.key(*ALL_SCOPES)
    body = {"url": receiver.answer("hook"), "events": ["run.completed"], "include": ["output"]}
    made = admin.call("POST", "/v1/webhook_endpoints", body)
    rotated = admin.call("POST", f"/v1/webhook_endpoints/{made['id']}/rotate_secret")["secret"]
    other = admin.call("POST", "/v1/webhook_endpoints", {"url": body["url"], "enabled": False})
    if language == "python":
        verify = in_python
    else:
        verify = in_javascript() if language == "javascript" else in_go(tmp_path)
    project.run(text("Größe: 5 €"))
    [received] = receiver.wait_for("hook")
    for secret in (made["secret"], rotated):
        accepted = verify(secret, received)
        assert accepted.returncode == 0, accepted.stderr
        assert json.loads(accepted.stdout)["data"]["output"] == "Größe: 5 €"
    if language != "python":
        assert verify(other["secret"], received).returncode != 0
