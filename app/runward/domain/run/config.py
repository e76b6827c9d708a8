"""The configuration of a run: its model, instructions, tools and limits. It does not change after
the start."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice, takewhile
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.guards import Guardrails, Hooks
from runward.domain.registry.tools import Frozen, InlineToolSpec, Seconds, ToolName, ToolSelector
from runward.domain.run.notifications import RunWebhook

MAX_TOKENS: Final = 2**53


class NamedToolChoice(Frozen):
    """The tool that the model must call."""

    name: ToolName
    """Name of the tool that the model must call."""


class StopAtTools(Frozen):
    """Tools whose first successful result ends the run."""

    stop_at: Annotated[tuple[ToolName, ...], Field(min_length=1, max_length=64)]
    """Names of tools. The first successful result of any of these tools ends the run and becomes
    its output."""


class MaxTurnsOutput(Frozen):
    """A fixed output of a run that reaches its maximum number of turns."""

    output: JsonValue
    """Fixed output of the run when it reaches `max_turns`. The run then ends as `completed`."""


ModelName = Annotated[str, Field(min_length=3, max_length=256)]
ToolChoiceMode: TypeAlias = Literal["auto", "none", "required"]
ToolChoice: TypeAlias = ToolChoiceMode | NamedToolChoice
ToolUseBehavior: TypeAlias = Literal["run_llm_again", "stop_on_first_tool"] | StopAtTools
OnMaxTurns: TypeAlias = Literal["incomplete", "summarise", "fail"] | MaxTurnsOutput


class Limits(Frozen):
    """Limits of one run. They apply from the creation to the end of the run, including the time
    after it resumes."""

    max_turns: Annotated[int, Field(ge=1, le=50)] = 10
    """Maximum number of turns."""
    max_tool_calls: Annotated[int, Field(ge=0, le=200)] = 200
    """Maximum number of tool calls."""
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = None
    """Maximum number of input and output tokens together. Null: no limit."""
    max_cost_usd: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    """Maximum cost of the run in US dollars, including its child runs. All models need a known
    price. Null: no limit."""
    deadline_seconds: Annotated[float, Field(ge=1, le=31_536_000)] | None = None
    """Maximum duration of the run in seconds, from its creation or its `start_at` to its
    end, including waiting times. Null: no deadline."""
    tool_timeout_seconds: Seconds | None = None
    """Timeout in seconds for calls of tools that have no `timeout_seconds`. It does not apply to
    tools of type `client`. Null: the default of the deployment."""
    max_parallel_tool_calls: Annotated[int, Field(ge=1, le=64)] = 8
    """Maximum number of tool calls that run at the same time."""


class HistoryLimits(Frozen):
    """How much of a session's earlier runs the model sees. By default, the model sees everything
    that the session stores."""

    max_exchanges: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Maximum number of exchanges to show, counted from the newest. An exchange is one user message
    and everything that follows it. Null: no limit."""
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = None
    """Maximum number of tokens of the earlier conversation. Runward shows the newest exchanges that
    fit, and estimates one token for every four bytes. Null: no limit."""
    trim_tool_outputs: Annotated[int, Field(ge=0, le=1_048_576)] | None = None
    """Maximum size in bytes of each tool output from earlier runs. Runward truncates longer
    outputs. Null: Runward does not truncate outputs."""


AgentKind: TypeAlias = Literal["llm", "sequential", "parallel", "loop"]
"""The kinds of agents that a request can contain."""
RunKind: TypeAlias = AgentKind | Literal["call"]
"""All kinds of runs. `call` makes one call of its one tool, with the run's input as arguments. It
is used for clients of `/mcp`."""
ModelNames: TypeAlias = (
    ModelName | Annotated[tuple[ModelName, ...], Field(min_length=1, max_length=8)]
)
PATTERN_SUFFIX: Final = "*"
MAX_TOOLS: Final = 1000
"""Maximum number of tools that one agent may name or select."""
MAX_VISIBLE_TOOLS: Final = 64
"""Maximum number of tools that a model sees in one turn. An agent with more tools gets
`search_tools`."""


class AgentConfig(Frozen):
    """The configuration of an agent. A run can contain the same fields inline."""

    kind: RunKind = "llm"
    model: ModelNames | None = None
    """Model as `provider:model`, such as `openai:gpt-5.2` or `offline:rules`. If this is a list,
    Runward uses the next model when a model fails."""
    instructions: Annotated[str, Field(max_length=262_144)] = ""
    """Instructions that the model reads before the input."""
    tools: Annotated[tuple[ToolSelector, ...], Field(max_length=MAX_TOOLS)] = ()
    """Names of registered tools that the model may call. A name that ends with `*` selects all
    registered tools whose names begin with the part before it. If there are more than 64 tools,
    Runward gives the model a tool that searches them."""
    handoffs: Annotated[tuple[ToolName, ...], Field(max_length=16)] = ()
    """Names of agents that may take over the run. For each of them, Runward gives the model a tool
    `transfer_to_NAME`."""
    agents: Annotated[tuple[ToolName, ...], Field(max_length=32)] = ()
    """Names of the agents that a workflow runs, in order. Set only for the kinds `sequential`,
    `parallel`, and `loop`."""
    max_iterations: Annotated[int, Field(ge=1, le=100)] = 10
    """Maximum number of times that a workflow of kind `loop` runs its agents."""
    tool_choice: ToolChoice = "auto"
    """Whether the model may (`auto`), must not (`none`), or must (`required`) call a tool. The
    object `{"name": …}` names the tool that the model must call."""
    reset_tool_choice: bool = True
    """Whether Runward changes `tool_choice` to `auto` after the first tool call, so that the model
    can finish."""
    parallel_tool_calls: bool = True
    """Whether the model may request several tool calls in one turn."""
    model_settings: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    """Settings of the model request, such as `temperature`, `max_output_tokens`, or `reasoning`."""
    output_schema: JsonObject | None = None
    """JSON Schema of the final output. The run returns the parsed output in `output_parsed`. Null:
    the output is free text."""
    output_retries: Annotated[int, Field(ge=0, le=5)] = 1
    """Maximum number of times that the model may correct an output that does not match
    `output_schema`. If no correction matches, the run ends as `incomplete`."""
    tool_use_behavior: ToolUseBehavior = "run_llm_again"
    """What happens after tool calls. `run_llm_again`: the model reads the results.
    `stop_on_first_tool`: the first successful result becomes the run's output. An object: the first
    successful result of a tool in `stop_at` becomes the run's output."""
    on_unknown_tool: Literal["return_error", "fail_run"] = "return_error"
    """What happens if the model calls a tool that does not exist. `return_error`: the model reads
    an error message. `fail_run`: the run fails."""
    on_max_turns: OnMaxTurns = "incomplete"
    """What happens when the run reaches `limits.max_turns`. `incomplete`: the run ends as
    `incomplete`. `summarise`: the model writes a last answer without tools. `fail`: the run fails.
    An object: the run completes with its `output`."""
    limits: Limits = Limits()
    """Limits of the run, such as its maximum number of turns."""
    hooks: Hooks = ()
    """Hooks that Runward calls before and after each model request and each tool call."""
    guardrails: Guardrails = ()
    """Guardrails that check the run's input, its tool calls, and its final output."""
    history: HistoryLimits = HistoryLimits()
    """Limits on how much of the session's earlier conversation the model sees. By default, the
    model sees all of it."""

    @property
    def models(self) -> tuple[str, ...]:
        if self.model is None:
            return ()
        return (self.model,) if isinstance(self.model, str) else self.model


class RunConfig(AgentConfig):
    """The configuration of a run, and of an agent with inline tools."""

    inline_tools: tuple[InlineToolSpec, ...] = ()
    """Tools that the run or the agent defines itself."""
    request: dict[str, JsonValue] | None = None
    """Request that started the run. Set only if it was POST /v1/responses, which shows it again."""
    webhook: RunWebhook | None = None
    """Where Runward sends the notifications of this run."""
    trace: dict[str, str] | None = None
    """Position in the client's trace (W3C Trace Context), as headers. Tools receive it."""


def truncates_input(config: AgentConfig) -> bool:
    """Return whether the oldest items are dropped if the input exceeds the model's context
    window."""
    return isinstance(config, RunConfig) and (config.request or {}).get("truncation") == "auto"


def get_inline_tools(config: AgentConfig) -> tuple[InlineToolSpec, ...]:
    return config.inline_tools if isinstance(config, RunConfig) else ()


def replace_tools(
    config: AgentConfig, names: Sequence[str], inline_tools: Sequence[InlineToolSpec]
) -> AgentConfig:
    """Return the configuration with these registered and inline tools."""
    tools = {"tools": tuple(names), "inline_tools": tuple(inline_tools)}
    if not inline_tools and not isinstance(config, RunConfig):
        return config.model_copy(update={"tools": tools["tools"]})
    return RunConfig.model_construct(None, **dict(config) | tools)


def add_trace(config: AgentConfig, trace: dict[str, str]) -> RunConfig:
    """Return the configuration of a run with this position in a trace."""
    return RunConfig.model_construct(None, **dict(config) | {"trace": trace})


def get_trace(config: AgentConfig) -> dict[str, str] | None:
    return config.trace if isinstance(config, RunConfig) else None


def add_webhook(config: AgentConfig, webhook: RunWebhook) -> RunConfig:
    """Return the configuration of a run with this webhook."""
    return RunConfig.model_construct(None, **dict(config) | {"webhook": webhook})


class SelectionTooLargeError(Exception):
    """Raised if the patterns of one agent select more than `MAX_TOOLS` tools."""


def select_names(patterns: Sequence[str], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the names that each pattern selects. `names` are sorted. Raises
    SelectionTooLargeError."""
    found: dict[str, tuple[str, ...]] = {}
    for pattern in dict.fromkeys(patterns):
        prefix = pattern.removesuffix(PATTERN_SUFFIX)
        first = bisect_left(names, prefix)
        matching = takewhile(lambda name: name.startswith(prefix), islice(names, first, None))  # noqa: B023
        found[pattern] = tuple(islice(matching, MAX_TOOLS + 1))
        if len(found[pattern]) > MAX_TOOLS:
            raise SelectionTooLargeError
    return found


def list_patterns(config: AgentConfig) -> tuple[str, ...]:
    return tuple(name for name in config.tools if name.endswith(PATTERN_SUFFIX))


def expand_patterns(config: AgentConfig, names: Sequence[str]) -> AgentConfig:
    """Return the configuration with the tools that its patterns select, in place of the patterns.
    An inline tool replaces a registered tool of the same name. Raises SelectionTooLargeError."""
    patterns = list_patterns(config)
    if not patterns:
        return config
    found = select_names(patterns, names)
    inline = {one.name for one in get_inline_tools(config)}
    tools: dict[str, None] = {}
    for selector in config.tools:
        tools |= dict.fromkeys(name for name in found.get(selector, (selector,)))
        if len(tools) > MAX_TOOLS:
            raise SelectionTooLargeError
    return config.model_copy(update={"tools": tuple(one for one in tools if one not in inline)})
