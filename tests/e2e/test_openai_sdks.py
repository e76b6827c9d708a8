"""OpenAI's own SDKs, unmodified, against the real service: examples/responses, executed."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import httpx2
import openai
import pytest

from tests.e2e.conftest import Processes
from tests.e2e.own_machine import needs
from tests.e2e.test_examples import EXAMPLES, register
from tests.support.programs import NODE_BINARIES, missing
from tests.support.services.client import Client
from tests.support.tools.server import ToolServer

pytestmark = pytest.mark.timeout(180)

RESPONSES = EXAMPLES / "responses"
PRINTED = """\
create: completed
stream: the pieces are the text
function: (offline model) get_weather returned: sunny in Rome
approve: refund completed
resume: response.completed
cancel: the run has ended
error: model_not_found
"""


def command(language: str) -> list[str]:
    if language == "python":
        return [sys.executable, str(RESPONSES / "python_client.py")]
    if not (NODE_BINARIES.parent / "openai").exists():
        missing("openai is not installed: make tests/node/node_modules/.installed")
    return [needs("node", "nodejs"), str(RESPONSES / "node_client.mjs")]


@pytest.mark.parametrize("language", ["python", "node"])
def test_an_unmodified_sdk_does_all_of_it(language: str, client: Client, tools: ToolServer) -> None:
    register(client, "http://127.0.0.1:1")
    for name in ("lookup_order", "refund"):
        url = tools.tool(name)
        client.call("PATCH", f"/v1/tools/{name}", {"url": url})
        tools.secrets(name, client.call("POST", f"/v1/tools/{name}/rotate_secret")["secret"])
    done = subprocess.run(
        command(language),
        env=os.environ
        | {
            "RUNWARD_URL": client.url,
            "RUNWARD_KEY": client.key,
            "OPENAI_PACKAGES": str(NODE_BINARIES.parent.parent),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == PRINTED
    assert len(tools.hits("refund")) == 2


@contextmanager
def sdk(client: Client, key: str | None = None) -> Generator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{client.url}/v1", api_key=key or client.key) as ours:
        yield ours


def test_errors_are_the_sdk_s_typed_exceptions(client: Client) -> None:
    with sdk(client) as ours, sdk(client, "rw_no") as stranger:
        with pytest.raises(openai.BadRequestError) as bad:
            ours.responses.create(model="offline:rules", input="x", prompt={"id": "pmpt_1"})
        assert (bad.value.param, bad.value.code) == ("prompt", "unsupported_parameter")
        assert bad.value.request_id
        with pytest.raises(openai.NotFoundError):
            ours.responses.retrieve("resp_nothing")
        with pytest.raises(openai.AuthenticationError):
            stranger.responses.create(model="offline:rules", input="x")
        made = ours.responses.create(model="offline:rules", input="x")
        with pytest.raises(openai.ConflictError):
            ours.responses.cancel(made.id)
        ours.responses.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            ours.responses.retrieve(made.id)


def test_a_response_is_read_from_other_processes_than_the_one_that_works_on_it(
    start: Processes,
) -> None:
    start("worker")
    with sdk(start.client(start("api"))) as one, sdk(start.client(start("api"))) as other:
        made = one.responses.create(model="offline:rules", input="hello", background=True)
        events = list(other.responses.retrieve(made.id, stream=True))
        assert events[-1].type == "response.completed"
        half = len(events) // 2
        after = events[half].sequence_number
        rest = list(one.responses.retrieve(made.id, stream=True, starting_after=after))
        seen = events[: half + 1] + rest
        pieces = [one.delta for one in seen if one.type == "response.output_text.delta"]
        final = seen[-1]
        assert final.type == "response.completed"
        assert "".join(pieces) == final.response.output_text


class Lossy(httpx2.HTTPTransport):
    """Loses the first answer, after the service has given it."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.attempts += 1
        answer = super().handle_request(request)
        if self.attempts == 1:
            answer.read()
            answer.close()
            raise httpx2.ReadError("lost", request=request)
        return answer


def test_an_answer_that_was_lost_is_asked_for_again_under_the_same_key(client: Client) -> None:
    lossy = Lossy()
    with (
        httpx2.Client(transport=lossy) as http,
        openai.OpenAI(base_url=f"{client.url}/v1", api_key=client.key, http_client=http) as ours,
    ):
        key = {"Idempotency-Key": "once"}
        ours.responses.create(model="offline:rules", input="hello", extra_headers=key)
    assert lossy.attempts == 2
    assert len(client.call("GET", "/v1/runs")["data"]) == 1
