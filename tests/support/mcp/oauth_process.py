"""A real MCP server that lets in whom an authorization server has given a token for it, made with
the SDK's resource server: `PORT AUTHORIZATION-SERVER`."""

import socket
import sys

import httpx2
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import AnyHttpUrl

from tests.support.services.client import NO_TLS


class Introspection:
    """RFC 7662."""

    def __init__(self, issuer: str) -> None:
        self._http = httpx2.AsyncClient(base_url=issuer, trust_env=False, verify=NO_TLS)

    async def verify_token(self, token: str) -> AccessToken | None:
        said = (await self._http.post("/introspect", data={"token": token})).json()
        if not said["active"]:
            return None
        scope: str = said["scope"] or ""
        return AccessToken(
            token=token,
            client_id=said["client_id"],
            scopes=scope.split(),
            resource=said["resource"],
        )


def build(port: int, issuer: str) -> MCPServer:
    server = MCPServer(
        "protected",
        token_verifier=Introspection(issuer),
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(issuer),
            resource_server_url=AnyHttpUrl(f"http://127.0.0.1:{port}/mcp"),
            required_scopes=None,
            validate_token_resource=True,
        ),
    )

    async def whoami() -> dict[str, str]:
        """Say whom the token was given to."""
        token = get_access_token()
        assert token is not None
        return {"client": token.client_id, "scope": " ".join(token.scopes), "token": token.token}

    server.add_tool(whoami, annotations=ToolAnnotations(read_only_hint=True))
    return server


def main() -> None:
    port, issuer = int(sys.argv[1]), sys.argv[2]
    listening = socket.create_server(("127.0.0.1", port))
    print("listening", flush=True)
    config = uvicorn.Config(build(port, issuer).streamable_http_app(), log_level="warning")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
