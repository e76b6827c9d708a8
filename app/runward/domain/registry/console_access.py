"""The console's session cookie: how it is called, and for which requests it counts.

A browser sends it with every request to this origin, whoever made the page that asks. Three things
keep other pages out: `SameSite=Strict` (RFC 6265bis); `Sec-Fetch-Site` (W3C Fetch Metadata), which
no script can set; and for writes a header that a page elsewhere could send only after a CORS
preflight, which is never granted.
"""

from collections.abc import Mapping
from typing import Final

from runward.domain.errors import ForbiddenError

COOKIE: Final = "runward"
HTTPS_COOKIE: Final = "__Host-runward"
"""Browsers take this name only from https, for this very host and all its paths."""
CSRF_HEADER: Final = "X-Runward-CSRF"
MAX_TOKEN_CHARS: Final = 128

_READS: Final = frozenset({"GET", "HEAD"})


def session_token(headers: Mapping[str, str], public_url: str) -> str | None:
    """The session's token. Where the installation says that its address is https, the plain name
    is not looked at: another host of the domain could have set it."""
    cookies = _cookies(headers.get("cookie", ""))
    token = cookies.get(HTTPS_COOKIE)
    if token is None and not public_url.startswith("https:"):
        token = cookies.get(COOKIE)
    return token if token and len(token) <= MAX_TOKEN_CHARS else None


def ensure_same_origin(method: str, headers: Mapping[str, str]) -> None:
    """Raises ForbiddenError. Browsers send Sec-Fetch-Site over https, and to this machine itself
    over http too; never over http to another one."""
    if headers.get("sec-fetch-site") != "same-origin":
        raise ForbiddenError(
            "A console session counts only for what the console's own page asks, over https or on"
            " this machine itself (the header Sec-Fetch-Site: same-origin). Programs send"
            " Authorization: Bearer."
        )
    if method not in _READS and not headers.get(CSRF_HEADER.lower()):
        raise ForbiddenError(f"The console's writes bear the header {CSRF_HEADER}.")


def _cookies(header: str) -> dict[str, str]:
    """The first of each name: browsers send the one with the longest path first."""
    found: dict[str, str] = {}
    for pair in header.split(";"):
        name, _, value = pair.strip().partition("=")
        found.setdefault(name, value)
    return found
