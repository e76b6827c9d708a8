"""Subscriptions of clients of the protocol of 2026 to runs, as resources and as tasks."""

import asyncio
import json
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from mcp.shared.subscriptions import ResourceUpdated

from tests.api.project import PATIENCE_SECONDS, CheckedClient, Project
from tests.api.test_mcp_endpoint_api import ACCEPT, connected
from tests.api.test_mcp_tasks_api import TASKS, modern, modern_request, start_task
from tests.support.services.client import Json


def begin(project: Project) -> str:
    """Return a run that waits for an approval."""
    project.tool("pay", approval="always")
    run_id = start_task(project.client, "pay", {"x": "1"})["result"]["task"]["taskId"]
    project.client.settle(run_id, {"requires_action"})
    return run_id


def approve(project: Project) -> None:
    [approval] = project.client.approvals()
    project.client.decide(approval["id"], "approve")


async def updated(events: AsyncIterator[Any], uri: str) -> None:
    async for event in events:
        if event == ResourceUpdated(uri):
            return


async def test_a_client_hears_that_a_run_and_its_output_have_changed(project: Project) -> None:
    run_id = begin(project)
    run, output = f"runward://runs/{run_id}", f"runward://runs/{run_id}/output"
    async with connected(project) as client:
        resources = client.server_capabilities.resources
        assert resources is not None
        assert resources.subscribe is True
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            client.listen(resource_subscriptions=[run, output]) as events,
        ):
            approve(project)
            heard = aiter(events)
            assert await anext(heard) == ResourceUpdated(run)
            await updated(heard, output)
            read = await client.read_resource(output)
    assert read.contents[0].model_dump()["text"] == "pay(1)"


@contextmanager
def listening(client: CheckedClient, **filters: Any) -> Generator[Iterator[Json]]:
    """Yield the messages of a subscription whose client declares the extension for tasks."""
    body, headers = modern_request("subscriptions/listen", TASKS, notifications=filters)
    with client.streaming("POST", "/mcp", body, **ACCEPT, **headers) as response:
        lines = (line for line in response.iter_lines() if line.startswith("data: {"))
        yield (json.loads(line.removeprefix("data: ")) for line in lines)


def test_a_client_hears_every_status_of_a_task_and_its_result(project: Project) -> None:
    run_id = begin(project)
    unknown = "run_" + "0" * 32
    with listening(project.client, taskIds=[run_id, unknown, "nonsense"]) as messages:
        assert next(messages)["params"]["notifications"] == {"taskIds": [run_id]}
        first = next(messages)
        assert first["method"] == "notifications/tasks"
        assert first["params"]["status"] == "working"
        assert "a person's decision" in first["params"]["statusMessage"]
        approve(project)
        last = next(one for one in messages if one["params"]["status"] == "completed")
    assert last["params"]["result"]["content"][0]["text"] == "pay(1)"
    assert last["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 1
    shown = modern(project.client, "tasks/get", TASKS, taskId=run_id).json()["result"]
    assert shown.keys() - last["params"].keys() == {"resultType"}
    assert shown["lastUpdatedAt"] == last["params"]["lastUpdatedAt"]


def test_tasks_need_the_extension_and_runs_of_others_are_not_followed(
    project: Project, other: Project
) -> None:
    run_id = begin(project)
    wanted = {"taskIds": [run_id]}
    refused = modern(project.client, "subscriptions/listen", notifications=wanted)
    assert refused.json()["error"]["code"] == -32021
    uris = [f"runward://runs/{run_id}", "file:///etc/passwd"]
    with listening(other.client, taskIds=[run_id], resourceSubscriptions=uris) as messages:
        assert next(messages)["params"]["notifications"] == {}


def test_a_subscription_follows_at_most_20_runs(project: Project) -> None:
    runs = [project.run(model="offline:rules")["id"] for _ in range(21)]
    with listening(project.client, taskIds=runs) as messages:
        assert next(messages)["params"]["notifications"] == {"taskIds": runs[:20]}
