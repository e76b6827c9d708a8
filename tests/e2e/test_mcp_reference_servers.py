"""The reference servers of the protocol's project, unmodified: git and fetch in Python, filesystem
and memory in Node. Each one over standard input and output, and over HTTP through the bridge
`mcp-proxy`. And an example server of the SDK in TypeScript that lets in only people who log in."""

import json
import os
import subprocess
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TypeAlias

import httpx2
import pytest
from aiohttp import web

from tests.api.project import Project, Running, call
from tests.e2e.mcp_project import results, running_on
from tests.support.mcp.others import OthersServer
from tests.support.models.chat_server import ModelServer, calls, text
from tests.support.postgres import Databases
from tests.support.programs import mcp_program, node_package, node_program
from tests.support.services.client import Json
from tests.support.services.service import Service, free_port
from tests.support.serving import Server

pytestmark = pytest.mark.timeout(180)
PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
Call: TypeAlias = Callable[..., tuple[list[Json], set[str]]]


class Site(Server):
    """A web site of two pages. Its robots.txt allows one of them."""

    def app(self) -> web.Application:
        async def robots(_: web.Request) -> web.Response:
            return web.Response(text="User-agent: *\nDisallow: /private\n")

        async def page(_: web.Request) -> web.Response:
            body = "<html><body><article><h1>Prices</h1><p>One apple: <b>2 euros</b></p></article>"
            return web.Response(text=body, content_type="text/html")

        app = web.Application()
        app.router.add_get("/robots.txt", robots)
        app.router.add_get("/prices", page)
        app.router.add_get("/private", page)
        return app


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the servers may use."""
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def commands(folder: Path) -> dict[str, list[str]]:
    memory = f"MEMORY_FILE_PATH={folder}/memory.jsonl"
    return {
        "git": [mcp_program("mcp-server-git"), "--repository", str(folder)],
        "fetch": [mcp_program("mcp-server-fetch"), "--allow-private-ips"],
        "files": [node_program("mcp-server-filesystem"), str(folder)],
        "memory": ["env", memory, node_program("mcp-server-memory")],
    }


@pytest.fixture(scope="module")
def running(migrated_databases: Databases, commands: dict[str, list[str]]) -> Iterator[Running]:
    programs = ",".join(command[0] for command in commands.values())
    private = "127.0.0.0/8,::1/128"  # The servers may listen on an IPv6 address.
    env = {"RUNWARD_MCP_COMMANDS": programs, "RUNWARD_ALLOW_PRIVATE_TARGETS": private}
    with (
        migrated_databases.migrated() as url,
        ModelServer() as model,
        Service("serve", url, openai_base_url=model.base_url, env=env) as service,
        running_on(service, model) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def bridges(commands: dict[str, list[str]]) -> Iterator[Callable[[str], str]]:
    """Returns the address of a server over HTTP."""
    with ExitStack() as stack:

        @cache
        def address(server: str) -> str:
            options = ["--host", "127.0.0.1", "--port", "{port}", "--server", "stream", "--"]
            command = [node_program("mcp-proxy"), *options, *commands[server]]
            return stack.enter_context(OthersServer(command, ready="starting server")).url

        yield address


@pytest.fixture
def project(running: Running) -> Iterator[Project]:
    with running.project() as project:
        yield project


@pytest.fixture(params=["stdio", "http"])
def use(request: pytest.FixtureRequest, project: Project) -> Call:
    """Calls tools of a server in one run, each once approved. Returns the results by their names,
    and which tools were called without asking."""

    def use(server: str, *asked: tuple[str, Json]) -> tuple[list[Json], set[str]]:
        if request.param == "stdio":
            command, *args = request.getfixturevalue("commands")[server]
            where = {"command": command, "args": args}
        else:
            where = {"url": request.getfixturevalue("bridges")(server)}
        made = project.client.call("POST", "/v1/mcp_servers", {"name": server, **where})
        assert made["skipped"] == []
        turns = [
            calls(call(number, f"{server}_{name}", json.dumps(arguments)))
            for number, (name, arguments) in enumerate(asked, 1)
        ]
        run = project.run(*turns, text("fine"), tools=made["tool_names"])
        free = {name for name, _ in asked}
        while run["status"] == "requires_action":
            [action] = run["required_actions"]
            free.discard(action["tool"].removeprefix(f"{server}_"))
            project.client.decide_call(run["id"], action["call_id"], "approve")
            run = project.settle(run)
        assert run["status"] == "completed"
        return results(project, run), free

    return use


def test_git_commits_what_a_person_approves(use: Call, folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for key, value in (("user.name", "Ada"), ("user.email", "ada@example.com")):
        subprocess.run(["git", "-C", str(folder), "config", key, value], check=True)
    (folder / "note.txt").write_text(f"{os.urandom(8).hex()}\n")
    repo = {"repo_path": str(folder)}
    done, free = use(
        "git",
        ("git_add", {**repo, "files": ["note.txt"]}),
        ("git_commit", {**repo, "message": "Add a note"}),
        ("git_log", {**repo, "max_count": 1}),
        ("git_status", {"repo_path": "/etc"}),
    )
    added, committed, log, refused = done
    assert free == {"git_log", "git_status"}
    assert "staged" in str(added["output"])
    assert "committed" in str(committed["output"])
    assert "Add a note" in str(log["output"])
    assert (refused["is_error"], "outside" in str(refused["output"])) == (True, True)


def test_fetch_reads_pages_and_tells_the_model_what_it_may_not_read(use: Call) -> None:
    with Site() as site:
        [page, refused], free = use(
            "fetch",
            ("fetch", {"url": f"{site.url}/prices"}),
            ("fetch", {"url": f"{site.url}/private"}),
        )
    assert free == {"fetch"}
    assert "One apple: **2 euros**" in str(page["output"])
    assert (refused["is_error"], "robots.txt" in str(refused["output"])) == (True, True)


def test_files_are_written_once_approved_and_pictures_are_read(use: Call, folder: Path) -> None:
    (folder / "pixel.png").write_bytes(PIXEL)
    path = {"path": str(folder / "list.txt")}
    done, free = use(
        "files",
        ("write_file", {**path, "content": "apples\npears\n"}),
        ("read_text_file", {**path, "head": 1}),
        ("read_media_file", {"path": str(folder / "pixel.png")}),
        ("read_text_file", {"path": "/etc/passwd"}),
    )
    written, read, picture, refused = done
    assert free == {"read_text_file", "read_media_file"}
    assert "Successfully wrote" in str(written["output"])
    assert (folder / "list.txt").read_text() == "apples\npears\n"
    assert read["output"] == {"content": "apples"}
    [part] = [one for one in picture["content"] if one["type"] != "text"]
    assert (part["media_type"], b64decode(part["data"])) == ("image/png", PIXEL)
    assert (refused["is_error"], "outside allowed" in str(refused["output"])) == (True, True)


def test_memory_remembers_what_a_person_approves(use: Call) -> None:
    name = os.urandom(4).hex()
    entity = {"name": name, "entityType": "person", "observations": ["likes apples"]}
    [_, found], free = use(
        "memory", ("create_entities", {"entities": [entity]}), ("search_nodes", {"query": name})
    )
    assert free == {"search_nodes"}
    assert found["output"]["entities"] == [entity]


@pytest.fixture(scope="module")
def protected() -> Iterator[str]:
    """The address of a server that accepts only tokens of its authorization server."""
    examples = node_package("@modelcontextprotocol/sdk") / "dist" / "esm" / "examples" / "server"
    command = ["node", str(examples / "simpleStreamableHttp.js"), "--oauth", "--oauth-strict"]
    env = {"MCP_PORT": "{port}", "MCP_AUTH_PORT": str(free_port())}
    with OthersServer(command, ready="MCP Streamable HTTP Server listening", env=env) as server:
        yield server.url.replace("127.0.0.1", "localhost")


def test_a_person_logs_in_and_then_answers_a_form(project: Project, protected: str) -> None:
    oauth = {"grant_type": "authorization_code"}
    body = {"name": "box", "url": protected, "oauth": oauth}
    assert project.client.call("POST", "/v1/mcp_servers", body)["tool_names"] == []
    login = project.client.call("POST", "/v1/mcp_servers/box/login")
    page = httpx2.get(login["url"], follow_redirects=True)
    assert (page.status_code, "logged in" in page.text) == (200, True)
    made = project.client.call("GET", "/v1/mcp_servers/box")
    assert "box_collect-user-info" in made["tool_names"]
    assert made["oauth"]["logged_in_at"] is not None
    ask = calls(call(1, "box_collect-user-info", '{"infoType": "preferences"}'))
    run = project.run(ask, text("fine"), tools=made["tool_names"])
    project.client.decide_call(run["id"], "c1", "approve")
    [action] = project.settle(run)["required_actions"]
    assert action["requests"]["elicitations"]["1"]["message"] == "Please set your preferences"
    path = f"/v1/runs/{run['id']}/tool_calls/c1/result"
    project.client.call("POST", path, {"output": {"theme": "dark"}})
    assert project.settle(run)["status"] == "completed"
    [done] = results(project, run)
    assert '"theme": "dark"' in done["output"]
    assert '"notifications": true' in done["output"], "with the form's default"
