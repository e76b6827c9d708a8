"""Every statement of a run compares the project of each row that it reads or writes. Otherwise, the
tables could not be distributed by project: docs/explanation/scaling.md.
"""

import re
from typing import Final

import pytest

from runward.store.postgres.tables import metadata
from runward.store.runs.queue import CLAIM
from tests.budgets.measure import list_statements

TABLES: Final = "|".join(
    table.name
    for table in metadata.tables.values()
    if next(iter(table.primary_key)).name == "project_id"
)
"""The tables of projects."""
ACROSS_PROJECTS: Final = {
    "FROM runs WHERE status = 'queued' AND available_at <= statement_timestamp()": (
        "A claim takes runs of all projects in turn."
    ),
    "SELECT EXISTS (SELECT 1 FROM runs WHERE status = 'in_progress'": (
        "A sweep asks which kinds of rows are due in any project."
    ),
    "clock_timestamp() - (SELECT available_at FROM runs": "A gauge counts all queued runs.",
    "WHERE ctid = ANY(ARRAY(SELECT ctid FROM": (
        "Every ten minutes, a worker deletes old rows of all projects."
    ),
}
"""A part of each statement that has no single project, and the reason."""
_REFERENCE: Final = re.compile(
    rf"\b(FROM|JOIN|UPDATE|INTO)\s+({TABLES})\b"
    r"(?:\s+(?:AS\s+)?(?!WHERE|SET|JOIN|ON|ORDER|CROSS|LEFT|FOR|LIMIT|USING|VALUES)([a-z]\w*))?"
)


def list_references_without_project(sql: str) -> list[str]:
    """Return the references to tables in `TABLES` whose project is neither compared nor
    inserted."""
    without: list[str] = []
    compared: dict[str, int] = {}
    for found in _REFERENCE.finditer(sql):
        verb, table, alias = found.groups()
        if verb == "INTO":
            ok = "project_id" in sql[found.end() :].partition(")")[0]
        else:
            name = alias or table
            own = rf"\b{name}\.project_id\s*=|=\s*{name}\.project_id\b"
            if alias is None:
                own += r"|(?<!\.)\bproject_id\s*="
            compared[name] = compared.get(name, 0) + 1
            ok = len(re.findall(own, sql)) >= compared[name]
        if not ok:
            without.append(found[0])
    return without


@pytest.mark.timeout(120)
def test_each_statement_of_a_run_compares_the_project(database_url: str) -> None:
    statements = list_statements(database_url)
    assert sum(bool(_REFERENCE.search(sql)) for sql in statements) >= 10
    for sql in statements:
        without = list_references_without_project(sql)
        across = any(part in sql for part in ACROSS_PROJECTS)
        assert across or not without, f"{without} in {sql}"


def test_a_claim_is_listed_as_a_statement_across_projects() -> None:
    assert list_references_without_project(str(CLAIM))
    assert any(part in str(CLAIM) for part in ACROSS_PROJECTS)


@pytest.mark.parametrize(
    ("sql", "without"),
    [
        ("SELECT 1 FROM runs WHERE id = $1", ["FROM runs"]),
        ("SELECT project_id FROM runs r WHERE r.id = $1", ["FROM runs r"]),
        ("SELECT 1 FROM runs WHERE project_id = $1 AND id = $2", []),
        (
            "SELECT 1 FROM runs r JOIN tool_calls c ON c.run_id = r.id WHERE r.project_id = $1",
            ["JOIN tool_calls c"],
        ),
        ("INSERT INTO run_events (run_id, seq) VALUES ($1, $2)", ["INTO run_events"]),
        ("DELETE FROM idempotency_keys WHERE key = $1", ["FROM idempotency_keys"]),
        (
            "SELECT (SELECT 1 FROM runs r WHERE r.id = $2) FROM runs r WHERE r.project_id = $1",
            ["FROM runs r"],
        ),
    ],
)
def test_a_statement_without_the_project_is_found(sql: str, without: list[str]) -> None:
    assert list_references_without_project(sql) == without
