"""An authorization server on loopback, and a real MCP server (the SDK's own resource server) that
lets in whom it has given a token."""

import base64
import hashlib
import secrets
import threading
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlencode

from aiohttp import web

from tests.support.services.client import Json
from tests.support.services.forks import ForkedServer
from tests.support.services.service import free_port
from tests.support.serving import Hold, Server

CLIENT = "runward"
SECRET = "s3cret/of the:client"


class AuthServer(Server):
    """Its attributes may be changed while it runs. `asked`: the forms that it got, with the
    credentials of the client among them."""

    def __init__(self) -> None:
        super().__init__()
        self.clients = {CLIENT: SECRET}
        self.refresh_tokens: set[str] = set()
        self.rotates = True
        self.gives_refresh_tokens = True
        self.issuer: str | None = None
        """The `iss` with which a person is sent back, instead of its own."""
        self.registered: list[Json] = []
        self._codes: dict[str, dict[str, str]] = {}
        self.expires_in: int | None = 3600
        self.metadata: Json = {}
        """Over what it says of itself."""
        self.answer: tuple[int, Json, dict[str, str]] | None = None
        """Instead of a token: status, body, headers."""
        self.hold: Hold | None = None
        """Where requests for a token wait before they are answered."""
        self.asked: list[Json] = []
        self.paths: list[str] = []
        self.used_twice: list[str] = []
        self._used: set[str] = set()
        self._active: dict[str, Json] = {}
        self._lock = threading.Lock()

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._noted])
        app.router.add_get("/.well-known/oauth-authorization-server", self._about)
        app.router.add_get("/authorize", self._authorize)
        app.router.add_post("/register", self._register)
        app.router.add_post("/token", self._token)
        app.router.add_post("/introspect", self._introspect)
        return app

    def new_refresh_token(self) -> str:
        token = secrets.token_urlsafe(16)
        self.refresh_tokens.add(token)
        return token

    def revoke_access_tokens(self) -> None:
        """What it has given out is worth nothing from now on."""
        with self._lock:
            self._active.clear()

    @web.middleware
    async def _noted(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.paths.append(request.path)
        return await handler(request)

    async def _about(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.url,
                "token_endpoint": f"{self.url}/token",
                "authorization_endpoint": f"{self.url}/authorize",
                "registration_endpoint": f"{self.url}/register",
                "code_challenge_methods_supported": ["S256"],
                "grant_types_supported": ["client_credentials", "refresh_token"],
                **self.metadata,
            }
        )

    async def _register(self, request: web.Request) -> web.Response:
        about: Json = await request.json()
        self.registered.append(about)
        self.clients["registered"] = ""
        return web.json_response({"client_id": "registered"}, status=201)

    async def _authorize(self, request: web.Request) -> web.Response:
        """The person agrees at once."""
        query = dict(request.query)
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        back = urlencode({"code": code, "state": query["state"], "iss": self.issuer or self.url})
        raise web.HTTPFound(f"{query['redirect_uri']}?{back}")

    def _exchanged(self, form: Json) -> Json | None:
        asked = self._codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or asked["code_challenge"] != challenge:
            return None
        return {"refresh_token": self.new_refresh_token()} if self.gives_refresh_tokens else {}

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        if (basic := request.headers.get("Authorization", "")).startswith("Basic "):
            pair = base64.b64decode(basic.removeprefix("Basic ")).decode().split(":")
            form |= dict(zip(("client_id", "client_secret"), map(unquote, pair), strict=True))
            form["by"] = "basic"
        if self.hold is not None:
            await self.hold.reach()
        with self._lock:
            self.asked.append(form)
            if self.answer is not None:
                status, body, headers = self.answer
                return web.json_response(body, status=status, headers=headers)
            if self.clients.get(form["client_id"], "") != form.get("client_secret", ""):
                said = f"{form.get('client_secret')} is wrong"
                refusal = {"error": "invalid_client", "error_description": said}
                return web.json_response(refusal, status=401)
            if (given := self._granted(form)) is None:
                return web.json_response({"error": "invalid_grant"}, status=400)
            token = secrets.token_urlsafe(16)
            self._active[token] = form
            if self.expires_in is not None:
                given["expires_in"] = self.expires_in
            return web.json_response({"access_token": token, "token_type": "bearer", **given})

    def _granted(self, form: Json) -> Json | None:
        match form["grant_type"]:
            case "authorization_code":
                return self._exchanged(form)
            case "refresh_token":
                return self._refreshed(form["refresh_token"])
            case _:
                return {}

    def _refreshed(self, former: str) -> Json | None:
        if former not in self.refresh_tokens:
            if former in self._used:
                self.used_twice.append(former)
            return None
        if not self.rotates:
            return {}
        self.refresh_tokens.remove(former)
        self._used.add(former)
        return {"refresh_token": self.new_refresh_token()}

    async def _introspect(self, request: web.Request) -> web.Response:
        token = str((await request.post())["token"])
        with self._lock:
            form = self._active.get(token)
        if form is None:
            return web.json_response({"active": False})
        about = {name: form.get(name) for name in ("client_id", "scope", "resource")}
        return web.json_response({"active": True, **about})


class ProtectedServer:
    """`tests.support.mcp.oauth_process`, an MCP server that asks `auth` whose a token is."""

    def __init__(self, auth: AuthServer) -> None:
        self._port = free_port()
        self._auth = auth
        self._process: ForkedServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/mcp"

    def __enter__(self) -> Self:
        module = "tests.support.mcp.oauth_process"
        self._process = ForkedServer(module, str(self._port), self._auth.url)
        assert self._process.first_line == "listening\n"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.close()
