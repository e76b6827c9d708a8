"""docs/how-to/plugins.md and docs/reference/plugin-api.md: every example of them is loaded as a
plugin, and does what it says."""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runward.domain.registry.tools import ToolSpec
from runward.tools.plugin.declarations import Options
from runward.tools.plugin.loader import load_plugins
from runward.tools.testing import run_tool

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "how-to/plugins.md").read_text("utf-8")
REFERENCE = (DOCS / "reference/plugin-api.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", GUIDE + REFERENCE, re.MULTILINE | re.DOTALL)
EXPECTED = [
    ["convert"],
    ["book"],
    ["translate"],
    ["draw"],
    ["pay"],
    ["render"],
    ["shop.no_cards", "shop.cached"],
    ["greet"],
    ["plain", "other", "again"],
    ["compare_offers"],
    ["summarize"],
    ["order_status"],
    ["stock"],
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("plugins_md_")]:
        del sys.modules[name]


def test_every_example_is_known() -> None:
    assert len(BLOCKS) == len(EXPECTED)


@pytest.mark.parametrize("number", range(len(EXPECTED)))
def test_an_example_can_be_loaded_and_holds(folder: Path, number: int) -> None:
    (folder / f"plugins_md_{number}.py").write_text(BLOCKS[number], "utf-8")
    loaded = load_plugins([f"plugins_md_{number}"])
    assert [*loaded.tools, *loaded.guardrails, *loaded.hooks] == EXPECTED[number]


async def test_the_on_error_function_that_is_shown_explains_an_error() -> None:
    names: dict[str, Any] = {}
    exec(next(block for block in BLOCKS if "on_error" in block), names)
    result = await run_tool(names["order_status"], {"number": 7})
    assert result.error == "LookupError: 7"
    assert f"`{result.message}`" in REFERENCE


async def test_the_function_that_is_shown_runs_its_agents(folder: Path) -> None:
    number = EXPECTED.index(["translate"])
    (folder / f"plugins_md_{number}.py").write_text(BLOCKS[number], "utf-8")
    module = importlib.import_module(f"plugins_md_{number}")
    agents: Any = {"translator": "Tee", "reviewer": {"correct": False, "remarks": "Not Kaffee?"}}
    result = await run_tool(module.translate, {"text": "coffee"}, agents=agents)
    assert result.output == "Tee (Not Kaffee?)"


def test_every_option_is_documented() -> None:
    section = REFERENCE.partition("\n## Tool options\n")[2].partition("\n## ")[0]
    table = section.partition("\n| Option |")[2].partition("\n\n")[0]
    named = re.findall(r"`(\w+)`", "\n".join(row.split(" | ")[0] for row in table.splitlines()))
    assert set(named) - {"tool"} == set(Options.__annotations__)
    defaults = ToolSpec(name="a", parameters={})
    assert f"| `max_output_bytes` | {defaults.max_output_bytes} |" in table
    assert f"| {defaults.approval_expires_seconds:g} |" in table
    assert f"| {defaults.retry.max_attempts} attempts |" in table
    assert f"| {defaults.concurrency.limit} in one run |" in table
