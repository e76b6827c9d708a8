"""What counts as the value that a page shows."""

from typing import Any

import pytest

from tests.docs.likeness import differences

RUN = f"run_{'a' * 32}"
OTHER = f"run_{'b' * 32}"


@pytest.mark.parametrize(
    ("shown", "real"),
    [
        ({"id": RUN, "n": 1}, {"n": 1, "id": OTHER}),
        ({"id": "run_…"}, {"id": OTHER}),
        ({"at": "2026-11-02T09:30:00.125000Z"}, {"at": "2027-01-01T00:00:00Z"}),
        ({"a": {"…": "…"}, "b": [1, "…"]}, {"a": {"x": 1}, "b": [1, 2, 3]}),
        ("sha256:…, and more", "sha256:ff, and more"),
        (30, 30.0),
    ],
)
def test_ids_times_and_what_is_left_out_may_be_anything(shown: Any, real: Any) -> None:
    assert not list(differences(shown, real))


@pytest.mark.parametrize(
    ("shown", "real", "said"),
    [
        ({"a": 1}, {"a": 2}, ".a is 2, and not 1"),
        ({"a": 1}, {}, ".a is not there"),
        ({}, {"a": 1}, ".a is not shown"),
        ({"a": [{"b": None}]}, {"a": [{"b": 0}]}, ".a[0].b is 0, and not null"),
        ([1], [1, 2], "it has 2 elements, and not 1"),
        ([1, 2, "…"], [1], "it has 1 elements, and not 2"),
        (RUN, "run_1", f'it is "run_1", and not "{RUN}"'),
        ("run_…", "apr_1", 'it is "apr_1", and not "run_…"'),
        (1, True, "it is true, and not 1"),
        ({"a": 1}, [], 'it is [], and not {"a": 1}'),
    ],
)
def test_anything_else_is_a_difference(shown: Any, real: Any, said: str) -> None:
    assert list(differences(shown, real)) == [said]
