"""The client under test of the protocol's own conformance tests: Runward. `URL` is registered as an
MCP server over REST, and a run calls what the scenario MCP_CONFORMANCE_SCENARIO wants called, once
approved. RUNWARD_URL and RUNWARD_KEY say where."""

import json
import os
import sys

from tests.support.services.client import TERMINAL, Client, Json

CALLS = {
    "initialize": [],
    "tools_call": ["c_add_numbers(a=5, b=3)"],
    "sse-retry": ["c_test_reconnection()"],
    "elicitation-sep1034-client-defaults": ["c_test_client_elicitation_defaults()"],
}
"""Written out for the offline model. What is not here is about authorization, and has one tool."""
AUTHORIZED = ["c_test-tool()"]


def main(url: str, scenario: str) -> None:
    with Client(os.environ["RUNWARD_URL"], os.environ["RUNWARD_KEY"]) as operator:
        client = operator.new_project(scenario)
    with client:
        given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
        oauth = {name: one for name, one in given.items() if name in ("client_id", "client_secret")}
        server: Json = {"name": "c", "url": url, **({"oauth": oauth} if oauth else {})}
        made = client.call("POST", "/v1/mcp_servers", server)
        print("registered", *made["tool_names"])
        try:
            for text in CALLS.get(scenario, AUTHORIZED):
                call(client, text, made["tool_names"])
        finally:
            client.call("DELETE", "/v1/mcp_servers/c")  # it ends the session


def call(client: Client, text: str, tools: list[str]) -> None:
    run = client.start_run(model="offline:rules", input=text, tools=tools)
    client.settle(run["id"])
    for one in client.approvals(run_id=run["id"]):
        client.decide(one["id"], "approve")
    client.settle(run["id"], TERMINAL)
    for one in client.tool_calls(run["id"]):
        print(one["tool"], one["outcome"], one["output"])


if __name__ == "__main__":
    main(sys.argv[-1], os.environ["MCP_CONFORMANCE_SCENARIO"])
