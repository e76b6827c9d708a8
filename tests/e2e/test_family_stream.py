"""The log of a run and all below it, followed from a process that works on none of them."""

import json
from collections import defaultdict
from collections.abc import Iterator

import httpx2
import pytest

from tests.e2e.conftest import Processes
from tests.e2e.family import Family
from tests.support.models.chat_server import ModelServer
from tests.support.services.client import Client, Json
from tests.support.tools.server import ToolServer

pytestmark = pytest.mark.timeout(240)


def streamed(client: Client, run_id: str, cursor: str = "0") -> Iterator[tuple[str, Json]]:
    """Ids and events, until the server ends the stream."""
    headers = {
        "Authorization": f"Bearer {client.key}",
        "Accept": "text/event-stream",
        "Last-Event-ID": cursor,
    }
    url = f"{client.url}/v1/runs/{run_id}/events?include=children"
    with (
        httpx2.Client(trust_env=False, timeout=60) as http,
        http.stream("GET", url, headers=headers) as response,
    ):
        id_ = None
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                id_ = value
            elif name == "data" and id_ is not None:
                yield id_, json.loads(value)
                id_ = None


def test_a_reader_elsewhere_sees_a_family_whoever_works_on_it(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    family = Family(start, model, tools)
    first = family.worker()
    run_id = family.run()
    found: list[Json] = []
    cursor = "0"
    for id_, event in streamed(family.client, run_id):
        cursor = id_
        found.append(event)
        if event["run_id"] == run_id and event["type"] == "run.waiting":
            break
    assert len({event["run_id"] for event in found}) == 3
    first.kill()
    family.api.kill()
    client = family.client = family.another_api()
    family.worker()
    client.decide(family.action(run_id)["approval_id"], "approve")
    found += [event for _, event in streamed(client, run_id, cursor)]
    assert (found[-1]["run_id"], found[-1]["type"]) == (run_id, "run.completed")
    own: dict[str, list[Json]] = defaultdict(list)
    for event in found:
        own[event["run_id"]].append(event)
    assert own.keys() == set(family.below(run_id))
    for one, events in own.items():
        assert events == client.events(one)
    assert family.broken(run_id) == []
