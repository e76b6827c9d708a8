"""A repair of aiohttp 3.14 for all of its connections, also those of the SDKs for models.

If the framing of a body breaks after the headers were read, aiohttp closes the connection without
telling the reader of the body. The reader would wait until the time of its request is up, and the
request would count as timed out instead of cut off.
"""

from typing import Any, Final

from aiohttp import ClientPayloadError
from aiohttp.client_proto import ResponseHandler

_set_exception: Final = ResponseHandler.set_exception


def _tell_the_reader(self: ResponseHandler, exc: BaseException, *cause: Any) -> None:
    _set_exception(self, exc, *cause)
    body = self._payload  # pyright: ignore[reportPrivateUsage]
    if body is not None and body.exception() is None and not body.is_eof():
        body.set_exception(ClientPayloadError(f"a broken body ({type(exc).__name__})"))


def repair_set_exception() -> None:
    """Patch aiohttp. Idempotent."""
    ResponseHandler.set_exception = _tell_the_reader  # pyright: ignore[reportAttributeAccessIssue]
