"""A strict parser of request bodies. Accepted bodies can be stored, digested and returned.

`jiter` rejects invalid JSON and reports the position. It also rejects byte order marks, NaN, lone
surrogates, bytes that are not UTF-8, and duplicate keys. This module then rejects valid JSON that
cannot be stored: NUL, which PostgreSQL cannot hold, numbers that no double can hold, and nesting
deeper than `MAX_DEPTH`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, cast

import jiter
from pydantic import JsonValue

from runward.domain.errors import FieldError, InvalidJsonError, InvalidRequestError
from runward.domain.json import MAX_DEPTH, MAX_NUMBER, is_in_range, may_need_repair

MAX_PROBLEMS: Final = 20
"""Maximum number of problems in an error."""
MAX_MESSAGE: Final = 200
"""Maximum number of characters of the parser's message. The message may contain a duplicate key of
any length."""
MAX_PATH: Final = 200
"""Maximum number of characters of a path. Clients choose the keys in a path, so it may have any
length."""

_TOO_DEEP: Final = f"must not be nested more than {MAX_DEPTH} levels deep"
_NUL: Final = "must not contain the NUL character"
_NUL_KEY: Final = "must not have a key that contains the NUL character"
_NUMBER: Final = f"must be a number between -{MAX_NUMBER:g} and {MAX_NUMBER:g}"


def parse_body(body: bytes) -> JsonValue:
    """Return the value of a body. Raises InvalidJsonError if the JSON is invalid or ambiguous, or
    InvalidRequestError with the path of each problem."""
    try:
        value = cast(
            JsonValue, jiter.from_json(body, catch_duplicate_keys=True, allow_inf_nan=False)
        )
    except ValueError as error:
        raise _refusal(body, str(error)) from None
    if may_need_repair(body, value):
        problems = list(islice(_find_problems(value), MAX_PROBLEMS))
        if problems:
            raise InvalidRequestError(errors=problems)
    return value


def _refusal(body: bytes, message: str) -> InvalidJsonError | InvalidRequestError:
    if message.startswith("recursion limit exceeded"):
        return InvalidRequestError(errors=[FieldError("", _TOO_DEEP)])
    if not body.strip():
        return InvalidJsonError("The request body is empty. Send a JSON value.")
    if len(message) > MAX_MESSAGE:
        message = f"{message[: MAX_MESSAGE // 2]} … {message[-MAX_MESSAGE // 2 :]}"
    return InvalidJsonError(f"The request body is not valid JSON: {message}.")


@dataclass(frozen=True, slots=True)
class _Location:
    """The key or index of a value, with the location of its container. The path is built only for a
    problem, because a long key would otherwise be copied for each value inside."""

    above: "_Location | None" = None
    step: str | int = ""
    depth: int = 0

    def below(self, step: str | int) -> "_Location":
        return _Location(self, step, self.depth + 1)

    @property
    def path(self) -> str:
        steps: list[str] = []
        at: _Location = self
        while at.above is not None:
            steps.append(str(at.step)[: MAX_PATH + 1])
            at = at.above
        path = ".".join(reversed(steps))
        return path if len(path) <= MAX_PATH else f"{path[:MAX_PATH]}…"


def _find_problems(root: JsonValue) -> Iterator[FieldError]:
    """Yield the problems in the order of the text. The function is not recursive, because it checks
    the depth itself."""
    stack: list[tuple[_Location, JsonValue]] = [(_Location(), root)]
    while stack:
        place, value = stack.pop()
        match value:
            case dict() | list() if place.depth == MAX_DEPTH:
                yield FieldError(place.path, _TOO_DEEP)
            case dict():
                if any("\x00" in key for key in value):
                    yield FieldError(place.path, _NUL_KEY)
                stack.extend((place.below(key), inner) for key, inner in reversed(value.items()))
            case list():
                last = len(value) - 1
                stack.extend(
                    (place.below(last - i), inner) for i, inner in enumerate(reversed(value))
                )
            case str() if "\x00" in value:
                yield FieldError(place.path, _NUL)
            case float() | int() if not is_in_range(value):
                yield FieldError(place.path, _NUMBER)
            case _:
                pass
