"""The pages of guarantees and evidence are generated from their source and the last figures."""

from tests.checker import RULES
from tests.guarantees import (
    EVIDENCE,
    PAGE,
    Part,
    evidence,
    missing,
    page,
    read_parts,
    read_promises,
    show_figures,
)

NAMES = {rule.__name__ for rule in RULES}


def test_the_pages_are_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make guarantees`"
    assert EVIDENCE.read_text(encoding="utf-8") == evidence(), "run `make guarantees`"


def test_every_test_rule_and_figure_that_is_named_exists() -> None:
    promises = read_promises()
    assert len(promises) > 20
    assert missing(promises, NAMES, read_parts()) == []


def test_every_rule_of_the_checker_guards_a_promise() -> None:
    named = {rule for promise in read_promises() for rule in promise.get("rules", ())}
    assert named == NAMES


def test_every_promise_is_shown_by_a_test() -> None:
    unshown = [promise["promise"] for promise in read_promises() if not promise["tests"]]
    assert unshown == []


def test_what_does_not_exist_is_named() -> None:
    wrong = {
        "tests": ["tests/guarantees.py::test_nothing"],
        "rules": ["nothing_is_ever_wrong"],
        "figures": ["chaos: nothing", "unknown: nothing"],
    }
    parts = {"chaos": Part("chaos", "2026-01-01", "make chaos", {})}
    assert missing([wrong], NAMES, parts) == [*wrong["tests"], *wrong["rules"], "chaos: nothing"]


def test_a_figure_is_shown_as_soon_as_its_part_has_been_run() -> None:
    promise = {"figures": ["chaos: kills", "model: states"]}
    assert show_figures(promise, {}) == []
    part = Part("chaos", "2026-01-01", "make chaos", {"kills": 1234})
    assert show_figures(promise, {"chaos": part}) == ["kills: 1,234 (chaos)"]
