"""Canaries of every kind are stored, and Runward uses them in every way. Then the tests search for
each canary in all places where a secret could appear.
"""

import asyncio
import json
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import httpx2
import pytest
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import create_async_engine

from tests.api.project import ALL_SCOPES
from tests.db.test_sealed_headers import dump
from tests.e2e.command_line import CommandLine
from tests.hostile.canaries import ALLOWED, PLACES, sightings, value_of
from tests.hostile.figures import record
from tests.hostile.mcp_peer import RESULTS, McpPeer
from tests.hostile.peers import Peers
from tests.hostile.webhooks import says
from tests.support.models.all_providers import AllProviders
from tests.support.models.chat_server import Call, HttpError, calls, text
from tests.support.postgres import Databases
from tests.support.services.client import Client, Json
from tests.support.services.service import ROOT, Service
from tests.support.tools.server import Behaviour, ToolServer
from tests.unit.raw_server import answer as raw_answer

STDIO: Final = """
import json, os, sys
RESULTS = json.loads(RESULTS_HERE)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = RESULTS.get(asked["method"])
        said = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
        if asked["method"] == "tools/call":
            text = json.dumps(dict(os.environ))
            said = {"result": {"content": [{"type": "text", "text": text}]}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
""".replace("RESULTS_HERE", repr(json.dumps(RESULTS)))
"""An MCP server that is a command. Its tool tells its environment."""
ALL_OUTPUT: Final = 1 << 30
SAME_ORIGIN: Final = {"Sec-Fetch-Site": "same-origin", "X-Runward-CSRF": "1"}
OPEN: Final[Json] = {"type": "object", "properties": {}, "additionalProperties": True}
LOOSE: Final[Json] = {"parameters": OPEN, "strict": False}


@dataclass(slots=True)
class Field:
    """The service and its peers, and every canary with the value that it really has."""

    service: Service
    client: Client
    providers: AllProviders
    tools: ToolServer
    mcp: McpPeer
    peers: Peers
    project: str = ""
    planted: dict[str, str] = field(default_factory=dict[str, str])
    errors: list[str] = field(default_factory=list[str])
    shown: list[str] = field(default_factory=list[str])
    runs: list[str] = field(default_factory=list[str])

    def plant(self, name: str, value: str | None = None) -> str:
        assert name in ALLOWED, name
        self.planted[name] = value_of(name) if value is None else value
        return self.planted[name]

    def refused(self, method: str, path: str, body: Any, **headers: str) -> None:
        response = self.client.request(method, path, body, headers=headers)
        assert 400 <= response.status_code < 500, response.text
        self.errors.append(f"{response.headers}{response.text}")

    def put(self, name: str, canary: str) -> None:
        self.client.call("PUT", f"/v1/secrets/{name}", {"value": self.plant(canary)})

    def run(self, *replies: Any, name: str, provider: str = "openai", **fields: Any) -> Json:
        self.providers.chat.script(name, *replies)
        run = self.client.start_run(model=f"{provider}:{name}", **fields)
        self.runs.append(run["id"])
        return self.client.settle(run["id"])


@pytest.fixture
def grounds(migrated_databases: Databases) -> Iterator[Field]:
    with ExitStack() as stack:
        url = stack.enter_context(migrated_databases.migrated())
        providers = stack.enter_context(AllProviders())
        tools = stack.enter_context(ToolServer())
        mcp = stack.enter_context(McpPeer())
        headers = f"X-Token: {value_of('header_of_a_tool')}"
        cookie = f"Set-Cookie: a={value_of('cookie_of_a_tool')}"
        loud = says(raw_answer(b"1", "200 OK", headers, cookie))
        broken = says(b"HTTP/1.1 200 OK\r\n" + cookie.encode() + b"\r\n", closes=True)
        peers = stack.enter_context(Peers({"loud": (loud,), "broken": (broken,)}))
        service = Service(
            "serve",
            with_password(url),
            openai_base_url=providers.openai_base_url,
            env=environment(providers),
        )
        stack.enter_context(service)
        client = stack.enter_context(Client(service.url, value_of("bootstrap_key")))
        yield Field(service, client, providers, tools, mcp, peers)


def with_password(url: str) -> str:
    """The server trusts everybody, so any password is right."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    user = parts.username or "postgres"
    netloc = f"{user}:{value_of('database_password')}@{host}"
    return urlunsplit(parts._replace(netloc=netloc))


def environment(providers: AllProviders) -> dict[str, str]:
    return providers.env | {
        "RUNWARD_LOG_LEVEL": "debug",
        "RUNWARD_LOG_FORMAT": "json",
        "RUNWARD_BOOTSTRAP_KEY": value_of("bootstrap_key"),
        "RUNWARD_SECRET_KEY": value_of("secret_key"),
        "RUNWARD_MCP_COMMANDS": sys.executable,
        "RUNWARD_PLUGINS": "tests.hostile.plugin",
        "RUNWARD_SECRET_PLUGIN": value_of("plugin_secret"),
        "OPENAI_API_KEY": value_of("openai_key"),
        "ANTHROPIC_API_KEY": value_of("anthropic_key"),
        "GEMINI_API_KEY": value_of("gemini_key"),
        "AWS_SECRET_ACCESS_KEY": value_of("aws_secret"),
        "AWS_SESSION_TOKEN": value_of("aws_session"),
        "SOMEBODY_ELSES_TOKEN": value_of("unrelated_variable"),
    }


# -- what is done with the canaries ---------------------------------------------------------------


def use_keys(on: Field) -> None:
    for name in ("bootstrap_key", "secret_key", "database_password", "plugin_secret"):
        on.plant(name)
    for name in ("openai_key", "anthropic_key", "gemini_key", "aws_secret", "aws_session"):
        on.plant(name)
    on.plant("unrelated_variable")
    on.project = on.client.call("GET", "/v1/projects")["data"][0]["id"]
    path = f"/v1/projects/{on.project}/keys"
    for canary, scopes in (
        ("project_key", ["runs:read"]),
        ("admin_key", [*ALL_SCOPES]),
        ("revoked_key", ["runs:read"]),
    ):
        made = on.client.call("POST", path, {"name": canary, "scopes": scopes})
        on.plant(canary, made["key"])
        if canary == "revoked_key":
            on.client.call("DELETE", f"/v1/keys/{made['id']}")
            continue
        with Client(on.service.url, made["key"]) as client:
            client.request("GET", "/v1/runs")
    for canary in ("wrong_key", "revoked_key"):
        token = on.planted.get(canary) or on.plant(canary)
        on.refused("GET", "/v1/runs", None, Authorization=f"Bearer {token}")
    on.refused("POST", "/v1/callbacks/" + on.plant("wrong_callback_token"), {"status": "x"})
    on.refused("POST", "/v1/keys", {"name": "x", "scopes": [on.plant("key_of_wrong_type")]})


def use_console(on: Field) -> None:
    for canary in ("console_cookie", "ended_cookie"):
        with httpx2.Client(base_url=on.service.url, headers=SAME_ORIGIN, trust_env=False) as page:
            on.shown.append(page.post("/console/session", json={"key": on.client.key}).text)
            [cookie] = page.cookies.jar
            on.plant(canary, str(cookie.value))
            on.shown += [page.get(path).text for path in ("/console/session", "/v1/runs", "/")]
            if canary == "ended_cookie":
                page.delete("/console/session")
    with httpx2.Client(base_url=on.service.url, headers=SAME_ORIGIN, trust_env=False) as page:
        key = {"key": on.plant("wrong_console_key")}
        on.errors.append(page.post("/console/session", json=key).text)
        page.cookies.set(cookie.name, on.plant("wrong_cookie"))
        on.errors.append(page.get("/v1/runs").text)


def use_secrets(on: Field) -> None:
    on.put("STORED", "stored_before")
    on.put("STORED", "stored")
    on.put("GONE", "stored_deleted")
    on.client.call("DELETE", "/v1/secrets/GONE")
    on.put("IN_HEADER", "stored_in_header")
    on.put("IN_MCP", "stored_in_mcp")
    on.put("HOSTED", "stored_hosted")
    on.put("HOSTED_HEADER", "stored_hosted_header")
    on.put("CLIENT_SECRET", "stored_client_secret")
    on.refused("PUT", "/v1/secrets/X", {"value": [on.plant("secret_of_wrong_type")]})
    on.refused("PUT", "/v1/secrets/X", {"value": "x", "more": on.plant("unknown_field")})
    broken = f'{{"value": "{on.plant("broken_json")}", nonsense'
    headers = {"Authorization": f"Bearer {on.client.key}", "Content-Type": "application/json"}
    address = f"{on.service.url}/v1/secrets/X"
    on.errors.append(httpx2.put(address, content=broken, headers=headers, trust_env=False).text)


def use_tools(on: Field) -> None:
    """Calls that succeed, fail, are called back, and break off."""
    query = on.plant("query_of_a_tool")
    secret: Json = {"secret": "IN_HEADER", "prefix": "Bearer "}
    before = {"X-Key": on.plant("tool_header_before"), "Authorization": secret}
    made = on.client.register_tool(
        "pay", f"{on.tools.tool('pay')}?token={query}", headers=before, **LOOSE
    )
    on.plant("tool_signing", made["secret"])
    on.client.register_tool("gone", f"http://127.0.0.1:9/gone?token={query}", **LOOSE)
    after = {"X-Key": on.plant("tool_header"), "Authorization": secret}
    on.client.call("PATCH", "/v1/tools/pay", {"headers": after})
    rotated = on.client.call("POST", "/v1/tools/pay/rotate_secret")
    on.plant("tool_signing_rotated", rotated["secret"])
    policy = on.client.call("POST", "/v1/signing_secret/rotate")
    on.plant("policy_signing", policy["secret"])
    failed = {"error": on.plant("words_of_a_failed_tool")}
    behaviour = Behaviour(
        "raw", status=500, value=json.dumps(failed), content_type="application/json"
    )
    on.client.register_tool("fails", on.tools.tool("fails", behaviour), **LOOSE)
    told = Behaviour("return", value=on.plant("result"))
    on.client.register_tool("tells", on.tools.tool("tells", told), **LOOSE)
    for name in ("loud", "broken"):
        on.client.register_tool(name, on.peers.servers[name].url, **LOOSE)
    on.plant("cookie_of_a_tool")
    on.plant("header_of_a_tool")
    names = ["pay", "fails", "tells", "loud", "broken", "blunder", "surroundings"]
    asked = [Call(f"c{number}", name, "{}") for number, name in enumerate(names)]
    asked.append(Call("c9", "tells", json.dumps({"x": on.plant("arguments")})))
    on.run(
        calls(*asked),
        text(on.plant("output")),
        name="all",
        tools=names,
        instructions=on.plant("instructions"),
        input=on.plant("input"),
        context={"x": on.plant("context")},
        metadata={"x": on.plant("metadata")},
    )


def use_callbacks(on: Field) -> None:
    on.client.register_tool("later", on.tools.tool("later", Behaviour("later")), **LOOSE)
    on.providers.chat.script("called-back", calls(Call("c1", "later", "{}")), text("done"))
    run = on.client.start_run(model="openai:called-back", tools=["later"])
    on.runs.append(run["id"])
    [hit] = on.tools.wait_for("later")
    callback = hit.body["callback"]
    on.plant("callback_token", callback["token"])
    with Client(on.service.url, callback["token"]) as client:
        path = callback["url"].removeprefix(on.service.url)
        client.call("POST", path, {"status": "progress", "message": "x"})
        client.call("POST", path, {"status": "completed", "output": 1})
    on.client.settle(run["id"])


def use_refused_tools(on: Field) -> None:
    user = on.plant("userinfo_of_a_tool")
    spec: Json = {"name": "x", "type": "webhook", **LOOSE}
    on.refused("POST", "/v1/tools", {**spec, "url": f"http://me:{user}@127.0.0.1/"})
    guard = f"http://me:{on.plant('userinfo_of_a_guardrail')}@127.0.0.1/"
    rail = {"stage": "input", "type": "webhook", "url": guard}
    on.refused("PUT", "/v1/policy", {"guardrails": [rail]})
    line = {"X-Key": f"{on.plant('header_with_a_line')}\nX: y"}
    on.refused("POST", "/v1/tools", {**spec, "url": on.tools.url_of("x"), "headers": line})


def use_mcp(on: Field) -> None:
    token = on.mcp.tokens["oauth"] = on.plant("oauth_access_token")
    new = on.plant("oauth_new_refresh_token")
    on.mcp.token = {"access_token": token, "token_type": "bearer", "refresh_token": new}
    servers = "/v1/mcp_servers"
    before: Json = {"X-Key": on.plant("mcp_header_before"), "X-Ref": {"secret": "IN_MCP"}}
    plain = {"name": "plain", "url": on.mcp.url_of("plain"), "headers": before, "approval": "never"}
    on.client.call("POST", servers, plain)
    after = {"X-Key": on.plant("mcp_header"), "X-Ref": {"secret": "IN_MCP"}}
    on.client.call("PATCH", f"{servers}/plain", {"headers": after})
    oauth = {
        "client_id": "me",
        "client_secret": on.plant("oauth_client_secret"),
        "refresh_token": on.plant("oauth_refresh_token"),
        "token_url": f"{on.mcp.url}/token",
    }
    made = {"name": "oauth", "url": on.mcp.url_of("oauth"), "oauth": oauth, "approval": "never"}
    on.client.call("POST", servers, made)
    box: Json = {"name": "box", "command": sys.executable, "args": ["-S", "-c", STDIO]}
    on.client.call("POST", servers, {**box, "approval": "never"})
    names = ["plain_act", "oauth_act", "box_act"]
    asked = calls(*(Call(f"c{number}", name, "{}") for number, name in enumerate(names)))
    on.run(asked, text("done"), name="mcp", tools=names)
    refused = on.plant("oauth_secret_in_a_refusal")
    on.mcp.token = {"error": "invalid_client", "error_description": f"{refused} is wrong"}
    again = {**oauth, "client_secret": refused, "refresh_token": None}
    on.refused("POST", servers, {**made, "name": "again", "oauth": again})
    user = on.plant("userinfo_of_mcp")
    on.refused("POST", servers, {"name": "x", "url": f"http://me:{user}@127.0.0.1/mcp"})
    stored = {**again, "client_secret": {"secret": "CLIENT_SECRET"}}
    on.refused("POST", servers, {**made, "name": "stored", "oauth": stored})


def use_models(on: Field) -> None:
    """Providers that quote the key in their refusals, the operator's and the project's own."""
    hosted: Json = {
        "name": "crm",
        "type": "hosted",
        "hosted": {
            "kind": "mcp",
            "settings": {"server_url": "https://crm.example/mcp", "headers": {}},
            "secrets": {"authorization": "HOSTED", "headers.X-Key": "HOSTED_HEADER"},
        },
    }
    on.client.call("POST", "/v1/tools", hosted)
    for status in (400, 401, 403):
        key = on.planted["openai_key"]
        on.run(HttpError(status, f"the key {key} is wrong"), name=f"refuses-{status}")
    on.put("OPENAI_API_KEY", "own_openai_key")
    on.put("ANTHROPIC_API_KEY", "own_anthropic_key")
    on.put("GEMINI_API_KEY", "own_gemini_key")
    on.put("AWS_BEARER_TOKEN_BEDROCK", "own_bedrock_token")
    key = on.planted["own_openai_key"]
    on.run(HttpError(400, f"the key {key} is wrong"), name="refuses-own")
    for provider in ("anthropic", "gemini", "bedrock", "openai-responses"):
        run = on.client.start_run(model=f"{provider}:nobody", tools=[])
        on.runs.append(run["id"])
        on.client.settle(run["id"])


# -- where they are looked for --------------------------------------------------------------------


def processes(on: Field) -> str:
    """The command lines of the service and its children, and the children's environments."""
    found: list[str] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            status = (folder / "status").read_text()
            parent = int(status.partition("PPid:")[2].split()[0])
            if int(folder.name) == on.service.pid or parent == on.service.pid:
                found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
            if parent == on.service.pid:
                found.append((folder / "environ").read_bytes().decode(errors="replace"))
        except OSError:
            continue  # it has ended
    assert len(found) >= 3, "the service and at least one child"
    return "\n".join(found)


async def dumped(url: str) -> str:
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.connect() as connection:
        rows = await dump(connection)
    await engine.dispose()
    return rows


def answers(on: Field) -> str:
    """What every GET of the contract shows."""
    contract = on.client.call("GET", "/openapi.json")
    tools = [one["name"] for one in on.client.call("GET", "/v1/tools", limit=200)["data"]]
    names = {
        "/v1/tools/{name}": tools,
        "/v1/tools/{name}/calls": tools,
        "/v1/mcp_servers/{name}": ["plain", "oauth", "box"],
        "/v1/secrets/{name}": ["STORED", "IN_HEADER"],
    }
    found: list[str] = [*on.shown]
    for path, operations in contract["paths"].items():
        if "get" not in operations or path in ("/metrics", "/v1/runs/{run_id}/events"):
            continue
        places = [path]
        if "{run_id}" in path:
            places = [path.replace("{run_id}", run) for run in on.runs]
        if "{name}" in path:
            places = [path.replace("{name}", name) for name in names.get(path, [])]
        paths = [place.replace("{call_id}", "c0") for place in places]
        found += [on.client.request("GET", one).text for one in paths]
    return "\n".join(found)


def looked_at(on: Field) -> dict[str, str]:
    run_ids = list(on.runs)
    found = {
        "processes": processes(on),
        "events": "\n".join(
            json.dumps(on.client.events(run), ensure_ascii=False) for run in run_ids
        ),
        "answers": answers(on),
        "errors": "\n".join(on.errors),
        "metrics": on.client.request("GET", "/metrics").text,
        "console": "\n".join(on.shown),
        "dump": asyncio.run(dumped(on.service.database_url)),
        "bundle": bundled(on),
    }
    on.service.kill()
    found["log"] = on.service.output(ALL_OUTPUT)
    return found


def bundled(on: Field) -> str:
    """Return the text of all files of `runward doctor --bundle`, with the service's variables."""
    variables = environment(on.providers) | {
        "DATABASE_URL": with_password(on.service.database_url),
        "RUNWARD_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
        "PYTHONPATH": f"{ROOT / 'app'}:{ROOT}",
    }
    with tempfile.TemporaryDirectory() as folder:
        command = CommandLine(Path(folder), on.service.url, on.client.key)
        done = command.run_process("doctor", "--bundle", "b.zip", **variables)
        assert "Wrote b.zip" in done.err, done
        with zipfile.ZipFile(Path(folder) / "b.zip") as archive:
            files = {name: archive.read(name).decode() for name in archive.namelist()}
    found = "\n".join(files.values())
    # The bundle names what it must not quote.
    for name in (
        "gone at http://127.0.0.1:9/gone does not answer",
        "openai_api_key",
        '"status": "completed"',
    ):
        assert name in found, files["runward-doctor/findings.json"]
    return "\n".join([*files, found])


def table(seen: dict[str, set[str]]) -> str:
    return "\n".join(
        f"{name:28} {', '.join(sorted(places)) or 'never seen'}" for name, places in seen.items()
    )


@pytest.mark.timeout(180)
def test_every_canary_is_seen_where_it_may_be_and_nowhere_else(grounds: Field) -> None:
    use_keys(grounds)
    use_console(grounds)
    use_secrets(grounds)
    use_tools(grounds)
    use_callbacks(grounds)
    use_refused_tools(grounds)
    use_mcp(grounds)
    use_models(grounds)
    assert set(ALLOWED) - set(grounds.planted) == set()
    places = looked_at(grounds)
    assert set(places) == set(PLACES)
    assert '"log_level": "debug"' in places["log"]
    seen = sightings(grounds.planted, places)
    print(table(seen))
    leaks = {name: found - ALLOWED[name] for name, found in seen.items()}
    assert {name: found for name, found in leaks.items() if found} == {}
    blind = [name for name, allowed in ALLOWED.items() if allowed and not seen[name]]
    assert blind == [], "what may be seen is seen, or the search looks away"
    assert len(seen) >= 60
    record(canaries=len(seen), places_of_canaries=len(places))


@pytest.mark.parametrize("place", PLACES)
def test_a_leak_at_any_place_is_found(place: str) -> None:
    secret = value_of("stored")
    for leak in (secret, secret.encode().hex(), f"Basic {secret}"):
        seen = sightings({"stored": secret}, {one: leak if one == place else "" for one in PLACES})
        assert seen == {"stored": {place}}
