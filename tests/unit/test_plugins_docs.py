"""docs/how-to/plugins.md: every example of it is loaded as a plugin, and does what it says."""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runward.domain.registry.tools import ToolSpec
from runward.tools.plugin.declarations import Options
from runward.tools.plugin.loader import load_plugins

PAGE = (Path(__file__).parents[2] / "docs" / "how-to/plugins.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
EXPECTED = [
    ["convert"],
    ["plain", "other", "again"],
    ["book"],
    ["draw"],
    ["render"],
    ["pay"],
    ["stock"],
    ["shop.no_cards", "shop.cached"],
    ["greet"],
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


def test_every_option_is_documented() -> None:
    table = PAGE.partition("\n## Policy\n")[2].partition("\nFunctions decide")[0]
    named = re.findall(r"`(\w+)`", "\n".join(row.split(" | ")[0] for row in table.splitlines()))
    assert set(named) - {"tool"} == set(Options.__annotations__)
    defaults = ToolSpec(name="a", parameters={})
    assert f"| `max_output_bytes` | {defaults.max_output_bytes} |" in table
    assert f"| {defaults.approval_expires_seconds:g} |" in table
    assert f"| {defaults.retry.max_attempts} attempts |" in table
    assert f"| {defaults.concurrency.limit} in one run |" in table
