"""Behaviors of a hostile tool server, and the documented outcome of each call."""

import asyncio
import gzip
import zlib
from dataclasses import dataclass
from typing import Final

from tests.unit.raw_server import Line, Script, answer

FINE: Final = b'{"fine":true}'
POISON: Final = b'{"poison":true}'
HANG_SECONDS: Final = 1.5
PATIENT_SECONDS: Final = 20.0
MEGABYTE: Final = 1_048_576
OK: Final = b"HTTP/1.1 200 OK\r\n"
JSON: Final = b"Content-Type: application/json\r\n"
CHUNKED: Final = OK + JSON + b"Transfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Behavior:
    """`event` ends the call; its detail or reason contains `said`. `output`: what the result is.
    `hangs`: until the call's time is up. `idempotent`: the call may be sent again. `secure`: the
    tool is registered with https. `connections`: so many follow the script; later ones are good."""

    script: Script
    event: str
    said: str = ""
    output: object = None
    hangs: bool = False
    idempotent: bool = False
    secure: bool = False
    connections: int = 1

    @property
    def seconds(self) -> float:
        return HANG_SECONDS if self.hangs else PATIENT_SECONDS


BEHAVIORS: Final[dict[str, Behavior]] = {}


async def fine_from_now_on(line: Line) -> None:
    """Answer each further request well. Bytes that were said too much stay in front of it."""
    while True:
        await line.request()
        await line.say(answer(FINE))


def says(raw: bytes, *, closes: bool = False, resets: bool = False) -> Script:
    async def script(line: Line) -> None:
        await line.request()
        await line.say(raw)
        if resets:
            line.reset()
        elif not closes:
            await fine_from_now_on(line)

    return script


def says_forever(start: bytes, piece: bytes, pause: float = 0.0) -> Script:
    """Until the client ends the connection. `pause`: seconds between two pieces."""

    async def script(line: Line) -> None:
        await line.request()
        await line.say(start)
        while True:
            await line.say(piece)
            await asyncio.sleep(pause)

    return script


def stays_silent(raw: bytes = b"") -> Script:
    async def script(line: Line) -> None:
        await line.request()
        await line.say(raw)
        await line.closed()

    return script


# -- the five ways in which a call ends -----------------------------------------------------------


def completes(name: str, script: Script, output: object) -> None:
    BEHAVIORS[name] = Behavior(script, "tool_call.completed", output=output)


def fails(name: str, script: Script, said: str) -> None:
    BEHAVIORS[name] = Behavior(script, "tool_call.failed", said)


def stays_unknown(name: str, script: Script) -> None:
    BEHAVIORS[name] = Behavior(script, "tool_call.outcome_unknown", "complete response")


def times_out(name: str, script: Script) -> None:
    BEHAVIORS[name] = Behavior(script, "tool_call.timed_out", "", hangs=True)


def is_sent_again(name: str, script: Script) -> None:
    BEHAVIORS[name] = Behavior(
        script, "tool_call.completed", output={"fine": True}, idempotent=True
    )


# -- connections ----------------------------------------------------------------------------------


async def accepts_and_waits(line: Line) -> None:
    await asyncio.sleep(3600)  # read nothing, until the server is closed


async def resets_at_once(line: Line) -> None:
    line.reset()


async def ends_at_once(line: Line) -> None:
    pass


async def answers_early(line: Line) -> None:
    """The whole answer before the request was read, and then no more."""
    await line.say(answer(b"{}", "401 Unauthorized"))


times_out("silent_accept", accepts_and_waits)
times_out("silence_after_the_request", stays_silent())
is_sent_again("reset_on_accept", resets_at_once)
stays_unknown("end_on_accept", ends_at_once)
stays_unknown("reset_after_the_request", says(b"", resets=True))
stays_unknown("reset_in_the_status_line", says(b"HTTP/1.1 20", resets=True))
stays_unknown("reset_in_the_headers", says(OK + b"Content-Le", resets=True))
stays_unknown("reset_in_the_body", says(OK + b"Content-Length: 99\r\n\r\n{", resets=True))
stays_unknown("end_in_the_status_line", says(b"HTTP/1.1 2", closes=True))
stays_unknown("end_in_the_headers", says(OK + JSON, closes=True))
times_out("half_a_status_line", stays_silent(b"HTTP/1.1 20"))
fails("answer_before_the_request", answers_early, "HTTP status 401")

# -- status lines and headers ---------------------------------------------------------------------

stays_unknown("no_http_at_all", says(b"SSH-2.0-OpenSSH_9.9\r\n"))
stays_unknown("http_0_9", says(b'{"fine": true}', closes=True))
stays_unknown("http_2_preface", says(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + b"\x00" * 18))
stays_unknown("status_of_letters", says(b"HTTP/1.1 abc OK\r\n\r\n", closes=True))
stays_unknown("status_of_four_digits", says(b"HTTP/1.1 2000 OK\r\n\r\n", closes=True))
fails("status_999", says(answer(b"{}", "999 Beyond")), "HTTP status 999")
stays_unknown("endless_headers", says_forever(OK, b"X-More: " + b"y" * 1000 + b"\r\n"))
stays_unknown("endless_header_line", says_forever(OK + b"X-Long: ", b"y" * 65_536))
stays_unknown("endless_reason", says_forever(b"HTTP/1.1 200 ", b"y" * 65_536))
stays_unknown("header_without_a_colon", says(OK + b"nonsense\r\n\r\n{}", closes=True))
stays_unknown("nul_in_a_header", says(OK + b"X: a\x00b\r\nContent-Length: 2\r\n\r\n{}"))
times_out("interim_answers_forever", says_forever(b"", b"HTTP/1.1 103 Hints\r\n\r\n" * 50, 0.002))
completes(
    "many_interim_answers", says(b"HTTP/1.1 100 Continue\r\n\r\n" * 50 + answer(b"1")), output=1
)
fails(
    "upgrade", says(b"HTTP/1.1 101 Other\r\nUpgrade: x\r\n\r\n" + answer(POISON)), "HTTP status 101"
)
completes("cookies", says(answer(b"1", "200 OK", "Set-Cookie: a=b; Path=/")), output=1)

# -- lengths --------------------------------------------------------------------------------------


def with_length(length: str, body: bytes) -> bytes:
    return OK + JSON + f"Content-Length: {length}\r\n\r\n".encode() + body


stays_unknown("length_too_long_and_an_end", says(with_length("100", b"{}"), closes=True))
times_out("length_too_long_and_silence", stays_silent(with_length("100", b"{}")))
completes("length_too_short", says(with_length("2", b"12" + answer(POISON))), output=12)
stays_unknown("length_negative", says(with_length("-1", b"{}")))
stays_unknown("length_of_letters", says(with_length("ten", b"{}")))
stays_unknown("two_lengths", says(with_length("2\r\nContent-Length: 30", b"{}"), closes=True))
stays_unknown(
    "length_and_chunks",
    says(with_length("2\r\nTransfer-Encoding: chunked", b"1\r\n1\r\n0\r\n\r\n"), closes=True),
)
completes("no_length_until_the_end", says(OK + JSON + b"\r\n7", closes=True), output=7)
fails("ten_megabytes", says(answer(b'"' + b"a" * 10 * MEGABYTE + b'"')), "larger than")
fails("endless_body", says_forever(OK + JSON + b"\r\n", b"a" * 65_536), "larger than")
times_out("drip_of_the_body", says_forever(with_length("1000", b""), b"1", 0.1))
times_out("drip_of_the_headers", says_forever(OK + b"X: ", b"y", 0.1))

# -- chunks ---------------------------------------------------------------------------------------

stays_unknown("chunk_size_of_letters", says(CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n"))
stays_unknown("chunk_size_negative", says(CHUNKED + b"-1\r\n{}\r\n0\r\n\r\n"))
stays_unknown("chunk_size_endless", says_forever(CHUNKED, b"f" * 65_536))
times_out("chunk_size_huge", stays_silent(CHUNKED + b"fffffffffff\r\n{}"))
stays_unknown("chunk_without_its_end", says(CHUNKED + b"2\r\n{}XX0\r\n\r\n"))
fails("chunks_forever", says_forever(CHUNKED, b"3e8\r\n" + b"a" * 1000 + b"\r\n"), "larger than")
stays_unknown("no_last_chunk", says(CHUNKED + b"2\r\n{}\r\n", closes=True))
completes("trailers", says(CHUNKED + b"1\r\n1\r\n0\r\nX-Sum: 1\r\n\r\n"), output=1)
stays_unknown("endless_trailers", says_forever(CHUNKED + b"1\r\n1\r\n0\r\n", b"X: y\r\n" * 100))
times_out("endless_chunk_extension", says_forever(CHUNKED + b"1;", b"x=y;" * 10_000, 0.01))

# -- encodings ------------------------------------------------------------------------------------


def encoded(body: bytes, coding: str) -> Script:
    return says(answer(body, "200 OK", f"Content-Encoding: {coding}"))


_BOMB: Final = b'"' + b"a" * 100 * MEGABYTE + b'"'
_ZIPPED: Final = gzip.compress(_BOMB, 1, mtime=0)
completes("gzip_unasked", encoded(gzip.compress(b"1", mtime=0), "gzip"), output=1)
fails("gzip_bomb", encoded(_ZIPPED, "gzip"), "larger than")
fails("deflate_bomb", encoded(zlib.compress(_BOMB, 1), "deflate"), "larger than")
fails("gzip_of_gzip", encoded(gzip.compress(_ZIPPED, mtime=0), "gzip, gzip"), "cannot decode")
fails("gzip_members", encoded(gzip.compress(b"", mtime=0) * 40_000, "gzip"), "cannot decode")
fails("gzip_cut_off", encoded(gzip.compress(b'{"a": 1}', mtime=0)[:-9], "gzip"), "cannot decode")
fails("gzip_that_is_none", encoded(b"{}", "gzip"), "cannot decode")
fails("brotli", encoded(b"\x0b\x02\x80{}\x03", "br"), "cannot decode")
fails("zstd", encoded(b"(\xb5/\xfd\x04\x00\x11\x00\x00{}", "zstd"), "cannot decode")
fails("unknown_encoding", encoded(b"{}", "x-rot13"), "cannot decode")

# -- statuses -------------------------------------------------------------------------------------

for status in (300, 301, 302, 303, 305, 307, 308):
    fails(
        f"redirect_{status}",
        says(answer(b"{}", f"{status} Elsewhere", "Location: /elsewhere?token=1")),
        f"HTTP status {status}",
    )
completes("204_with_a_body", says(b"HTTP/1.1 204 No Content\r\n\r\n" + answer(POISON)), output=None)
completes("205_with_a_body", says(answer(b"1", "205 Reset Content")), output=1)
fails(
    "304_with_a_body",
    says(b"HTTP/1.1 304 Not Modified\r\n\r\n" + answer(POISON)),
    "HTTP status 304",
)
fails("500_of_10_megabytes", says(answer(b"a" * 10 * MEGABYTE, "500 Oh")), "HTTP status 500")
times_out("202_with_garbage", says(answer(b"\xff{{{", "202 Accepted")))
times_out("202_without_an_end", says_forever(b"HTTP/1.1 202 Accepted\r\n\r\n", b"a" * 65_536))

# -- bodies ---------------------------------------------------------------------------------------


def typed(body: bytes, kind: str = "application/json") -> Script:
    return says(answer(body, "200 OK", f"Content-Type: {kind}"))


completes("byte_order_mark", typed(b'\xef\xbb\xbf{"a":1}'), output={"a": 1})
completes(
    "utf_16", typed('{"a":"ä"}'.encode("utf-16"), "application/json; charset=utf-16"), {"a": "ä"}
)
fails("utf_16_that_is_odd", typed(b"\xff\xfe{", "application/json; charset=utf-16"), "not valid")
fails("no_utf_8", typed(b'{"a":"\xff"}'), "not valid")
completes("unknown_charset", typed(b"1", "application/json; charset=klingon"), output=1)
completes("lone_surrogate", typed(rb'{"a":"\ud800"}'), output={"a": "\ufffd"})
completes("nul", typed(rb'{"a":"\u0000"}'), output={"a": "\ufffd"})
completes("not_a_number", typed(b'{"a":NaN,"b":-Infinity}'), output={"a": None, "b": None})
completes("duplicate_keys", typed(b'{"a":1,"a":2}'), output={"a": 2})
completes("number_that_no_double_holds", typed(b'{"a":1e999}'), output={"a": None})
fails("number_of_a_million_digits", typed(b"9" * 1_000_000), "not valid JSON")
fails("nested_100_000_deep", typed(b"[" * 100_000 + b"]" * 100_000), "JSON")
fails("nested_65_deep", typed(b"[" * 66 + b"]" * 66), "nested more than")
fails("json_that_is_none", typed(b"{fine: true}"), "not valid JSON")
completes("image_as_text", typed(b"PNG", "image/png"), output="PNG")
completes("page_for_people", typed(b"<h1>Hi</h1>", "text/html"), output="<h1>Hi</h1>")
completes("content_type_of_garbage", typed(b"1", ";;;===" + "x" * 4000), output=1)
fails("says_that_it_failed", typed(b'{"is_error":true,"error":{"message":"no"}}'), "is_error")

# -- Retry-After ----------------------------------------------------------------------------------


def busy(retry_after: str) -> Script:
    unavailable = answer(b"{}", "503 Busy", f"Retry-After: {retry_after}")
    return says(unavailable)


for name, value in {
    "negative": "-5",
    "not_a_number": "NaN",
    "a_past_date": "Thu, 01 Jan 1970 00:00:00 GMT",
    "a_date_that_is_none": "Thu, 99 Foo 99999999999 99:99:99 GMT",
    "empty": "",
    "digits_of_another_script": "%D9%A3",
}.items():
    is_sent_again(f"retry_after_{name}", busy(value))
for name, value in {
    "huge": "9" * 300,
    "a_far_date": "Fri, 31 Dec 9999 23:59:59 GMT\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT",
}.items():
    BEHAVIORS[f"retry_after_{name}"] = Behavior(
        busy(value), "tool_call.failed", "HTTP status 503", idempotent=True
    )

# -- connections that are used again --------------------------------------------------------------


async def answers_again_later(line: Line) -> None:
    """A second answer, that nobody asked for, comes once the connection is idle."""
    await line.request()
    await line.say(answer(b"1"))
    await asyncio.sleep(0.01)
    await line.say(answer(POISON))
    await fine_from_now_on(line)


async def ends_what_it_keeps(line: Line) -> None:
    await line.request()
    await line.say(answer(b"1", "200 OK", "Connection: keep-alive", "Keep-Alive: timeout=999"))


completes("second_answer_at_once", says(answer(b"1") + answer(POISON)), output=1)
completes("second_answer_later", answers_again_later, output=1)
completes("end_of_a_kept_connection", ends_what_it_keeps, output=1)

# -- TLS ------------------------------------------------------------------------------------------

stays_unknown("tls_alert", says(b"\x15\x03\x01\x00\x02\x02\x46", closes=True))
BEHAVIORS["https_without_tls"] = Behavior(
    answers_early, "tool_call.failed", "could not connect", secure=True, connections=3
)
