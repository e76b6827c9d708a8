"""The client under test of the protocol's own conformance tests: Runward. `URL` is registered as an
MCP server over REST, and a run calls what the scenario MCP_CONFORMANCE_SCENARIO wants called, once
approved. Where the server wants a login, the person's browser follows its redirects. RUNWARD_URL
and RUNWARD_KEY say where."""

import json
import os
import re
import sys

import httpx2

from tests.support.services.client import TERMINAL, Client, Json

CALLS = {
    "initialize": [],
    "tools_call": ["c_add_numbers(a=5, b=3)"],
    "sse-retry": ["c_test_reconnection()"],
    "elicitation-sep1034-client-defaults": ["c_test_client_elicitation_defaults()"],
}
"""Written out for the offline model. What is not here is about authorization, and has one tool."""
AUTHORIZED = ["c_test-tool()"]
MACHINES = {"auth/client-credentials-basic", "auth/client-credentials-jwt"}
DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The client ID metadata document that `auth/basic-cimd` wants named."""


def main(url: str, scenario: str) -> None:
    with Client(os.environ["RUNWARD_URL"], os.environ["RUNWARD_KEY"]) as operator:
        client = operator.new_project(scenario)
    with client:
        oauth = credentials(scenario)
        server: Json = {"name": "c", "url": url, **({"oauth": oauth} if oauth else {})}
        made = client.call("POST", "/v1/mcp_servers", server)
        try:
            if "grant_type" in oauth:
                log_in(client)
                made = client.call("GET", "/v1/mcp_servers/c")
            print("registered", *made["tool_names"])
            for text in CALLS.get(scenario, AUTHORIZED):
                call(client, text, made["tool_names"])
        finally:
            client.call("DELETE", "/v1/mcp_servers/c")  # it ends the session


def credentials(scenario: str) -> Json:
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    oauth = {name: one for name, one in given.items() if name in ("client_id", "client_secret")}
    if "private_key_pem" in given:
        oauth["private_key"] = given["private_key_pem"]
    if scenario == "auth/basic-cimd":
        oauth["client_id"] = DOCUMENT
    if scenario.startswith("auth/") and scenario not in MACHINES:
        oauth["grant_type"] = "authorization_code"
    return oauth


def log_in(client: Client, **options: str) -> None:
    """What a person's browser does with the address of the login."""
    url = client.call("POST", "/v1/mcp_servers/c/login", options or None)["url"]
    redirected = httpx2.get(url, follow_redirects=False, timeout=20)
    page = httpx2.get(redirected.headers["location"], timeout=40)
    print("login", page.status_code, page.text)


def call(client: Client, text: str, tools: list[str]) -> None:
    for _ in range(2):
        wanted = None
        for one in called(client, text, tools):
            print(one["tool"], one["outcome"], one["output"], one["detail"])
            wanted = wanted or re.search("requires the scope '(.+?)'", one["detail"] or "")
        if wanted is None:
            return
        log_in(client, scope=wanted[1])


def called(client: Client, text: str, tools: list[str]) -> list[Json]:
    run = client.start_run(model="offline:rules", input=text, tools=tools)
    client.settle(run["id"])
    for one in client.approvals(run_id=run["id"]):
        client.decide(one["id"], "approve")
    for action in client.settle(run["id"])["required_actions"]:
        path = f"/v1/runs/{run['id']}/tool_calls/{action['call_id']}/result"
        client.call("POST", path, {"output": {"action": "accept"}})
    client.settle(run["id"], TERMINAL)
    return client.tool_calls(run["id"])


if __name__ == "__main__":
    main(sys.argv[-1], os.environ["MCP_CONFORMANCE_SCENARIO"])
