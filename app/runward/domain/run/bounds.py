"""Limits of all values that models, tools, plugins and MCP servers return. This module checks every
value before the value becomes part of a run.

Text that PostgreSQL cannot store is replaced. Numbers that no double can hold become null. Values
that are nested too deep or too large are rejected. `runward.domain.strict_json` applies the same
limits to request bodies.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar, assert_never, cast
from urllib.parse import urlsplit

from pydantic import JsonValue
from pydantic_core import to_json

from runward.domain.errors import ConflictError
from runward.domain.json import (
    MAX_VALUES,
    UnstorableError,
    as_text,
    clean_json,
    clean_text,
    has_too_many_values,
    is_in_range,
)
from runward.domain.run.items import (
    HostedCall,
    MediaPart,
    Message,
    MessageContent,
    Native,
    Part,
    TextPart,
)
from runward.domain.run.outcomes import Done, Failed, FailureKind, NeedsInput, Outcome, Waits
from runward.domain.run.response import ModelResponse, Output, RequestedCall, Usage
from runward.domain.run.state import Result

MAX_RESULT_BYTES: Final = 11 * 1_048_576
"""Maximum size in bytes of one result as JSON. It includes the largest output that a tool may have,
and the other fields."""
MAX_RESPONSE_BYTES: Final = 32 * 1_048_576
"""Maximum size in bytes of one model response as JSON."""
MAX_ARGUMENT_VALUES: Final = 1_048_576
"""Maximum number of values in the arguments of all calls of one response. Commas and brackets
inside texts also count. The arguments of a single call have at most as many characters, so they
cannot exceed it."""
MAX_RUN_BYTES: Final = 64 * 1_048_576
"""Maximum size in bytes of a run: its items and its tool calls."""
MAX_NAME: Final = 64
"""Maximum number of characters of a tool's name. Every provider accepts names of this length."""
MAX_CALL_ID: Final = 512
"""Maximum number of characters of a call ID. Runward replaces a longer ID with its own."""
MAX_TOKENS: Final = 10**12
"""Maximum number of tokens of one response. The sums of a run then fit the database's integers."""
MAX_PARTS: Final = 256
"""Maximum number of parts of one result: texts, images and files."""
MAX_MESSAGE: Final = 4096
"""Maximum number of characters of a progress message."""
MAX_DETAIL: Final = 4096
MAX_URL: Final = 8192
MAX_FILENAME: Final = 255
_URL: Final = re.compile(r"(?:https?|s3)://[^\s\x00-\x1f\x7f]+", re.IGNORECASE)
_DATA_URL: Final = re.compile(r"data:[\w.+/-]*(?:;[\w.+=-]+)*;base64,(.*)", re.ASCII | re.DOTALL)
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_MEDIA_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)

_NUL: Final = b"\\u0000"

T = TypeVar("T")


def bounded_outcome(outcome: Outcome) -> Outcome:
    """Return the outcome in a storable form. If its result cannot be stored, the call has
    failed."""
    match outcome:
        case Waits() | NeedsInput():
            return outcome
        case Failed(detail=detail, message=message):
            told = None if message is None else clean_text(message)
            return replace(outcome, detail=clean_text(detail)[:MAX_DETAIL], message=told)
        case Done():
            try:
                return _bounded_done(outcome)
            except UnstorableError as error:
                return Failed(
                    FailureKind.INVALID_RESPONSE, f"The result cannot be stored: {error}."
                )
        case _:
            assert_never(outcome)


def bounded_result(result: Result) -> tuple[Result, int]:
    """Return the result in a storable form, and its size as JSON. Results of tools were already
    limited, but texts of guardrails and hooks may not have been."""
    try:
        raw = to_json(result, inf_nan_mode="null")
        if _NUL not in raw:
            return result, len(raw)
    except ValueError:  # The text contains a lone surrogate.
        pass
    detail = None if result.detail is None else clean_text(result.detail)
    result = replace(result, output=clean_json(result.output)[0], detail=detail)
    return result, count_json_bytes(result)


def bounded_response(response: ModelResponse) -> tuple[ModelResponse, int]:
    """Return the response in a storable form, and the size of its output as JSON. Raises
    UnstorableError."""
    if has_too_many_values(
        [value for one in response.output for value in _list_native_values(one)]
    ):
        raise UnstorableError(f"the value contains more than {MAX_VALUES:,} values")
    output = tuple([_bounded_output(one) for one in response.output])
    size = count_json_bytes(output)
    if size > MAX_RESPONSE_BYTES:
        raise UnstorableError(
            f"the response has {size} bytes, and the limit is {MAX_RESPONSE_BYTES} bytes"
        )
    if _argument_values(output) > MAX_ARGUMENT_VALUES:
        raise UnstorableError(
            f"the arguments of the response's calls contain more than {MAX_ARGUMENT_VALUES:,} "
            "values"
        )
    return replace(response, output=output, usage=bounded_usage(response.usage)), size


def _argument_values(output: Iterable[Output]) -> int:
    """Return an upper bound for the number of values to parse. Arguments that are too long are not
    parsed."""
    texts = (one.arguments for one in output if isinstance(one, RequestedCall))
    parsed = (text for text in texts if len(text) <= MAX_ARGUMENT_VALUES)
    return sum(text.count(",") + text.count("[") + text.count("{") for text in parsed)


def check_room(added: object, *, stored: int = 0) -> None:
    """Raise ConflictError if a run of `stored` bytes has no space for the new items."""
    if stored + count_json_bytes(added) > MAX_RUN_BYTES:
        raise ConflictError(
            f"The run would exceed the limit of {MAX_RUN_BYTES} bytes for one run. Send "
            "less data, or start another run."
        )


def bounded_usage(usage: Usage) -> Usage:
    return Usage(
        bounded_count(usage.input),
        bounded_count(usage.output),
        bounded_count(usage.cached_input),
        bounded_count(usage.reasoning),
        max(0.0, usage.cost) if is_in_range(usage.cost) else 0.0,
    )


def bounded_count(number: object) -> int:
    """Return a number of tokens. A whole number may be a float. Any other value counts as 0."""
    if isinstance(number, bool) or not isinstance(number, int | float) or number != number:  # noqa: PLR0124  # NaN
        return 0
    return int(min(max(number, 0), MAX_TOKENS))


def bounded_name(name: str) -> str:
    """Return a tool's name that a model wrote. A name that is too long or cannot be stored is
    replaced by its readable beginning and a digest, so that different names stay different."""
    if len(name) <= MAX_NAME and "\ufffd" not in clean_text(name):
        return name
    told = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{_NOT_IN_NAMES.sub('_', name)[: MAX_NAME - len(told) - 1]}_{told}"


def bounded_progress(
    progress: float | None, message: str | None
) -> tuple[float | None, str | None]:
    """Return the progress of a call from 0 to 1, and its message."""
    if progress is not None:
        progress = min(1.0, max(0.0, progress)) if is_in_range(progress) else None
    return progress, None if message is None else clean_text(message)[:MAX_MESSAGE]


def bounded_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return the parts that a model can read. A sentence replaces an image or a file that a model
    cannot read, so that the other parts of the result are kept."""
    return tuple(_bounded_part(part) for part in parts)


def count_json_bytes(value: object) -> int:
    """Return the size of a cleaned value as JSON."""
    return len(to_json(value, inf_nan_mode="null"))


def _bounded_done(done: Done) -> Done:
    kept = replace(
        done,
        output=clean_json(done.output)[0],
        parts=bounded_parts(done.parts),
        metadata=_object(done.metadata),
        state=_object(done.state),
    )
    size = count_json_bytes((kept.output, kept.parts, kept.metadata, kept.state))
    if size > MAX_RESULT_BYTES:
        raise UnstorableError(
            f"the result has {size} bytes, and the limit is {MAX_RESULT_BYTES} bytes"
        )
    return kept


def _bounded_output(output: Output) -> Output:
    match output:
        case RequestedCall():
            return replace(
                output,
                call_id=clean_text(output.call_id),
                name=bounded_name(output.name),
                arguments=clean_text(output.arguments),
                native=_native(output.native),
            )
        case Message():
            return replace(output, content=_content(output.content), native=_native(output.native))
        case HostedCall():
            return replace(
                output,
                call_id=clean_text(output.call_id)[:MAX_CALL_ID],
                name=bounded_name(output.name),
                kind=bounded_name(output.kind),
                arguments=_object(output.arguments),
                output=clean_json(output.output)[0],
                data=_object(output.data),
            )
        case _:
            return replace(output, data=_object(output.data))


def _list_native_values(output: Output) -> list[JsonValue]:
    """Return the values of an output that contain the provider's own JSON."""
    if isinstance(output, RequestedCall | Message):
        return [] if output.native is None else [output.native.data]
    return [output.data]


def _content(content: MessageContent) -> MessageContent:
    return clean_text(content) if isinstance(content, str) else bounded_parts(content)


def _native(native: Native | None) -> Native | None:
    return native and replace(native, data=_object(native.data))


def _object(value: T) -> T:
    return cast(T, clean_json(cast(JsonValue, value))[0])


def _bounded_part(part: Part) -> Part:
    if isinstance(part, TextPart):
        return TextPart(clean_text(part.text))
    if part.data is not None:
        part = replace(part, data="".join(part.data.split()))
    if (problem := _problem(part)) is not None:
        return TextPart(f"(One {part.type} was removed from this result: {problem}.)")
    media_type, filename = part.media_type, part.filename
    if media_type is not None:
        media_type = media_type.partition(";")[0].strip()
        media_type = media_type if _MEDIA_TYPE.fullmatch(media_type) else None
    if filename is not None:
        filename = clean_text(filename)[:MAX_FILENAME]
    return replace(part, media_type=media_type, filename=filename)


def _problem(part: MediaPart) -> str | None:
    """Return the reason why a model cannot read the part, or None if it can."""
    if part.data is not None:
        return None if _is_base64(part.data) else "the data is not valid base64"
    url = part.url or ""
    if (inline := _DATA_URL.fullmatch(url)) is not None:
        return None if _is_base64(inline[1]) else "the data is not valid base64"
    return None if _is_url(url) else "the URL is not a valid http or https address"


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_url(url: str) -> bool:
    if len(url) > MAX_URL or not _URL.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def truncate(output: JsonValue, max_bytes: int) -> tuple[JsonValue, JsonValue]:
    """Return the beginning and end of an output that is longer than `max_bytes`, and the complete
    output. The latter is None if the output was not truncated."""
    text = as_text(output)
    raw = text.encode()
    if len(raw) <= max_bytes:
        return output, None
    marker = f"\n… {len(raw) - max_bytes} bytes omitted …\n"
    half = max_bytes // 2
    head, tail = raw[:half].decode(errors="ignore"), raw[len(raw) - half :].decode(errors="ignore")
    return head + marker + tail, output
