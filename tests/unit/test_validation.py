"""The errors of a request body: the path and the message that the client reads."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from runward.api.completions.request_models import CreateChatCompletion
from runward.api.http.validation import build_field_errors
from runward.api.runs.request_models import StartRun
from runward.domain.errors import FieldError

TOO_SHORT = "must have at least 1 item"


def check(model: type, body: Any) -> list[FieldError]:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter[Any](model).validate_json(to_json(body))
    details = caught.value.errors(include_url=False, include_input=False)
    return build_field_errors([{**one, "loc": ("body", *one["loc"])} for one in details], body)


@pytest.mark.parametrize("model", [StartRun, CreateChatCompletion])
@pytest.mark.parametrize(
    ("message", "path", "said"),
    [
        ({"role": "user"}, "content", "is required"),
        ({"role": "user", "content": "", "colour": 1}, "colour", "unknown field"),
        ({"role": "user", "content": [{"type": "text"}]}, "content.0.text", "is required"),
    ],
)
def test_a_list_with_a_bad_item_is_not_called_too_short(
    model: type, message: Any, path: str, said: str
) -> None:
    name = "input" if model is StartRun else "messages"
    body = {"model": "offline:rules", name: [message]}
    assert check(model, body) == [FieldError(f"{name}.0.{path}", said)]


def test_an_empty_list_is_too_short() -> None:
    body: Any = {"model": "offline:rules", "messages": []}
    assert check(CreateChatCompletion, body) == [FieldError("messages", TOO_SHORT)]
    [wrong] = check(StartRun, {"model": "offline:rules", "input": []})
    assert wrong == FieldError("input", f"must be a string, or {TOO_SHORT}")
