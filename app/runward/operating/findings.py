"""What `doctor` finds in the settings alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Final, Literal

from runward.egress.addresses import Network, parse_ports
from runward.quickstart.banner import configured_providers
from runward.settings import Settings
from runward.tools.plugin.context import PluginError
from runward.tools.plugin.loader import load_plugins
from runward.tools.plugin.registry import PluginHost

Status = Literal["ok", "warn", "fail"]

METADATA_ADDRESSES: Final = tuple(
    ip_address(one) for one in ("169.254.169.254", "168.63.129.16", "fd00:ec2::254")
)
"""Where clouds hand out a machine's credentials."""
MIN_PREFIX_LENGTHS: Final = {4: 8, 6: 32}
"""A network with a shorter prefix is more than somebody's own."""
WEB_PORTS: Final = frozenset({80, 443})
SYSTEM_PORTS: Final = range(1, 1024)
LOOPBACK: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


@dataclass(frozen=True, slots=True)
class Finding:
    """`remedy`: what to do; empty where all is well."""

    check: str
    status: Status
    detail: str
    remedy: str = ""


def check_settings(settings: Settings) -> Iterator[Finding]:
    yield _check_ports(settings)
    yield _check_targets(settings)
    yield _check_models(settings)
    yield from _check_plugins(settings)


def check_secret_key(settings: Settings) -> Finding:
    """As it is given. Whether it is the right one, the database knows."""
    if settings.secret_key is None:
        return Finding(
            "secret key",
            "fail",
            "RUNWARD_SECRET_KEY is missing",
            "Set the same 32 characters or more for every process. If this database is in use, "
            "it must be the former one; otherwise make one: openssl rand -hex 32",
        )
    if len(set(settings.secret_key.get_secret_value())) < 10:
        return Finding(
            "secret key",
            "warn",
            "RUNWARD_SECRET_KEY has few different characters, so it can be guessed",
            "Before anything is stored with it, make a random one: openssl rand -hex 32",
        )
    return Finding("secret key", "ok", "RUNWARD_SECRET_KEY is set")


def _check_ports(settings: Settings) -> Finding:
    try:
        ports = parse_ports(settings.allowed_ports)
    except ValueError as error:
        return Finding(
            "ports", "fail", f"RUNWARD_ALLOWED_PORTS: {error}", "Write it as 80,443,1024-65535"
        )
    if not ports:
        return Finding(
            "ports", "fail", "RUNWARD_ALLOWED_PORTS allows none", "Write it as 80,443,1024-65535"
        )
    others = {port for one in ports for port in one if port in SYSTEM_PORTS} - WEB_PORTS
    if others:
        shown = ", ".join(str(port) for port in sorted(others)[:5])
        return Finding(
            "ports",
            "warn",
            f"tools may be reached at ports of other services: {shown}"
            + (" …" if len(others) > 5 else ""),
            "Leave out of RUNWARD_ALLOWED_PORTS what no tool listens on.",
        )
    return Finding("ports", "ok", f"tools may be reached at {settings.allowed_ports}")


def _check_targets(settings: Settings) -> Finding:
    opened = settings.allow_private_targets
    if not opened:
        where = "public addresses"
        if settings.database_url is None:
            where += " and this machine's own, which is the embedded database's default"
        return Finding("targets", "ok", f"tools may be at {where}")
    shown = ", ".join(str(network) for network in opened)
    if bad := [network for network in opened if _is_dangerous(network)]:
        return Finding(
            "targets",
            "fail",
            f"RUNWARD_ALLOW_PRIVATE_TARGETS opens {', '.join(map(str, bad))}, and with it the "
            "addresses where clouds hand out credentials, to whoever may register a tool",
            "Name only the networks that tools are in, such as 10.20.0.0/16.",
        )
    if wide := [one for one in opened if one.prefixlen < MIN_PREFIX_LENGTHS[one.version]]:
        return Finding(
            "targets",
            "warn",
            f"RUNWARD_ALLOW_PRIVATE_TARGETS opens more than a private network: {wide[0]}",
            "Name only the networks that tools are in, such as 10.20.0.0/16.",
        )
    own = settings.database_url is not None and any(one in LOOPBACK for one in opened)
    note = ": any port of this machine too" if own else ""
    return Finding("targets", "ok", f"tools may also be in {shown}{note}")


def _is_dangerous(network: Network) -> bool:
    return any(one.version == network.version and one in network for one in METADATA_ADDRESSES)


def _check_plugins(settings: Settings) -> Iterator[Finding]:
    """Loads them, as a worker does at its start."""
    try:
        plugins = load_plugins(settings.plugins)
    except PluginError as error:
        yield Finding("plugins", "fail", str(error), "A worker stops with this at its start.")
        return
    if names := sorted(spec.name for spec in PluginHost(plugins, threads=1, secrets={}).specs):
        yield Finding("plugins", "ok", f"loaded: {', '.join(names)}")


def _check_models(settings: Settings) -> Finding:
    pair = (settings.aws_access_key_id, settings.aws_secret_access_key)
    if (pair[0] is None) != (pair[1] is None):
        return Finding(
            "models",
            "fail",
            "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set",
            "Set both, or AWS_BEARER_TOKEN_BEDROCK.",
        )
    bedrock = pair[0] is not None or settings.aws_bearer_token_bedrock is not None
    if bedrock and settings.aws_region is None:
        return Finding(
            "models",
            "fail",
            "there is a key for Amazon Bedrock and no AWS_REGION",
            "Set AWS_REGION, such as eu-central-1.",
        )
    names = [name for name in configured_providers(settings) if name != "openai-responses"]
    if not names:
        return Finding(
            "models",
            "warn",
            "no vendor's key is set: only offline:rules answers, and projects' own keys",
            "Set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or those of Amazon Bedrock.",
        )
    return Finding("models", "ok", f"there are settings for {', '.join(names)}; none was asked")
