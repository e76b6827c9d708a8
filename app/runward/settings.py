"""Every environment variable, with its unit and default. Read by `wiring` and the commands only;
`docs/reference/configuration.md` lists the same."""

import re
from collections.abc import Iterable
from datetime import timedelta
from difflib import get_close_matches
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)
from pydantic_core import from_json
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

Network = IPv4Network | IPv6Network


def _split_commas(value: Any) -> Any:
    return (
        [part.strip() for part in value.split(",") if part.strip()]
        if isinstance(value, str)
        else value
    )


def _parse_json(value: Any) -> Any:
    return from_json(value) if isinstance(value, str) else value


def _parse_seconds(value: Any) -> Any:
    if not isinstance(value, str | int | float):
        return value
    try:
        return timedelta(seconds=float(value))
    except (ValueError, OverflowError):
        raise ValueError("must be a number of seconds") from None


Seconds = Annotated[timedelta, BeforeValidator(_parse_seconds), Field(le=timedelta(days=1))]
ToolSeconds = Annotated[Seconds, Field(ge=timedelta(milliseconds=10), le=timedelta(hours=1))]


def _lowercase(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


CaptureContent = Annotated[Literal["no_content", "span_only"], BeforeValidator(_lowercase)]


def _check_base_url(value: str) -> str:
    """Return the address without a slash at its end, because paths are appended. Raises
    ValueError."""
    parts = _split_url(value)
    if parts is None or not value.isascii() or re.search(r"[\s\x00-\x1f]", value):
        raise ValueError("must be an address such as https://example.com")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("must not contain a user name, a query or a fragment")
    if parts.port == 0:
        raise ValueError("must not contain the port 0")
    return value.rstrip("/")


def _split_url(value: str) -> SplitResult | None:
    """Return the parts, or None if it is no http or https address with a host."""
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018  # raises ValueError
    except ValueError:
        return None
    return parts if parts.scheme in ("http", "https") and parts.hostname else None


def _check_reachable_url(value: str) -> str:
    value = _check_base_url(value)
    address = _parse_address(urlsplit(value).hostname or "")
    if address is not None and address.is_unspecified:
        raise ValueError(f"must be an address that tools can reach; tools cannot reach {address}")
    return value


def _parse_address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _check_ports(value: str) -> str:
    for part in value.split(","):
        found = re.fullmatch(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= 65_535:
            raise ValueError(f"'{part.strip()}' is not a port or a range such as 1024-65535")
    return value


MIN_KEY_CHARACTERS: Final = 32


def _check_secret_key(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if text.startswith("file:"):
        if not Path(text.removeprefix("file:")).is_absolute():
            raise ValueError("must have an absolute path after 'file:'")
    elif text.startswith("aws-kms:"):
        if not re.fullmatch(r"aws-kms:arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[\w-]+", text):
            raise ValueError("must have the ARN of a key, and no alias, after 'aws-kms:'")
    elif len(text) < MIN_KEY_CHARACTERS:
        raise ValueError(f"must have at least {MIN_KEY_CHARACTERS} characters")
    return value


SecretKey = Annotated[SecretStr, AfterValidator(_check_secret_key)]
HostPattern = Annotated[
    str,
    BeforeValidator(_lowercase),
    Field(pattern=r"^(\*|(\*\.)?[a-z0-9_.-]+|\[?[0-9a-f.]*:[0-9a-f.]*:[0-9a-f:.]*\]?)$"),
]
BaseUrl = Annotated[str, AfterValidator(_check_base_url)]
PublicUrl = Annotated[str, AfterValidator(_check_reachable_url)]
Ports = Annotated[str, AfterValidator(_check_ports)]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lowercase)]
LogFormat = Annotated[Literal["auto", "json", "text"], BeforeValidator(_lowercase)]

PREFIX: Final = "RUNWARD_"
_CLIENT_VARIABLES: Final = ("RUNWARD_URL", "RUNWARD_KEY")
"""Variables of the commands that ask a running Runward."""
_PLUGIN_VARIABLES: Final = "RUNWARD_SECRET_"

MAX_RETENTION_DAYS: Final = 36_500
"""Equal to `runward.domain.retention.MAX_DAYS`. Settings do not import the domain."""
UsdPerMillion = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
PricedModel = Annotated[str, Field(pattern=r"^[a-z-]+:.+$")]


class ModelPrice(BaseModel):
    """US dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: UsdPerMillion
    output: UsdPerMillion
    cached_input: UsdPerMillion | None = None


Days = Annotated[int, Field(ge=1, le=MAX_RETENTION_DAYS)] | None


class RetentionDays(BaseModel):
    """Days for each class of data. None: forever."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runs: Days = None
    events: Days = None
    tool_call_content: Days = None
    deliveries: Days = None
    audit: Days = None


class DefaultRetentionDays(RetentionDays):
    deliveries: Days = 30


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
        env_ignore_empty=True,
        populate_by_name=True,
    )

    database_url: SecretStr | None = Field(None, validation_alias="DATABASE_URL")
    """PostgreSQL 15 or newer. Without it, `serve` starts the embedded one."""
    data_dir: Path | None = None
    """Where the embedded PostgreSQL keeps its data. `.runward`; as root `/var/lib/runward`."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """The port to listen on."""
    public_url: Annotated[PublicUrl | None, Field(validate_default=True)] = None
    """Where tools reach this API: callback URLs begin with it. http://HOST:PORT."""
    allowed_hosts: Annotated[tuple[HostPattern, ...], NoDecode, BeforeValidator(_split_commas)] = ()
    """Names that requests may have in `Host`, comma-separated; `*.example.com` covers subdomains,
    and `*` all names. Without it: loopback, HOST, and the host of PUBLIC_URL."""
    access_log: bool = True
    """Whether each request is logged."""
    max_connections: Annotated[int, Field(ge=1)] = 2000
    """Open client connections of one API process. More are answered 503 and closed."""
    bootstrap_key: Annotated[SecretStr, Field(min_length=32)] | None = None
    """An API key of 32 characters or more with every scope, for the project `default`."""
    secret_key: SecretKey | None = None
    """Encrypts the data keys in the database, which encrypt stored secrets and pepper API keys; the
    same for every process. `file:/PATH`: the key is in that file. `aws-kms:ARN`: a key of AWS KMS.
    `serve` on the embedded database makes one in its data folder."""
    previous_secret_keys: Annotated[
        tuple[SecretKey, ...], NoDecode, BeforeValidator(_split_commas)
    ] = ()
    """Other secret keys, comma-separated, that still decrypt the data keys."""
    trusted_proxies: Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_split_commas)] = ()
    """CIDRs of reverse proxies, comma-separated, whose header X-Forwarded-For is trusted."""
    allow_private_targets: Annotated[
        tuple[Network, ...], NoDecode, BeforeValidator(_split_commas)
    ] = ()
    """CIDRs, comma-separated, that tools may reach although they are private. The embedded
    default allows loopback."""
    allowed_ports: Ports = "80,443,1024-65535"
    """The ports that tools may be reached on."""
    retention_days: Annotated[DefaultRetentionDays, NoDecode, BeforeValidator(_parse_json)] = (
        DefaultRetentionDays()
    )
    """Number of days for which each class of data is kept in projects that choose nothing else:
    {"runs": 365, "events": 90, "tool_call_content": 30, "deliveries": 30, "audit": 730}. Without a
    class, its data is kept forever, and deliveries for 30 days. Null: forever."""
    retention_max_days: Annotated[RetentionDays, NoDecode, BeforeValidator(_parse_json)] = (
        RetentionDays()
    )
    """The largest number of days that a project can choose for each class, like RETENTION_DAYS. It
    also limits the default."""
    worker_concurrency: Annotated[int, Field(ge=1, le=10_000)] = 256
    """Runs that one worker carries at once."""
    worker_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """The port on which `worker` serves /livez, /readyz and /metrics, at HOST. Without it, a worker
    does not listen, so that several workers can run on one machine."""
    lease_seconds: Annotated[Seconds, Field(ge=timedelta(seconds=1))] = timedelta(seconds=30)
    """How long a worker that is not heard of keeps its runs, in seconds."""
    drain_seconds: Annotated[Seconds, Field(ge=timedelta(0))] = timedelta(seconds=25)
    """How long tool calls in flight may go on after SIGTERM, in seconds."""
    tool_timeout_seconds: ToolSeconds = timedelta(seconds=30)
    """For tools and runs that set no timeout of their own, in seconds."""
    max_body_bytes: Annotated[int, Field(ge=1024)] = 1_048_576
    """The largest request body, in bytes."""
    streams_per_key: Annotated[int, Field(ge=1)] = 20
    """Event streams that one API key may have open at once in one process."""
    database_connections: Annotated[int, Field(ge=4, le=200)] = 16
    """Connections of one process to PostgreSQL, besides one that listens and one for leases."""
    pgbouncer: bool = False
    """Whether DATABASE_URL leads through PgBouncer in transaction mode; see also LISTEN_URL."""
    listen_url: SecretStr | None = None
    """A direct address of the same database for LISTEN, where DATABASE_URL is PgBouncer's."""
    replica_url: SecretStr | None = None
    """Address of a standby of the same database, for reads that may lag."""
    plugins: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_commas)] = ()
    """Modules with tools in Python, comma-separated: `package.module` or `package.module:name`.
    Installed packages with an entry point in the group `runward.tools` are loaded anyway."""
    plugin_threads: Annotated[int, Field(ge=1, le=1000)] = 32
    """Calls of synchronous plugin tools that run at once in one process, and as many isolated
    ones."""
    mcp_commands: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_commas)] = ()
    """Commands that MCP servers may be started with, comma-separated, each as it is registered: a
    path or a name. Projects choose the arguments."""
    mcp_wait_seconds: Annotated[Seconds, Field(ge=timedelta(seconds=1))] = timedelta(seconds=300)
    """How long a tool call over /mcp waits for its run before it answers that the run goes on, in
    seconds."""
    log_level: LogLevel = "info"
    """debug, info, warning or error."""
    log_format: LogFormat = "auto"
    """json, text, or auto: text on a terminal."""
    model_prices: Annotated[
        dict[PricedModel, ModelPrice], NoDecode, BeforeValidator(_parse_json)
    ] = {}
    """What models cost, in US dollars per million tokens, where the built-in table does not know
    or is wrong: {"openai:NAME": {"input": 1.25, "output": 10, "cached_input": 0.125}}. A name may
    end in `*`."""
    openai_api_key: SecretStr | None = Field(None, validation_alias="OPENAI_API_KEY")
    """For models named `openai:…`."""
    openai_base_url: BaseUrl | None = Field(None, validation_alias="OPENAI_BASE_URL")
    """An OpenAI-compatible endpoint to use instead of OpenAI's, ending in /v1."""
    anthropic_api_key: SecretStr | None = Field(None, validation_alias="ANTHROPIC_API_KEY")
    """For models named `anthropic:…`."""
    anthropic_base_url: BaseUrl | None = Field(None, validation_alias="ANTHROPIC_BASE_URL")
    """An endpoint to use instead of Anthropic's, without /v1."""
    gemini_api_key: SecretStr | None = Field(
        None, validation_alias=AliasChoices("GEMINI_API_KEY", "GOOGLE_API_KEY")
    )
    """For models named `gemini:…`."""
    gemini_base_url: BaseUrl | None = Field(None, validation_alias="GEMINI_BASE_URL")
    """An endpoint to use instead of Google's, without /v1beta."""
    aws_region: str | None = Field(None, validation_alias="AWS_REGION")
    """Where models named `bedrock:…` are asked."""
    aws_access_key_id: str | None = Field(None, validation_alias="AWS_ACCESS_KEY_ID")
    """With `AWS_SECRET_ACCESS_KEY`, for models named `bedrock:…`."""
    aws_secret_access_key: SecretStr | None = Field(None, validation_alias="AWS_SECRET_ACCESS_KEY")
    """Belongs to `AWS_ACCESS_KEY_ID`."""
    aws_session_token: SecretStr | None = Field(None, validation_alias="AWS_SESSION_TOKEN")
    """Of a key pair that is only lent."""
    aws_bearer_token_bedrock: SecretStr | None = Field(
        None, validation_alias="AWS_BEARER_TOKEN_BEDROCK"
    )
    """For models named `bedrock:…`, instead of the key pair."""
    bedrock_base_url: BaseUrl | None = Field(None, validation_alias="BEDROCK_BASE_URL")
    """An endpoint to use instead of Amazon's of that region."""
    otel_exporter_otlp_endpoint: str | None = Field(
        None, validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT"
    )
    """Address of the OpenTelemetry collector that receives traces, as OTLP over HTTP."""
    otel_exporter_otlp_traces_endpoint: str | None = Field(
        None, validation_alias="OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
    )
    """The same for traces only, with the path."""
    otel_sdk_disabled: bool = Field(default=False, validation_alias="OTEL_SDK_DISABLED")
    """Whether no traces are exported."""
    otel_capture_content: CaptureContent = Field(
        "no_content", validation_alias="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    )
    """Whether spans contain messages, arguments and results: `span_only` or `no_content`."""

    @field_validator("public_url")
    @classmethod
    def _require_port(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and info.data.get("port") == 0:
            raise ValueError(
                "is required with RUNWARD_PORT=0, because callback URLs contain the port"
            )
        return value

    @property
    def exports_traces(self) -> bool:
        endpoint = self.otel_exporter_otlp_endpoint or self.otel_exporter_otlp_traces_endpoint
        return endpoint is not None and not self.otel_sdk_disabled

    def list_secret_keys(self) -> tuple[str, ...]:
        """Return the secret keys, the current one first. Requires `secret_key`."""
        assert self.secret_key is not None
        return tuple(
            key.get_secret_value() for key in (self.secret_key, *self.previous_secret_keys)
        )

    @property
    def base_url(self) -> str:
        """PUBLIC_URL, or else the address on this machine."""
        address = _parse_address(self.host)
        host = self.host
        if address is not None and address.is_unspecified:
            host = "127.0.0.1" if address.version == 4 else "::1"
        return self.public_url or f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """Patterns for `Host`: lower case, without ports or brackets."""
        ours = (self.host, urlsplit(self.base_url).hostname or "")
        return frozenset(
            one.strip("[]")
            for one in self.allowed_hosts or (*LOOPBACK_NAMES, *map(str.lower, ours))
        )


LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")


def find_unknown_variables(names: Iterable[str]) -> list[str]:
    """Return a line for each unknown variable with our prefix, with the nearest known one."""
    known = [field.upper() for field in Settings.model_fields]
    return [
        f"{name}: this variable does not exist" + _suggest_variable(name, known)
        for name in sorted(names)
        if name.startswith(PREFIX)
        and name.removeprefix(PREFIX) not in known
        and name not in _CLIENT_VARIABLES
        and not name.startswith(_PLUGIN_VARIABLES)
    ]


def _suggest_variable(name: str, known: list[str]) -> str:
    near = get_close_matches(name.removeprefix(PREFIX), known, n=1)
    return f"; did you mean {PREFIX}{near[0]}?" if near else ""
