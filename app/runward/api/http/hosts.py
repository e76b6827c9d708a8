"""Refuses requests whose `Host` this deployment does not have, such as those of a foreign name
that resolves to this machine (DNS rebinding)."""

import re
from collections.abc import Set
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from runward.domain.errors import BadRequestError

PROBE_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked by address, and the same for everyone."""

_BRACKETED: Final = re.compile(r"\[[^\]]*\]")


class AllowedHosts:
    """`patterns`: names in lower case without ports; `*.example.com` covers subdomains, and `*`
    every name."""

    def __init__(self, app: ASGIApp, patterns: Set[str]) -> None:
        self.app = app
        self._patterns = patterns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises BadRequestError."""
        if scope["type"] == "http" and scope["path"] not in PROBE_PATHS:
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            if len(hosts) != 1 or not self._allows(normalize_host(hosts[0].decode("latin-1"))):
                raise BadRequestError(
                    "The Host of this request is not a name of this service. If it should be, "
                    "add it to RUNWARD_ALLOWED_HOSTS."
                )
        await self.app(scope, receive, send)

    def _allows(self, host: str) -> bool:
        if host in self._patterns or "*" in self._patterns:
            return True
        parents = host.split(".")[1:]
        return any(
            f"*.{'.'.join(parents[at:])}" in self._patterns for at in range(min(len(parents), 32))
        )


def normalize_host(host: str) -> str:
    """Without port, brackets and the root's dot, in lower case."""
    name = host[1:].partition("]")[0] if _BRACKETED.match(host) else host.partition(":")[0]
    return name.lower().removesuffix(".")
