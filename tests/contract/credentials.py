"""Invalid credentials."""

import base64
import secrets
import string
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from tests.contract.wire import Headers, Wire

PAGE = ("Sec-Fetch-Site", "same-origin")
"""The header that a browser sends for requests of the console's own page."""


@dataclass(frozen=True)
class Credential:
    """`status`: what a protected operation answers. `query` is added to the target."""

    name: str
    headers: tuple[tuple[str, str | bytes], ...] = ()
    query: str = ""
    status: int = 401
    writes_only: bool = False


@dataclass(frozen=True)
class Known:
    """What someone may have got hold of. `key` and `other_key` are valid keys of all scopes."""

    key: str
    key_id: str
    other_key: str
    revoked: str
    expired: str
    callback_token: str
    session: str
    ended_session: str


def bearer(value: str | bytes) -> tuple[tuple[str, str | bytes], ...]:
    return (("Authorization", b"Bearer " + (value.encode() if isinstance(value, str) else value)),)


def new_key() -> str:
    """A key of the right form that no deployment, or another one, has made."""
    body = secrets.token_urlsafe(32)
    return f"rw_{body}{zlib.crc32(body.encode()):08x}"


def bad_credentials(known: Known) -> Iterator[Credential]:
    yield from _headers(known)
    yield from _keys(known)
    yield from _sessions(known)


def _headers(known: Known) -> Iterator[Credential]:
    """A valid key at a wrong place, or in a wrong form."""
    key = known.key
    good = bearer(key)
    yield Credential("none")
    yield Credential("an empty header", (("Authorization", ""),))
    yield Credential("the scheme alone", (("Authorization", "Bearer"),))
    yield Credential("the scheme and spaces", (("Authorization", "Bearer   "),))
    yield Credential("the key without a scheme", (("Authorization", key),))
    yield Credential("another scheme", (("Authorization", f"Token {key}"),))
    yield Credential("a scheme that begins alike", (("Authorization", f"BearerX {key}"),))
    yield Credential("a colon after the scheme", (("Authorization", f"Bearer: {key}"),))
    basic = base64.b64encode(f"{key}:".encode()).decode()
    yield Credential("Basic", (("Authorization", f"Basic {basic}"),))
    yield Credential("the key twice", good + good)
    yield Credential("a wrong key before the key", bearer(new_key()) + good)
    yield Credential("a wrong key after the key", good + bearer(new_key()))
    yield Credential("two keys in two headers", good + bearer(known.other_key))
    yield Credential("two keys in one header", bearer(f"{key}, Bearer {known.other_key}"))
    yield Credential("in the query", query=f"api_key={key}&access_token={key}")
    yield Credential("in a cookie", (("Cookie", f"api_key={key}; Authorization=Bearer {key}"),))
    csrf = ("X-Runward-CSRF", "1")
    yield Credential("the key as a session", (("Cookie", f"runward={key}"), PAGE, csrf))
    yield Credential("another header", (("X-API-Key", key), ("Api-Key", key)))
    yield Credential("for the proxy", (("Proxy-Authorization", f"Bearer {key}"),))
    yield Credential("quoted", bearer(f'"{key}"'))


def _keys(known: Known) -> Iterator[Credential]:
    """What is no valid key, in the right place."""
    key = known.key
    yield Credential("without its last character", bearer(key[:-1]))
    yield Credential("without its first characters", bearer(key.removeprefix("rw_")))
    yield Credential("one character changed", bearer(_changed(key, 10)))
    yield Credential("a wrong checksum", bearer(_changed(key, len(key) - 1)))
    yield Credential("in the other case", bearer(key.swapcase()))
    yield Credential("revoked", bearer(known.revoked))
    yield Credential("expired", bearer(known.expired))
    yield Credential("another deployment's", bearer(new_key()))
    yield Credential("its id", bearer(known.key_id))
    yield Credential("its id and the other's secret", bearer(f"{known.key_id}.{known.other_key}"))
    yield Credential("the halves of two keys", bearer(key[:25] + known.other_key[25:]))
    yield Credential("white space inside", bearer(f"{key[:20]} {key[20:]}"))
    yield Credential("a tab inside", bearer(f"{key[:20]}\t{key[20:]}"))
    yield Credential("NUL, encoded", bearer(f"{key}%00"))
    yield Credential("NUL", bearer(f"{key}\0"), status=400)
    yield Credential("10 kB", bearer(key + "k" * 10_000))
    yield Credential("letters outside ASCII", bearer("rw_ключ🔑"))
    yield Credential("full-width letters", bearer("".join(map(_wide, key))))
    yield Credential("bytes that are no UTF-8", bearer(b"rw_\xff\xfe\xc0\x80"))
    yield Credential("padded", bearer(f"{key}="))
    yield Credential("encoded", bearer(base64.b64encode(key.encode())))
    yield Credential("a pattern", bearer("rw_%"))
    yield Credential("a quote", bearer("' OR '1'='1"))
    yield Credential("a callback's token", bearer(known.callback_token))
    yield Credential("a session's token", bearer(known.session))


def _sessions(known: Known) -> Iterator[Credential]:
    """The console's cookie, as another page could make a browser send it."""
    cookie = ("Cookie", f"runward={known.session}")
    yield Credential("a session from nowhere", (cookie,), status=403)
    for site in ("cross-site", "same-site", "none"):
        sent = (cookie, ("Sec-Fetch-Site", site), ("X-Runward-CSRF", "1"))
        yield Credential(f"a session, {site}", sent, status=403)
    yield Credential("a session without CSRF", (cookie, PAGE), status=403, writes_only=True)
    csrf = ("X-Runward-CSRF", "1")
    ended = ("Cookie", f"runward={known.ended_session}")
    yield Credential("a session that has ended", (ended, PAGE, csrf))
    yield Credential("a session of nobody", (("Cookie", "runward=abc"), PAGE, csrf))
    yield Credential("a session and a wrong key", (*bearer(new_key()), cookie, PAGE, csrf))


def signed_in(wire: Wire, key: str) -> str:
    """The token of a new console session."""
    response = wire.send("POST", "/console/session", console(), {"key": key})
    assert response.status_code == 200, response.text
    return response.cookies["runward"]


def console(session: str | None = None) -> Headers:
    """The headers of a request that the console's page makes."""
    cookie = [] if session is None else [("Cookie", f"runward={session}")]
    return [PAGE, ("X-Runward-CSRF", "1"), *cookie]


def _changed(key: str, at: int) -> str:
    letters = string.hexdigits.lower()
    return key[:at] + next(one for one in letters if one != key[at]) + key[at + 1 :]


def _wide(letter: str) -> str:
    return chr(ord(letter) + 0xFEE0)
