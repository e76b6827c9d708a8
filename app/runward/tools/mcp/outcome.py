"""Translation of an MCP server's answer to a call into an outcome. Pure."""

from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from runward.domain.json import clean_text
from runward.domain.registry.tools import RETRYABLE_STATUSES
from runward.domain.run.bounds import MAX_PARTS, bounded_outcome
from runward.domain.run.items import MediaPart, Part, TextPart
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome
from runward.tools.mcp.http import CONNECTION_LOST, ERROR_STATUS, NOT_SENT, UNREADABLE

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock

MAX_MESSAGE: Final = 2048
"""Maximum number of characters of a server's error message."""

_CONNECTION_CLOSED: Final = -32_000
_REQUEST_TIMEOUT: Final = -32_001
_PARSE_ERROR: Final = -32_700


def result_outcome(result: "CallToolResult") -> Outcome:
    """Return the outcome of a result. The output is the structured content, if there is any. The
    parts are kept if one of them is not text."""
    if len(result.content) > MAX_PARTS:
        return Failed(
            FailureKind.INVALID_RESPONSE, f"The result has more than {MAX_PARTS} content blocks."
        )
    parts = tuple(_part(block) for block in result.content)
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    if result.is_error:
        detail = "The tool returned a result with `isError`."
        return Failed(FailureKind.ERROR, detail, message=_capped(text) or None)
    output: Any = text
    if result.structured_content is not None:
        output = result.structured_content
    plain = all(isinstance(part, TextPart) for part in parts)
    return bounded_outcome(Done(output, () if plain else parts))


def error_outcome(code: int, message: str, data: Any) -> Failed:
    """Return the outcome of a JSON-RPC error, or of an error response of `AnsweringTransport`."""
    said = _capped(clean_text(message))
    about = cast(dict[str, Any], data) if isinstance(data, dict) else {}
    if code == NOT_SENT:
        return Failed(FailureKind.NOT_SENT, said, permanent=about.get("permanent") is True)
    if code in (CONNECTION_LOST, _CONNECTION_CLOSED):
        return Failed(FailureKind.UNKNOWN, said)
    if code == _REQUEST_TIMEOUT:
        return Failed(FailureKind.TIMEOUT, "The server reported that the request timed out.")
    if code in (UNREADABLE, _PARSE_ERROR):
        return Failed(FailureKind.INVALID_RESPONSE, said)
    if code == ERROR_STATUS and about.get("expired") is True:
        return Failed(FailureKind.NOT_SENT, "The server ended the session.")
    if code == ERROR_STATUS:
        told = about.get("status")
        status = told if isinstance(told, int) and 100 <= told <= 599 else None
        why = FailureKind.UNAVAILABLE if status in RETRYABLE_STATUSES else FailureKind.ERROR
        return Failed(why, said, status=status)
    return Failed(FailureKind.ERROR, f"JSON-RPC error {code}: {said}", message=said or None)


def _part(block: "ContentBlock") -> Part:
    match block.type:
        case "text":
            return TextPart(clean_text(block.text))
        case "image":
            return MediaPart("image", data=block.data, media_type=block.mime_type)
        case "audio":
            return MediaPart("file", data=block.data, media_type=block.mime_type)
        case "resource_link":
            return TextPart(clean_text(f"{block.name}: {block.uri}"))
        case "resource":
            held = block.resource
            text = getattr(held, "text", None)
            if isinstance(text, str):
                return TextPart(clean_text(text))
            return MediaPart(
                "file",
                data=getattr(held, "blob", ""),
                media_type=held.mime_type,
                filename=clean_text(str(held.uri)).rpartition("/")[2][:255] or None,
            )
        case _:
            assert_never(block.type)


def _capped(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"
