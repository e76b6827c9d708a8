"""From a request of OpenAI's clients to the configuration of a run."""

import pytest

from runward.api.responses.models import CreateResponse
from runward.api.responses.run_request import list_registered_tools
from runward.domain.errors import InvalidRequestError
from runward.domain.run.config import MAX_TOOLS, AgentConfig
from runward.store import codec


def asking_for(tools: int) -> CreateResponse:
    names = [f"tool_{n}" for n in range(tools)]
    halves = (names[: tools // 2], names[tools // 2 :])
    given = [{"type": "mcp", "server_label": "runward", "allowed_tools": one} for one in halves]
    return CreateResponse.model_validate({"model": "offline:rules", "tools": given})


def test_what_a_run_is_started_with_can_be_read_back() -> None:
    asked = asking_for(MAX_TOOLS)
    config = AgentConfig.model_construct(
        None, model=asked.model, tools=list_registered_tools(asked)
    )
    assert len(config.tools) == MAX_TOOLS
    assert codec.config_from_json(codec.config_to_json(config)).tools == config.tools


def test_more_tools_than_a_run_can_have_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="at most"):
        list_registered_tools(asking_for(MAX_TOOLS + 1))
