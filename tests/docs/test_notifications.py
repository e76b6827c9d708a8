"""docs/how-to/webhook-endpoints.md, and the example in examples/notifications."""

import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
from standardwebhooks import WebhookVerificationError

from runward.tools.signing import make_secret, signed_headers
from tests.api.project import ALL_SCOPES, PATIENCE_SECONDS, Project
from tests.docs.story import Story
from tests.support.services.client import Client, Json
from tests.support.services.service import ROOT, free_port

EXAMPLE = ROOT / "examples" / "notifications" / "server.py"


def first_delivery(client: Client, run_id: str) -> Json:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = client.call("GET", "/v1/webhook_deliveries", run_id=run_id)["data"]
        if found:
            return found[0]
        time.sleep(0.05)
    raise TimeoutError(run_id)


def test_webhook_endpoints(project: Project, tmp_path: Path) -> None:
    client = project.key(*ALL_SCOPES)
    with Story("docs/how-to/webhook-endpoints.md", client, tmp_path) as page:
        page.shows(page.http())
        tested = page.http()
        assert page.http()["id"] == tested["id"]
        run = client.call("POST", "/v1/runs", {"model": "offline:rules", "input": "Hi"}, wait=30)
        page.shows(first_delivery(client, run["id"])["request"]["body"])
        read = page.python()["read_notification"]
        secret, body = make_secret(), b'{"type":"run.completed"}'
        headers = signed_headers([secret], "evt_1", datetime.now(UTC), body)
        assert read(secret, body, headers) == {"type": "run.completed"}
        with pytest.raises(WebhookVerificationError):
            read(make_secret(), body, headers)
        webhook_run = page.http()
        assert webhook_run["status"] == "completed"
        assert page.http()["enabled"] is True
        own = first_delivery(client, webhook_run["id"])
        assert own["id"] in {one["id"] for one in page.http()["data"]}
        assert page.http()["attempts"] is not None
        assert page.http()["secret"].startswith("whsec_")
        assert page.http()["enabled"] is False
        page.http()  # deletes the endpoint
        assert len(page.http()["data"]) == 2


@contextmanager
def serving(secret: str) -> Generator[tuple[str, subprocess.Popen[str]]]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE)],
        env=os.environ | {"PORT": str(port), "WEBHOOK_SECRET": secret},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"Listening on http://127.0.0.1:{port}\n"
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.communicate()


def test_the_example_prints_each_notification_once(project: Project) -> None:
    admin = project.key(*ALL_SCOPES)
    body = {"url": f"http://127.0.0.1:{free_port()}/", "events": ["run.completed"]}
    made = admin.call("POST", "/v1/webhook_endpoints", body)
    with serving(made["secret"]) as (url, process):
        assert httpx2.post(url, content=b"{}").status_code == 401
        admin.call("PATCH", f"/v1/webhook_endpoints/{made['id']}", {"url": url})
        run = admin.call("POST", "/v1/runs", {"model": "offline:rules", "input": "Hi"}, wait=30)
        assert process.stdout is not None
        assert process.stdout.readline() == f"run.completed {run['id']}\n"
        delivery = first_delivery(admin, run["id"])
        admin.call("POST", f"/v1/webhook_deliveries/{delivery['id']}/redeliver")
        test = admin.call("POST", f"/v1/webhook_endpoints/{made['id']}/test")
        assert process.stdout.readline().startswith(test["type"])
