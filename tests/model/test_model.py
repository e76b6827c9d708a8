"""In every state of small runs the properties are true, and every path ends."""

import pytest

from tests.model.explore import explore
from tests.model.scopes import SCOPES

MAX_STATES = 8000
"""Of one scope; the largest of them has fewer."""


@pytest.mark.parametrize("name", SCOPES)
def test_every_state_is_safe_and_leads_to_an_end(name: str) -> None:
    found = explore(SCOPES[name], max_states=MAX_STATES)
    assert found.violation is None, "\n".join([found.violation or "", *found.trace])
    assert found.complete


def test_a_state_is_the_same_however_it_is_reached() -> None:
    """Else the figures would depend on the order of the search."""
    first, second = (explore(SCOPES["freeze"]) for _ in range(2))
    assert (first.states, first.transitions) == (second.states, second.transitions)
