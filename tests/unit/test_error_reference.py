"""docs/reference/errors.md is up to date and complete."""

from runward.domain.events.values import CallReason, RunErrorCode
from runward.domain.run.state import CallOutcome
from tests.error_reference import PAGE, build_page, read_http_errors, read_source


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == build_page(), "run `make errors`"


def test_every_http_error_is_explained_once() -> None:
    source = read_source()
    listed = [code for group in source["group"] for code in group["codes"]]
    assert sorted(listed) == sorted(set(listed)) == sorted(read_http_errors())
    assert set(source["code"]) == set(listed)


def test_every_failure_code_of_a_run_is_explained() -> None:
    assert set(read_source()["run"]) == set(RunErrorCode)


def test_every_failure_code_of_a_tool_call_is_explained() -> None:
    without_reason = {CallOutcome.TIMED_OUT, CallOutcome.OUTCOME_UNKNOWN}
    assert set(read_source()["call"]) == {*CallReason, *without_reason}
