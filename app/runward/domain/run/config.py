"""What a run was asked to be: its model, instructions, tools and limits, frozen at its start."""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.guards import Guardrails, Hooks
from runward.domain.registry.tools import Frozen, Seconds, ToolName, ToolSpec

MAX_TOKENS: Final = 2**53


class NamedTool(Frozen):
    name: ToolName
    """The tool that the model must call."""


class StopAt(Frozen):
    stop_at: Annotated[tuple[ToolName, ...], Field(min_length=1, max_length=64)]
    """Tools whose result ends the run."""


class FixedOutput(Frozen):
    output: JsonValue
    """The run's output then."""


ModelName = Annotated[str, Field(min_length=3, max_length=256)]
ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool
ToolUseBehavior: TypeAlias = Literal["run_llm_again", "stop_on_first_tool"] | StopAt
OnMaxTurns: TypeAlias = Literal["incomplete", "summarise", "fail"] | FixedOutput


class Limits(Frozen):
    """What one run may use over its whole life, resumes included."""

    max_turns: Annotated[int, Field(ge=1, le=50)] = 10
    """Model calls, resumes included."""
    max_tool_calls: Annotated[int, Field(ge=0, le=200)] = 200
    """Tool calls in all."""
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = None
    """Input and output tokens together."""
    max_cost_usd: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    (
        "US dollars, by the prices that this installation knows; a model without a price costs "
        "nothing known."
    )
    deadline_seconds: Annotated[float, Field(ge=1, le=31_536_000)] | None = None
    """Wall time from the run's creation, waiting included."""
    tool_timeout_seconds: Seconds | None = None
    """For tools that set none of their own."""
    max_parallel_tool_calls: Annotated[int, Field(ge=1, le=64)] = 8
    """Calls in flight at once."""


class History(Frozen):
    """What of a session's earlier runs the model is shown; nothing set: all that is kept."""

    max_turns: Annotated[int, Field(ge=0, le=1000)] | None = None
    """The last so many turns: a message of a user and all that followed it."""
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = None
    """The newest turns that fit, by an estimate of four bytes a token."""
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
    model: ModelNames | None = None
    """`vendor:model`, such as `openai:gpt-5.2` or `offline:rules`; or several, tried in order when
    the first cannot answer."""
    instructions: Annotated[str, Field(max_length=262_144)] = ""
    """What the model is told first, before the input."""
    tools: Annotated[tuple[ToolName, ...], Field(max_length=MAX_TOOLS)] = ()
    """The names of registered tools that the model may call. Of more than 64 it is shown a search
    over them."""
    handoffs: Annotated[tuple[ToolName, ...], Field(max_length=16)] = ()
    """The names of agents that may take the run over: a tool `transfer_to_NAME` for each."""
    agents: Annotated[tuple[ToolName, ...], Field(max_length=32)] = ()
    """Of a workflow: the names of the agents that it runs, in order."""
    max_iterations: Annotated[int, Field(ge=1, le=100)] = 10
    """Of a loop: how often it runs its agents at most."""
    tool_choice: ToolChoice = "auto"
    """Whether the model may, must not or must call a tool, or which one: `auto`, `none`,
    `required` or `{"name": …}`."""
    reset_tool_choice: bool = True
    """After the first tool call `tool_choice` becomes `auto`, so that the model can end."""
    parallel_tool_calls: bool = True
    """Whether the model may ask for several calls at once."""
    model_settings: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    """What the model's vendor understands: `temperature`, `max_output_tokens`, `reasoning` …"""
    output_schema: JsonObject | None = None
    """A JSON Schema that the final output must match; it is then in `output_parsed`."""
    repair_attempts: Annotated[int, Field(ge=0, le=5)] = 1
    """How often the model is told what is wrong with its output before the run ends
    `incomplete`."""
    tool_use_behavior: ToolUseBehavior = "run_llm_again"
    """Whether the model sees every result, or the result of the first tool, or of one in
    `stop_at`, is the run's output."""
    on_unknown_tool: Literal["return_error", "fail_run"] = "return_error"
    """What a call of a tool that is not there does."""
    on_max_turns: OnMaxTurns = "incomplete"
    """What happens at `limits.max_turns`: end `incomplete`, ask the model for one last answer
    without tools, end `failed`, or end `completed` with a fixed output."""
    limits: Limits = Limits()
    """What the run may use over its whole life."""
    hooks: Hooks = ()
    """What is asked before or after each model call and each tool call."""
    guardrails: Guardrails = ()
    """What checks the run's input, its calls and its final output."""
    history: History = History()
    """What of the session's earlier runs the model is shown."""

    @property
    def models(self) -> tuple[str, ...]:
        if self.model is None:
            return ()
        return (self.model,) if isinstance(self.model, str) else self.model


class AgentFields(AgentConfig):
    """The configuration of an agent as a request has it: in an agent, or inline in a run."""

    kind: AgentKind = "llm"  # pyright: ignore[reportIncompatibleVariableOverride]
    """`llm` asks the model; `sequential`, `parallel` and `loop` run `agents` instead, and have no
    model."""

    def to_config(self) -> AgentConfig:
        """Return the configuration alone, with the fields that the request gave."""
        given = self.model_fields_set & AgentConfig.model_fields.keys()
        return AgentConfig.model_construct(None, **{name: getattr(self, name) for name in given})


class RunConfig(AgentConfig):
    """What one run alone may have beside what its agent is."""

    functions: tuple[ToolSpec, ...] = ()
    """Tools that whoever started the run brought along and runs itself; of type `client`."""
    request: dict[str, JsonValue] | None = None
    """Of a run that POST /v1/responses started: what was asked, to be shown again."""


def get_functions(config: AgentConfig) -> tuple[ToolSpec, ...]:
    return config.functions if isinstance(config, RunConfig) else ()
