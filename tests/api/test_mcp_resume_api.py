"""A client of the protocol of 2025 that loses the stream of a call continues it by the ID of its
last event."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from tests.api.project import CheckedClient, Project
from tests.api.test_mcp_elicitation_api import ASK
from tests.api.test_mcp_endpoint_api import ACCEPT, initialize, post, request, runs_of
from tests.api.test_mcp_endpoint_api import calling as calling_in_background
from tests.e2e.tcp_relay import TcpRelay
from tests.support.mcp.client import mcp_client, said
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour


class Stream:
    """The messages of a stream. `ids`: the IDs of its events so far."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.ids: list[str] = []
        self.first = ""

    def __iter__(self) -> Iterator[Json]:
        for line in self._lines:
            self.first = self.first or line
            if line.startswith("id: "):
                self.ids.append(line.removeprefix("id: "))
            elif line.startswith("data: {"):
                yield json.loads(line.removeprefix("data: "))


def begin(client: CheckedClient, version: str = "2025-11-25", **capabilities: Json) -> str:
    about = initialize()
    about["params"] |= {"protocolVersion": version, "capabilities": capabilities}
    return post(client, about).headers["Mcp-Session-Id"]


@contextmanager
def calling(client: CheckedClient, session: str, name: str, arguments: Json) -> Generator[Stream]:
    body = request("tools/call", name=name, arguments=arguments, _meta={"progressToken": "t"})
    headers = {**ACCEPT, "Mcp-Session-Id": session}
    with client.streaming("POST", "/mcp", body, **headers) as response:
        yield Stream(response.iter_lines())


@contextmanager
def continuing(client: CheckedClient, session: str, last: str) -> Generator[Stream]:
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session, "Last-Event-ID": last}
    with client.streaming("GET", "/mcp", **headers) as response:
        yield Stream(response.iter_lines())


def progress_of(message: Json) -> str:
    return message.get("params", {}).get("message", "")


def test_a_lost_call_continues_with_its_progress_and_its_result(project: Project) -> None:
    schema: Json = {"type": "object", "properties": {"paid": {"type": "boolean"}}}
    paid = Behaviour("return", value={"paid": True})
    project.tool("pay", paid, approval="always", output_schema=schema)
    session = begin(project.client)
    with calling(project.client, session, "pay", {"x": "1"}) as stream:
        next(one for one in stream if "waiting for a person" in progress_of(one))
    assert stream.first == f"id: {stream.ids[0]}"
    with continuing(project.client, session, stream.ids[-1]) as rest:
        messages = iter(rest)
        asked = next(one for one in messages if "waiting for a person" in progress_of(one))
        assert asked["params"]["progressToken"] == "t"
        [approval] = project.client.approvals()
        project.client.decide(approval["id"], "approve")
        *_, answer = messages
    assert (answer["id"], answer["result"]["structuredContent"]) == (1, {"paid": True})
    with continuing(project.client, session, rest.ids[-1]) as again:
        *_, repeated = again
    assert repeated == answer
    assert len(runs_of(project)) == len(project.hits("pay")) == 1


def test_the_rest_of_a_call_asks_the_user(project: Project) -> None:
    project.client.call("POST", "/v1/tools", ASK)
    session = begin(project.client, elicitation={})
    with calling(project.client, session, "ask_address", {"order": "A-1"}) as stream:
        next(one for one in stream if one.get("method") == "elicitation/create")
    with continuing(project.client, session, stream.ids[-1]) as rest:
        messages = iter(rest)
        question = next(one for one in messages if one.get("method") == "elicitation/create")
        result = {"action": "accept", "content": {"value": "Main Street 1"}}
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": result}
        assert post(project.client, answer, Mcp_Session_Id=session).status_code == 202
        *_, done = messages
    assert done["result"]["content"][0]["text"] == "Main Street 1"


def test_a_call_lost_before_it_was_accepted_and_one_of_another_project_are_errors(
    project: Project, other: Project
) -> None:
    project.tool("pay")
    session = begin(project.client)
    with calling(project.client, session, "pay", {"x": "1"}) as stream:
        list(stream)
    first, accepted = stream.ids
    for client, last, text in (
        (project.client, first, "before Runward accepted the call"),
        (other.client, accepted, "has no run with this ID"),
    ):
        with continuing(client, session, last) as rest:
            *_, error = rest
        assert error["id"] == 1
        assert text in error["error"]["message"]


@pytest.mark.parametrize("last", ["x", "bnVsbA==", "WzEsMix0cnVlLCJydW5feCJd"])
def test_an_unknown_event_id_opens_the_stream_of_changes(project: Project, last: str) -> None:
    headers = {"Accept": "text/event-stream", "Last-Event-ID": last}
    session = begin(project.client)
    with project.client.streaming("GET", "/mcp", **headers, **{"Mcp-Session-Id": session}) as got:
        assert next(got.iter_lines()) == ": listening"


def test_older_clients_get_no_events_without_data(project: Project) -> None:
    project.tool("pay")
    with calling(project.client, begin(project.client, "2025-06-18"), "pay", {"x": "1"}) as stream:
        assert [one["id"] for one in stream if "result" in one] == [1]
    assert stream.ids == []


async def test_the_client_of_the_mcp_sdk_continues_a_lost_call_itself(project: Project) -> None:
    project.tool("pay", approval="always")
    key = project.client.key
    with TcpRelay(project.client.url) as relay:
        async with (
            mcp_client(relay.url, key, "2025") as mcp,
            calling_in_background(mcp, "pay", {"x": "1"}) as (task, heard),
        ):
            await heard.until("waiting for a person")
            assert relay.cut() > 0
            [approval] = project.client.approvals()
            project.client.decide(approval["id"], "approve")
            assert said(await task) == "pay(1)"
    assert len(runs_of(project)) == len(project.hits("pay")) == 1
