"""Signatures that are right in Python can be called from JSON too, or are refused at the start."""

from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import AwareDatetime, BaseModel, Field, NaiveDatetime

from runward.domain.schema.validator import Validator
from runward.tools import PluginError, tool
from runward.tools.plugin.tool import make_tool
from runward.tools.testing import run_tool_sync, schema_of


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1


@dataclass
class Box:
    size: int
    label: str = field(init=False, default="none")
    seal: str = field(init=False)

    def __post_init__(self) -> None:
        self.seal = "wax"


class Nested(BaseModel):
    color: Literal[Color.RED]


def with_hint(hint: Any) -> Any:
    def function(x: Any) -> str:
        return repr(x)

    function.__annotations__["x"] = hint
    return function


CALLS: list[tuple[Any, Any, str]] = [
    (NaiveDatetime, "2026-01-02T03:04:05", "datetime.datetime(2026, 1, 2, 3, 4, 5)"),
    (datetime, "2026-01-02T03:04:05", "datetime.datetime(2026, 1, 2, 3, 4, 5)"),
    (datetime, "2026-01-02 03:04", "datetime.datetime(2026, 1, 2, 3, 4)"),
    (
        datetime,
        "2026-01-02T03:04:05Z",
        "datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=TzInfo(0))",
    ),
    (
        AwareDatetime,
        "2026-01-02T03:04:05+00:00",
        "datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=TzInfo(0))",
    ),
    (time, "03:04:05.5", "datetime.time(3, 4, 5, 500000)"),
    (time, "03:04:05Z", "datetime.time(3, 4, 5, tzinfo=TzInfo(0))"),
    (timedelta, "PT1H", "datetime.timedelta(seconds=3600)"),
    (Literal[Color.RED], "red", "<Color.RED: 'red'>"),
    (Literal[Color.RED, "other", Level.LOW], 1, "<Level.LOW: 1>"),
    (list[Literal[Color.RED, Color.BLUE]] | None, ["blue"], "[<Color.BLUE: 'blue'>]"),
    (Box, {"size": 1}, "Box(size=1, label='none', seal='wax')"),
]


@pytest.mark.parametrize(("hint", "given", "received"), CALLS)
def test_a_type_can_be_called_from_json(hint: Any, given: Any, received: str) -> None:
    assert run_tool_sync(with_hint(hint), {"x": given}).output == received


REFUSED: list[tuple[Any, Any]] = [
    (NaiveDatetime, "2026-01-02T03:04:05Z"),
    (AwareDatetime, "2026-01-02T03:04:05"),
    (datetime, "tomorrow"),
    (time, "noon"),
    (Literal[Color.RED], "blue"),
    (Box, {"size": 1, "label": "x"}),
]


@pytest.mark.parametrize(("hint", "given"), REFUSED)
def test_the_schema_refuses_a_value_that_the_function_would(hint: Any, given: Any) -> None:
    assert Validator(schema_of(with_hint(hint))).problems({"x": given})


def test_a_default_in_the_annotation_is_one() -> None:
    def function(
        x: Annotated[int, Field(default=5)],
        y: Annotated[list[int], Field(default_factory=list)],
        z: Annotated[int, Field(default=1)] = 2,
    ) -> str:
        return repr((x, y, z))

    assert "required" not in make_tool(function).spec.parameters
    assert run_tool_sync(function, {}).output == "(5, [], 2)"
    assert run_tool_sync(function, {"x": 6, "y": [7], "z": 8}).output == "(6, [7], 8)"


def test_a_time_that_a_function_returns_fits_its_schema() -> None:
    def function() -> datetime:
        return datetime(2026, 1, 2)  # noqa: DTZ001  # the case in question

    made = make_tool(tool(function, output_schema=True))
    assert made.spec.output_schema is not None
    validator = Validator({"type": "object", "properties": {"x": made.spec.output_schema}})
    for text in ("2026-01-02T00:00:00", "2026-01-02T00:00:00.5Z"):
        assert validator.problems({"x": text}) == []


def test_a_pattern_that_cannot_be_used_names_its_function_and_parameter() -> None:
    def look(word: Annotated[str, Field(pattern="^(?!x)")]) -> str:
        return word

    with pytest.raises(PluginError, match=r":.*look: parameter 'word': .*look-ahead") as refused:
        make_tool(look)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("hint", [Nested, list[Nested]])
def test_a_literal_of_a_member_that_takes_no_json_is_refused(hint: Any) -> None:
    with pytest.raises(PluginError, match=r"Color\.RED.* cannot be read from JSON"):
        make_tool(with_hint(hint))
