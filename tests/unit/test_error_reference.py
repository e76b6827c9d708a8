"""docs/reference/errors.md is up to date and complete."""

import ast
from collections.abc import Iterator
from pathlib import Path

from runward.domain.events.values import Reason
from runward.domain.run.state import CallOutcome
from tests.error_reference import PAGE, ROOT, build_page, read_http_errors, read_source

SOURCES = ROOT / "app/runward"
RAISED = {"ModelError", "UnusableResponseError"}
"""Their first argument is the code with which a run fails."""
INDIRECT = {"tool_timeout", "tool_error", "invalid_arguments", "guardrail"}
"""Codes that `runward.domain.run.decide` takes from the result of a tool call."""


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == build_page(), "run `make errors`"


def test_every_http_error_is_explained_once() -> None:
    source = read_source()
    listed = [code for group in source["group"] for code in group["codes"]]
    assert sorted(listed) == sorted(set(listed)) == sorted(read_http_errors())
    assert set(source["code"]) == set(listed)


def test_every_failure_code_of_a_run_is_explained() -> None:
    assert (
        set(read_source()["run"])
        >= {code for path in SOURCES.rglob("*.py") for code in _failure_codes(path)} | INDIRECT
    )


def test_every_explained_failure_code_is_in_the_code() -> None:
    text = "".join(path.read_text("utf-8") for path in SOURCES.rglob("*.py"))
    assert [code for code in read_source()["run"] if f'"{code}"' not in text] == []


def test_every_failure_code_of_a_tool_call_is_explained() -> None:
    without_reason = {CallOutcome.TIMED_OUT, CallOutcome.OUTCOME_UNKNOWN}
    assert set(read_source()["call"]) == {*Reason, *without_reason}


def _failure_codes(path: Path) -> Iterator[str]:
    """Yield the codes with which the module at `path` fails runs."""
    tree = ast.parse(path.read_text("utf-8"))
    constants = {
        node.target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        code: ast.expr | None = None
        if node.func.id in RAISED and node.args:
            code = node.args[0]
        elif node.func.id == "Finish" and "FAILED" in ast.unparse(node):
            code = next((one.value for one in node.keywords if one.arg == "code"), None)
        match code:
            case ast.Constant(value=str(value)):
                yield value
            case ast.Name(id=name) if isinstance(constants.get(name), str):
                yield str(constants[name])
            case _:
                pass
