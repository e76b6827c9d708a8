"""What others plant stays text in the lists, in what is registered, in names, in what the server
refuses, and in the address; see `test_hostile`. Where the API takes no such text, it says so.
"""

import json
import sys
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.api.project import ALL_SCOPES, Project
from tests.browser.conftest import Opens
from tests.browser.hostile import ALL, FOLDED, NEVER_TAKEN, ONE, SHORT, URLS
from tests.browser.reading import read, read_all, unfold, unharmed, unmarked
from tests.support.models.chat_server import text
from tests.support.tools.server import Behaviour

pytestmark = pytest.mark.timeout(180)

SHOWN_OF_AN_OUTPUT = 160
"""Characters, in the list of runs."""


def pieces(most: int) -> list[str]:
    """All short ones, as few texts as can be, none of them longer than `most` characters."""
    found = [""]
    for one in SHORT:
        if len(found[-1]) + len(one) > most:
            found.append("")
        found[-1] += one[:most]
    return found


def test_outputs_metadata_and_errors_in_the_list_of_runs(project: Project, opens: Opens) -> None:
    said = pieces(SHOWN_OF_AN_OUTPUT)
    runs = [
        project.start(
            model=project.script(text(one), name=f"m{at}"), metadata={one: one}, input=one or "go"
        )
        for at, one in enumerate(said)
    ]
    assert [project.end(run)["output"] for run in runs] == said
    window = opens(at="#/runs")
    expect(window.page.locator("tbody tr")).to_have_count(len(said))
    assert set(said) <= {one for one in read_all(window.page.locator("td.what > div"))}
    unharmed(window)
    for one in SHORT:
        window.page.get_by_label("Find").fill(one)
    unharmed(window)


def test_what_is_registered_tried_and_refused(project: Project, opens: Opens) -> None:
    schema = {
        "type": "object",
        "description": ONE,
        "properties": {one: {"type": "string", "title": one, "description": one} for one in SHORT},
    }
    project.tool(
        "hostile",
        Behaviour("return", {"said": FOLDED}),
        description=ONE,
        parameters=schema,
        strict=False,
        metadata={one: one for one in SHORT[:64]},
    )
    agent = {"model": "offline:rules", "description": ONE, "instructions": FOLDED}
    project.client.call("POST", "/v1/agents", {"name": "agent", "tools": ["hostile"], **agent})
    changed = project.client.call("PATCH", "/v1/agents/agent", {"metadata": {ONE: ONE}})
    assert changed["metadata"] == {ONE: ONE}
    window = opens(*ALL_SCOPES)
    page = window.page
    for view, name in (("tools", "hostile"), ("agents", "agent")):
        window.go(f"#/{view}")
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible()
        assert read_all(page.locator(".tile p.clamp")) == [ONE]
        unharmed(window)
    window.go("#/agents/agent", "agent")
    expect(page.get_by_text("All fields as JSON")).to_be_visible()
    assert read(page.locator("main > p.lead")) == ONE
    assert FOLDED in read_all(page.locator("dl.about > dd"))
    unfold(window, ".versions details")
    assert f"metadata.{ONE}" in read_all(page.locator(".change > code"))
    unharmed(window)
    window.go("#/tools/hostile", "hostile")
    page.get_by_role("button", name="Call the tool").click()
    result = page.locator("section [aria-live=polite] dl")
    expect(result).to_be_visible()
    assert read(page.locator("main > p.lead")) == ONE
    assert sorted(read_all(page.locator(".form .help"))) == sorted(filter(None, SHORT))
    assert read(result.locator("dd")) == FOLDED
    unfold(window, "main > details")
    shown = json.loads(read(page.locator("main > details .json").last))
    assert (shown["description"], shown["parameters"]) == (ONE, schema)
    unharmed(window)


def test_what_is_refused_is_said(project: Project, opens: Opens) -> None:
    for name in pieces(200):
        project.client.call("POST", "/v1/sessions", {"name": name, "metadata": {name: name}})
    window = opens(*ALL_SCOPES, at="#/new-tool")
    window.allow("422")
    page = window.page
    for label in ("Name", "Description", "URL", "Parameters", "Timeout"):
        page.get_by_label(label).fill(ONE)
    page.get_by_role("button", name="Register a tool").click()
    expect(page.locator(".wrong:visible")).to_have_count(2)
    page.get_by_label("Parameters").fill('{"type": "object"}')
    page.get_by_label("Timeout").fill("")
    page.get_by_label("All other fields, as JSON").fill(json.dumps({ONE: 1}))
    page.get_by_role("button", name="Register a tool").click()
    expect(page.locator(".wrong:visible").first).to_be_visible()
    unharmed(window)
    window.go("#/start", "Start a run")
    expect(page.get_by_label("Session").locator("option")).to_have_count(2 + len(pieces(200)))
    options = [unmarked(one) for one in read_all(page.get_by_label("Session").locator("option"))]
    assert {f"{one}, made just now" for one in pieces(200)} <= set(options)
    page.get_by_label("Model").fill(ONE[:100])
    page.get_by_label("Input", exact=True).fill(ONE)
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".wrong:visible").first).to_be_visible()
    unharmed(window)


def test_names_of_keys_and_of_the_project(project: Project, opens: Opens) -> None:
    names = [one for one in pieces(200) if one]
    for name in names:
        project.new_key("runs:read", name=name)
    window = opens("runs:read", "admin", name=ONE[:200], at="#/keys")
    expect(window.page.locator("tbody tr")).to_have_count(len(names) + 2)
    listed = read_all(window.page.locator("tbody th"))
    assert set(names) <= {one.removesuffix(" this session") for one in listed}
    assert ONE[:200] in read(window.page.locator(".who"))
    unharmed(window)


def test_an_address_may_be_anything(project: Project, opens: Opens) -> None:
    window = opens(*ALL_SCOPES)
    window.allow("404")
    window.allow("422")
    for at, one in enumerate((*SHORT, *NEVER_TAKEN)):
        view = ("#/runs/{}", "#/tools/{}", "#/runs?q={}", "#/start?from={}", "#/{}")[at % 5]
        for written in (one, quote(one)):
            window.page.evaluate("(hash) => { location.hash = hash; }", view.format(written))
    window.go(f"#/{quote(ONE)}", "Not found")
    unharmed(window)
    window.go(f"#/runs?q={quote(ONE)}&agent={quote(ONE)}&status={quote(ONE)}", "Runs")
    unharmed(window)


def test_what_no_request_may_have(project: Project) -> None:
    client = project.client
    tool = {"type": "webhook", "url": "http://127.0.0.1:9/", "parameters": {"type": "object"}}
    for one in (*ALL, *NEVER_TAKEN):
        if one.isidentifier() and one[0] != "_":
            continue  # a name like any other: `constructor`
        for path, body in (
            ("/v1/tools", {"name": one, **tool}),
            ("/v1/agents", {"name": one, "model": "offline:rules"}),
            ("/v1/mcp_servers", {"name": one, "url": "http://127.0.0.1:9/"}),
            ("/v1/mcp_servers", {"name": "a", "prefix": one, "url": "http://127.0.0.1:9/"}),
            ("/v1/runs", {"agent": one, "input": "go"}),
            ("/v1/runs", {"model": "offline:rules", "tools": [one], "input": "go"}),
        ):
            client.refused(422, "invalid_request", "POST", path, body)
    for url in (*URLS[:-1], "http://127.0.0.1:9/<script>"):
        client.refused(
            422, "invalid_request", "POST", "/v1/tools", tool | {"name": "a", "url": url}
        )


def test_tools_of_a_server_that_calls_them_what_it_likes(project: Project, opens: Opens) -> None:
    args = ["-m", "tests.browser.planted_mcp"]
    body = {"name": "planted", "command": sys.executable, "args": args}
    server = project.client.call("POST", "/v1/mcp_servers", body)
    names = [one for one in SHORT if one]
    assert len(server["tool_names"]) + len(server["skipped"]) == len(names)
    assert len(server["tool_names"]) > 60
    window = opens(at="#/tools")
    expect(window.page.get_by_text(f"{len(server['tool_names'])} registered")).to_be_visible()
    expect(window.page.locator(".tile").first).to_be_visible()
    assert set(read_all(window.page.locator(".tile p.clamp"))) <= set(names)
    unharmed(window)
    for name in server["tool_names"][:3]:
        window.go(f"#/tools/{name}", name)
        tool = project.client.call("GET", f"/v1/tools/{name}")
        expect(window.page.locator("dl.about")).to_contain_text("of the MCP server planted")
        assert f"{tool['mcp']['tool']} of the MCP server planted" in read_all(
            window.page.locator("dl.about > dd")
        )
        unharmed(window)
