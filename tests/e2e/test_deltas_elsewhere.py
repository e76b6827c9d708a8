"""What a model is saying, read from a process that works on no run."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import httpx2
import pytest

from tests.e2e.conftest import Processes
from tests.e2e.family import Family
from tests.support.models.chat_server import Answer, ModelServer
from tests.support.services.client import Client
from tests.support.serving import Hold
from tests.support.tools.server import ToolServer

pytestmark = pytest.mark.timeout(240)
WORDS = "every word of it comes from another process"


@contextmanager
def deltas(client: Client, run_id: str) -> Generator[Iterator[tuple[str, str]]]:
    """Each `message.delta`'s text and the types of all other events, as they come."""
    headers = {"Authorization": f"Bearer {client.key}", "Accept": "text/event-stream"}
    url = f"{client.url}/v1/runs/{run_id}/events"
    with (
        httpx2.Client(trust_env=False, timeout=60) as http,
        http.stream("GET", url, headers=headers) as response,
    ):
        yield (
            (event["type"], event["data"].get("text", ""))
            for event in (
                json.loads(line.removeprefix("data: "))
                for line in response.iter_lines()
                if line.startswith("data: ")
            )
        )


def until_text(events: Iterator[tuple[str, str]], wanted: str, said: str = "") -> str:
    """What was `said` before, and all until `wanted` was."""
    for kind, text in events:
        if kind == "message.delta":
            said += text
        if wanted in said:
            return said
    raise AssertionError(f"only {said!r} came")


def test_readers_elsewhere_follow_early_or_late_and_get_every_word_once(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    family = Family(start, model, tools)
    family.worker()
    client = family.client
    middle, end = Hold(), Hold()
    # The role's frame, then one for each word: it stops in the middle. It ends when all was heard:
    # pieces come by another way than what is stored, and may be overtaken by it.
    model.script("slow", Answer(text=WORDS, pieces=8, hold=middle, hold_after=5, hold_end=end))
    run_id = client.start_run(model="openai:slow", input="Say it.")["id"]
    middle.arrived()
    with deltas(client, run_id) as early:
        heard_early = until_text(early, "every word")
        with deltas(client, run_id) as late:
            heard_late = until_text(late, "every word")
            middle.release()
            assert until_text(late, "other process", heard_late) == WORDS
            assert until_text(early, "other process", heard_early) == WORDS
            end.release()
            for events in (early, late):
                rest = [kind for kind, _ in events]
                assert "message.delta" not in rest
                assert rest[-1] == "run.completed"
    shown = client.events(run_id)
    assert "message.delta" not in {event["type"] for event in shown}
