"""docs/how-to/executors.md: its plugin is one, and the arguments that it names are those of the
kinds."""

import re
from pathlib import Path
from typing import Any

from runward.domain.registry.provider_tools import EXECUTORS
from runward.tools.plugin.tool import make_tool
from runward.tools.testing import run_tool_sync

PAGE = (Path(__file__).parents[2] / "docs" / "how-to/executors.md").read_text("utf-8")


def test_the_example_is_a_plugin_that_a_person_approves() -> None:
    [block] = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, "executors.md", "exec"), names)
    spec = make_tool(names["apply_patch"]).spec
    assert (spec.implements, spec.approval) == ("apply_patch", "always")
    assert spec.parameters == EXECUTORS["apply_patch"].parameters
    operation: Any = {"type": "create_file", "path": "a", "diff": "+a"}
    result = run_tool_sync(names["apply_patch"], {"operation": operation})
    assert result.output == {"status": "completed", "output": "create_file: a"}


def test_every_kind_is_described_with_its_arguments() -> None:
    for kind, executor in EXECUTORS.items():
        section = PAGE.partition(f"### `{kind}`")[2].partition("\n#")[0]
        properties: Any = executor.parameters["properties"]
        for name in properties:
            assert re.search(rf"^\| `{name}[`.]", section, re.MULTILINE), (kind, name)
