"""A registered tool: its contract with the model, and its policy."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.guards import Guardrails

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
"""Every provider accepts such a name unchanged."""

ToolName = Annotated[str, Field(pattern=NAME_PATTERN)]
Seconds = Annotated[float, Field(ge=0.01, le=3600)]
RETRYABLE_STATUSES = frozenset({408, 425, 429, 502, 503, 504})


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class When(Frozen):
    """A CEL rule over `args`, `context`, `run` and `tool` that answers true or false."""

    when: Annotated[str, Field(min_length=1, max_length=4096)]


class ByCallable(Frozen):
    """A plugin's own function decides: `package.module:function`. Only a plugin's code sets it."""

    callable: Annotated[str, Field(min_length=1, max_length=256)]


class SecretRef(Frozen):
    """A secret of the project, by its name (`/v1/secrets`)."""

    secret: ToolName
    prefix: Annotated[str, Field(max_length=64, pattern=r"^[\x20-\x7e]*$")] = ""
    """Stands before the secret's value: `Bearer ` with a space at its end."""

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


class FromServer(Frozen):
    """Of a tool of type `mcp`: the registered server, and what that calls the tool."""

    server: ToolName
    tool: Annotated[str, Field(min_length=1, max_length=256)]


HostedKind: TypeAlias = Literal[
    "web_search", "file_search", "code_interpreter", "image_generation", "mcp"
]
ExecutorKind: TypeAlias = Literal["shell", "apply_patch", "computer"]


class Hosted(Frozen):
    """A tool that the model's vendor runs. `settings` are its options in the vendor's own words,
    passed on as they are; `secrets` are further ones, whose values are stored secrets by name."""

    kind: HostedKind
    settings: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    secrets: dict[str, ToolName] = Field(default_factory=dict, max_length=8)


class Text(Frozen):
    """A fixed text for the model, instead of the built-in one."""

    message: Annotated[str, Field(max_length=4096)]


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
    initial_seconds: Annotated[float, Field(ge=0.01, le=60)] = 0.5
    max_seconds: Annotated[float, Field(ge=0.01, le=300)] = 10.0
    on: tuple[Annotated[int, Field(ge=400, le=599)], ...] = ()
    """HTTP statuses after which even a tool that is not idempotent is tried again."""


class Concurrency(Frozen):
    """How many calls of this tool, or of the tools that share `group`, one run has in flight.
    `serial`: the call runs alone, after every earlier and before every later call."""

    limit: Annotated[int, Field(ge=1, le=64)] = 8
    group: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    serial: bool = False


class ToolSpec(Frozen):
    """One version of a tool. Sizes in bytes, durations in seconds."""

    name: ToolName
    description: Annotated[str, Field(max_length=16_384)] = ""
    parameters: JsonObject
    output_schema: JsonObject | None = None
    type: ToolType = "webhook"
    url: Annotated[str, Field(max_length=2048)] | None = None
    agent: ToolName | None = None
    """Of a tool of type `agent`: whom a child run is started with."""
    output: ChildOutput = "final"
    """Of a tool of type `agent`: what of the child run is the call's output."""
    headers: dict[str, HeaderValue] = Field(default_factory=dict, max_length=32)
    """Values are stored encrypted, and shown as `…`. A reference is read anew for each call."""
    strict: bool = True
    timeout_seconds: Seconds | None = None
    on_timeout: OnFailure = "return_error"
    on_error: OnFailure = "return_error"
    idempotent: bool = False
    on_unknown: OnUnknown = "return_error"
    retry: Retry = Retry()
    approval: ApprovalPolicy = "never"
    approval_expires_seconds: Annotated[float, Field(ge=1, le=31_536_000)] = 604_800.0
    reject_message: Annotated[str, Field(max_length=4096)] | None = None
    enabled: Enabled = True
    guardrails: Guardrails = ()
    concurrency: Concurrency = Concurrency()
    max_output_bytes: Annotated[int, Field(ge=256, le=10_485_760)] = 65_536
    metadata: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    code: Annotated[str, Field(max_length=64)] | None = None
    """Of a plugin's tool: a digest of its source, so that changed code is another version. Of a
    tool of an MCP server that is a command: a digest of that."""
    mcp: FromServer | None = None
    hosted: Hosted | None = None
    """Of a tool of type `hosted`: what it is to the vendor."""
    executes: ExecutorKind | None = None
    """Of a webhook or plugin: the kind of vendors' own tool that it carries out."""
