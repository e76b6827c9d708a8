"""The model checker can fail: it catches each planted mistake by the property that it breaks."""

from functools import partial

import pytest

from tests.model.explore import explore
from tests.model.mutants import MUTANTS, planted
from tests.model.scopes import SCOPES


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_mistake_is_caught(name: str) -> None:
    mutant = MUTANTS[name]
    found = explore(SCOPES[mutant.scope], mutant=partial(planted, mutant))
    assert found.violation is not None, "it is alive"
    assert found.violation.startswith(mutant.caught_by), found.violation
    assert found.trace
