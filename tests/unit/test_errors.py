"""The error tree and its HTTP numbers."""

from collections.abc import Iterator

import pytest

from runward.api.http.problems import get_status
from runward.domain import errors, not_found
from runward.domain.errors import AppError, UnsupportedParameterError


def kinds(root: type[AppError] = AppError) -> Iterator[type[AppError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from kinds(kind)


@pytest.mark.parametrize("kind", list(kinds()))
def test_every_error_has_an_http_status(kind: type[AppError]) -> None:
    assert 400 <= get_status(kind) < 600


def test_codes_are_unique_and_stable_words() -> None:
    codes = [kind.code for kind in kinds()]
    assert len(set(codes)) == len(codes)
    assert all(code.replace("_", "").islower() for code in codes)


def test_a_subclass_has_the_number_of_its_nearest_ancestor() -> None:
    assert get_status(not_found.RunNotFoundError) == 404
    assert get_status(errors.IdempotencyMismatchError) == 422
    with pytest.raises(KeyError):
        get_status(AppError)


def test_an_error_says_what_happened() -> None:
    assert str(not_found.RunNotFoundError()) == "This project has no run with this ID."
    assert str(errors.InsufficientScopeError(["a", "b"])) == (
        "This API key does not have the required scope: a or b."
    )


def test_a_parameter_that_cannot_be_honoured_is_named() -> None:
    error = UnsupportedParameterError("top_logprobs", "There are none.")
    assert error.detail == "There are none."
    assert [(one.path, one.message) for one in error.errors] == [
        ("top_logprobs", "There are none.")
    ]


def test_an_unsupported_parameter_is_named() -> None:
    error = errors.UnsupportedParameterError("store", "Runs are stored.")
    assert (str(error), get_status(type(error))) == ("Runs are stored.", 422)
    assert error.errors == (errors.FieldError("store", "Runs are stored."),)
