"""Agents that a plugin's function runs with `ctx.run_agent`.

A function cannot be stored while it waits. Therefore, a request for a child run ends the attempt.
When the child run has ended, Runward runs the function again, and its requests so far return their
recorded results."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from runward.domain.json import JsonObject, UnstorableError, clean_json, clean_text
from runward.domain.registry.tools import NAME_PATTERN
from runward.domain.run.outcomes import AgentRequest
from runward.domain.schema.validator import MAX_ARGUMENTS, check_schema
from runward.tools.plugin.errors import ToolContextError, ToolError

MAX_AGENT_RUNS: Final = 32
"""Maximum number of child runs that one call can request."""
MAX_TURNS: Final = 1000
NOT_HERE: Final = "agents cannot be run here, because the call does not belong to a run"


class AgentRunError(ToolError):
    """The child run did not complete. If the function does not catch this error, the model reads
    its text."""


class SuspendedError(BaseException):
    """Ends the attempt, because the function waits for a child run. It is not an Exception, so that
    the function's own handlers for exceptions do not catch it."""


class AgentRuns:
    """The child runs of one call. `results`: the results of the earlier requests, in order. None:
    the function cannot run agents."""

    def __init__(self, results: Sequence[JsonObject] | None) -> None:
        self._results = results
        self._requests = 0
        self.requested: AgentRequest | None = None
        """The request for which the function waits."""

    @property
    def is_replaying(self) -> bool:
        """Return whether the next request returns a recorded result."""
        return self._requests < len(self._results or ())

    def read(self, request: AgentRequest) -> Any:
        """Return the result of the request. Raises SuspendedError if there is no result yet,
        AgentRunError if the child run failed, and ToolContextError if the request cannot be
        made."""
        if self._results is None:
            raise ToolContextError(NOT_HERE)
        number, self._requests = self._requests, self._requests + 1
        if number >= MAX_AGENT_RUNS:
            raise ToolContextError(f"one call can run at most {MAX_AGENT_RUNS} agents")
        if number >= len(self._results):
            self.requested = self.requested or request
            raise SuspendedError
        result = self._results[number]
        if result.get("digest") != request.digest:
            raise ToolContextError(
                f"the tool is not deterministic: call {number + 1} of run_agent differs from the "
                "call in the earlier attempt. Call run_agent with the same arguments, in the same "
                "order, in every attempt"
            )
        error = result.get("error")
        if isinstance(error, str):
            raise AgentRunError(error)
        return result.get("output")


def make_request(
    agent: str, text: str, max_turns: int | None, schema: JsonObject | None
) -> AgentRequest:
    """Return the request in a storable form. Raises ToolContextError."""
    for name, value in (("agent", agent), ("input", text)):
        if not isinstance(cast(object, value), str):
            raise ToolContextError(f"{name} must be a string, not {type(value).__name__}")
    if not re.fullmatch(NAME_PATTERN, agent):
        raise ToolContextError(f"{agent!r:.100} is not the name of an agent")
    if len(text) > MAX_ARGUMENTS:
        raise ToolContextError(f"input must have at most {MAX_ARGUMENTS} characters")
    if max_turns is not None and not 1 <= max_turns <= MAX_TURNS:
        raise ToolContextError(f"max_turns must be from 1 to {MAX_TURNS}")
    return AgentRequest(agent, clean_text(text), max_turns, schema)


def read_output_type(output: Any) -> tuple[JsonObject | None, Callable[[Any], Any]]:
    """Return the JSON Schema of `output`, a schema or a type, and the conversion of the result.
    Raises ToolContextError."""
    if output is None:
        return None, lambda value: value
    if isinstance(output, dict):
        return _check(cast(JsonObject, output)), lambda value: value
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(output)
        schema = adapter.json_schema()
    except PydanticUserError as error:
        raise ToolContextError(f"output is not a type with a JSON Schema: {error}") from None
    return _check(schema), lambda value: _convert(adapter, value)


def _convert(adapter: TypeAdapter[Any], value: Any) -> Any:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise AgentRunError(f"The output of the agent is not valid: {error}") from None


def _check(schema: JsonObject) -> JsonObject:
    try:
        clean, _ = clean_json(schema)
    except UnstorableError as error:
        raise ToolContextError(f"output: {error}") from None
    assert isinstance(clean, dict)
    if problems := check_schema(clean, strict=False, at="output", object_root=False):
        raise ToolContextError(f"{problems[0].path}: {problems[0].message}")
    return clean
