"""MCP servers, as they are registered, changed and shown."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field

from runward.api.http.models import (
    EXAMPLE_TIME,
    MCP_SERVER_ID,
    ResponseModel,
    create_request_model,
    make_optional,
    with_example,
)
from runward.api.registry.tool_models import HIDDEN_VALUE, hide_header_values
from runward.domain.ids import Prefix, format_id
from runward.domain.registry.mcp_auth import Credentials, OAuth
from runward.domain.registry.mcp_servers import (
    McpServerSpec,
    ToolFilter,
    offered_tools,
)
from runward.domain.registry.tools import SecretRef
from runward.store.registry.mcp_servers import RegisteredServer

_SERVER_EXAMPLE: Final[dict[str, Any]] = {
    "name": "files",
    "url": "https://mcp.example.com/files",
    "tools": {"deny": ["delete_everything"]},
    "timeout_seconds": 20,
}

Headers = Annotated[dict[str, str | SecretRef], Field(max_length=32)]


class RegisterMcpServer(McpServerSpec):
    """A server of the Model Context Protocol: either `url` (streamable HTTP) or `command`."""

    model_config = with_example(
        **_SERVER_EXAMPLE,
        headers={"X-Api-Key": {"secret": "FILES_KEY"}},
    )

    headers: Headers = Field(default_factory=dict)
    """Sent with every request. A value is a string, which is stored encrypted and never shown
    again, or a reference to a secret of the project."""
    oauth: OAuth | None = None
    """How access tokens are fetched, which are then sent with every request."""

    def to_spec(self) -> McpServerSpec:
        given = self.model_fields_set & McpServerSpec.model_fields.keys()
        return McpServerSpec.model_construct(None, **{name: getattr(self, name) for name in given})

    def to_credentials(self) -> Credentials:
        return Credentials(self.headers, self.oauth)


class SkippedTool(ResponseModel):
    """A tool of the server that cannot be one here."""

    tool: str
    """What the server calls it."""
    reason: str
    """Why not."""


class McpOAuth(ResponseModel):
    """How access tokens are fetched. Values are hidden, references to secrets are not."""

    client_id: str
    """What the authorization server knows Runward by."""
    client_secret: str | SecretRef | None
    """The client's secret."""
    refresh_token: str | SecretRef | None
    """What access tokens are asked for with."""
    token_url: str | None
    """Where tokens are asked for; null: where the server says."""
    issuer: str | None
    """The only authorization server that is trusted; null: the one that the server names."""
    scope: str | None
    """What is asked for; null: what the server asks for."""
    token_endpoint_auth_method: str | None
    """How the client's secret is sent; null: as the authorization server likes it."""


class McpServer(ResponseModel):
    """A registered MCP server, as it is now. The values of headers are never shown again."""

    model_config = with_example(
        id=MCP_SERVER_ID,
        **_SERVER_EXAMPLE,
        command=None,
        args=[],
        headers={"X-Api-Key": {"secret": "FILES_KEY", "prefix": ""}},
        oauth=None,
        prefix=None,
        approval=None,
        tool_names=["files_read", "files_write"],
        skipped=[],
        version=1,
        listed_at=EXAMPLE_TIME,
        created_at=EXAMPLE_TIME,
        updated_at=EXAMPLE_TIME,
    )

    id: str
    """Unique everywhere."""
    object: Literal["mcp_server"] = "mcp_server"
    name: str
    """Unique in the project."""
    url: str | None
    """Where it is called."""
    command: str | None
    """What is started instead."""
    args: list[str]
    """The command's arguments."""
    headers: dict[str, str | SecretRef]
    """Sent with every request. Values are shown as `…`, references as they are."""
    oauth: McpOAuth | None
    """How access tokens are fetched."""
    tools: ToolFilter
    """Which of its tools are taken."""
    prefix: str | None
    """What the names of its tools begin with; null: its name."""
    approval: Any
    """Whether a person is asked before a call of its tools; null: as its annotations say."""
    timeout_seconds: float | None
    """For one call of its tools."""
    tool_names: list[str]
    """The tools that it makes, by their names in this project."""
    skipped: list[SkippedTool]
    """Those that it lists and that cannot be tools here."""
    version: int
    """Counts the changes of the registration, from 1."""
    listed_at: datetime
    """When its tools were listed last."""
    created_at: datetime
    """When it was registered."""
    updated_at: datetime
    """When this version was made."""

    @classmethod
    def from_row(cls, server: RegisteredServer, credentials: Credentials) -> Self:
        """Without validation: the server was validated before."""
        offered = offered_tools(server.spec, server.listed)
        fields = dict(server.spec) | {
            "args": list(server.spec.args),
            "headers": hide_header_values(credentials.headers),
            "oauth": None if credentials.oauth is None else _render_oauth(credentials.oauth),
            "tool_names": [spec.name for spec in offered.specs],
            "skipped": [SkippedTool.from_attributes(tool) for tool in offered.skipped],
        }
        return cls.model_construct(
            None,
            **fields,
            id=format_id(Prefix.MCP_SERVER, server.id),
            version=server.version,
            listed_at=server.listed_at,
            created_at=server.created_at,
            updated_at=server.updated_at,
        )


def _render_oauth(credentials: OAuth) -> McpOAuth:
    hidden = {
        name: _hide_value(getattr(credentials, name)) for name in ("client_secret", "refresh_token")
    }
    return McpOAuth.model_construct(None, **{**dict(credentials), **hidden})


def _hide_value(value: str | SecretRef | None) -> str | SecretRef | None:
    return HIDDEN_VALUE if isinstance(value, str) else value


_ServerPatchFields = create_request_model(
    "_Optional", make_optional(RegisterMcpServer, without={"name"})
)


class PatchMcpServer(_ServerPatchFields):
    """What to change; a field that is given replaces the old value whole. `headers` and
    `oauth` must be given again with another `url`, unless they hold references alone."""

    def apply_to(self, spec: McpServerSpec) -> McpServerSpec:
        given = self.model_fields_set & McpServerSpec.model_fields.keys()
        return spec.model_copy(update={name: getattr(self, name) for name in given})
