"""The contexts that a plugin's functions receive: of the call, the run or the check."""

import copy
import time
from collections.abc import Generator, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_jsonable_python

from runward.domain.json import JsonObject, is_same_json
from runward.domain.run.bounds import bounded_progress
from runward.tools.base import AddUsage, Report
from runward.tools.plugin.agents import AgentRuns, make_request, read_output_type
from runward.tools.plugin.errors import ToolContextError
from runward.tools.plugin.usage import MAX_MODELS, make_usage


def jsonable(value: Any) -> JsonValue:
    """Return the value as JSON: models, dataclasses, enums, dates, sets. NaN and infinities become
    null. Raises ValueError with the reason if it cannot be JSON."""
    try:
        return to_jsonable_python(value, inf_nan_mode="null")
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(str(error)[:300]) from None


class State(MutableMapping[str, Any]):
    """The session's state at the start of the call: read it, set keys, delete keys. Changes, also
    inside a value, are committed together with the call's result. If the call fails, they are
    dropped."""

    def __init__(self, before: Mapping[str, JsonValue]) -> None:
        self._before = before
        self._now: dict[str, JsonValue] = copy.deepcopy(dict(before))

    def __getitem__(self, key: str) -> Any:
        return self._now[key]

    def __setitem__(self, key: str, value: Any) -> None:
        """Store a copy of `value`. Raises ToolContextError."""
        if not isinstance(cast(object, key), str):
            raise ToolContextError(f"a key of the state must be a string, not {key!r:.100}")
        self._now[key] = _json("state", key, value)

    def __delitem__(self, key: str) -> None:
        del self._now[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the stored value itself, so that a change in it counts."""
        if key not in self:
            self[key] = default
        return self[key]

    def changes(self) -> JsonObject:
        """Return new and changed keys, and null for removed ones. Raises ToolContextError."""
        now = {key: _json("state", key, value) for key, value in self._now.items()}
        changed: JsonObject = {
            key: value
            for key, value in now.items()
            if key not in self._before or not is_same_json(self._before[key], value)
        }
        return changed | {key: None for key in self._before if key not in now}


def _json(what: str, key: str, value: Any) -> JsonValue:
    try:
        return jsonable(value)
    except ValueError as error:
        raise ToolContextError(f"{what}[{key!r}] cannot be converted to JSON: {error}") from None


class ProgressReport:
    """A result that can be awaited. Awaiting is optional, because the call has already reported the
    progress. So progress also works without an event loop."""

    def __await__(self) -> Generator[None]:
        return
        yield


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The facts about a call. `seconds` is its limit from now."""

    run_id: str
    call_id: str
    idempotency_key: str
    attempt: int
    agent: str | None
    session_id: str | None
    context: JsonObject
    state: JsonObject
    handoffs: tuple[str, ...]
    seconds: float
    agent_results: tuple[JsonObject, ...] | None = None
    trace: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class CallRequests:
    """The tool's requests besides its output."""

    agents: AgentRuns
    transfer_to: str | None = None
    escalate: bool = False
    models: set[str] = field(default_factory=set[str])
    """The models whose usage the tool reported."""
    revealed: set[str] = field(default_factory=set[str])
    """The values of the secrets that the tool read."""
    finished: bool = False
    """Whether the call has ended."""


class ToolContext:
    """The current call. A function receives it by declaring it as its first parameter.

    `call_id` is the model's own ID, unique in the run. `idempotency_key` is unique everywhere and
    the same for every attempt. `context` is the context of the request that started the run.
    `metadata` is stored with the result and never shown to the model. `trace` contains the headers
    `traceparent` and `tracestate` for requests that belong to the call. It is empty if there is no
    trace."""

    def __init__(
        self,
        facts: CallFacts,
        *,
        secrets: Mapping[str, str],
        report: Report,
        add_usage: AddUsage,
    ) -> None:
        self.run_id: Final = facts.run_id
        self.call_id: Final = facts.call_id
        self.idempotency_key: Final = facts.idempotency_key
        self.attempt: Final = facts.attempt
        self.agent: Final = facts.agent
        self.session_id: Final = facts.session_id
        self.context: Final = copy.deepcopy(facts.context)
        self.state: Final = State(facts.state)
        self.trace: Final = dict(facts.trace)
        self.metadata: dict[str, Any] = {}
        self._handoffs = facts.handoffs
        self._ends = time.monotonic() + facts.seconds
        self._secrets = secrets
        self._report = report
        self._add_usage = add_usage
        self._wishes = CallRequests(AgentRuns(facts.agent_results))

    def deadline(self) -> float:
        """The remaining time in seconds."""
        return max(0.0, self._ends - time.monotonic())

    def secret(self, name: str) -> str:
        """Return the operator's environment variable `RUNWARD_SECRET_NAME`. Raises
        ToolContextError."""
        if name not in self._secrets:
            raise ToolContextError(
                f"there is no secret {name!r}; the operator must set RUNWARD_SECRET_{name}"
            )
        self._wishes.revealed.add(self._secrets[name])
        return self._secrets[name]

    def transfer_to(self, agent: str) -> None:
        """Hand off the run to another agent after this call. Raises ToolContextError if the current
        agent cannot hand off to this agent."""
        if agent not in self._handoffs:
            known = ", ".join(self._handoffs) or "none"
            raise ToolContextError(
                f"this run cannot be handed off to agent {agent!r}; the current agent can hand "
                f"off only to: {known}"
            )
        self._wishes.transfer_to = agent

    def escalate(self) -> None:
        """End the agent after this turn. Its caller continues."""
        self._wishes.escalate = True

    @property
    def replaying(self) -> bool:
        """Whether an earlier attempt already ran the agent of the next `run_agent`."""
        return self._wishes.agents.is_replaying

    async def run_agent(
        self, agent: str, input: str, *, max_turns: int | None = None, output: Any = None
    ) -> Any:
        """Run an agent as a child run, and return its output. `output`: a JSON Schema, or a type
        such as a Pydantic model, that the output must match. Raises AgentRunError if the child run
        does not complete.

        The function does not wait: Runward runs it again from its start when the child run has
        ended. Code before this call runs again, so it must be safe to repeat. Agents that
        `asyncio.gather` requests at the same time run in parallel."""
        schema, convert = read_output_type(output)
        request = make_request(agent, input, max_turns, schema)
        return convert(await self._wishes.agents.run(request))

    def run_agent_sync(
        self, agent: str, input: str, *, max_turns: int | None = None, output: Any = None
    ) -> Any:
        """Do the same as `run_agent` in a function that is not async."""
        schema, convert = read_output_type(output)
        request = make_request(agent, input, max_turns, schema)
        return convert(self._wishes.agents.run_sync(request))

    def add_usage(
        self,
        model: str,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cached_tokens: int = 0,
        reasoning_tokens: int = 0,
        cost_usd: float | None = None,
    ) -> None:
        """Add the usage of a model that the function used itself to the usage of the run. `model`:
        `provider:name`. `input_tokens` include `cached_tokens`, and `output_tokens` include
        `reasoning_tokens`. `cost_usd`: None if Runward computes the cost from the price of the
        model. Raises ToolContextError."""
        tokens: dict[str, object] = {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cached_tokens": cached_tokens,
            "reasoning_tokens": reasoning_tokens,
        }
        usage = make_usage(model, tokens, cost_usd)
        if not self._wishes.finished:
            self._wishes.models.add(usage.model)
            if len(self._wishes.models) > MAX_MODELS:
                raise ToolContextError(f"one call can report at most {MAX_MODELS} models")
            self._add_usage(usage)

    def progress(self, fraction: float | None = None, message: str | None = None) -> ProgressReport:
        """Report progress from 0 to 1, and a message. Awaiting it is optional."""
        if not self._wishes.finished:
            text = None if message is None else str(message)
            self._report(*bounded_progress(fraction, text))
        return ProgressReport()


def requests_of(ctx: ToolContext) -> CallRequests:
    return ctx._wishes  # pyright: ignore[reportPrivateUsage]  # not for tools


@dataclass(frozen=True, slots=True)
class RuleContext:
    """The context of a callable that decides about approval, or whether a tool is shown. `state` is
    read-only."""

    run_id: str
    agent: str | None
    turn: int
    context: JsonObject
    state: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class GuardContext:
    """The context of guardrails and hooks. `stage` is the guardrail's stage or the hook's moment.
    `tool` and `call_id` are None if there is no call."""

    stage: str
    run_id: str
    agent: str | None
    tool: str | None
    call_id: str | None
    context: JsonObject
