"""The console's files: one page, its styles and its modules. The files in `static/` are served
unchanged and without a build step. They use no other origins and no absolute addresses. Only the
page is extended with a list of the modules, so that browsers load all modules at once."""

from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.routing import Route

from runward.domain.not_found import NotFoundError

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
    "Referrer-Policy": "no-referrer",
    # Browsers revalidate each file, so that all modules have the same version.
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    media_type: str
    etag: str

    def respond(self, request: Request) -> Response:
        headers = HEADERS | {"ETag": self.etag}
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(None, 304, headers)
        return Response(self.content, 200, headers, self.media_type)


def router() -> APIRouter:
    found = _load_files()

    async def console(request: Request) -> Response:
        return found["index.html"].respond(request)

    async def console_file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in found:
            raise NotFoundError
        return found[name].respond(request)

    return APIRouter(routes=[Route("/", console), Route("/console/{name}", console_file)])


def _load_files() -> dict[str, StaticFile]:
    found: dict[str, StaticFile] = {}
    folder = files("runward.console").joinpath("static")
    names = sorted(one.name for one in folder.iterdir())
    for one in folder.iterdir():
        media_type = _TYPES.get(one.name.rpartition(".")[2])
        if media_type is not None:
            content = one.read_bytes()
            if one.name == "index.html":
                content = _add_preloads(content, [name for name in names if name.endswith(".js")])
            # A weak ETag, because the compressed file has the same ETag.
            etag = f'W/"{sha256(content).hexdigest()[:32]}"'
            found[one.name] = StaticFile(content, media_type, etag)
    return found


def _add_preloads(page: bytes, modules: list[str]) -> bytes:
    """Add preload links for the modules. Without these links, a browser discovers each module only
    when another module imports it."""
    links = "".join(f'<link rel="modulepreload" href="console/{name}">\n' for name in modules)
    return page.replace(b"</head>", links.encode() + b"</head>")
