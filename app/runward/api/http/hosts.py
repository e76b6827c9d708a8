"""The names in `Host` that this service accepts."""

import re
from collections.abc import Set
from typing import Final

from starlette.types import Scope

from runward.domain.errors import BadRequestError

PROBE_PATHS: Final = frozenset({"/livez", "/readyz", "/metrics"})
"""Paths that are accepted for every `Host`, because probes request them by IP address."""

_BRACKETED: Final = re.compile(r"\[[^\]]*\]")


class AllowedHosts:
    """Rejects requests for other hosts. `patterns`: names in lower case without ports.
    `*.example.com` matches subdomains, and `*` matches every name."""

    def __init__(self, patterns: Set[str]) -> None:
        self._patterns = patterns

    def check(self, scope: Scope) -> None:
        """Check the host of a request. Raises BadRequestError."""
        if scope["path"] in PROBE_PATHS:
            return
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not self.allows(normalize_host(hosts[0].decode("latin-1"))):
            raise BadRequestError(
                "The `Host` header of this request does not name this service. "
                "To allow this host, add the host to RUNWARD_ALLOWED_HOSTS."
            )

    def allows(self, host: str) -> bool:
        if host in self._patterns or "*" in self._patterns:
            return True
        parents = host.split(".")[1:]
        return any(
            f"*.{'.'.join(parents[at:])}" in self._patterns for at in range(min(len(parents), 32))
        )


def normalize_host(host: str) -> str:
    """Return the host in lower case, without port, brackets and trailing dot."""
    name = host[1:].partition("]")[0] if _BRACKETED.match(host) else host.partition(":")[0]
    return name.lower().removesuffix(".")
