"""Outbound HTTP: where it may go, and what it says of answers that are late, cut off or absent."""

import asyncio
import gzip
import ipaddress
import socket
import ssl
import threading
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from runward.egress.addresses import TargetError, parse_ports, reserved_purpose
from runward.egress.client import Egress
from runward.egress.responses import (
    MAX_MEMBERS,
    EgressOutcome,
    EgressResponse,
    MissingAnswer,
    NoAnswer,
)
from tests.unit.raw_server import Line, RawServer, answer, keeping_alive, saying

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
LIMIT = 10_000


def zipped(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)  # test names must not change from run to run


@pytest.fixture
async def egress() -> AsyncGenerator[Egress]:
    async with aclosing(Egress(allow_private=LOOPBACK)) as egress:
        yield egress


async def post(
    egress: Egress, url: str, *, seconds: float = 5.0, limit: int = LIMIT, body: bytes = b"{}"
) -> EgressOutcome:
    return await egress.send("POST", url, {}, body, seconds=seconds, max_response_bytes=limit)


async def missed(egress: Egress, url: str, *, seconds: float = 5.0) -> NoAnswer:
    outcome = await post(egress, url, seconds=seconds)
    assert isinstance(outcome, NoAnswer)
    return outcome


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """DNS: what a name resolves to."""
    known: dict[str, list[str]] = {}
    real: Callable[..., Any] = socket.getaddrinfo

    def lookup(host: str, port: int, *options: Any) -> list[Any]:
        found = [real(address, port, *options)[0] for address in known.get(host, ())]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return found

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return known


@asynccontextmanager
async def deaf(address: str, port: int) -> AsyncGenerator[None]:
    """Nobody accepts connections at the address, and no more of them are queued."""
    with closing(socket.create_server((address, port), backlog=0)) as listening:
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        try:
            yield
        finally:
            for one in waiting:
                one.close()


# Where it may go.


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1"),
        *("127.255.255.254", "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255"),
        *("192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1"),
        *("203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254"),
        *("::ffff:8.8.8.8", "::ffff:0:127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b::8.8.8.8"),
        *("64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::1", "2002:a9fe:a9fe::"),
        *("3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1"),
    ],
)
def test_a_special_address_is_refused(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(TargetError, match="is not public"):
        Egress().check_url(f"https://{host}/")
    assert reserved_purpose(ipaddress.ip_address(address)) is not None


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1"),
        *("192.0.1.1", "198.17.255.255", "198.20.0.1", "223.255.255.255"),
        *("2606:4700:4700::1111", "2a00:1450:4001::1", "2001:4860:4860::8888"),
    ],
)
def test_a_public_address_is_allowed(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    Egress().check_url(f"https://{host}/")
    assert reserved_purpose(ipaddress.ip_address(address)) is None


@given(st.ip_addresses(v=6))
def test_no_ipv6_address_outside_the_public_block_is_allowed(address: Any) -> None:
    if int(address) >> 125 != 1:
        assert reserved_purpose(address) is not None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://example.com/", "http:// or https://"),
        ("file:///etc/passwd", "http:// or https://"),
        ("example.com/tool", "http:// or https://"),
        ("https://user:pass@example.com/", "credentials in a header"),
        ("https://example.com@127.0.0.1/", "credentials in a header"),
        ("https://example.com/#part", "fragment"),
        ("https:///tool", "DNS name or an IP address"),
        ("https://exa mple.com/", "must be escaped"),
        ("https://example.com\\@127.0.0.1/", "must be escaped"),
        ("https://example.com/\r\nX: y", "must be escaped"),
        ("https://bücher.example/", "Punycode"),
        ("https://\uff11\uff12\uff17.0.0.1/", "Punycode"),
        ("https://example.com:0/", "between 1 and 65535"),
        ("https://example.com:65536/", "between 1 and 65535"),
        ("https://example.com:22/", "port 22 is not allowed"),
        ("https://8.8.8.8:25/", "port 25 is not allowed"),
        ("https://example.com:x/", "host or port"),
        ("https://2130706433/", "four numbers"),
        ("https://0x7f000001/", "four numbers"),
        ("https://0177.0.0.1/", "four numbers"),
        ("https://127.1/", "four numbers"),
        ("https://127.0.0.1./", "four numbers"),
        ("https://[fe80::1%25eth0]/", "without a zone"),
        ("https://[127.0.0.1]/", "IPv6 address"),
        ("https://-a.example/", "DNS name"),
        ("https://a..example/", "DNS name"),
        (f"https://{'a' * 64}.example/", "DNS name"),
        (f"https://example.com/{'a' * 2048}", "longer than"),
    ],
)
def test_a_url_that_is_not_plain_is_refused_and_says_why(url: str, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        Egress().check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        *("https://example.com", "http://example.com:8080/a?b=c&d=%20", "https://a_b.example./x"),
        *("https://xn--bcher-kva.example/", "https://EXAMPLE.com:443/", "https://3com.example/"),
    ],
)
def test_a_plain_url_is_allowed(url: str) -> None:
    Egress().check_url(url)


def test_an_opened_network_may_be_reached_on_any_port_and_nothing_else() -> None:
    egress = Egress(allow_private=(ipaddress.ip_network("10.1.0.0/16"),))
    egress.check_url("http://10.1.2.3:22/")
    for url in ("http://10.2.0.1/", "http://[::ffff:10.1.2.3]/", "http://8.8.8.8:22/"):
        with pytest.raises(TargetError):
            egress.check_url(url)


def test_ports_are_read_as_numbers_and_ranges() -> None:
    assert parse_ports("80, 443,1024-65535") == (
        range(80, 81),
        range(443, 444),
        range(1024, 65_536),
    )
    for bad in ("0", "70000", "90-80", "x", "1-2-3"):
        with pytest.raises(ValueError, match=r"'|invalid"):
            parse_ports(bad)


async def test_registration_asks_dns_and_refuses_a_name_that_leads_inside(
    names: dict[str, list[str]],
) -> None:
    names["public.example"] = ["8.8.8.8", "2606:4700::1"]
    names["mixed.example"] = ["8.8.8.8", "10.0.0.1"]
    async with aclosing(Egress()) as egress:
        await egress.check_target("https://public.example/")
        await egress.check_target("https://not-yet.example/")
        with pytest.raises(TargetError, match=r"10\.0\.0\.1 is not public"):
            await egress.check_target("https://mixed.example/")


async def test_a_name_is_checked_again_at_every_send(names: dict[str, list[str]]) -> None:
    """DNS rebinding: public when it was registered, inside when it is called."""
    names["rebound.example"] = ["8.8.8.8"]
    async with RawServer(keeping_alive()) as server, aclosing(Egress()) as egress:
        await egress.check_target(f"http://rebound.example:{server.port}/")
        names["rebound.example"] = ["127.0.0.1"]
        outcome = await missed(egress, f"http://rebound.example:{server.port}/")
    assert outcome.missing is MissingAnswer.NOT_SENT
    assert outcome.permanent
    assert "127.0.0.1 is not public (loopback)" in outcome.detail
    assert server.connections == 0


async def test_one_refused_address_among_several_refuses_the_name(
    egress: Egress, names: dict[str, list[str]]
) -> None:
    names["mixed.example"] = ["127.0.0.1", "169.254.169.254"]
    async with RawServer(keeping_alive()) as server:
        outcome = await missed(egress, f"http://mixed.example:{server.port}/")
    assert outcome.permanent
    assert server.connections == 0


async def test_the_checked_address_is_connected_to_under_the_tools_name(
    egress: Egress, names: dict[str, list[str]]
) -> None:
    names["tool.example"] = ["127.0.0.1"]
    async with RawServer(keeping_alive()) as server:
        url = f"http://tool.example:{server.port}/a?b=%20c"
        assert isinstance(await post(egress, url), EgressResponse)
    assert server.requests[0].startswith(b"POST /a?b=%20c HTTP/1.1\r\n")
    assert f"Host: tool.example:{server.port}\r\n".encode() in server.requests[0]


async def test_a_pooled_connection_is_not_used_for_another_name(
    egress: Egress, names: dict[str, list[str]]
) -> None:
    names["one.example"] = names["two.example"] = ["127.0.0.1"]
    async with RawServer(keeping_alive()) as server:
        for name in ("one", "two", "one"):
            await post(egress, f"http://{name}.example:{server.port}/")
    assert server.connections == 2


# TLS.


def certificate_for(name: str, folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context with a certificate for `name`, and a client's that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    file.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cafile=str(file))


async def test_the_certificate_must_be_for_the_name_in_the_url(
    names: dict[str, list[str]], tmp_path: Path
) -> None:
    names["tool.example"] = names["other.example"] = ["127.0.0.1"]
    server_tls, client_tls = certificate_for("tool.example", tmp_path)
    trusting = Egress(allow_private=LOOPBACK, tls=client_tls)
    async with (
        RawServer(keeping_alive(), tls=server_tls) as server,
        aclosing(trusting),
        aclosing(Egress(allow_private=LOOPBACK)) as doubting,
    ):
        good = await post(trusting, f"https://tool.example:{server.port}/")
        bad = await missed(trusting, f"https://other.example:{server.port}/")
        untrusted = await missed(doubting, f"https://tool.example:{server.port}/")
    assert isinstance(good, EgressResponse)
    assert bad.missing is MissingAnswer.NOT_SENT
    assert "certificate" in bad.detail
    assert untrusted.missing is MissingAnswer.NOT_SENT
    assert len(server.requests) == 1


async def test_a_handshake_that_hangs_times_out_unsent(egress: Egress) -> None:
    async with RawServer(Line.closed) as server:
        url = f"https://127.0.0.1:{server.port}/"
        outcome = await missed(egress, url, seconds=0.2)
    assert outcome.missing is MissingAnswer.TIMEOUT
    assert not outcome.sent


# What comes back.


async def test_an_answer_has_status_body_and_a_few_headers(egress: Egress) -> None:
    raw = answer(b'{"a":1}', "429 Slow", "Retry-After: 7", "Set-Cookie: s=1", "X-Secret: y")
    async with RawServer(saying(raw)) as server:
        outcome = await post(egress, server.url)
    assert outcome == EgressResponse(
        429, {"content-type": "application/json", "retry-after": "7"}, b'{"a":1}'
    )


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"", "nothing"),
        (b"HTTP/1.1 200 OK\r\n", "half a head"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly the beg", "too short a body"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "no last chunk"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n", "a bad chunk"),
        (b"hello\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", "a long header"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 500 + b"\r\n", "many headers"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", "two lengths"),
    ],
)
async def test_an_incomplete_answer_is_never_taken_for_one(
    egress: Egress, raw: bytes, what: str
) -> None:
    async with RawServer(saying(raw)) as server:
        outcome = await missed(egress, server.url)
    assert outcome.missing is MissingAnswer.INCOMPLETE, what
    assert outcome.sent
    assert len(server.requests) == 1


@pytest.mark.parametrize("rest", [b"zz\r\nhello\r\n", b"f" * 100_000, b"5\r\nhelloXX"])
async def test_a_body_that_breaks_after_its_headers_is_incomplete_at_once(
    egress: Egress, rest: bytes
) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(10):
            await asyncio.sleep(0)  # until the client has read the headers
        await line.say(rest)
        await line.closed()

    async with RawServer(script) as server:
        outcome = await missed(egress, server.url)
    assert (outcome.missing, outcome.sent) == (MissingAnswer.INCOMPLETE, True)


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nSet-Cookie: s3cret\r\n",
        b"HTTP/1.1 200 OK\r\nX: 1\r\nnonsense s3cret\r\n\r\n",
        b"HTTP/1.1 abc s3cret\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"s3cret" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: \0s3cret\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzs3cret\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: s3cret\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ns3cret",
    ],
)
async def test_the_detail_of_a_broken_answer_repeats_nothing_of_it(
    egress: Egress, raw: bytes
) -> None:
    async with RawServer(saying(raw)) as server:
        outcome = await missed(egress, f"{server.url}?token=s3cret")
    assert outcome.detail.startswith("The connection ended before a complete response arrived: ")
    assert "s3cret" not in outcome.detail


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
async def test_a_reset_after_the_request_leaves_the_outcome_open(
    egress: Egress, said: bytes
) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.say(said)
        line.reset()

    async with RawServer(script) as server:
        outcome = await missed(egress, server.url)
    assert (outcome.missing, outcome.sent) == (MissingAnswer.INCOMPLETE, True)
    assert server.connections == 1


async def test_a_refused_connection_is_surely_not_sent(egress: Egress) -> None:
    async with RawServer(keeping_alive()) as server:
        url = server.url
    outcome = await missed(egress, url)
    assert (outcome.missing, outcome.sent, outcome.permanent) == (
        MissingAnswer.NOT_SENT,
        False,
        False,
    )


async def test_a_name_that_does_not_resolve_is_surely_not_sent(
    egress: Egress, names: dict[str, list[str]]
) -> None:
    outcome = await missed(egress, "https://nowhere.example/")
    assert (outcome.missing, outcome.permanent) == (MissingAnswer.NOT_SENT, False)
    assert names == {}


async def test_time_covers_a_body_that_drips(egress: Egress) -> None:
    async def drip(line: Line) -> None:
        await line.request()
        await line.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            await line.say(b".")
            await asyncio.sleep(0.01)  # the drip itself, not a wait for something

    async with RawServer(drip) as server:
        begun = asyncio.get_running_loop().time()
        outcome = await missed(egress, server.url, seconds=0.2)
        took = asyncio.get_running_loop().time() - begun
    assert (outcome.missing, outcome.sent) == (MissingAnswer.TIMEOUT, True)
    assert took < 1


async def test_a_cancelled_request_ends_its_connection(egress: Egress) -> None:
    arrived, ended = asyncio.Event(), asyncio.Event()

    async def script(line: Line) -> None:
        await line.request()
        arrived.set()
        await line.closed()
        ended.set()

    async with RawServer(script) as server:
        task = asyncio.create_task(post(egress, server.url))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(ended.wait(), 5)


async def test_a_body_over_the_limit_is_cut_and_the_connection_ended(egress: Egress) -> None:
    ended = asyncio.Event()

    async def endless(line: Line) -> None:
        await line.request()
        await line.say(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                await line.say(b"x" * 65_536)
        finally:
            ended.set()

    async with RawServer(endless) as server:
        outcome = await post(egress, server.url, limit=1000)
        await asyncio.wait_for(ended.wait(), 5)
    assert outcome == EgressResponse(200, {}, b"x" * 1000, truncated=True)


@pytest.mark.parametrize(
    ("encoding", "body", "expected"),
    [
        ("gzip", zipped(b"plain"), (b"plain", False, None)),
        ("deflate", zlib.compress(b"plain"), (b"plain", False, None)),
        ("gzip", zipped(b"x" * LIMIT), (b"x" * LIMIT, False, None)),
        ("gzip", zipped(b"\0" * 5_000_000), (b"\0" * LIMIT, True, None)),
        ("gzip", zipped(b"plain") + zipped(b" and more"), (b"plain and more", False, None)),
        ("gzip", zipped(b"plain") + bytes(512), (b"plain", False, None)),
        ("gzip", zipped(b"x" * LIMIT) + zipped(b"x"), (b"x" * LIMIT, True, None)),
        ("gzip", zipped(b"plain") + b"more", (b"", False, "gzip")),
        ("gzip", zipped(b"plain") + b"\0more", (b"", False, "gzip")),
        ("gzip", zipped(b"plain") + zipped(b"cut off")[:-9], (b"", False, "gzip")),
        ("gzip", zipped(b"") * (MAX_MEMBERS + 1), (b"", True, "gzip")),
        ("deflate", zlib.compress(b"plain") * 2, (b"", False, "deflate")),
        ("gzip", zipped(b"plain")[:-9], (b"", False, "gzip")),
        ("gzip", b"not gzip", (b"", False, "gzip")),
        ("br", b"whatever", (b"", False, "br")),
        ("gzip, gzip", zipped(b"plain"), (b"", False, "gzip, gzip")),
        ("identity", b"plain", (b"plain", False, None)),
    ],
)
async def test_a_compressed_body_is_inflated_within_the_limit(
    egress: Egress, encoding: str, body: bytes, expected: tuple[bytes, bool, str | None]
) -> None:
    async with RawServer(saying(answer(body, "200 OK", f"Content-Encoding: {encoding}"))) as server:
        outcome = await post(egress, server.url)
    assert isinstance(outcome, EgressResponse)
    assert (outcome.body, outcome.truncated, outcome.encoding) == expected
    assert b"Accept-Encoding: identity\r\n" in server.requests[0]


async def test_an_address_that_does_not_answer_leaves_time_for_the_next_one(
    egress: Egress, names: dict[str, list[str]]
) -> None:
    async with RawServer(saying(answer(b"1"))) as server, deaf("127.0.0.2", server.port):
        names["many.test"] = ["127.0.0.2", "127.0.0.1"]
        timeout = httpx2.Timeout(5.0, connect=0.8)
        async with httpx2.AsyncClient(transport=egress.transport(), timeout=timeout) as client:
            response = await client.post(f"http://many.test:{server.port}/", content=b"{}")
    assert response.content == b"1"


async def test_an_address_that_does_not_answer_is_no_connection(
    egress: Egress, names: dict[str, list[str]]
) -> None:
    async with RawServer() as server, deaf("127.0.0.2", server.port):
        names["silent.test"] = ["127.0.0.2"]
        timeout = httpx2.Timeout(5.0, connect=0.1)
        async with httpx2.AsyncClient(transport=egress.transport(), timeout=timeout) as client:
            with pytest.raises(httpx2.ConnectTimeout):
                await client.get(f"http://silent.test:{server.port}/")


async def test_redirects_are_not_followed_and_cookies_not_kept(egress: Egress) -> None:
    async with RawServer(keeping_alive()) as inside:
        moved = answer(b"", "307 There", f"Location: {inside.url}", "Set-Cookie: a=b; Path=/")
        async with RawServer(saying(moved)) as server:
            first = await post(egress, server.url)
            await post(egress, server.url)
    assert isinstance(first, EgressResponse)
    assert (first.status, first.headers["location"]) == (307, inside.url)
    assert inside.connections == 0
    assert b"cookie" not in server.requests[1].lower()


async def test_proxies_of_the_environment_are_ignored(
    egress: Egress, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with RawServer(keeping_alive()) as proxy, RawServer(keeping_alive()) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert isinstance(await post(egress, server.url), EgressResponse)
    assert proxy.connections == 0


async def test_an_interim_answer_is_passed_over(egress: Egress) -> None:
    async with RawServer(saying(b"HTTP/1.1 103 Early Hints\r\n\r\n" + answer(b"1"))) as server:
        outcome = await post(egress, server.url)
    assert isinstance(outcome, EgressResponse)
    assert (outcome.status, outcome.body) == (200, b"1")


# Connections that were used before.


async def test_a_connection_is_used_again(egress: Egress) -> None:
    async with RawServer(keeping_alive()) as server:
        for _ in range(3):
            assert isinstance(await post(egress, server.url), EgressResponse)
    assert (server.connections, len(server.requests)) == (1, 3)


async def test_a_request_over_an_open_connection_takes_one_timer_and_no_task(
    egress: Egress, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, used = asyncio.get_running_loop(), list[str]()
    async with RawServer(keeping_alive()) as server:
        await post(egress, server.url)
        for name in ("call_at", "create_task"):
            real: Callable[..., Any] = getattr(loop, name)

            def count(*given: Any, _name: str = name, _real: Any = real, **named: Any) -> Any:
                used.append(_name)
                return _real(*given, **named)

            monkeypatch.setattr(loop, name, count)
        await post(egress, server.url)
        monkeypatch.undo()
    assert (used, server.connections) == (["call_at"], 1)


async def test_a_request_whose_kept_connection_ends_is_not_sent_again(egress: Egress) -> None:
    """The server takes the second request and hangs up: perhaps it did the work."""

    async def hang_up_on_the_second(line: Line) -> None:
        await line.request()
        await line.say(answer())
        await line.request()

    async with RawServer(hang_up_on_the_second, keeping_alive()) as server:
        assert isinstance(await post(egress, server.url), EgressResponse)
        outcome = await missed(egress, server.url)
        assert (outcome.missing, outcome.sent) == (MissingAnswer.INCOMPLETE, True)
        assert (server.connections, len(server.requests)) == (1, 2)
        assert isinstance(await post(egress, server.url), EgressResponse)


@pytest.mark.parametrize("method", ["POST", "GET", "PUT"])
async def test_no_method_is_repeated_by_the_library(egress: Egress, method: str) -> None:
    async def hang_up_on_the_second(line: Line) -> None:
        await line.request()
        await line.say(answer())
        await line.request()

    async with RawServer(hang_up_on_the_second, keeping_alive()) as server:
        for expected in (EgressResponse, NoAnswer):
            outcome = await egress.send(
                method, server.url, {}, b"{}", seconds=5, max_response_bytes=LIMIT
            )
            assert isinstance(outcome, expected)
    assert len(server.requests) == 2


class Threaded:
    """A server outside the event loop, so that the loop has not noticed what it does: it answers
    one request on each connection, says `after`, and perhaps hangs up."""

    def __init__(self, after: bytes, *, hang_up: bool) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self.requests = 0
        self._after, self._hang_up = after, hang_up
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            data = b""
            while not data.endswith(b"{}"):
                data += connection.recv(65_536)
            self.requests += 1
            self._open.append(connection)
            connection.sendall(answer(b"1"))

    def misbehave(self) -> None:
        """On every connection there is; returns when it is in the client's socket."""
        for connection in self._open:
            if self._after:
                connection.sendall(self._after)
            if self._hang_up:
                connection.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            connection.close()
        self._thread.join(5)


@pytest.mark.parametrize(
    ("after", "hang_up"),
    [(b"", True), (answer(b"2", "408 Request Timeout"), False), (answer(b"2"), True)],
)
@pytest.mark.parametrize("noticed", [True, False])
async def test_a_spent_connection_is_not_used_again(
    egress: Egress, after: bytes, *, hang_up: bool, noticed: bool
) -> None:
    """Closed by the server, or bearing an answer to no question, whether or not the event loop
    has read that already. The second request goes out once, on a connection of its own."""
    server = Threaded(after, hang_up=hang_up)
    try:
        first = await post(egress, server.url)
        server.misbehave()
        if noticed:
            for _ in range(20):
                await asyncio.sleep(0)
        second = await post(egress, server.url)
    finally:
        server.close()
    assert isinstance(first, EgressResponse)
    assert isinstance(second, EgressResponse)
    assert (first.body, second.body, second.status) == (b"1", b"1", 200)
    assert server.requests == 2


async def test_a_name_that_is_not_answered_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = threading.Event()
    real: Callable[..., Any] = socket.getaddrinfo

    def lookup(host: str, *rest: Any, **named: Any) -> Any:
        if host == "silent.example":
            answered.wait(20)
        return real("127.0.0.1", *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)

    async def send(egress: Egress, url: str) -> Any:
        return await egress.send("POST", url, {}, b"", seconds=10, max_response_bytes=10)

    egress = Egress()
    waiting = [asyncio.create_task(send(egress, "http://silent.example/")) for _ in range(200)]
    checks = [
        asyncio.create_task(egress.check_target("http://silent.example/")) for _ in range(200)
    ]
    await asyncio.sleep(0)
    found = await send(egress, "http://other.example/")
    answered.set()
    assert "not public" in found.detail
    assert all("not public" in one.detail for one in await asyncio.gather(*waiting))
    assert all(
        "not public" in str(one) for one in await asyncio.gather(*checks, return_exceptions=True)
    )
    await egress.aclose()
