"""/v1/runs/{id}/events: one log, polled or streamed, from any place on, by any number."""

import json
import struct
import threading
import time
from base64 import urlsafe_b64encode
from contextlib import ExitStack
from itertools import pairwise

import httpx2
import pytest

from tests.api.project import (
    PATIENCE_SECONDS,
    CheckedClient,
    Project,
    at_once,
    call,
    meanwhile,
    stored,
    types_of,
)
from tests.support.models.chat_server import Answer, calls, text
from tests.support.services.client import Json
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour

STREAM = "text/event-stream"
STREAMS_PER_KEY = 20


def whole_run(project: Project) -> Json:
    """Ten events or more: two turns with a call each, then an answer."""
    project.tool("look")
    script = [calls(call(n, "look", f'{{"x":"{n}"}}')) for n in range(2)]
    return project.run(*script, text("done"), tools=["look"])


def path_of(run: Json) -> str:
    return f"/v1/runs/{run['id']}/events"


# -- polling --------------------------------------------------------------------------------------


def test_events_are_numbered_from_one_without_gaps(project: Project) -> None:
    run = whole_run(project)
    events = project.client.events(run["id"])
    assert [event["sequence"] for event in events] == list(range(1, run["last_sequence"] + 1))
    assert {event["run_id"] for event in events} == {run["id"]}
    assert all(
        event.keys() == {"id", "type", "sequence", "run_id", "created_at", "data"}
        for event in events
    )
    assert len({event["id"] for event in events}) == len(events)
    assert all(a["created_at"] <= b["created_at"] for a, b in pairwise(events))


def test_a_run_with_a_call_tells_its_story_in_order(project: Project) -> None:
    project.tool("look")
    run = project.run(calls(call(1, "look")), text("done"), tools=["look"])
    assert types_of(project.client.events(run["id"])) == [
        "run.created",
        "run.started",
        "tool_call.created",
        "usage.updated",
        "tool_call.started",
        "tool_call.completed",
        "message.completed",
        "usage.updated",
        "run.completed",
    ]


def test_events_are_read_in_pages(project: Project) -> None:
    run = whole_run(project)
    whole = project.client.events(run["id"])
    assert project.client.events(run["id"], limit=3) == whole
    first = project.client.call("GET", path_of(run), limit=3)
    assert first == {
        "object": "list",
        "data": whole[:3],
        "first_id": whole[0]["id"],
        "last_id": whole[2]["id"],
        "has_more": True,
    }
    last = project.client.call("GET", path_of(run), after=len(whole) - 1)
    assert (last["data"], last["has_more"]) == (whole[-1:], False)
    beyond = project.client.call("GET", path_of(run), after=10_000)
    assert (beyond["data"], beyond["first_id"], beyond["has_more"]) == ([], None, False)


def test_a_poll_that_waits_is_answered_by_the_next_event(project: Project) -> None:
    hold = Hold()
    run = project.start(Answer(text="hi", hold=hold))
    hold.arrived()
    seen = project.client.events(run["id"])
    params = {"after": len(seen), "wait": 30}
    with meanwhile(lambda: project.client.call("GET", path_of(run), **params)) as polled:
        with pytest.raises(TimeoutError):
            polled.result(0.3)
        hold.release()
        before = time.monotonic()
        page = polled.result(20)
    assert time.monotonic() - before < 5
    assert page["data"][0]["sequence"] == len(seen) + 1


def test_a_poll_that_waits_in_vain_is_answered_empty(project: Project) -> None:
    hold = Hold()
    run = project.start(Answer(text="hi", hold=hold))
    hold.arrived()
    seen = project.client.events(run["id"])
    page = project.client.call("GET", path_of(run), after=len(seen), wait=0.2)
    hold.release()
    assert (page["data"], page["has_more"]) == ([], False)


def test_a_poll_of_an_ended_run_does_not_wait(project: Project) -> None:
    run = project.run(text("hi"))
    before = time.monotonic()
    page = project.client.call("GET", path_of(run), after=run["last_sequence"], wait=30)
    assert page["data"] == []
    assert time.monotonic() - before < 10


# -- streaming ------------------------------------------------------------------------------------


def test_a_stream_is_frames_of_id_event_and_data_in_one_line(project: Project) -> None:
    run = whole_run(project)
    with project.client.streaming("GET", path_of(run), Accept=STREAM) as response:
        assert response.status_code == 200
        assert response.headers["Content-Type"].partition(";")[0] == STREAM
        assert response.headers["Cache-Control"] == "no-cache"
        assert project.running.contract.promises(response)
        body = response.read().decode()
    polled = json.loads(project.client.request("GET", path_of(run)).text)["data"]
    raw = project.client.request("GET", path_of(run)).text
    head, *blocks = body.removesuffix("\n\n").split("\n\n")
    assert head == "retry: 1000"
    assert len(blocks) == len(polled)
    for block, event in zip(blocks, polled, strict=True):
        number, kind, data = block.split("\n")
        assert number == f"id: {event['sequence']}"
        assert kind == f"event: {event['type']}"
        assert json.loads(data.removeprefix("data: ")) == event
        assert data.removeprefix("data: ") in raw, "byte for byte the same"


def test_the_terminal_event_is_last_and_ends_the_stream(project: Project) -> None:
    hold = Hold()
    run = project.start(Answer(text="hi", hold=hold))
    hold.arrived()
    with meanwhile(lambda: list(project.client.stream(run["id"]))) as read:
        hold.release()
        frames = read.result(PATIENCE_SECONDS)
    assert frames[-1].type == "run.completed"
    assert stored(frames) == project.client.events(run["id"])


@pytest.mark.parametrize("how", ["after", "last_event_id"])
def test_a_stream_begins_after_what_was_seen(project: Project, how: str) -> None:
    run = whole_run(project)
    whole = project.client.events(run["id"])
    for seen in range(len(whole)):
        after, last = (seen, None) if how == "after" else (None, seen)
        frames = project.client.stream(run["id"], after=after, last_event_id=last)
        assert stored(list(frames)) == whole[seen:]


def test_last_event_id_wins_over_the_url_that_eventsource_repeats(project: Project) -> None:
    run = whole_run(project)
    whole = project.client.events(run["id"])
    assert stored(list(project.client.stream(run["id"], after=1, last_event_id=4))) == whole[4:]


def test_an_ended_run_of_which_all_was_seen_answers_204(project: Project) -> None:
    run = project.run(text("hi"))
    for headers in ({"Last_Event_ID": str(run["last_sequence"])}, {"Last_Event_ID": "9999"}):
        with project.client.streaming("GET", path_of(run), Accept=STREAM, **headers) as response:
            assert (response.status_code, response.read()) == (204, b"")


def test_a_reader_that_reconnects_in_the_middle_gets_exactly_the_rest(project: Project) -> None:
    hold = project.tools.hold(f"events-{project.suffix}")
    project.tool("look", Behaviour(hold=f"events-{project.suffix}"))
    run = project.start(calls(call(1, "look")), text("done"), tools=["look"])
    first: list[Json] = []
    with project.following(run) as frames:
        for frame in frames:
            if frame.id is not None:
                first.append(frame.data)
            if frame.type == "tool_call.started":
                break
    hold.release()
    rest = stored(list(project.client.stream(run["id"], last_event_id=first[-1]["sequence"])))
    assert first + rest == project.client.events(run["id"])


def test_twenty_readers_at_once_see_the_same(project: Project) -> None:
    hold = project.tools.hold(f"events-{project.suffix}")
    project.tool("look", Behaviour(hold=f"events-{project.suffix}"))
    run = project.start(calls(call(1, "look")), text("done"), tools=["look"])
    project.wait_for_hits("look")
    begun = threading.Barrier(STREAMS_PER_KEY + 1)

    def read(_: int) -> list[Json]:
        found: list[Json] = []
        with project.following(run) as frames:
            for number, frame in enumerate(frames):
                if number == 0:
                    begun.wait(PATIENCE_SECONDS)
                if frame.id is not None:
                    found.append(frame.data)
        return found

    with meanwhile(lambda: at_once(STREAMS_PER_KEY, read)) as reading:
        begun.wait(PATIENCE_SECONDS)
        hold.release()
        seen = reading.result(PATIENCE_SECONDS)
    whole = project.client.events(run["id"])
    assert all(events == whole for events in seen)


def test_a_stream_of_a_waiting_run_stays_open_until_it_goes_on(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.start(calls(call(1, "pay")), text("done"), tools=["pay"])
    seen: list[Json] = []
    with project.following(run) as frames:
        for frame in frames:
            if frame.id is not None:
                seen.append(frame.data)
            if frame.type == "run.waiting":
                project.client.decide_call(run["id"], "c1", "approve")
    assert seen == project.client.events(run["id"])
    assert types_of(seen)[-1] == "run.completed"
    assert "run.resumed" in types_of(seen)


def test_until_idle_ends_the_stream_where_someone_must_act(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.start(calls(call(1, "pay")), text("done"), tools=["pay"])
    first = stored(list(project.client.stream(run["id"], until="idle")))
    assert types_of(first)[-1] == "run.waiting"
    again = stored(list(project.client.stream(run["id"], until="idle")))
    assert again == first
    seen = first[-1]["sequence"]
    assert stored(list(project.client.stream(run["id"], after=seen, until="idle"))) == []
    project.client.decide_call(run["id"], "c1", "approve")
    rest = stored(list(project.client.stream(run["id"], after=seen, until="idle")))
    assert types_of(rest)[-1] == "run.completed"
    assert first + rest == project.client.events(run["id"])


def test_deltas_are_shown_without_an_id_and_never_stored(project: Project) -> None:
    hold = Hold()
    reply = Answer(text="hello big world", pieces=5, hold=hold)
    run = project.start(reply)
    hold.arrived()
    kinds: list[str] = []
    pieces: list[str] = []
    with project.following(run) as frames:
        for frame in frames:
            hold.release()
            kinds.append(frame.type)
            if frame.type == "message.delta":
                assert frame.id is None
                pieces.append(frame.data["data"]["text"])
    assert "".join(pieces) == "hello big world"
    assert kinds.index("message.delta") < kinds.index("message.completed")
    assert "message.delta" not in types_of(project.client.events(run["id"]))


def test_a_stream_that_broke_upstream_tells_its_watchers_to_start_again(project: Project) -> None:
    hold = Hold()
    broken = Answer(text="hello big world", pieces=5, hold=hold, cut_after=4)
    run = project.start(broken, text("hello"))
    hold.arrived()
    shown = ""
    with project.following(run) as frames:
        for frame in frames:
            hold.release()
            if frame.type == "message.restarted":
                assert shown
                shown = ""
            elif frame.type == "message.delta":
                shown += frame.data["data"]["text"]
    assert shown == "hello"


@pytest.mark.parametrize("include", [None, "children"])
def test_a_stream_from_beyond_the_log_ends_with_the_run(
    project: Project, include: str | None
) -> None:
    hold = Hold()
    run = project.start(Answer(text="hello", hold=hold))
    hold.arrived()
    after, params = "4000", {}
    if include:
        entry = struct.pack(">Q16sI", 0, bytes.fromhex(run["id"].removeprefix("run_")), 4000)
        after, params = urlsafe_b64encode(entry).rstrip(b"=").decode(), {"include": include}
    path = httpx2.URL(path_of(run), params={"after": after, **params})
    with project.client.streaming("GET", str(path), Accept=STREAM) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("retry: ")
        hold.release()
        assert [line for line in lines if line.startswith("id:")] == []


# -- limits ---------------------------------------------------------------------------------------


def opened(streams: ExitStack, client: CheckedClient, run: Json) -> httpx2.Response:
    """Held open until `streams` closes, though nobody reads it."""
    return streams.enter_context(client.streaming("GET", path_of(run), Accept=STREAM))


def test_a_key_has_a_limit_of_streams_and_nothing_else_suffers(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.run(calls(call(1, "pay")), text("done"), tools=["pay"])
    with ExitStack() as streams:
        for _ in range(STREAMS_PER_KEY):
            assert opened(streams, project.client, run).status_code == 200
        refused = project.client.request("GET", path_of(run), headers={"Accept": STREAM})
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
        assert int(refused.headers["Retry-After"]) >= 1
        another = project.key("runs:read")
        assert opened(streams, another, run).status_code == 200
        assert project.client.request("GET", path_of(run)).status_code == 200
        assert project.client.decide_call(run["id"], "c1", "approve")["status"] == "approved"
        assert project.end(run)["status"] == "completed"


def test_as_many_streams_as_are_allowed_open_however_many_ask_at_once(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.run(calls(call(1, "pay")), text("done"), tools=["pay"])
    with ExitStack() as streams:
        asked = at_once(2 * STREAMS_PER_KEY, lambda _: opened(streams, project.client, run))
        statuses = sorted(response.status_code for response in asked)
        assert statuses == [200] * STREAMS_PER_KEY + [429] * STREAMS_PER_KEY


def test_a_request_that_is_refused_for_its_streams_has_started_no_run(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.run(calls(call(1, "pay")), tools=["pay"])
    model = project.script(text("once"), name="never")
    begun = {"model": model, "input": "go"}
    starts = [("/v1/runs", begun), ("/v1/responses", {**begun, "stream": True})]
    with ExitStack() as streams:
        for _ in range(STREAMS_PER_KEY):
            opened(streams, project.client, run)
        for path, body in starts:
            refused = project.client.request("POST", path, body, headers={"Accept": STREAM})
            assert refused.status_code == 429
    listed = project.client.call("GET", "/v1/runs")["data"]
    assert [one["id"] for one in listed] == [run["id"]]


def test_a_stream_that_starts_no_run_makes_room_for_another(project: Project) -> None:
    """A request that is refused while its stream is reserved gives the stream back."""
    for _ in range(STREAMS_PER_KEY + 1):
        for path, extra in (("/v1/runs", {}), ("/v1/responses", {"stream": True})):
            body = {"model": "nobody:nothing", "input": "go", **extra}
            refused = project.client.request("POST", path, body, headers={"Accept": STREAM})
            assert refused.status_code in (404, 422), refused.text


def test_a_stream_that_was_left_makes_room_for_another(project: Project) -> None:
    hold = Hold()
    run = project.start(Answer(text="hi", hold=hold))
    hold.arrived()
    for _ in range(3):
        with ExitStack() as streams:
            for _ in range(STREAMS_PER_KEY):
                open_when_there_is_room(streams, project, run)
    hold.release()
    assert project.settle(run)["status"] == "completed"


def open_when_there_is_room(streams: ExitStack, project: Project, run: Json) -> None:
    """That a client has left is known a moment after it did."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if opened(streams, project.client, run).status_code == 200:
            return
    raise TimeoutError("no room for another stream")


def test_a_stream_shows_nothing_after_its_key_was_revoked(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.run(calls(call(1, "pay")), text("Done."), tools=["pay"], input="go")
    made = project.new_key("runs:read")
    reader = project.client_of(made["key"])
    with reader.streaming("GET", path_of(run), Accept=STREAM) as stream:
        lines = stream.iter_lines()
        assert any(line.endswith("run.waiting") for line in lines)
        project.key("admin").call("DELETE", f"/v1/keys/{made['id']}")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while reader.request("GET", "/v1/runs").status_code != 401:
            assert time.monotonic() < deadline
        [approval] = project.client.call("GET", f"/v1/approvals?run_id={run['id']}")["data"]
        decision = {"decision": "reject"}
        project.client.call("POST", f"/v1/approvals/{approval['id']}/decision", decision)
        assert project.end(run)["status"] == "completed"
        assert not any(line.startswith("event:") for line in lines)
