"""Every environment variable, with its unit and default. Read by `wiring` and the commands only;
`docs/deploying.md` lists the same."""

from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_core import from_json
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

Network = IPv4Network | IPv6Network


def _comma_separated(value: Any) -> Any:
    return (
        [part.strip() for part in value.split(",") if part.strip()]
        if isinstance(value, str)
        else value
    )


def _parsed_json(value: Any) -> Any:
    return from_json(value) if isinstance(value, str) else value


def _seconds(value: Any) -> Any:
    return timedelta(seconds=float(value)) if isinstance(value, str | int | float) else value


Seconds = Annotated[timedelta, BeforeValidator(_seconds)]


UsdPerMillion = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
PricedModel = Annotated[str, Field(pattern=r"^[a-z-]+:.+$")]


class ModelPrice(BaseModel):
    """US dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: UsdPerMillion
    output: UsdPerMillion
    cached_input: UsdPerMillion | None = None


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="RUNWARD_",
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
        env_ignore_empty=True,
        populate_by_name=True,
    )

    database_url: SecretStr | None = Field(None, validation_alias=AliasChoices("DATABASE_URL"))
    """PostgreSQL 15 or newer. Without it, `serve` starts the embedded one."""
    data_dir: Path | None = None
    """Where the embedded PostgreSQL keeps its data. `.runward`; as root `/var/lib/runward`."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """The port to listen on."""
    public_url: str | None = None
    """Where tools reach this API: callback URLs begin with it. http://HOST:PORT."""
    bootstrap_key: Annotated[SecretStr, Field(min_length=32)] | None = None
    """An API key of 32 characters or more with every scope, for the project `default`."""
    secret_key: Annotated[SecretStr, Field(min_length=32)] | None = None
    """Encrypts stored secrets and peppers API keys; the same for every process. `serve` on the
    embedded database makes one in its data folder."""
    allow_private_targets: Annotated[
        tuple[Network, ...], NoDecode, BeforeValidator(_comma_separated)
    ] = ()
    """CIDRs, comma-separated, that tools may reach although they are private. The embedded
    default allows loopback."""
    allowed_ports: str = "80,443,1024-65535"
    """The ports that tools may be reached on."""
    worker_concurrency: Annotated[int, Field(ge=1, le=10_000)] = 256
    """Runs that one worker carries at once."""
    lease_seconds: Annotated[Seconds, Field(ge=timedelta(seconds=1))] = timedelta(seconds=30)
    """How long a worker that is not heard of keeps its runs, in seconds."""
    drain_seconds: Seconds = timedelta(seconds=25)
    """How long tool calls in flight may go on after SIGTERM, in seconds."""
    tool_timeout_seconds: Seconds = timedelta(seconds=30)
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
    plugins: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_comma_separated)] = ()
    """Modules with tools in Python, comma-separated: `package.module` or `package.module:name`.
    Installed packages with an entry point in the group `runward.tools` are loaded anyway."""
    plugin_threads: Annotated[int, Field(ge=1, le=1000)] = 32
    """Calls of synchronous plugin tools that run at once in one process, and as many isolated
    ones."""
    mcp_commands: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_comma_separated)] = ()
    """Commands that MCP servers may be started with, comma-separated, each as it is registered: a
    path or a name. Projects choose the arguments."""
    mcp_wait_seconds: Annotated[Seconds, Field(ge=timedelta(seconds=1))] = timedelta(seconds=300)
    """How long a tool call over /mcp waits for its run before it answers that the run goes on, in
    seconds."""
    log_level: str = "info"
    """debug, info, warning or error."""
    log_format: str = "auto"
    """json, text, or auto: text on a terminal."""
    model_prices: Annotated[
        dict[PricedModel, ModelPrice], NoDecode, BeforeValidator(_parsed_json)
    ] = {}
    """What models cost, in US dollars per million tokens, where the built-in table does not know
    or is wrong: {"openai:NAME": {"input": 1.25, "output": 10, "cached_input": 0.125}}. A name may
    end in `*`."""
    openai_api_key: SecretStr | None = Field(None, validation_alias=AliasChoices("OPENAI_API_KEY"))
    """For models named `openai:…`."""
    openai_base_url: str | None = Field(None, validation_alias=AliasChoices("OPENAI_BASE_URL"))
    """An OpenAI-compatible endpoint to use instead of OpenAI's, ending in /v1."""
    anthropic_api_key: SecretStr | None = Field(
        None, validation_alias=AliasChoices("ANTHROPIC_API_KEY")
    )
    """For models named `anthropic:…`."""
    anthropic_base_url: str | None = Field(
        None, validation_alias=AliasChoices("ANTHROPIC_BASE_URL")
    )
    """An endpoint to use instead of Anthropic's, without /v1."""
    gemini_api_key: SecretStr | None = Field(
        None, validation_alias=AliasChoices("GEMINI_API_KEY", "GOOGLE_API_KEY")
    )
    """For models named `gemini:…`."""
    gemini_base_url: str | None = Field(None, validation_alias=AliasChoices("GEMINI_BASE_URL"))
    """An endpoint to use instead of Google's, without /v1beta."""
    aws_region: str | None = Field(None, validation_alias=AliasChoices("AWS_REGION"))
    """Where models named `bedrock:…` are asked."""
    aws_access_key_id: str | None = Field(None, validation_alias=AliasChoices("AWS_ACCESS_KEY_ID"))
    """With `AWS_SECRET_ACCESS_KEY`, for models named `bedrock:…`."""
    aws_secret_access_key: SecretStr | None = Field(
        None, validation_alias=AliasChoices("AWS_SECRET_ACCESS_KEY")
    )
    """Belongs to `AWS_ACCESS_KEY_ID`."""
    aws_session_token: SecretStr | None = Field(
        None, validation_alias=AliasChoices("AWS_SESSION_TOKEN")
    )
    """Of a key pair that is only lent."""
    aws_bearer_token_bedrock: SecretStr | None = Field(
        None, validation_alias=AliasChoices("AWS_BEARER_TOKEN_BEDROCK")
    )
    """For models named `bedrock:…`, instead of the key pair."""
    bedrock_base_url: str | None = Field(None, validation_alias=AliasChoices("BEDROCK_BASE_URL"))
    """An endpoint to use instead of Amazon's of that region."""
