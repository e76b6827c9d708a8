"""The address that the API listens on is checked before anything slow."""

import socket

import pytest

from runward.api.http.address import ListenError, check_address


def test_a_free_port_is_left_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    check_address("127.0.0.1", port)
    check_address("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("no.such.host.invalid", "Name or service not known"),
        ("x" * 70, "the host name is not valid"),
        ("192.0.2.1", "Cannot assign requested address"),
    ],
)
def test_a_host_that_is_not_this_machine_s_is_named(host: str, reason: str) -> None:
    with pytest.raises(ListenError, match="RUNWARD_HOST") as refused:
        check_address(host, 8080)
    assert f"{host}, port 8080: {reason}" in str(refused.value)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"port {port}: Address already in use"):
            check_address("127.0.0.1", port)
