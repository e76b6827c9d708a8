"""The address that the API listens on."""

import os
import socket

from runward.domain.errors import OperatorError


class ListenError(OperatorError):
    """This process cannot listen on the configured address."""


def check_address(host: str, port: int) -> None:
    """Check that the address is free, on every IP address of the host's name. Raises
    ListenError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
                probe.listen()
    except (OSError, UnicodeError) as error:
        raise ListenError(
            f"Runward cannot listen on host {host}, port {port}: "
            f"{_describe_error(error)}. Set RUNWARD_HOST or RUNWARD_PORT to a "
            "different value, such as RUNWARD_PORT=8090."
        ) from error


def _describe_error(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno or 0)
    return getattr(error, "strerror", None) or "the host name is not valid"
