"""The pages about limits and built-in tools agree with the code."""

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

LIMITS = "reference/limits.md"
BUILT_IN_TOOLS = "reference/built-in-tools.md"


def test_every_limit_is_listed_with_its_default() -> None:
    listed = rows(LIMITS, "## Run limits")
    assert list(listed) == list(Limits.model_fields)
    for name, field in Limits.model_fields.items():
        default = listed[name][0]
        assert default == ("none" if field.default is None else str(field.default)) or (
            default.startswith("`RUNWARD_")
        )


def test_the_limits_of_schemas_are_listed() -> None:
    page = read(DOCS / LIMITS).partition("## Schemas")[2]
    numbers = (MAX_SCHEMA_BYTES, MAX_EXPANSION, MAX_COMPARED, PATTERN_STEPS, BACKTRACKS)
    assert all(f"{number:,}" in page for number in numbers)
    assert all(f"{size // 1_048_576} MiB" in page for size in (PATTERN_BYTES, PATTERNS_BYTES))


def test_every_reason_is_listed() -> None:
    reasons = re.findall(r"_incomplete\(\s*\"(\w+)\"", getsource(decide))
    assert len(reasons) >= 5
    assert {*reasons, "deadline", "refusal"} <= set(rows(LIMITS, "## Reasons for incomplete runs"))


def test_every_built_in_tool_is_described_with_its_arguments_and_bounds() -> None:
    page = read(DOCS / BUILT_IN_TOOLS)
    assert f"`{TRANSFER_PREFIX}`" in page
    for name, tool in BUILTINS.items():
        arguments = tool.spec.parameters["properties"]
        assert isinstance(arguments, dict)
        assert list(rows(BUILT_IN_TOOLS, f"## `{name}`")) == list(arguments)
    numbers = (MIN_READ_BYTES, MAX_READ_BYTES, READ_BYTES, MAX_TOOLS, MAX_VISIBLE_TOOLS, MAX_FOUND)
    assert all(re.search(rf"\b{number:,}\b", page) for number in numbers)
