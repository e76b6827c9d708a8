"""docs/how-to/limits.md says what the code does."""

import re
from inspect import getsource

from runward.domain.registry.tools import TRANSFER_PREFIX
from runward.domain.run import decide
from runward.domain.run.builtins import BUILTINS, MAX_READ_BYTES, MIN_READ_BYTES, READ_BYTES
from runward.domain.run.config import MAX_TOOLS, MAX_VISIBLE_TOOLS, Limits
from runward.domain.run.tool_search import MAX_FOUND
from runward.domain.schema.patterns import BACKTRACKS, PATTERN_BYTES, PATTERN_STEPS, PATTERNS_BYTES
from runward.domain.schema.subschemas import MAX_COMPARED
from runward.domain.schema.validator import MAX_EXPANSION, MAX_SCHEMA_BYTES
from tests.unit.test_docs import DOCS, read, rows

PAGE = "how-to/limits.md"


def test_every_limit_is_listed_with_its_default() -> None:
    listed = rows(PAGE, "## What bounds a run")
    assert list(listed) == list(Limits.model_fields)
    for name, field in Limits.model_fields.items():
        default = listed[name][0]
        assert default == ("none" if field.default is None else str(field.default)) or (
            default.startswith("`RUNWARD_")
        )


def test_the_limits_of_schemas_are_listed() -> None:
    page = read(DOCS / PAGE).partition("## Schemas")[2]
    numbers = (MAX_SCHEMA_BYTES, MAX_EXPANSION, MAX_COMPARED, PATTERN_STEPS, BACKTRACKS)
    assert all(f"{number:,}" in page for number in numbers)
    assert all(f"{size // 1_048_576} MiB" in page for size in (PATTERN_BYTES, PATTERNS_BYTES))


def test_every_reason_is_listed() -> None:
    reasons = re.findall(r"_incomplete\(\s*\"(\w+)\"", getsource(decide))
    assert len(reasons) >= 5
    assert {*reasons, "deadline", "refusal"} <= set(rows(PAGE, "## Why a run is incomplete"))


def test_every_built_in_tool_is_described_with_its_arguments_and_bounds() -> None:
    page = read(DOCS / PAGE)
    assert all(f"`{name}`" in page for name in (*BUILTINS, TRANSFER_PREFIX))
    read_result = BUILTINS["read_result"].spec.parameters["properties"]
    assert isinstance(read_result, dict)
    assert list(rows(PAGE, "## Long results")) == list(read_result)
    numbers = (MIN_READ_BYTES, MAX_READ_BYTES, READ_BYTES, MAX_TOOLS, MAX_VISIBLE_TOOLS, MAX_FOUND)
    assert all(re.search(rf"\b{number:,}\b", page) for number in numbers)
