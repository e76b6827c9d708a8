"""Keys and tokens in the words of others: also where those were cut in the middle of one."""

import pytest
from aiohttp import web

from runward.domain.json import JsonObject
from runward.domain.registry.redaction import LEAST_PART, without_secret
from runward.domain.run.items import HostedCall
from runward.domain.run.response import ModelResponse
from runward.llm.base import ModelError
from runward.llm.failures import MAX_REASON, reported_failure
from runward.loop.hosted_secrets import RequestWithSecrets
from tests.unit.test_llm_openai_chat import ask, asked, odd_server

KEY = "sk-0123456789abcdef"


@pytest.mark.parametrize("length", range(LEAST_PART, len(KEY) + 1))
def test_no_part_of_a_secret_is_left_at_the_end_of_a_text_that_was_cut(length: int) -> None:
    assert without_secret(f"{KEY} is wrong: {KEY[:length]}", KEY) == "*** is wrong: ***"
    assert without_secret(KEY[:length], KEY) == "***"


def test_a_text_without_a_secret_stays() -> None:
    assert without_secret("no sk- here", KEY) == "no sk- here"
    assert without_secret("any", "") == "any"
    assert without_secret("", KEY) == ""


async def test_an_error_that_is_cut_in_the_middle_of_the_key_shows_no_part_of_it() -> None:
    key = "sk-test"

    async def report(_: web.Request) -> web.Response:
        message = "x" * (MAX_REASON - len(key) + 1) + key
        return web.json_response({"error": {"message": message}})

    async with odd_server(report) as model:
        with pytest.raises(ModelError) as failed:
            await ask(model)
    assert "sk-" not in failed.value.message


def test_an_error_that_is_cut_in_the_middle_of_a_stored_secret_shows_no_part_of_it() -> None:
    request = asked()
    error = reported_failure({"message": "x" * (MAX_REASON - 6) + KEY})
    assert "sk-" not in RequestWithSecrets(request, values=(KEY,)).redact_error(error).message


def test_a_stored_secret_is_struck_out_of_the_keys_of_an_output() -> None:
    found: JsonObject = {KEY: [{KEY: KEY}]}
    response = ModelResponse(
        (HostedCall("h1", "search", "search", "openai", {KEY: 1}, found, found),)
    )
    assert KEY not in repr(RequestWithSecrets(asked(), values=(KEY,)).redact_response(response))
