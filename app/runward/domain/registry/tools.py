"""A registered tool: its contract with the model, and its policy."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.guards import Frozen, Guardrails

READ_RESULT: Final = "read_result"
SEARCH_HISTORY: Final = "search_history"
SEARCH_TOOLS: Final = "search_tools"
TRANSFER_PREFIX: Final = "transfer_to_"
"""The prefix of the tools that hand a run over to another agent."""
RESERVED_NAMES: Final = frozenset({READ_RESULT, SEARCH_HISTORY, SEARCH_TOOLS})


def is_reserved(name: str) -> bool:
    """Return whether the name belongs to a tool of Runward's own."""
    return name in RESERVED_NAMES or name.startswith(TRANSFER_PREFIX)


NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
"""Every provider accepts such a name unchanged."""

ToolName = Annotated[str, Field(pattern=NAME_PATTERN)]
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


class When(Frozen):
    """A CEL rule over `args`, `context`, `run` and `tool` that answers true or false."""

    when: Annotated[str, Field(min_length=1, max_length=4096)]
    """A CEL expression that answers true or false."""


class ByCallable(Frozen):
    """A plugin's own function decides: `package.module:function`. Only a plugin's code sets it."""

    callable: Annotated[str, Field(min_length=1, max_length=256)]
    """Of a plugin: the function that decides, `package.module:name`."""


class SecretRef(Frozen):
    """A secret of the project, by its name (`/v1/secrets`)."""

    secret: ToolName
    """Name of a secret of the project (`/v1/secrets`)."""
    prefix: Annotated[str, Field(max_length=64, pattern=r"^[\x20-\x7e]*$")] = ""
    """Text before the secret's value, for example `Bearer ` with a space at its end."""

    def resolve(self, secrets: Mapping[str, str]) -> str:
        """Return the prefix and the secret's value. Raises KeyError if the value is missing."""
        return self.prefix + secrets[self.secret]


class Sealed(Frozen):
    """An encrypted value that only the store can decrypt, in base64."""

    sealed: str


HeaderValue: TypeAlias = str | SecretRef | Sealed


class OutputOfTool(Frozen):
    """Of a child run: the last good output of this tool of its."""

    tool: ToolName
    """The tool of the child run."""


class FromServer(Frozen):
    """Of a tool of type `mcp`: the registered server, and what that calls the tool."""

    server: ToolName
    """The registered MCP server."""
    tool: Annotated[str, Field(min_length=1, max_length=256)]
    """What the server calls the tool."""


HostedKind: TypeAlias = Literal[
    "web_search", "file_search", "code_interpreter", "image_generation", "mcp"
]
ExecutorKind: TypeAlias = Literal["shell", "apply_patch", "computer"]


class Hosted(Frozen):
    """A tool that the model's vendor runs. `settings` are its options in the vendor's own words,
    passed on as they are; `secrets` are further ones, whose values are stored secrets by name."""

    kind: HostedKind
    """Which of the tools that vendors run."""
    settings: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    """Its options in the vendor's own words, passed on as they are."""
    secrets: dict[str, ToolName] = Field(default_factory=dict, max_length=8)
    """Further options, whose values are stored secrets: the option, and the secret's name."""


class Text(Frozen):
    """A fixed text for the model, instead of the built-in one."""

    message: Annotated[str, Field(max_length=4096)]
    """What the model reads."""


OnFailure: TypeAlias = Literal["return_error", "fail_run"] | Text
OnUnknown: TypeAlias = Literal["return_error", "ask", "fail_run"]
ApprovalPolicy: TypeAlias = Literal["never", "always"] | When | ByCallable
Enabled: TypeAlias = bool | When | ByCallable
ToolType: TypeAlias = Literal[
    "webhook", "plugin", "agent", "client", "mcp", "hosted", "builtin", "handoff"
]
ChildOutput: TypeAlias = Literal["final", "json"] | OutputOfTool


class Retry(Frozen):
    """How often and how long between attempts; delays have full jitter and stay within the
    call's timeout."""

    max_attempts: Annotated[int, Field(ge=1, le=10)] = 3
    """Attempts in all, the first included."""
    initial_seconds: Annotated[float, Field(ge=0.01, le=60)] = 0.5
    """Before the second attempt; it doubles from there."""
    max_seconds: Annotated[float, Field(ge=0.01, le=300)] = 10.0
    """At most, between two attempts."""
    on: tuple[Annotated[int, Field(ge=400, le=599)], ...] = ()
    """HTTP statuses after which even a tool that is not idempotent is tried again."""


class Concurrency(Frozen):
    """How many calls of this tool, or of the tools that share `group`, one run has in flight.
    `serial`: the call runs alone, after every earlier and before every later call."""

    limit: Annotated[int, Field(ge=1, le=64)] = 8
    """Calls in flight."""
    group: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Tools of one group share the limit."""
    serial: bool = False
    """The call runs alone, after every earlier and before every later one."""


class ToolSpec(Frozen):
    """One version of a tool. Sizes in bytes, durations in seconds."""

    name: ToolName
    """What the model calls it; unique in the project."""
    description: Annotated[str, Field(max_length=16_384)] = ""
    """What it does and when to use it, for the model."""
    parameters: JsonObject
    """A JSON Schema of the arguments, an object. Calls that do not match it are not sent."""
    output_schema: JsonObject | None = None
    """A JSON Schema of the result. One that does not match is an error result."""
    type: ToolType = "webhook"
    (
        "How it is executed: `webhook`, a signed POST to `url`; `agent`, a child run; `client`, by "
        "whoever uses the API; `hosted`, by the model's vendor; `plugin`, a function that is "
        "installed with the service; or `mcp`, a tool of a registered MCP server."
    )
    url: Annotated[str, Field(max_length=2048)] | None = None
    """Where a webhook tool is called; of a tool of type `mcp` its server's."""
    agent: ToolName | None = None
    """Of a tool of type `agent`: whom the child run is started with."""
    output: ChildOutput = "final"
    (
        "Of a tool of type `agent`: what of the child run is the result. `final`, its output; "
        "`json`, that output as JSON; or the last good output of one of its tools."
    )
    headers: dict[str, HeaderValue] = Field(default_factory=dict, max_length=32)
    """Sent with every call."""
    strict: bool = True
    (
        "Holds the model to the schema: every property required, none beside them. Optional ones "
        "become nullable."
    )
    timeout_seconds: Seconds | None = None
    (
        "For one call, all its attempts together. Wins over the run's `tool_timeout_seconds`. "
        "Without it a tool of type `client` has as long as its run."
    )
    on_timeout: OnFailure = "return_error"
    (
        "After a timeout: tell the model (`return_error`), end the run (`fail_run`), or tell the "
        "model a text of yours."
    )
    on_error: OnFailure = "return_error"
    """The same after an error."""
    idempotent: bool = False
    """Repeating a call under the same id does no harm, so Runward may."""
    on_unknown: OnUnknown = "return_error"
    (
        "When a call was sent and nobody knows whether it took effect: tell the model, `ask` a "
        "person, or end the run."
    )
    retry: Retry = Retry()
    """How often and how long between attempts, where trying again is allowed."""
    approval: ApprovalPolicy = "never"
    (
        "Whether a person is asked before a call: `never`, `always`, or a CEL rule over `args`, "
        "`context`, `run` and `tool`; of a plugin's tool also a function of the plugin."
    )
    approval_expires_seconds: Annotated[float, Field(ge=1, le=31_536_000)] = 604_800.0
    (
        "An approval expires after this time, and the model is told that nobody answered. 7 days "
        "by default, 365 days at most."
    )
    reject_message: Annotated[str, Field(max_length=4096)] | None = None
    """What the model is told about a rejection without words."""
    enabled: Enabled = True
    (
        "Whether models see it: yes, no, or a CEL rule, asked every turn; of a plugin's tool also "
        "a function of the plugin."
    )
    guardrails: Guardrails = ()
    """Asked before and after a call: webhooks, signed with the tool's secret, or plugins."""
    concurrency: Concurrency = Concurrency()
    """How many calls of it one run has in flight."""
    max_output_bytes: Annotated[int, Field(ge=256, le=10_485_760)] = 65_536
    """A longer result is cut for the model and kept whole."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    """Your own notes; rules see them as `tool.metadata`."""
    code: Annotated[str, Field(max_length=64)] | None = None
    (
        "Of a plugin's tool: a digest of its source. Changed code is another version. Of a tool of "
        "an MCP server that is a command: a digest of that."
    )
    mcp: FromServer | None = None
    """Of a tool of type `mcp`: its server here, and its name there."""
    hosted: Hosted | None = None
    """Of a tool of type `hosted`: what it is to the vendor."""
    executes: ExecutorKind | None = None
    (
        "The kind of vendors' own tool that a webhook or a plugin carries out. Its parameters are "
        "then those of the kind, and a person approves each call unless `approval` says otherwise."
    )
