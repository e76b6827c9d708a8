"""Hypothesis generates stories about the real service. RUNWARD_STORIES=300 runs more of them."""

import os
from collections.abc import Iterator

import pytest

from tests.stateful.telling import search
from tests.stateful.world import World

EXAMPLES = int(os.environ.get("RUNWARD_STORIES", "10"))


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world


@pytest.mark.timeout(120 + EXAMPLES * 20)
def test_what_was_promised_holds_in_every_story(world: World) -> None:
    failure = search(world, EXAMPLES)
    assert failure is None, str(failure)
