"""The check of the credentials for an MCP server, at registration and before each use, because the
values of secrets can change."""

from typing import Final

from runward.domain.errors import FieldError, McpUnreachableError
from runward.domain.registry.mcp_auth import ResolvedCredentials, oauth_problems
from runward.domain.registry.mcp_servers import McpServerSpec
from runward.tools.webhook.headers import check_headers

_RESERVED_PREFIX: Final = "mcp-"
_RESERVED: Final = frozenset({"accept", "last-event-id"})


def credential_problems(credentials: ResolvedCredentials) -> list[FieldError]:
    """Return the problems of the credentials. Never quotes a value."""
    errors: list[FieldError] = []
    errors += check_headers(credentials.headers)
    for name in credentials.headers:
        path = f"headers.{name[:128]}"
        if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIX):
            errors.append(FieldError(path, "belongs to the protocol"))
        if name.lower() == "authorization" and credentials.oauth is not None:
            errors.append(FieldError(path, "is what oauth is for"))
    return errors + ([] if credentials.oauth is None else oauth_problems(credentials.oauth))


def ensure_valid_credentials(spec: McpServerSpec, credentials: ResolvedCredentials) -> None:
    """Check the credentials of a registered server, because the values of its secrets may have
    changed. Raises McpUnreachableError."""
    if problems := credential_problems(credentials):
        raise McpUnreachableError(f"MCP server '{spec.name}': {' '.join(problems[0])}.")
