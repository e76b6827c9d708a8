"""Translate a webhook tool's response into an outcome: a result, an error, or a later callback. The
functions are pure.

A plain endpoint that returns 200 with JSON or text works. No response can break a run: a value that
cannot be stored is replaced, and the result is marked as `sanitised`."""

import codecs
import json
import math
import re
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

import jiter
from pydantic import JsonValue

from runward.domain.json import (
    MAX_VALUES,
    JsonObject,
    UnstorableError,
    clean_json,
    clean_text,
    compact,
    holds_too_many_values,
    may_need_repair,
)
from runward.domain.registry.tools import RETRYABLE_STATUSES
from runward.domain.run.bounds import MAX_PARTS
from runward.domain.run.envelopes import EnvelopeError, make_done, parse_envelope
from runward.domain.run.items import MediaPart, Part, TextPart
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome, Waits
from runward.egress.responses import EgressResponse

MAX_MESSAGE: Final = 2048
"""Maximum number of characters of a tool's error message that the model reads."""
MAX_RETRY_AFTER: Final = 86_400.0
_MESSAGE_KEYS: Final = ("message", "error", "detail", "title", "output", "content")
_CODECS: Final = frozenset(
    {"ascii", "cp1252", "iso8859-1", "iso8859-15", "utf-16", "utf-16-be", "utf-16-le"}
)
"""Python's names of the supported codecs in addition to UTF-8. A body with another charset is
decoded as UTF-8."""
_CHARSET: Final = re.compile(r'charset="?([^";\s]+)', re.IGNORECASE)


class _UnusableError(ValueError):
    """The body cannot be a result. The message is the reason."""


def read_outcome(answer: EgressResponse, *, envelope: bool = False) -> Outcome:
    """Return the outcome of a response. `envelope`: whether the tool returns envelopes."""
    status = answer.status
    if status == HTTPStatus.ACCEPTED:
        return Waits()
    if 200 <= status < 300:
        try:
            return _result(answer, envelope=envelope)
        except (_UnusableError, EnvelopeError) as error:
            return Failed(
                FailureKind.INVALID_RESPONSE,
                f"The response has HTTP status {status}, but it is not a valid result: {error}.",
                status=status,
            )
    if 300 <= status < 400:
        where = clean_text(answer.headers.get("location", "nowhere")).partition("?")[0][:200]
        detail = (
            f"The response has HTTP status {status} and redirects to {where}. Runward "
            "does not follow redirects."
        )
        return Failed(FailureKind.ERROR, detail, status=status, permanent=True)
    return Failed(
        FailureKind.UNAVAILABLE if status in RETRYABLE_STATUSES else FailureKind.ERROR,
        f"The response has HTTP status {status}, the content type "
        f"{_media_type(answer)[0] or '(none)'} and {len(answer.body)} bytes.",
        message=_error_message(answer),
        status=status,
        retry_after=read_retry_after(answer),
    )


def _result(answer: EgressResponse, *, envelope: bool) -> Outcome:
    if answer.truncated:
        raise _UnusableError(f"the body is larger than {len(answer.body)} bytes")
    if answer.encoding is not None:
        raise _UnusableError(
            f"the body has the content encoding {answer.encoding!r}, which Runward cannot decode"
        )
    if not answer.body.strip():
        return Done(None)
    value, sanitised = _read(answer)
    if isinstance(value, dict) and value.get("is_error") is True:
        return Failed(
            FailureKind.ERROR,
            "The tool returned a result with `is_error`.",
            message=_message_in(value),
            status=answer.status,
        )
    done = _unwrap(value) if envelope else _read_parts(Done(value))
    if sanitised:
        done = replace(done, metadata={**(done.metadata or {}), "sanitised": True})
    return done


def _unwrap(value: JsonValue) -> Done:
    given = parse_envelope(value)
    return _read_parts(make_done(given.output, given))


def _read_parts(done: Done) -> Done:
    """Return the result with its parts, if its output is an object with a `content` array."""
    if not isinstance(done.output, dict) or (content := read_content(done.output)) is None:
        return done
    metadata = {**content.metadata, **(done.metadata or {})} or None
    return replace(done, output=content.text, parts=content.parts, metadata=metadata)


def _read(answer: EgressResponse) -> tuple[JsonValue, bool]:
    """Return the body as JSON or text, and whether a part of it had to be replaced."""
    kind, charset = _media_type(answer)
    try:
        text = answer.body.decode(charset)
    except UnicodeDecodeError:
        raise _UnusableError(f"the body is not valid {charset}") from None
    if kind == "application/json" or kind.endswith("+json"):
        return parse_leniently(text)
    if kind in ("", "application/octet-stream", "application/x-www-form-urlencoded"):
        # There is no media type. Treat a body that parses as JSON as JSON.
        try:
            return parse_leniently(text)
        except _UnusableError:
            pass
    clean = clean_text(text)
    return clean, clean != text


def parse_leniently(text: str) -> tuple[JsonValue, bool]:
    """Parse JSON leniently. NaN, infinities and numbers outside of the range of a double become
    null. Duplicate keys, NUL and lone surrogates are repaired. Each change is reported."""
    data = text.encode(errors="surrogatepass")
    if holds_too_many_values(data):
        raise _UnusableError(f"the body contains more than {MAX_VALUES:,} values")
    try:
        strict: JsonValue = jiter.from_json(data, catch_duplicate_keys=True, allow_inf_nan=False)
    except ValueError:
        pass
    else:
        return _clean(strict) if may_need_repair(data, strict) else (strict, False)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _UnusableError(f"the body is not valid JSON: {str(error)[:200]}") from None
    return _clean(value)[0], True


def _clean(value: JsonValue) -> tuple[JsonValue, bool]:
    try:
        return clean_json(value)
    except UnstorableError as error:
        raise _UnusableError(str(error).replace("it ", "the body ", 1)) from None


def _error_message(answer: EgressResponse) -> str | None:
    """Return the tool's message for the model. Return None for HTML and for bodies that were not
    read."""
    kind, _ = _media_type(answer)
    if answer.encoding is not None or not answer.body.strip():
        return None
    if kind == "text/plain":
        return _limit_message(clean_text(answer.body.decode(errors="replace")))
    if kind not in ("", "application/json") and not kind.endswith("+json"):
        return None
    try:
        value, _ = parse_leniently(answer.body.decode("utf-8-sig"))
    except ValueError:
        return None
    if isinstance(value, str):
        return _limit_message(value)
    return _message_in(value) if isinstance(value, dict) else None


def _message_in(value: JsonObject) -> str | None:
    """Return the first of message, error, detail, title … in the usual shapes."""
    content = read_content(value)
    if content is not None and content.text:
        return _limit_message(content.text)
    for key in _MESSAGE_KEYS:
        found = value.get(key)
        if isinstance(found, dict) and isinstance(found.get("message"), str):
            found = found["message"]
        if isinstance(found, str):
            if found.strip():
                return _limit_message(found)
        elif isinstance(found, (dict, list)) and found:
            return _limit_message(compact(found))
    return None


def _limit_message(text: str) -> str | None:
    text = text.strip()
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"


def read_retry_after(answer: EgressResponse) -> float | None:
    """Return the delay in seconds. A date is compared with the response's own Date, so that this
    host's clock does not matter."""
    value = answer.headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
            seconds = (until - parsedate_to_datetime(answer.headers["date"])).total_seconds()
        except (ValueError, KeyError, TypeError, OverflowError):
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER) if math.isfinite(seconds) else None


def _media_type(answer: EgressResponse) -> tuple[str, str]:
    """Return the media type, in lower case and perhaps empty, and the charset."""
    header = answer.headers.get("content-type", "")
    charset = match[1] if (match := _CHARSET.search(header)) else ""
    kind = clean_text(header.partition(";")[0].strip().lower())[:100]
    return kind, _codec(charset)


def _codec(charset: str) -> str:
    """Return Python's name of a charset, which has many names: `latin1` is `iso-8859-1`."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        name = ""
    return name if name in _CODECS else "utf-8-sig"


@dataclass(frozen=True, slots=True)
class ContentParts:
    """A result in parts. `text` is the text parts, joined by line breaks."""

    text: str
    parts: tuple[Part, ...]
    metadata: JsonObject


def read_content(value: JsonObject) -> ContentParts | None:
    """Return the parts, or None if the value is not an object with a `content` array of known
    parts. Such a value is plain JSON."""
    items = value.get("content")
    if not isinstance(items, list) or not 0 < len(items) <= MAX_PARTS:
        return None
    parts = [_part(item) for item in items]
    known = tuple(part for part in parts if part is not None)
    if len(known) < len(parts):
        return None
    metadata = value.get("metadata")
    text = "\n".join(part.text for part in known if isinstance(part, TextPart))
    return ContentParts(text, known, metadata if isinstance(metadata, dict) else {})


def _part(item: JsonValue) -> Part | None:
    match item:
        case {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": "image" | "file" as kind, "url": str(url)}:
            return MediaPart(kind, url=url, **_metadata(item))
        case {"type": "image" | "file" as kind, "data": str(data)}:
            return MediaPart(kind, data=data, **_metadata(item))
        case _:
            return None


def _metadata(item: JsonObject) -> dict[str, Any]:
    media_type = item.get("media_type", item.get("mimeType"))
    filename = item.get("filename")
    return {
        "media_type": media_type if isinstance(media_type, str) else None,
        "filename": filename if isinstance(filename, str) else None,
    }
