"""The addresses that Runward may connect to. The list is explicit, because `ipaddress.is_global`
accepts metadata addresses embedded in NAT64, `::127.0.0.1`, multicast and a cloud's own services.

IPv6 is allowed only inside 2000::/3, the only block that is assigned as public. This excludes
mapped, compatible, NAT64, link-local, unique-local, multicast and unspecified addresses. IPv4 has
no such block, so its list is the registry of special-purpose addresses.
"""

import re
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

DEFAULT_PORTS: Final = "80,443,1024-65535"

_REFUSED: Final[tuple[tuple[str, str], ...]] = (
    ("0.0.0.0/8", "this host"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "carrier-grade NAT"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "a cloud's own service"),
    ("169.254.0.0/16", "link-local, where clouds keep their metadata"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "AS112"),
    ("192.52.193.0/24", "AMT"),
    ("192.88.99.0/24", "6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "AS112"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("2001::/23", "protocol assignments, Teredo among them"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("2620:4f:8000::/48", "AS112"),
    ("3fff::/20", "documentation"),
)
_TABLE: Final = tuple((ip_network(network), what) for network, what in _REFUSED)
_PUBLIC_V6: Final = IPv6Network("2000::/3")


@dataclass(frozen=True, slots=True)
class AddressRules:
    """The operator's rules. `allow_private`: private networks that are allowed, with all their
    ports."""

    allow_private: tuple[Network, ...]
    allowed_ports: tuple[range, ...]

    def refusal(self, address: Address, port: int) -> str | None:
        """Return the reason why Runward must not connect to `address`, or None if it may."""
        if self.is_allowed_private(address):
            return None
        special = reserved_purpose(address)
        if special is not None:
            return f"the address {address} is not public ({special})"
        return self.port_refusal(port)

    def port_refusal(self, port: int) -> str | None:
        if any(port in ports for ports in self.allowed_ports):
            return None
        shown = ", ".join(
            str(ports[0]) if len(ports) == 1 else f"{ports[0]}-{ports[-1]}"
            for ports in self.allowed_ports
            if ports
        )
        return f"port {port} is not allowed (allowed: {shown})"

    def is_allowed_private(self, address: Address) -> bool:
        return any(_contains(network, address) for network in self.allow_private)


def reserved_purpose(address: Address) -> str | None:
    """Return the purpose of a special address, or None for a public one."""
    if isinstance(address, IPv6Address) and address not in _PUBLIC_V6:
        return "outside the public IPv6 range"
    for network, what in _TABLE:
        if _contains(network, address):
            return what
    return None


def parse_ports(text: str) -> tuple[range, ...]:
    """Return the port ranges in a text like `80,443,1024-65535`. Raises ValueError."""
    ports: list[range] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.partition("-")
        ports.append(range(int(first), int(last if dash else first) + 1))
        if not ports[-1] or not 1 <= ports[-1][0] <= ports[-1][-1] <= 65_535:
            raise ValueError(f"'{part}' is not a port or a range of ports")
    return tuple(ports)


def parse_address(text: str) -> Address | None:
    """Return the address in the usual notation, without a zone. Returns None for any other text."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _contains(network: Network, address: Address) -> bool:
    return network.version == address.version and address in network


MAX_URL: Final = 2048

_ALLOWED: Final = re.compile(r"[!#-;=?-\[\]_a-z~%]+")
r"""The characters of RFC 3986: no spaces, controls, quotes, `<>\^`{|}` or non-ASCII characters."""
_URL: Final = re.compile(r"(https?)://([^/?#]*)([/?#].*)?", re.IGNORECASE)
_NAME: Final = re.compile(
    r"(?!.{254})(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*"
    r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.?",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\.?", re.IGNORECASE)
"""A last label that makes some resolvers read the whole host as an IPv4 address."""


class TargetError(ValueError):
    """Raised if Runward must not call a URL. The message contains the reason and advice."""


@dataclass(frozen=True, slots=True)
class Target:
    url: str
    host: str
    port: int
    address: Address | None
    """The address, if the host is an address. None: the host is a name."""
    tls: bool
    path: str
    """The path and the query, as the URL contains them."""


def parse_target(url: str, rules: AddressRules) -> Target:
    """Return the target of a URL, without network access. The addresses of a name are checked when
    they are known. Raises TargetError."""
    if len(url) > MAX_URL:
        raise TargetError(f"The URL is longer than {MAX_URL} characters.")
    if not _ALLOWED.fullmatch(url):
        raise TargetError(
            "The URL contains a character that must be escaped: a space, a control "
            "character, a quote, a backslash or a non-ASCII character. Write host "
            "names in Punycode, and escape other characters as %XX."
        )
    parts = _URL.fullmatch(url)
    if parts is None:
        raise TargetError("The URL must begin with http:// or https://.")
    tls, netloc, path = parts[1].lower() == "https", parts[2], parts[3] or ""
    if "@" in netloc:
        raise TargetError(
            "The URL must not contain a user name or password. Send credentials in a header."
        )
    if "#" in url:
        raise TargetError(
            "The URL must not contain a fragment (#…), because a fragment is never sent."
        )
    host, port = _host_and_port(netloc)
    path = path if path.startswith("/") else f"/{path}"
    target = Target(url, host, port or (443 if tls else 80), _address(host), tls, path)
    if target.address is not None:
        refusal = rules.refusal(target.address, target.port)
    else:
        # A name may lead to a network that the operator allows, in which any port is allowed.
        refusal = None if rules.allow_private else rules.port_refusal(target.port)
    if refusal is not None:
        raise TargetError(refused_target(target, refusal))
    return target


def refused_target(target: Target, refusal: str) -> str:
    return (
        f"Runward must not call {target.host}:{target.port}: {refusal}. The "
        "operator can allow it with RUNWARD_ALLOW_PRIVATE_TARGETS or "
        "RUNWARD_ALLOWED_PORTS."
    )


def _host_and_port(netloc: str) -> tuple[str, int | None]:
    match = re.fullmatch(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::([0-9]{1,5}))?", netloc)
    if match is None:
        raise TargetError(
            "The host or port of the URL is not valid. Write host, host:port or "
            "[IPv6 address]:port."
        )
    host, digits = match.groups()
    port = int(digits) if digits else None
    if port is not None and not 1 <= port <= 65_535:
        raise TargetError("The port of the URL must be between 1 and 65535.")
    return host, port


def _address(host: str) -> Address | None:
    """Return the address of a host, or None for a name. Raises TargetError for anything else."""
    if host.startswith("["):
        address = parse_address(host[1:-1]) if "%" not in host else None
        if address is None or address.version != 6:
            raise TargetError(
                "The host of the URL in brackets must be an IPv6 address without a zone."
            )
        return address
    address = parse_address(host)
    if address is not None:
        return address
    if not host or not _NAME.fullmatch(host):
        raise TargetError("The host of the URL must be a DNS name or an IP address.")
    if _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        raise TargetError(
            "The host of the URL looks like an IP address. Write an IP address as four numbers "
            "(a.b.c.d)."
        )
    return None
