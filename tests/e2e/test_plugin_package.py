"""The example of a plugin, installed like anybody's package: found, shown, called, asked about."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Processes
from tests.support import packages
from tests.support.services.client import Client

TOOLS = ["convert", "describe", "refund", "report", "ship", "stock"]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the package was installed into by pip, without a network."""
    target = tmp_path_factory.mktemp("site")
    packages.install(target, tmp_path_factory.mktemp("sources"), "plugins")
    return target


@pytest.fixture
def client(start: Processes, site: Path) -> Iterator[Client]:
    yield start.client(start("serve", site=site))


@pytest.mark.timeout(180)
def test_an_installed_plugin_is_found_shown_and_run(client: Client) -> None:
    page = client.call("GET", "/v1/tools", order="asc")
    assert [tool["name"] for tool in page["data"]] == TOOLS
    refund = client.call("GET", "/v1/tools/refund")
    assert refund["approval"] == {"callable": "runward_shop.orders:is_large"}
    assert refund["parameters"]["properties"]["amount"] == {
        "type": "number",
        "exclusiveMinimum": 0,
        "description": "In euros.",
    }
    assert refund["parameters"]["required"] == ["order", "amount"]

    small = run(client, 'refund(order="ord_1", amount=20)')
    assert small["status"] == "completed"
    large = run(client, 'refund(order="ord_2", amount=200)')
    assert large["status"] == "requires_action"
    [action] = large["required_actions"]
    assert action["arguments"] == {"order": "ord_2", "amount": 200}
    decision = {"decision": "approve", "digest": action["digest"]}
    client.call("POST", f"/v1/approvals/{action['approval_id']}/decision", decision)
    assert client.settle(large["id"])["status"] == "completed"
    assert output(client, large["id"], "refund")["amount"] == 200
    gold = run(client, 'refund(order="ord_3", amount=200)', context={"tier": "gold"})
    assert gold["status"] == "completed"

    others = run(client, 'report(days=3) stock(article="tea") convert(amount=10, currency="USD")')
    assert others["status"] == "completed"
    assert output(client, others["id"], "report") == "5 euros in 3 days"
    assert output(client, others["id"], "stock") == {"article": "tea", "count": 12}
    assert output(client, others["id"], "convert") == 11.0


@pytest.mark.timeout(180)
def test_the_packages_own_tests_pass(site: Path) -> None:
    packages.run_own_tests(site, "plugins")


@pytest.mark.timeout(180)
def test_tools_of_a_plugin_that_is_gone_are_hidden_and_can_be_disabled(
    start: Processes, site: Path
) -> None:
    start("serve", site=site).terminate()
    client = start.client(start("serve"))
    assert [tool["name"] for tool in client.call("GET", "/v1/tools", order="asc")["data"]] == TOOLS
    asked = run(client, "convert(amount=10)")
    assert "tool_call.started" not in [one["type"] for one in client.events(asked["id"])]
    changed = client.call("PATCH", "/v1/tools/convert", {"enabled": False})
    assert (changed["enabled"], changed["version"]) == (False, 2)
    assert client.request("PATCH", "/v1/tools/convert", {"enabled": None}).status_code == 409
    again = start.client(start("serve", site=site))
    assert again.call("GET", "/v1/tools/convert") == changed


def run(client: Client, asked: str, **fields: Any) -> dict[str, Any]:
    body = {"model": "offline:rules", "tools": TOOLS, "input": asked, **fields}
    return client.settle(client.call("POST", "/v1/runs", body)["id"])


def output(client: Client, run_id: str, tool: str) -> Any:
    events = client.events(run_id)
    [found] = [
        event["data"]["output"]
        for event in events
        if event["type"] == "tool_call.completed" and event["data"]["tool"] == tool
    ]
    return found
