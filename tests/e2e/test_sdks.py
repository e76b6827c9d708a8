"""The SDKs of sdks/, as their users have them: built, packed, installed, and used by the programs
of their pages. A proxy between them and the real service breaks streams off and loses answers."""

import json
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from aiohttp import web

from runward.tools import signing
from runward_client import AsyncRunward
from tests.docs.story import Story
from tests.e2e.conftest import Golden
from tests.e2e.cutting_proxy import CuttingProxy
from tests.e2e.own_machine import needs
from tests.support.models.chat_server import Call, calls, text
from tests.support.models.scripted import break_off
from tests.support.programs import missing
from tests.support.sdks import (
    EXAMPLE,
    SDKS,
    compile_typescript,
    install_python,
    run_program,
)
from tests.support.services.client import Client, Json
from tests.support.services.service import free_port

pytestmark = pytest.mark.timeout(180)

STARTED = "/v1/runs"
LICENSE = (SDKS.parent / "LICENSE").read_bytes()


class LosingProxy(CuttingProxy):
    """It also loses the first response to the start of a run, and answers the second request with
    503. `keys` are the idempotency keys of all three requests."""

    def __init__(self, to: str) -> None:
        super().__init__(to)
        self.keys: list[str] = []

    async def pass_on(self, http: web.Request) -> web.StreamResponse:
        if http.method != "POST" or http.path != STARTED:
            return await super().pass_on(http)
        self.keys.append(http.headers["Idempotency-Key"])
        if len(self.keys) == 2:
            return web.Response(status=503, headers={"Retry-After": "0"})
        answer = await super().pass_on(http)
        if len(self.keys) == 1:
            break_off(http)
        return answer


@dataclass(frozen=True, slots=True)
class Installed:
    """An empty project into which both SDKs are installed; `site` has the Python packages."""

    folder: Path
    site: Path


@pytest.fixture(scope="module")
def installed(typescript: Path) -> Installed:
    return Installed(typescript, install_python(typescript))


@pytest.fixture
def proxy(client: Client) -> Iterator[LosingProxy]:
    with LosingProxy(client.url) as proxy:
        yield proxy


@pytest.fixture
def model(golden: Golden) -> str:
    """A model that refunds 500 in one call."""
    name = f"sdk-{uuid4().hex[:8]}"
    asked = calls(Call("c1", "refund", '{"order":"A-1017","amount":500}'))
    golden.model.script(name, asked, text("Refunded 500."))
    return f"openai:{name}"


def check_run(client: Client, proxy: LosingProxy, printed: str) -> None:
    """One run was started. The program saw each event once, and its tool was called."""
    [run] = client.call("GET", STARTED)["data"]
    assert (run["status"], run["output"]) == ("completed", "Refunded 500.")
    log = [f"{event['sequence']} {event['type']}" for event in client.events(run["id"])]
    assert printed.strip().splitlines() == [*log, "completed Refunded 500."]
    assert proxy.came_back[:2] == ["", "1"]
    assert len(proxy.keys) == 3 and len(set(proxy.keys)) == 1
    [call] = client.tool_calls(run["id"])
    assert call["output"] == {"order": "A-1017", "refunded": 500}
    [approval] = client.approvals(status=None)
    assert approval["status"] == "approved"


def test_each_package_has_the_license(installed: Installed, tmp_path: Path) -> None:
    """The package of npm, the wheel, and the source distribution."""
    npm = installed.folder / "node_modules" / "@runward" / "client" / "LICENSE"
    [wheel] = installed.site.glob("runward_client-*.dist-info/licenses/LICENSE")
    [sources] = installed.folder.glob("runward_client-*.tar.gz")
    with tarfile.open(sources) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.glob("runward_client-*/LICENSE")
    assert [file.read_bytes() for file in (npm, wheel, source)] == [LICENSE] * 3


def test_the_readme_of_typescript(
    installed: Installed, client: Client, proxy: LosingProxy, model: str, tmp_path: Path
) -> None:
    (tmp_path / "node_modules").symlink_to(installed.folder / "node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    port = f"{free_port()}"
    here, env = {"openai:gpt-5.2": model, "9000": port}, {"RUNWARD_URL": proxy.url}
    with Story("sdks/typescript/README.md", client, tmp_path, here, env) as page:
        compile_typescript(*[page.save_named() for _ in range(4)])
        page.run(f"cd {tmp_path}; export REFUND_SECRET=$(node register.js)")
        page.begin("node server.js", "Listening on")
        check_run(client, proxy, page.run("node run.js"))
        assert page.run("node register.js") == "undefined\n"


def test_the_readme_of_python(
    installed: Installed, client: Client, proxy: LosingProxy, model: str, tmp_path: Path
) -> None:
    port = f"{free_port()}"
    here = {"openai:gpt-5.2": model, "9000": port}
    env = {"RUNWARD_URL": proxy.url, "PYTHONPATH": str(installed.site)}
    with Story("sdks/python/README.md", client, tmp_path, here, env) as page:
        for _ in range(4):
            page.save_named()
        page.run(f"cd {tmp_path}; export REFUND_SECRET=$({sys.executable} register.py)")
        page.begin(f"uvicorn server:app --no-access-log --port {port}", "Uvicorn running")
        check_run(client, proxy, page.run(f"{sys.executable} run.py"))
        assert page.run(f"{sys.executable} register.py") == "None\n"


REFUND: Json = {
    "name": "refund",
    "type": "client",
    "approval": "always",
    "parameters": {
        "type": "object",
        "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
    },
}
LOOK_UP: Json = {"type": "object", "properties": {"order": {"type": "string"}}}
ITEM: Json = {
    "type": "object",
    "properties": {"item": {"type": "string"}},
    "required": ["item"],
    "additionalProperties": False,
}
EMPTY: Json = {"type": "object", "properties": {}}
NODE_SERVERS = """
import { serve } from "@hono/node-server";
import "./express.js";
import "./hono.js";
import "./cart.js";
import "./later.js";
import { POST } from "./route.js";
serve({ fetch: POST, port: Number(process.argv[2]) }, () => console.log("All listen"));
"""
"""A route of Next is a function from a `Request` to a `Response`."""
PYTHON_SERVERS = """
import sys, threading
from wsgiref.simple_server import WSGIRequestHandler, make_server
import cart, later, tools, uvicorn
from fastapi import FastAPI
mounting, blocking, late, carts = map(int, sys.argv[1:])
WSGIRequestHandler.log_message = lambda *_: None
applications = {blocking: tools, late: later, carts: cart}
for port, module in applications.items():
    application = module.application
    threading.Thread(target=make_server("127.0.0.1", port, application).serve_forever).start()
app = FastAPI()
app.mount("/tools", tools.app)
uvicorn.run(app, port=mounting, access_log=False)
"""


def start_and_wait(client: Client, tool: str, **arguments: Any) -> Json:
    given = ", ".join(f"{name}={json.dumps(value)}" for name, value in arguments.items())
    run = client.start_run(model="offline:rules", tools=[tool], input=f"{tool}({given})")
    return client.settle(run["id"])


def check_decisions(client: Client, page: Story, command: str) -> None:
    """The program approves one call of two, and rejects the other."""
    runs = [start_and_wait(client, "refund", amount=amount) for amount in (150, 500)]
    page.run(command)
    statuses = [client.approvals(status=None, run_id=run["id"])[0]["status"] for run in runs]
    assert statuses == ["approved", "rejected"]


def check_starts(printed: str) -> None:
    same, refused = printed.splitlines()
    assert same.lower() == "true"
    code, param, request_id = refused.split()
    assert (code, param) == ("unknown_tool", "tools.0") and request_id.startswith("req_")


def check_signatures(url: str, secret: str) -> None:
    """It answers requests that are signed with the secret, now, and no other."""
    call = {
        "type": "tool_call",
        "tool": "lookup_order",
        "arguments": {"order": "A-1"},
        "attempt": 1,
    }
    body, now, other = json.dumps(call).encode(), datetime.now(UTC), signing.make_secret()

    def status(secrets: list[str], sent_at: datetime, **changed: str) -> int:
        headers = signing.signed_headers(secrets, "call_1", sent_at, body) | changed
        return httpx2.post(url, content=body, headers=headers).status_code

    assert status([secret], now) == 200
    assert status([other, secret], now) == 200  # while a secret is being replaced
    assert status([other], now) == 401
    assert status([secret], now - timedelta(seconds=310)) == 401
    assert status([secret], now + timedelta(seconds=310)) == 401
    assert status([secret], now, **{"webhook-id": "call_2"}) == 401
    assert httpx2.post(url, content=body).status_code == 401


def check_server(client: Client, url: str, secret: str) -> None:
    """It answers a call of Runward's, and refuses what is not one."""
    client.call("PATCH", "/v1/tools/lookup_order", {"url": url})
    run = start_and_wait(client, "lookup_order", order="A-1017")
    [call] = client.tool_calls(run["id"])
    assert call["output"].items() >= {"order": "A-1017", "status": "shipped"}.items(), url
    check_signatures(url, secret)


def check_cart(client: Client) -> None:
    """The tool reads and changes the state of the session."""
    session = client.call("POST", "/v1/sessions", {"state": {"cart": ["tea"]}})["id"]
    run = client.start_run(
        model="offline:rules",
        tools=["add_to_cart"],
        input='add_to_cart(item="milk")',
        session_id=session,
    )
    assert "The cart has 2 items." in client.settle(run["id"])["output"]
    assert client.call("GET", f"/v1/sessions/{session}")["state"] == {"cart": ["tea", "milk"]}


def test_the_page(installed: Installed, client: Client, tmp_path: Path) -> None:
    client.call("POST", "/v1/tools", REFUND)
    look_up = client.register_tool("lookup_order", "http://127.0.0.1:1/", parameters=LOOK_UP)
    report = client.register_tool("report", "http://127.0.0.1:1/", parameters=EMPTY)
    (tmp_path / "node_modules").symlink_to(installed.folder / "node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    (tmp_path / "servers.js").write_text(NODE_SERVERS, "utf-8")
    (tmp_path / "servers.py").write_text(PYTHON_SERVERS, "utf-8")
    cart = client.register_tool(
        "add_to_cart", "http://127.0.0.1:1/", parameters=ITEM, response="envelope"
    )
    express, hono, later, carts, route, mounted, blocking, late, python_carts = (
        f"{free_port()}" for _ in range(9)
    )
    here = {"9001": express, "9002": hono, "9003": later, "9004": carts}
    env = {
        "PYTHONPATH": str(installed.site),
        "TOOL_SECRETS": f"{signing.make_secret()} {look_up['secret']}",
        "REPORT_SECRET": report["secret"],
        "CART_SECRET": cart["secret"],
    }
    with Story("docs/how-to/sdks.md", client, tmp_path, here, env) as page:
        files = [page.save_named() for _ in range(13)]
        compile_typescript(*[file for file in files if file.suffix == ".ts"])
        page.run(f"cd {tmp_path}")
        check_decisions(client, page, "node inbox.js")
        check_decisions(client, page, f"{sys.executable} inbox.py")
        check_starts(page.run("node retry.js"))
        check_starts(page.run(f"{sys.executable} retry.py"))

        page.begin(f"node servers.js {route}", "All listen")
        ports = f"{mounted} {blocking} {late} {python_carts}"
        page.begin(f"{sys.executable} servers.py {ports}", "Uvicorn running")
        for address in (f"{express}/tools", f"{hono}/tools", route, f"{mounted}/tools/", blocking):
            check_server(client, f"http://127.0.0.1:{address}", look_up["secret"])
        for port in (later, late):
            client.call("PATCH", "/v1/tools/report", {"url": f"http://127.0.0.1:{port}/"})
            run = client.start_run(model="offline:rules", tools=["report"], input="report()")
            assert "12" in client.settle(run["id"])["output"]
        for port in (carts, python_carts):
            client.call("PATCH", "/v1/tools/add_to_cart", {"url": f"http://127.0.0.1:{port}/"})
            check_cart(client)


async def test_the_asynchronous_client(client: Client, proxy: LosingProxy, model: str) -> None:
    """It does the same as the page of Python, and runs the tool itself."""
    client.call("POST", "/v1/tools", REFUND)
    async with AsyncRunward(api_key=client.key, base_url=proxy.url) as runward:
        run = await runward.runs.start(model=model, tools=["refund"], input="Refund 500.")
        assert (await run.wait()).status == "requires_action"
        printed: list[str] = []
        async for event in run.events():
            if "sequence" in event:
                printed.append(f"{event['sequence']} {event['type']}")
            if event["type"] == "tool_call.approval_requested":
                [approval] = [one async for one in runward.approvals.inbox()]
                await runward.approvals.decide(approval, {"decision": "approve"})
            if event["type"] == "tool_call.progress":
                result = {"order": "A-1017", "refunded": 500}
                await runward.runs.submit_tool_result(run.id, "c1", output=result)
        await run.wait(until="final")
        check_run(client, proxy, "\n".join([*printed, f"{run.status} {run.output}"]))
        assert [one.id async for one in runward.runs.list(limit=1)] == [run.id]


def test_the_generated_files_are_as_new_as_the_contract() -> None:
    needs("npm", "npm")
    if not (EXAMPLE / ".bin" / "openapi-typescript").exists():
        missing("make examples/clients/typescript/node_modules/.installed")
    run_program("npm", "run", "--silent", "generate", "--", "--check", cwd=SDKS / "typescript")
