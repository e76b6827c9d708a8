"""What a run was asked to be: its model, instructions, tools and limits, frozen at its start."""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.guards import Guardrails, Hooks
from runward.domain.registry.tools import Frozen, Seconds, ToolName, ToolSpec

MAX_TOKENS: Final = 2**53


class NamedTool(Frozen):
    name: ToolName


class StopAt(Frozen):
    stop_at: Annotated[tuple[ToolName, ...], Field(min_length=1, max_length=64)]


class FixedOutput(Frozen):
    output: JsonValue


ModelName = Annotated[str, Field(min_length=3, max_length=256)]
ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool
ToolUseBehavior: TypeAlias = Literal["run_llm_again", "stop_on_first_tool"] | StopAt
OnMaxTurns: TypeAlias = Literal["incomplete", "summarise", "fail"] | FixedOutput


class Limits(Frozen):
    """What one run may use over its whole life, resumes included."""

    max_turns: Annotated[int, Field(ge=1, le=50)] = 10
    """Model calls."""
    max_tool_calls: Annotated[int, Field(ge=0, le=200)] = 200
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = None
    """Input and output tokens together."""
    max_cost_usd: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    """US dollars, by the kept price table; a model without a price costs nothing known."""
    deadline_seconds: Annotated[float, Field(ge=1, le=31_536_000)] | None = None
    """Wall time from the run's creation, waiting included."""
    tool_timeout_seconds: Seconds | None = None
    """For tools that set none of their own."""
    max_parallel_tool_calls: Annotated[int, Field(ge=1, le=64)] = 8


class History(Frozen):
    """What of a session's earlier runs the model is shown; nothing set: all that is kept."""

    max_turns: Annotated[int, Field(ge=0, le=1000)] | None = None
    """The last so many turns: a message of a user and all that followed it."""
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = None
    """The last turns that fit, by an estimate of four bytes a token."""
    trim_tool_outputs: Annotated[int, Field(ge=0, le=1_048_576)] | None = None
    """Outputs of tools in earlier runs are cut to so many bytes."""


AgentKind: TypeAlias = Literal["llm", "sequential", "parallel", "loop"]
"""What can be asked for."""
RunKind: TypeAlias = AgentKind | Literal["call"]
"""`call` makes one call of its one tool, with the arguments that are its input: what a client of
`/mcp` asked for."""
ModelNames: TypeAlias = (
    ModelName | Annotated[tuple[ModelName, ...], Field(min_length=1, max_length=8)]
)
MAX_TOOLS: Final = 1000
"""Tools that one agent may name."""
MAX_VISIBLE_TOOLS: Final = 64
"""Tools that a model is shown in one turn; an agent with more of them searches."""


class AgentConfig(Frozen):
    """The behaviour of an agent. The same fields stand in an agent and inline in a run."""

    kind: RunKind = "llm"
    """`llm` asks a model; the others run `agents`, one after the other, at once, or again and
    again."""
    model: ModelNames | None = None
    """`vendor:model`, or several, tried in order when the first cannot answer. Every agent of
    kind `llm` has one, no other has."""
    instructions: Annotated[str, Field(max_length=262_144)] = ""
    tools: Annotated[tuple[ToolName, ...], Field(max_length=MAX_TOOLS)] = ()
    handoffs: Annotated[tuple[ToolName, ...], Field(max_length=16)] = ()
    """The agents that this one may hand the run over to."""
    agents: Annotated[tuple[ToolName, ...], Field(max_length=32)] = ()
    """Of a workflow: whom it runs."""
    max_iterations: Annotated[int, Field(ge=1, le=100)] = 10
    """Of a loop: how often it runs its agents."""
    tool_choice: ToolChoice = "auto"
    reset_tool_choice: bool = True
    parallel_tool_calls: bool = True
    model_settings: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    output_schema: JsonObject | None = None
    repair_attempts: Annotated[int, Field(ge=0, le=5)] = 1
    tool_use_behavior: ToolUseBehavior = "run_llm_again"
    on_unknown_tool: Literal["return_error", "fail_run"] = "return_error"
    on_max_turns: OnMaxTurns = "incomplete"
    limits: Limits = Limits()
    hooks: Hooks = ()
    guardrails: Guardrails = ()
    history: History = History()

    @property
    def models(self) -> tuple[str, ...]:
        if self.model is None:
            return ()
        return (self.model,) if isinstance(self.model, str) else self.model


class RunConfig(AgentConfig):
    """What one run alone may have beside what its agent is."""

    functions: tuple[ToolSpec, ...] = ()
    """Tools that whoever started the run brought along and runs itself; of type `client`."""
    request: dict[str, JsonValue] | None = None
    """Of a run that POST /v1/responses started: what was asked, to be shown again."""


def get_functions(config: AgentConfig) -> tuple[ToolSpec, ...]:
    return config.functions if isinstance(config, RunConfig) else ()
