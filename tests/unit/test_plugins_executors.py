"""Functions of plugins that carry out what providers know by kind."""

from typing import Any

import pytest

from runward.domain.registry.provider_tools import EXECUTORS
from runward.tools import PluginError, tool
from runward.tools.plugin.tool import make_tool


def shell(
    commands: list[str], timeout_ms: int | None = None, max_output_length: int | None = None
) -> list[str]:
    return [f"{one} {timeout_ms} {max_output_length}" for one in commands]


def test_its_contract_is_the_kind_s() -> None:
    spec = make_tool(tool(implements="shell")(shell)).spec
    assert spec.implements == "shell"
    assert spec.parameters == EXECUTORS["shell"].parameters
    assert spec.description == EXECUTORS["shell"].description
    assert (spec.approval, spec.strict) == ("always", False)


def test_its_own_words_and_settings_come_first() -> None:
    def patch(operation: dict[str, Any]) -> str:
        """Patches the shop's pages."""
        return str(operation)

    spec = make_tool(tool(implements="apply_patch", approval="never")(patch)).spec
    assert spec.description == "Patches the shop's pages."
    assert spec.approval == "never"


def test_a_function_that_takes_something_else_is_refused() -> None:
    def other(command: str) -> str:
        return command

    with pytest.raises(PluginError, match="parameters: commands, timeout_ms, max_output_length"):
        make_tool(tool(implements="shell")(other))


def test_a_kind_that_no_provider_knows_is_refused() -> None:
    declared = tool(implements="telepathy")(shell)  # type: ignore[call-overload]
    with pytest.raises(PluginError, match="must be one of shell, apply_patch, computer"):
        make_tool(declared)


async def screen(
    actions: list[dict[str, Any]], pending_safety_checks: list[dict[str, Any]] | None
) -> str:
    return f"{len(actions)} {pending_safety_checks}"


def test_a_computer_has_a_screen_and_no_other_function_does() -> None:
    size = {"display_width": 1280, "display_height": 800}
    spec = make_tool(tool(implements="computer", settings=size)(screen)).spec
    assert spec.settings is not None
    assert spec.settings.display_width == 1280
    assert spec.description.endswith("1280 by 800 pixels (environment: browser).")
    with pytest.raises(PluginError, match="settings requires implements='computer'"):
        make_tool(tool(implements="shell", settings=size)(shell))
    with pytest.raises(PluginError, match=r"settings.display_width"):
        make_tool(tool(implements="computer", settings={**size, "display_width": 0})(screen))
