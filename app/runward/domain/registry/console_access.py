"""The console's session cookie: its name, and the requests that it authenticates.

A browser sends the cookie with every request to this origin, also from other pages. Three measures
exclude requests from other pages: `SameSite=Strict` (RFC 6265bis); `Sec-Fetch-Site` (W3C Fetch
Metadata), which scripts cannot set; and, for writes, a header that other pages can send only after
a CORS preflight, which Runward never allows.
"""

from collections.abc import Mapping
from typing import Final

from runward.domain.errors import ForbiddenError

COOKIE: Final = "runward"
HTTPS_COOKIE: Final = "__Host-runward"
"""Browsers accept this name only over https, for this exact host and all its paths."""
CSRF_HEADER: Final = "X-Runward-CSRF"
MAX_TOKEN_CHARS: Final = 128

_READS: Final = frozenset({"GET", "HEAD"})


def session_token(headers: Mapping[str, str], public_url: str) -> str | None:
    """Return the session's token. If the deployment's public URL is https, the cookie without the
    `__Host-` prefix is ignored, because another host of the domain could have set it."""
    cookies = _cookies(headers.get("cookie", ""))
    token = cookies.get(HTTPS_COOKIE)
    if token is None and not public_url.startswith("https:"):
        token = cookies.get(COOKIE)
    return token if token and len(token) <= MAX_TOKEN_CHARS else None


def ensure_same_origin(method: str, headers: Mapping[str, str]) -> None:
    """Check that the request comes from the console's own page. Browsers send Sec-Fetch-Site over
    https. Over http, they send it only to this machine. Raises ForbiddenError."""
    if headers.get("sec-fetch-site") != "same-origin":
        raise ForbiddenError(
            "Runward accepts a console session only in requests of the console's page, over https "
            "or from this machine (header `Sec-Fetch-Site: same-origin`). Programs must send an "
            "API key in the header `Authorization: Bearer rw_…`."
        )
    if method not in _READS and not headers.get(CSRF_HEADER.lower()):
        raise ForbiddenError(
            f"A console request that changes data must contain the header `{CSRF_HEADER}`."
        )


def _cookies(header: str) -> dict[str, str]:
    """Return the cookies. If a name occurs several times, the first one counts: browsers send the
    one with the longest path first."""
    found: dict[str, str] = {}
    for pair in header.split(";"):
        name, _, value = pair.strip().partition("=")
        found.setdefault(name, value)
    return found
