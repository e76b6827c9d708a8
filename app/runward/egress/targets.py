"""Strict parsing of the URLs that Runward is asked to call.

A URL in an unusual form is refused instead of interpreted: two parsers that read one URL
differently can be used to bypass a check of addresses. The text is passed on unchanged, so it must
have the same meaning for the HTTP client.
"""

import re
from dataclasses import dataclass
from typing import Final

from runward.egress.addresses import Address, AddressPolicy, parse_address

MAX_URL: Final = 2048

_ALLOWED: Final = re.compile(r"[!#-;=?-\[\]_a-z~%]+")
r"""The characters of RFC 3986: no spaces, controls, quotes, `<>\^`{|}` or non-ASCII characters."""
_URL: Final = re.compile(r"(https?)://([^/?#]*)(?:[/?#].*)?", re.IGNORECASE)
_NAME: Final = re.compile(
    r"(?!.{254})(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*"
    r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.?",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\.?", re.IGNORECASE)
"""A last label for which some resolvers read the whole host as an IPv4 address."""


class TargetError(ValueError):
    """The URL must not be called. The message tells why, and what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    url: str
    host: str
    port: int
    address: Address | None
    """The address, if the host is one."""


def parse_target(url: str, policy: AddressPolicy) -> Target:
    """Parse a URL without network access. A name's addresses are checked when they are known.
    Raises TargetError."""
    if len(url) > MAX_URL:
        raise TargetError(f"The URL is longer than {MAX_URL} characters.")
    if not _ALLOWED.fullmatch(url):
        raise TargetError(
            "The URL contains a character that must be escaped: a space, a control character, a "
            "quote, a backslash or one outside ASCII. Write names in punycode, the rest as %XX."
        )
    parts = _URL.fullmatch(url)
    if parts is None:
        raise TargetError("The URL must begin with http:// or https://.")
    scheme, netloc = parts[1].lower(), parts[2]
    if "@" in netloc:
        raise TargetError(
            "The URL must not contain a user or password; send credentials as a header."
        )
    if "#" in url:
        raise TargetError("The URL must not contain a fragment (#…); it would not be sent.")
    host, port = _host_and_port(netloc)
    target = Target(url, host, port or (443 if scheme == "https" else 80), _address(host))
    if target.address is not None:
        refusal = policy.refusal(target.address, target.port)
    else:
        # In a network that the operator allows, any port is allowed. The name may lead there.
        refusal = None if policy.allow_private else policy.port_refusal(target.port)
    if refusal is not None:
        raise TargetError(refused_target(target, refusal))
    return target


def refused_target(target: Target, refusal: str) -> str:
    return (
        f"{target.host}:{target.port} may not be called: {refusal}. An operator can allow it "
        "with RUNWARD_ALLOW_PRIVATE_TARGETS or RUNWARD_ALLOWED_PORTS."
    )


def _host_and_port(netloc: str) -> tuple[str, int | None]:
    match = re.fullmatch(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::([0-9]{1,5}))?", netloc)
    if match is None:
        raise TargetError(
            "The URL's host or port is not valid; write host, host:port or [v6]:port."
        )
    host, digits = match.groups()
    port = int(digits) if digits else None
    if port is not None and not 1 <= port <= 65_535:
        raise TargetError("The URL's port must be between 1 and 65535.")
    return host, port


def _address(host: str) -> Address | None:
    """Return the address of a host, or None for a name. Raises TargetError for anything else."""
    if host.startswith("["):
        address = parse_address(host[1:-1]) if "%" not in host else None
        if address is None or address.version != 6:
            raise TargetError("The URL's host in brackets must be an IPv6 address without a zone.")
        return address
    address = parse_address(host)
    if address is not None:
        return address
    if not host or not _NAME.fullmatch(host):
        raise TargetError("The URL's host must be a DNS name or an IP address.")
    if _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        raise TargetError(
            "The URL's host looks like an address; write it as four numbers, a.b.c.d."
        )
    return None
