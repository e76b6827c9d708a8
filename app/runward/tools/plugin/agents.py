"""Agents that a plugin's function runs with `ctx.run_agent`.

A function cannot be stored while it waits. Therefore, requests for child runs end the attempt. When
the child runs have ended, Runward runs the function again, and its requests so far return their
recorded results."""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn, cast

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
QUIET_STEPS: Final = 10
"""Steps of the event loop without a new request, after which all requests of the function's tasks
are made."""
PATIENCE_SECONDS: Final = 0.5
POLL_SECONDS: Final = 0.01
NOT_HERE: Final = "agents cannot be run here, because the call does not belong to a run"
NOT_DETERMINISTIC: Final = (
    "the tool is not deterministic: an earlier attempt ran an agent that this attempt did not ask "
    "for. Every attempt must call run_agent with the same arguments as the attempts before"
)


class AgentRunError(ToolError):
    """The child run did not complete. If the function does not catch this error, the model reads
    its text."""


class SuspendedError(BaseException):
    """Ends the attempt, because the function waits for child runs. It is not an Exception, so that
    the function's own handlers for exceptions do not catch it."""


class AgentRuns:
    """The child runs of one call. `results`: the results of the earlier requests. Each has the
    digest of its request. None: the function cannot run agents."""

    def __init__(self, results: Sequence[JsonObject] | None) -> None:
        self._is_allowed = results is not None
        self._results: dict[str, deque[JsonObject]] = {}
        for result in results or ():
            self._results.setdefault(str(result.get("digest")), deque()).append(result)
        self._count = 0
        self._function: asyncio.Task[Any] | None = None
        self.requested: list[AgentRequest] = []
        """The requests for which the function waits."""
        self.is_suspended = False
        """Whether the attempt ends, so that the requested child runs can start."""

    @property
    def is_replaying(self) -> bool:
        """Return whether there are recorded results that the attempt has not read."""
        return any(self._results.values())

    def begin(self) -> None:
        """Record that the current task executes the function."""
        self._function = asyncio.current_task()

    async def run(self, request: AgentRequest) -> Any:
        """Return the result of the request. If there is no result yet, wait until the function's
        other tasks have made their requests too, and raise SuspendedError. Raises AgentRunError if
        the child run failed, and ToolContextError if the request cannot be made."""
        result = self._read(request)
        if result is None:
            await self._await_others()
            self._suspend()
        return self._output(result)

    def run_sync(self, request: AgentRequest) -> Any:
        """Do the same for a function that is not async, without waiting."""
        result = self._read(request)
        if result is None:
            self._suspend()
        return self._output(result)

    def _read(self, request: AgentRequest) -> JsonObject | None:
        """Return the result of the request. Record the request if it has no result yet."""
        if not self._is_allowed:
            raise ToolContextError(NOT_HERE)
        if self.is_suspended:
            raise SuspendedError
        if self._count == MAX_AGENT_RUNS:
            raise ToolContextError(f"one call can run at most {MAX_AGENT_RUNS} agents")
        self._count += 1
        if found := self._results.get(request.digest):
            return found.popleft()
        self.requested.append(request)
        return None

    async def _await_others(self) -> None:
        """Wait until no further request is made, and until all recorded results are read. The time
        is limited, because a function that is not deterministic never reads them."""
        until = time.monotonic() + PATIENCE_SECONDS
        seen = 0
        while seen < self._count or (self.is_replaying and time.monotonic() < until):
            seen = self._count
            for _ in range(QUIET_STEPS):
                await asyncio.sleep(0)
            if self.is_replaying:
                await asyncio.sleep(POLL_SECONDS)

    def _suspend(self) -> NoReturn:
        """End the attempt. The function may have other tasks, and may wait for something else, so
        it is cancelled too."""
        if self.is_replaying or not self.requested:
            self.requested.clear()
            raise ToolContextError(NOT_DETERMINISTIC)
        self.is_suspended = True
        function = self._function
        with suppress(RuntimeError):  # No event loop runs on this thread.
            is_here = function is not None and function.get_loop() is asyncio.get_running_loop()
            if function is not None and is_here and function is not asyncio.current_task():
                function.cancel()
        raise SuspendedError

    @staticmethod
    def _output(result: JsonObject) -> Any:
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
