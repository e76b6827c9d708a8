"""An unknown field that other APIs have is answered with Runward's name for it."""

import pytest
from pydantic import TypeAdapter

from runward.api.http.validation import suggest_field
from runward.api.responses.models import CreateResponse
from runward.api.runs.request_models import StartRun
from runward.llm.settings import check_settings

RUN = TypeAdapter[StartRun](StartRun)
RESPONSE = TypeAdapter[CreateResponse](CreateResponse)
ELSEWHERE = "; did you mean `max_output_tokens`? It is a field of `model_settings`."


@pytest.mark.parametrize(
    ("adapter", "location", "said"),
    [
        (RUN, ("max_tokens",), ELSEWHERE),
        (RUN, ("messages",), "; did you mean `input`?"),
        (RUN, ("system_prompt",), "; did you mean `instructions`?"),
        (RUN, ("max_steps",), "; did you mean `max_turns`? It is a field of `limits`."),
        (RESPONSE, ("max_completion_tokens",), "; did you mean `max_output_tokens`?"),
        (RESPONSE, ("thread_id",), ""),
        (RUN, ("colour",), ""),
    ],
)
def test_a_name_of_another_api_is_answered_with_ours(
    adapter: TypeAdapter[object], location: tuple[str, ...], said: str
) -> None:
    assert suggest_field(adapter, location) == said


def test_a_setting_of_another_api_is_answered_with_ours() -> None:
    [wrong] = check_settings({"max_tokens": 5})
    assert "Did you mean `max_output_tokens`?" in wrong
