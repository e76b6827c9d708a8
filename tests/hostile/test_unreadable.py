"""What a hostile model server answers ends its own run alone, and nobody has to read it back."""

from typing import Final

from tests.api.project import Project
from tests.support.models.chat_server import text
from tests.support.models.responses_items import Call, Item
from tests.support.models.responses_server import answer
from tests.support.services.client import Json

EXPIRES_SECONDS: Final = 1
DEPTH: Final = 196
"""The parser of answers still takes it. With what is stored around it, no parser does."""


def nested(levels: int) -> Json:
    value: Json = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def test_an_item_that_could_not_be_read_back_fails_its_run_alone(
    project: Project, other: Project
) -> None:
    """If it were stored, the sweep would read it when the approval expires."""
    providers = project.running.providers
    assert providers is not None
    project.tool("pay", approval="always", approval_expires_seconds=EXPIRES_SECONDS)
    deep = Item({"type": "strange", "value": nested(DEPTH)})
    providers.responses.script(
        project.model_name(), answer(deep, Call("c1", "pay", '{"x":"1"}')), answer()
    )
    model = f"openai-responses:{project.model_name()}"
    ended = project.end(project.client.start_run(model=model, tools=["pay"]))
    assert other.run(text("as ever"))["output"] == "as ever"
    assert (ended["status"], ended["error"]["code"]) == ("failed", "model_invalid_response")
    assert "cannot be stored: the value is nested more than" in ended["error"]["message"]
