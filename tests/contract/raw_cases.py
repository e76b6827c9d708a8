"""Requests as bytes: invalid HTTP, and forms that a proxy and a server may read differently.
`{key}` stands for a valid key, `{run}` for a run's ID.
"""

# ruff: noqa: E501  # lists of short texts

from collections.abc import Iterator
from dataclasses import dataclass

REFUSED = frozenset({400})
FOUND = frozenset({200})
MISSING = frozenset({404})
INVALID = frozenset({422})
METHOD = frozenset({405})
BODY = '{"model":"offline:rules","input":"hi"}'


@dataclass(frozen=True)
class Raw:
    """`statuses`: what it may be answered with. `silent`: or with the end of the connection.
    `half`: the client stops sending. `answers`: how many requests are answered."""

    name: str
    data: str
    statuses: frozenset[int] = REFUSED
    silent: bool = False
    half: bool = False
    answers: int = 1


def get(target: str = "/v1/runs", *lines: str, version: str = "HTTP/1.1") -> str:
    return head("GET", target, *lines, version=version)


def head(method: str, target: str, *lines: str, version: str = "HTTP/1.1") -> str:
    first = (f"{method} {target} {version}", "Host: localhost", "Connection: close")
    return "\r\n".join((*first, "Authorization: Bearer {key}", *lines, "", ""))


def post(*lines: str, body: str = "") -> str:
    return head("POST", "/v1/runs", "Content-Type: application/json", *lines) + body


def chunked(body: str, *lines: str) -> str:
    return post("Transfer-Encoding: chunked", *lines, body=body)


def cases() -> Iterator[Raw]:
    yield from framing()
    yield from lines()
    yield from targets()
    yield from methods()
    yield from hosts()
    yield from headers()
    yield from bodies()
    yield from pipelines()
    yield from ids()


def framing() -> Iterator[Raw]:
    """Shapes of request smuggling (RFC 9112, 6 and 11.2)."""
    size = f"Content-Length: {len(BODY)}"
    chunk = f"{len(BODY):x}\r\n{BODY}\r\n0\r\n\r\n"
    yield Raw("a length before chunks", chunked(chunk, size))
    yield Raw("a length after chunks", post(size, "Transfer-Encoding: chunked", body=chunk))
    yield Raw("two equal lengths", post(size, size, body=BODY))
    yield Raw("two lengths", post(size, "Content-Length: 3", body=BODY))
    for value in (f"{len(BODY)}, {len(BODY)}", f"+{len(BODY)}", f"0x{len(BODY):x}", "-1", "1e1"):
        yield Raw(f"a length of {value}", post(f"Content-Length: {value}", body=BODY))
    yield Raw("a length of nothing", post("Content-Length:", body=BODY))
    yield Raw("a length beyond 64 bits", post(f"Content-Length: {2**64}", body=BODY))
    yield Raw("a length of full-width digits", post("Content-Length: \uff13", body=BODY))
    for value in (
        "xchunked", "chunked, identity", "identity, chunked", "gzip, chunked", "chunked, chunked",
        "identity", "\x0bchunked", "chunked;q=1", '"chunked"', "",
    ):  # fmt: skip
        coding = f"Transfer-Encoding: {value}"
        yield Raw(f"a coding of {value!r}", post(coding, body=chunk))
    twice = ("Transfer-Encoding: identity", "Transfer-Encoding: chunked")
    yield Raw("two codings", post(*twice, body=chunk))
    yield Raw("two codings, the other way", post(*reversed(twice), body=chunk))
    yield Raw("a space before the colon", post("Transfer-Encoding : chunked", body=chunk))
    yield Raw("a folded coding", post("Transfer-Encoding:\r\n chunked", body=chunk))
    yield Raw("a coding after a bare CR", post("X-A: b\rTransfer-Encoding: chunked", body=chunk))
    yield Raw("a coding after a bare LF", post("X-A: b\nTransfer-Encoding: chunked", body=chunk))
    for value in ("-1", "0x2", "+2", "2 ", "g", "", "1" * 17, "2;a=\x00", "2\t"):
        yield Raw(f"a chunk of {value!r}", chunked(f"{value}\r\n{{}}\r\n0\r\n\r\n"))
    yield Raw("a chunk that is longer", chunked("2\r\n{}x\r\n0\r\n\r\n"))
    yield Raw("chunks with bare LF", chunked("2\n{}\n0\n\n"))
    yield Raw("a trailer of no header", chunked("2\r\n{}\r\n0\r\nnonsense\r\n\r\n"))
    trailer = chunked(f"{len(BODY):x}\r\n{BODY}\r\n0\r\nContent-Type: text/plain\r\n\r\n")
    yield Raw("a type in a trailer", trailer, frozenset({202}))
    yield Raw(
        "a chunk with an extension", chunked(chunk.replace("\r\n", ";a=b\r\n", 1)), frozenset({202})
    )
    yield Raw("no body in HTTP/1.0", head("POST", "/v1/runs", version="HTTP/1.0"), INVALID)


def lines() -> Iterator[Raw]:
    """The request line, and the form of header lines."""
    for version in (
        "HTTP/0.9",
        "HTTP/1.2",
        "HTTP/2.0",
        "HTTP/3",
        "HTTP/1.",
        "http/1.1",
        "HTTP/11",
        "",
    ):
        yield Raw(f"the version {version!r}", get(version=version))
    yield Raw("two spaces", get().replace("GET ", "GET  "), FOUND | REFUSED)
    yield Raw("a tab", get().replace("GET ", "GET\t"))
    yield Raw("a space in the target", get("/v1/ runs"))
    yield Raw("a line of two targets", get("/v1/runs /v1/tools"))
    yield Raw("bare LF", get().replace("\r\n", "\n"))
    yield Raw("bare CR", get().replace("\r\n", "\r"), silent=True, half=True)
    yield Raw("a space before the first header", get().replace("\r\nHost", "\r\n Host"))
    yield Raw("a folded line", get("/v1/runs", "X-A: b", " c"))
    yield Raw("a folded line of a tab", get("/v1/runs", "X-A: b", "\tc"))
    yield Raw("a name with a space", get("/v1/runs", "X A: b"))
    yield Raw("a name of nothing", get("/v1/runs", ": b"))
    yield Raw("a name of NUL", get("/v1/runs", "X\0: b"))
    yield Raw("a name outside ASCII", get("/v1/runs", "X\xe9: b"))
    yield Raw("a name in parentheses", get("/v1/runs", "(X): b"))
    yield Raw("a value of NUL", get("/v1/runs", "X: a\0b"))
    yield Raw("a value with CR", get("/v1/runs", "X: a\rb"))
    yield Raw("a value of DEL", get("/v1/runs", "X: a\x7fb"), FOUND | REFUSED)
    yield Raw(
        "a target of 300 kB", get("/" + "a" * 300_000), frozenset({400, 404, 431}), silent=True
    )
    yield Raw(
        "a header of 300 kB",
        get("/v1/runs", "X: " + "a" * 300_000),
        frozenset({200, 431}),
        silent=True,
    )
    many = [f"X-{number}: a" for number in range(5000)]
    yield Raw("5000 headers", get("/v1/runs", *many), frozenset({200, 431}), silent=True)
    yield Raw("an empty line first", "\r\n\r\n" + get(), FOUND)
    yield Raw("an end without a request", "\r\n", silent=True, half=True)
    yield Raw("half a line", "GET /v1/ru", silent=True, half=True)
    yield Raw("half a head", get()[:-2], silent=True, half=True)
    yield Raw("half a body", post("Content-Length: 50", body="{"), silent=True, half=True)
    yield Raw("half a chunk", chunked("5\r\n{"), silent=True, half=True)
    yield Raw("TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", silent=True, half=True)


def targets() -> Iterator[Raw]:
    yield Raw("absolute form", get("http://localhost/v1/runs"), FOUND)
    yield Raw("absolute form without a path", get("http://localhost"), REFUSED | MISSING)
    yield Raw("another scheme", get("file:///etc/passwd"), REFUSED | MISSING)
    yield Raw("authority form", head("CONNECT", "localhost:443"), REFUSED | MISSING | METHOD)
    yield Raw("authority form of GET", get("localhost:443"), REFUSED | MISSING)
    yield Raw("asterisk of GET", get("*"), REFUSED | MISSING)
    yield Raw("no slash", get("v1/runs"))
    yield Raw("a target of nothing", get(""))
    for path in (
        "/v1/runs/%00", "/v1/runs%00", "/v1/runs%2f", "/v1%2fruns/", "/v1/runs%0d%0aX:%20y", "/v1/runs;a=b",
        "/v1/./runs", "/v1/../v1/runs", "/v1/%2e%2e/v1/runs", "/v1/runs/%c0%ae%c0%ae", "/v1/runs/%ff",
        "/v1/runs/%u0041", "/v1/runs/%zz", "/v1/runs/%", "/v1/runs/%e2%80%ae", "/v1/runs/%ed%a0%80",
        "/v1\\runs", "/v1/runs/..;/", "//localhost/v1/runs", "/v1//runs", "/V1/runs",
    ):  # fmt: skip
        yield Raw(f"the path {path}", get(path), MISSING | REFUSED | INVALID)
    for path in (
        "/console/../app.py", "/console/..%2f..%2fapp/serve.py", "/console/%2e%2e/%2e%2e/etc/passwd",
        "/console/....//....//etc/passwd", "/console/..%5c..%5capp", "/console/%00app.js", "/console/app.js%00",
        "/console//etc/passwd", "/console/%2fetc%2fpasswd", "/console/.", "/console/..", "/console/app.js/",
        "/console/%c0%ae%c0%ae/app.py", "/console/APP.JS", "/console/app.js.map", "/console/__init__.py",
    ):  # fmt: skip
        yield Raw(f"the file {path}", get(path), MISSING | REFUSED)
    for query in (
        "limit=1&limit=2", "limit=1;limit=2", "limit[]=1", "limit=%00", "limit=%ff", "limit=1%0a0",
        "limit=\uff11", "LIMIT=1", "%6c%69%6d%69%74=0", "=1", "&&x", "limit", "limit=1&%00=2", "a" * 5000,
    ):  # fmt: skip
        sent = get(f"/v1/runs?{query}")
        yield Raw(f"the query {query[:30]}", sent, INVALID | REFUSED)


def methods() -> Iterator[Raw]:
    for method in (
        "PUT",
        "PATCH",
        "DELETE",
        "TRACE",
        "PROPFIND",
        "MKCOL",
        "LOCK",
        "SEARCH",
        "PURGE",
        "QUERY",
    ):
        yield Raw(f"the method {method}", head(method, "/v1/runs"), METHOD | REFUSED)
    for method in ("get", "GeT", "GETT", "G\0T", "GET\x0b", "\xc7ET", "", "X" * 5000):
        yield Raw(f"the method {method[:10]!r}", head(method, "/v1/runs"))
    yield Raw("HEAD", head("HEAD", "/v1/runs"), FOUND)
    yield Raw("OPTIONS", head("OPTIONS", "/v1/runs"), frozenset({204}))
    override = "X-HTTP-Method-Override: DELETE"
    yield Raw("an overridden method", get("/v1/runs/{run}", override), FOUND)


def hosts() -> Iterator[Raw]:
    host = "Host: localhost\r\n"
    yield Raw("no host", get().replace(host, ""))
    yield Raw("two hosts", get().replace(host, host + host))
    for value in (
        "", "evil.example", "localhost.evil.example", "evil.example:8080", "localhost@evil.example", "[::1", "[]",
        "localhost, evil.example", "169.254.169.254", "localhost/x", "\xe9", "a" * 10_000, "127.0.0.1.nip.io",
    ):  # fmt: skip
        yield Raw(f"the host {value[:30]}", get().replace(host, f"Host: {value}\r\n"))
    forwarded = ("X-Forwarded-Host: evil.example", "Forwarded: host=evil.example")
    yield Raw("a forwarded host", get("/v1/runs", *forwarded), FOUND)


def headers() -> Iterator[Raw]:
    yield Raw(
        "two Idempotency-Keys",
        post("Idempotency-Key: a", "Idempotency-Key: b", f"Content-Length: {len(BODY)}", body=BODY),
        INVALID | REFUSED,
    )
    last = ("Last-Event-ID: 1", "Last-Event-ID: 2")
    yield Raw("two Last-Event-IDs", get("/v1/runs/{run}/events", *last), INVALID | REFUSED)
    for value in ("-1", "1.5", "1e3", " ", "latest", "9" * 400, "0x1", "\xb2"):
        sent = get("/v1/runs/{run}/events", f"Last-Event-ID: {value}")
        yield Raw(f"Last-Event-ID {value[:10]!r}", sent, INVALID)
    yield Raw(
        "an odd Prefer",
        get("/v1/runs/{run}", "Prefer: wait=99999999, wait=a"),
        frozenset({200, 202}),
    )
    yield Raw("an endless Prefer", get("/v1/runs/{run}", "Prefer: " + "w" * 300), INVALID)
    yield Raw("an odd X-Request-Id", get("/v1/runs", "X-Request-Id: a b<c>"), FOUND)
    yield Raw(
        "odd ranges",
        get("/console/app.js", "Range: bytes=0-1,5-,-9,a-b"),
        frozenset({200, 206, 416, 400}),
    )
    yield Raw("an odd date", get("/console/app.js", "If-Modified-Since: never"), FOUND)
    yield Raw("an odd ETag", get("/v1/runs", 'If-None-Match: W/"' + '",W/"' * 5000), FOUND)
    yield Raw(
        "an odd Accept-Encoding", get("/v1/runs", "Accept-Encoding: " + "gzip;q=," * 500), FOUND
    )
    yield Raw("an odd cookie", get("/v1/runs", "Cookie: " + "runward=;" * 2000), FOUND)
    upgrade = ("Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
    sent = get("/v1/runs", *upgrade).replace("Connection: close", "Connection: Upgrade")
    yield Raw("an upgrade", sent, FOUND)
    yield Raw(
        "an unknown expectation",
        post("Expect: the-unexpected", "Content-Length: 2", body="{}"),
        frozenset({417, 422}),
    )


def bodies() -> Iterator[Raw]:
    size = f"Content-Length: {len(BODY)}"
    yield Raw(
        "a body of GET", get("/v1/runs", size, "Content-Type: application/json") + BODY, INVALID
    )
    for coding in ("gzip", "br", "identity, gzip", "x", "deflate"):
        yield Raw(
            f"a body in {coding}",
            post(size, f"Content-Encoding: {coding}", body=BODY),
            frozenset({415}),
        )
    for kind in (
        "application/json; charset=utf-16", "application/json; charset=latin-1", "application/json, text/plain",
        "application/json;charset=utf-8;charset=utf-7", "text/json", "application/jsonx", "*/*", "",
        "multipart/form-data; boundary=x", "application/json\x0b",
    ):  # fmt: skip
        sent = post(size, body=BODY).replace("Type: application/json", f"Type: {kind}")
        yield Raw(f"a body of {kind!r}", sent, frozenset({415, 400}))
    both = ("Content-Type: text/plain", size)
    yield Raw("two types", post(*both, body=BODY), frozenset({202, 415, 400}))


def pipelines() -> Iterator[Raw]:
    whole = get().replace("Connection: close\r\n", "")
    yield Raw("three at once", whole * 2 + get(), FOUND, answers=3)
    yield Raw("a request and no HTTP", whole + "GARBAGE\r\n\r\n", FOUND)
    yield Raw("a request after the last one", get() + whole, FOUND)
    hidden = f"0\r\n\r\n{whole}"
    yield Raw(
        "a request in a body",
        post(f"Content-Length: {len(hidden)}", body=hidden.replace("{key}", "k" * 5)),
        REFUSED,
        silent=True,
    )


def ids() -> Iterator[Raw]:
    hexes = "0" * 32
    for value in (
        "run_", f"RUN_{hexes}", f"run_{hexes}0", f"run_{hexes[1:]}", f"run_{hexes[:-1]}g", f"run-{hexes}", f"sess_{hexes}",
        f"run_{hexes.upper()[:-1]}F", f" run_{hexes}", "null", "undefined", "-1", "0", "*", "{run_id}", f"run_{hexes}%0a",
        f"run_{hexes}%20", "%72un_" + hexes, "run_" + "\uff10" * 32, "a" * 20_000,
    ):  # fmt: skip
        yield Raw(f"the id {value[:40]!r}", get(f"/v1/runs/{value}"), MISSING | REFUSED)
