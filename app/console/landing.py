"""The page at `/`: what this is and where to go. No script, nothing fetched, no absolute URL."""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Response

_STYLE: Final = files("app.console").joinpath("landing.css").read_text("utf-8")
_PAGE: Final = (
    files("app.console").joinpath("landing.html").read_text("utf-8").replace("{{style}}", _STYLE)
)
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; "
        f"style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
    ),
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
}


def router() -> APIRouter:
    routes = APIRouter(redirect_slashes=False)

    @routes.get("/", include_in_schema=False)
    async def landing() -> Response:  # pyright: ignore[reportUnusedFunction]
        return Response(_PAGE, 200, _HEADERS, "text/html; charset=utf-8")

    return routes
