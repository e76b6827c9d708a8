"""A registered tool: its contract with the model, and its rules."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.guards import Frozen, Guardrails

READ_RESULT: Final = "read_result"
SEARCH_HISTORY: Final = "search_history"
SEARCH_TOOLS: Final = "search_tools"
EXCEED_BUDGET: Final = "exceed_budget"
"""The tool of the calls with which Runward requests approvals to exceed a budget."""
TRANSFER_PREFIX: Final = "transfer_to_"
"""The prefix of the tools that hand a run over to another agent."""
RESERVED_NAMES: Final = frozenset({READ_RESULT, SEARCH_HISTORY, SEARCH_TOOLS, EXCEED_BUDGET})


def is_reserved(name: str) -> bool:
    """Return whether the name is reserved for Runward's own tools."""
    return name in RESERVED_NAMES or name.startswith(TRANSFER_PREFIX)


NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
"""Every provider accepts such a name unchanged."""

ToolName = Annotated[str, Field(pattern=NAME_PATTERN)]
ToolSelector = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}\*?$")]
"""Name of a registered tool, or a prefix of names followed by `*`."""
Seconds = Annotated[float, Field(ge=0.01, le=3600)]
RETRYABLE_STATUSES = frozenset({408, 425, 429, 502, 503, 504})


def closed_object(*required: str, **properties: JsonObject) -> JsonObject:
    """Return the JSON Schema of an object that has no other properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


class CelRule(Frozen):
    """A rule in CEL (Common Expression Language). It can use `args`, `context`, `run`, and `tool`,
    and must evaluate to true or false."""

    when: Annotated[str, Field(min_length=1, max_length=4096)]
    """CEL expression that evaluates to true or false. It can use `args`, `context`, `run`, and
    `tool`."""


class CallableRule(Frozen):
    """A plugin function that returns true or false in place of a CEL expression. Only the code of a
    plugin can set this rule."""

    callable: Annotated[str, Field(min_length=1, max_length=256)]
    """Path of the plugin's function, as `package.module:function`."""


class SecretReference(Frozen):
    """A reference to a secret of the project."""

    secret: ToolName
    """Name of the secret, as created with `PUT /v1/secrets/{name}`."""
    prefix: Annotated[str, Field(max_length=64, pattern=r"^[\x20-\x7e]*$")] = ""
    """String to put before the secret's value, such as `Bearer ` with a trailing space."""

    def resolve(self, secrets: Mapping[str, str]) -> str:
        """Return the prefix and the secret's value. Raises KeyError if the value is missing."""
        return self.prefix + secrets[self.secret]


class Sealed(Frozen):
    """An encrypted value that only the store can decrypt, in base64."""

    sealed: str


HeaderValue: TypeAlias = str | SecretReference | Sealed


class ChildToolOutput(Frozen):
    """Use the last successful output of one of the child run's tools as the result."""

    tool: ToolName
    """Name of the child run's tool whose output becomes the result."""


class McpToolSource(Frozen):
    """The MCP server that a tool of type `mcp` belongs to, and the tool's name on that server."""

    server: ToolName
    """Name of the registered MCP server."""
    tool: Annotated[str, Field(min_length=1, max_length=256)]
    """Name of the tool on the MCP server."""


HostedToolKind: TypeAlias = Literal[
    "web_search", "file_search", "code_interpreter", "image_generation", "mcp", "shell"
]
ExecutorKind: TypeAlias = Literal["shell", "apply_patch", "computer"]

ComputerEnvironment: TypeAlias = Literal["browser", "linux", "mac", "ubuntu", "windows"]


class HostedTool(Frozen):
    """A tool that the model's provider runs."""

    kind: HostedToolKind
    """Kind of the hosted tool."""
    settings: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    """Options of the hosted tool in the provider's format. Runward sends them to the provider
    unchanged."""
    secrets: dict[str, ToolName] = Field(default_factory=dict, max_length=8)
    """Options of the hosted tool whose values are secrets. Each key is the name of an option, and
    each value is the name of a secret of the project. A dot in a key selects a field of an object,
    or an entry of an array by its index."""


class ComputerSettings(Frozen):
    """The screen that an executor of the kind `computer` controls."""

    display_width: Annotated[int, Field(ge=1, le=32_768)]
    """Width of the screen in pixels."""
    display_height: Annotated[int, Field(ge=1, le=32_768)]
    """Height of the screen in pixels."""
    environment: ComputerEnvironment = "browser"
    """Kind of environment that the screen shows."""


class FailureMessage(Frozen):
    """A custom message for the model that replaces the built-in one."""

    message: Annotated[str, Field(max_length=4096)]
    """Message that the model reads."""


class FailureFunction(Frozen):
    """A plugin function that returns the message for the model, or raises an exception to fail the
    run. Only the code of a plugin can set it."""

    callable: Annotated[str, Field(min_length=1, max_length=256)]
    """Path of the plugin's function, as `package.module:function`."""


OnFailure: TypeAlias = Literal["return_error", "fail_run"] | FailureMessage
OnError: TypeAlias = OnFailure | FailureFunction
UnknownOutcomeMode: TypeAlias = Literal["return_error", "ask", "fail_run"]
ApprovalRule: TypeAlias = Literal["never", "always"] | CelRule | CallableRule
Enabled: TypeAlias = bool | CelRule | CallableRule
ToolType: TypeAlias = Literal[
    "webhook", "plugin", "agent", "client", "mcp", "hosted", "builtin", "handoff"
]
ToolResponse: TypeAlias = Literal["output", "envelope"]
ChildOutput: TypeAlias = Literal["final", "json"] | ChildToolOutput


class Retry(Frozen):
    """How many times Runward retries a call and how long it waits between attempts. Runward
    randomizes the delays (full jitter). Delays count toward the call's timeout."""

    max_attempts: Annotated[int, Field(ge=1, le=10)] = 3
    """Maximum number of attempts, including the first one."""
    initial_seconds: Annotated[float, Field(ge=0.01, le=60)] = 0.5
    """Maximum delay before the second attempt, in seconds. Runward doubles the delay for each
    further attempt."""
    max_seconds: Annotated[float, Field(ge=0.01, le=300)] = 10.0
    """Maximum delay between two attempts, in seconds."""
    on: tuple[Annotated[int, Field(ge=400, le=599)], ...] = ()
    """HTTP status codes that Runward retries even if the tool is not idempotent."""


class Concurrency(Frozen):
    """How many calls of a tool, or of a group of tools, may run at the same time within one run."""

    limit: Annotated[int, Field(ge=1, le=64)] = 8
    """Maximum number of calls of the tool, or of the group, that run at the same time."""
    group: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Name of a group of tools that share the limit. If their limits differ, the lowest limit of
    the calls that run applies. Null: the limit applies to this tool alone."""
    serial: bool = False
    """Whether a call of the tool runs alone: after all earlier calls of the run, and before all
    later ones."""


class ToolSpec(Frozen):
    """One version of a tool. Sizes are in bytes, durations in seconds."""

    name: ToolName
    """Name of the tool that models use to call it. Unique in the project."""
    description: Annotated[str, Field(max_length=16_384)] = ""
    """Description of the tool for the model: what the tool does and when to use it."""
    parameters: JsonObject
    """JSON Schema of the arguments. Its type must be `object`. If the arguments of a call do not
    match the schema, Runward does not send the call."""
    output_schema: JsonObject | None = None
    """JSON Schema of the result. If a result does not match, the model reads an error. Null:
    results are not validated."""
    type: ToolType = "webhook"
    """How Runward executes the tool. `webhook`: a signed POST request to `url`. `agent`: a child
    run. `client`: the client runs the tool and submits the result. `hosted`: the model's provider
    runs the tool. `plugin`: a function that is installed with the service. `mcp`: a tool of a
    registered MCP server."""
    url: Annotated[str, Field(max_length=2048)] | None = None
    """URL of a webhook tool, or of the MCP server of a tool of type `mcp`. Null for all other
    types."""
    agent: ToolName | None = None
    """Name of the agent that executes the child run. Set only for tools of type `agent`."""
    output: ChildOutput = "final"
    """Which part of the child run becomes the result of a tool of type `agent`. `final`: the final
    output. `json`: the final output parsed as JSON. An object: the last successful output of the
    named tool."""
    response: ToolResponse = "output"
    """How Runward reads the response of a webhook tool. `output`: the response is the output of the
    call. `envelope`: requests contain the shared `state`, and the response is an object with
    `output`, `state`, `transfer_to`, `escalate`, and `metadata`, which are all optional."""
    headers: dict[str, HeaderValue] = Field(default_factory=dict, max_length=32)
    """HTTP headers that Runward sends with every call. A string is stored encrypted and never shown
    again. An object refers to a secret of the project."""
    strict: bool = True
    """Whether the model must follow the schema exactly. If true, all properties are required, and
    additional properties are not allowed. Optional properties become nullable."""
    timeout_seconds: Seconds | None = None
    """Timeout of one call in seconds, including all its attempts. Null: the run's
    `limits.tool_timeout_seconds` or, if that is null, the default of the deployment. For tools of
    type `client`, null means no timeout."""
    on_timeout: OnFailure = "return_error"
    """What happens after a timeout. `return_error`: the model reads an error. `fail_run`: the run
    fails. An object: the model reads the `message` of the object."""
    on_error: OnError = "return_error"
    """What happens after an error. `return_error`: the model reads the error. `fail_run`: the run
    fails. An object: the model reads the `message` of the object. A plugin's tool can also use a
    function of the plugin."""
    idempotent: bool = False
    """Whether the tool may safely receive the same call more than once. If true, Runward can send a
    call again when its outcome is unknown."""
    on_unknown: UnknownOutcomeMode = "return_error"
    """What happens if Runward does not know whether a call took effect. `return_error`: the model
    reads an error. `ask`: a person must record the outcome. `fail_run`: the run fails."""
    retry: Retry = Retry()
    """How many times Runward retries a call and how long it waits between attempts."""
    approval: ApprovalRule = "never"
    """Whether a person must approve each call of the tool: `never`, `always`, or a CEL rule that
    uses `args`, `context`, `run`, and `tool`. A plugin's tool can also use a function of the
    plugin."""
    approval_expires_seconds: Annotated[float, Field(ge=1, le=31_536_000)] = 604_800.0
    """Number of seconds until an approval expires. When it expires, the model reads that nobody
    decided. Default: 7 days. Maximum: 365 days."""
    reject_message: Annotated[str, Field(max_length=4096)] | None = None
    """Message that the model reads if an approver rejects a call without a message. Null: Runward
    uses a built-in message."""
    enabled: Enabled = True
    """Whether models see the tool: true, false, or a CEL rule that Runward evaluates in every turn.
    A plugin's tool can also use a function of the plugin."""
    defer: bool = False
    """Whether models see the tool only after they have found it with `search_tools`. If an agent
    has such a tool, Runward gives the model `search_tools`."""
    guardrails: Guardrails = ()
    """Guardrails that check the calls and results of this tool. Runward signs their webhook
    requests with the tool's secret."""
    concurrency: Concurrency = Concurrency()
    """How many calls of the tool may run at the same time within one run."""
    max_output_bytes: Annotated[int, Field(ge=256, le=10_485_760)] = 65_536
    """Maximum size in bytes of a result that the model reads. If a result is longer, Runward stores
    it in full, and the model reads a truncated version."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    """Custom metadata of the tool. CEL rules can read it as `tool.metadata`."""
    code: Annotated[str, Field(max_length=64)] | None = None
    """Digest of a plugin tool's source code, or of the command of an MCP server. A new digest
    creates a new version of the tool. Null for other tools."""
    mcp: McpToolSource | None = None
    """MCP server of the tool, and the tool's name on that server. Set only for tools of type
    `mcp`."""
    hosted: HostedTool | None = None
    """The tool that the model's provider runs. Set only for tools of type `hosted`."""
    implements: ExecutorKind | None = None
    """Kind of tool that providers define and that this webhook or plugin tool runs instead. The
    kind sets the tool's parameters. Calls need approval unless `approval` is set."""
    settings: ComputerSettings | None = None
    """Screen of a tool that implements `computer`. Models read the size of the screen. Null: models
    learn the size only from the images."""


class InlineToolSpec(ToolSpec):
    """A tool that a run or an agent defines itself. Its version is always 0."""

    signing_secret: SecretReference | None = None
    """Secret of the project that signs the requests of the tool and of its guardrails, in the
    format of Standard Webhooks (`whsec_…`). Null: the project's signing secret signs them."""
