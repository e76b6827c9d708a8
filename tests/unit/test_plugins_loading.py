"""Finding plugins, and what is said about those that cannot be used."""

import importlib
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from runward.domain.registry.tools import CallableRule, CelRule, Concurrency, Retry
from runward.domain.registry.tools import FailureMessage as Message
from runward.tools import PluginError, tool
from runward.tools.plugin.loader import Plugins, load_plugins
from runward.tools.plugin.tool import make_tool

HEAD = "from runward.tools import *\nfrom runward.tools import tool, hook, guardrail\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """On the path of modules, for one test."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("plug")]:
        del sys.modules[name]


def load(folder: Path, source: str, name: str = "plug", value: str | None = None) -> Plugins:
    (folder / f"{name}.py").write_text(HEAD + source, "utf-8")
    return load_plugins([value or name])


ONE = "@tool\ndef one(x: int) -> int:\n    return x\n"
TWO = "@tool\nasync def two() -> None: ...\n"


def test_what_is_decorated_in_a_module_is_loaded(folder: Path) -> None:
    source = ONE + TWO + "def plain() -> None: ...\n@guardrail()\ndef g(c, p): ...\n"
    loaded = load(folder, source + "@hook(name='h.1')\ndef h(c, p): ...\n")
    assert (set(loaded.tools), set(loaded.guardrails), set(loaded.hooks)) == (
        {"one", "two"},
        {"g"},
        {"h.1"},
    )


def test_changed_source_is_seen_in_the_spec_and_nothing_else_is(folder: Path) -> None:
    rule = "def rule(ctx, arguments): return {}\n"
    gated = ONE.replace("@tool", "@tool(approval=rule)")

    def code(name: str, source: str) -> str | None:
        return load(folder, source, name).tools["one"].spec.code

    first = code("plug1", rule.format("True") + gated)
    assert first is not None
    assert code("plug2", "import os\n" + rule.format("True") + gated) == first
    assert code("plug3", rule.format("False") + gated) != first
    assert code("plug4", rule.format("True") + gated.replace("return x", "return -x")) != first
    compiled = "exec('def one(x: int) -> int: return x')\none = tool(one)\n"
    assert code("plug5", compiled) is None


def test_a_list_says_what_is_loaded(folder: Path) -> None:
    source = f"""{ONE}{TWO}
def plain() -> None: ...
class Base(BaseTool):
    name = "base"
    parameters = {{"type": "object"}}
    async def run(self, ctx, arguments): ...
class Other(Base):
    name = "other"
@guardrail()
def g(c, p): ...
TOOLS = [plain, one, Base, Other(), tool(plain, name="again")]
"""
    loaded = load(folder, source)
    assert list(loaded.tools) == ["plain", "one", "base", "other", "again"]
    assert list(loaded.guardrails) == ["g"]


def test_a_name_in_a_module_can_be_loaded_alone(folder: Path) -> None:
    assert list(load(folder, ONE + TWO, value="plug:two").tools) == ["two"]
    assert list(load(folder, ONE + TWO + "MINE = (one,)\n", "plug2", "plug2:MINE").tools) == ["one"]
    source = "class Box:\n    @staticmethod\n    def inner() -> None: ...\n"
    assert list(load(folder, source, "plug3", "plug3:Box.inner").tools) == ["inner"]


def test_what_a_module_imports_is_not_its_own(folder: Path) -> None:
    (folder / "plug1.py").write_text(HEAD + ONE, "utf-8")
    assert list(load(folder, "from plug1 import one\n" + TWO).tools) == ["two"]


def test_installed_packages_are_found_by_their_entry_points(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "plug1.py").write_text(HEAD + ONE, "utf-8")
    (folder / "plug2.py").write_text(HEAD + TWO, "utf-8")
    points = [EntryPoint("b", "plug2 : two", "runward.tools"), EntryPoint("a", "plug1", "x")]

    def found(**_: Any) -> list[EntryPoint]:
        return points

    monkeypatch.setattr("runward.tools.plugin.loader.entry_points", found)
    assert list(load_plugins(["plug1", "plug1:one"]).tools) == ["one", "two"]


def test_nothing_is_loaded_where_nothing_is_named() -> None:
    assert load_plugins([]) == Plugins()


ERRORS: dict[str, tuple[str, str]] = {
    "a module that raises": ("1 / 0", "plug cannot be imported: ZeroDivisionError: division"),
    "a module that imports nothing": ("import nowhere_at_all", "ModuleNotFoundError"),
    "an empty module": ("x = 1", "no list TOOLS and no function decorated with @tool"),
    "an empty list": ("TOOLS = []", "no list TOOLS"),
    "a list that is none": ("TOOLS = 7", "TOOLS must be a list"),
    "a list of no tools": (
        "TOOLS = [7]",
        "7 is not a tool, because it is not a function or a BaseTool",
    ),
    "a name of Runward's own": (
        "@tool\ndef search_tools(query: str) -> str: ...",
        "name: 'search_tools' is reserved for a built-in tool",
    ),
    "a name of a handoff": (
        "@tool\ndef transfer_to_me() -> None: ...",
        "is reserved for a built-in tool",
    ),
    "an option that only code has": ("@tool(code='x')\ndef a() -> None: ...", "no option 'code'"),
    "a class": ("class A: ...\nTOOLS = [A]", "is not a tool"),
    "two of a name": (
        "@tool\ndef a() -> None: ...\n@tool(name='a')\ndef b() -> None: ...",
        "Two plugins have a tool named 'a': plug:a in plug (RUNWARD_PLUGINS) and plug:b in plug",
    ),
    "two guardrails of a name": (
        "@guardrail(name='a')\ndef f(c, p): ...\n@guardrail(name='a')\ndef g(c, p): ...",
        "Two plugins have a guardrail named 'a'",
    ),
    "a name that no model takes": ("@tool\ndef _a() -> None: ...", "plug:_a: name: "),
    "a name with a space": ("@tool(name='a b')\ndef a() -> None: ...", "plug:a: name: "),
    "a hint of nothing": ("@tool\ndef a(x: 'Nowhere') -> None: ...", "plug:a: the type hints"),
    "a type without a schema": (
        "import threading\n@tool\ndef a(ok: int, x: threading.Event) -> None: ...",
        "plug:a: parameter 'x': ",
    ),
    "a callable as a type": (
        "from collections.abc import Callable\n@tool\ndef a(x: Callable[[], int]) -> None: ...",
        "plug:a: ",
    ),
    "a context in second place": (
        "@tool\ndef a(x: int, ctx: ToolContext) -> None: ...",
        "plug:a: parameter 'ctx' is a ToolContext, but only the first parameter can be a "
        "ToolContext",
    ),
    "a generator": ("@tool\ndef a() -> object:\n    yield 1", "plug:a: a generator cannot be"),
    "an async generator": ("@tool\nasync def a() -> object:\n    yield 1", "a generator cannot be"),
    "a decorated class": (
        "@tool\nclass A: ...",
        "plug:A is not a tool, because it is not a function",
    ),
    "an open map": (
        "@tool\ndef a(x: dict[str, int]) -> None: ...",
        "plug:a: parameters.properties.x.additionalProperties: must be false",
    ),
    "an unknown option": ("@tool(colour='red')\ndef a() -> None: ...", "no option 'colour'"),
    "an option of webhooks": ("@tool(url='https://x')\ndef a() -> None: ...", "no option 'url'"),
    "no isolation": ("@tool(isolation='none')\ndef a() -> None: ...", "must be one of thread, pro"),
    "no style": ("@tool(docstring='rst')\ndef a() -> None: ...", "docstring must be one of auto"),
    "no approval": ("@tool(approval='maybe')\ndef a() -> None: ...", "plug:a: approval"),
    "a broken rule": (
        "@tool(approval={'when': 'args.x >'})\ndef a() -> None: ...",
        "plug:a: approval.when: ",
    ),
    "a class that decides": (
        "@tool(approval=int)\ndef a() -> None: ...",
        "approval must be a function, not the class int",
    ),
    "a function that decides about nothing": (
        "@tool(approval=lambda ctx: True)\ndef a() -> None: ...",
        "plug:a: approval is called with 2 arguments, which the function plug:<lambda> does not",
    ),
    "a function that shows too much": (
        "@tool(enabled=lambda: True)\ndef a() -> None: ...",
        "plug:a: enabled is called with 1 argument, which",
    ),
    "a guardrail of nothing": (
        "@guardrail()\ndef g(payload): ...",
        "guardrail 'g' is called with 2 arguments",
    ),
    "a hook with a space": (
        "@hook(name='a b')\ndef h(ctx, payload): ...",
        "'a b' is not a valid name for a hook. A name is a letter, then",
    ),
    "no timeout": ("@tool(timeout_seconds=0)\ndef a() -> None: ...", "plug:a: timeout_seconds"),
    "metadata that is no JSON": (
        "@tool(metadata={'a': object()})\ndef a() -> None: ...",
        "plug:a: Unable to serialize",
    ),
    "an output that is no schema": (
        "@tool(output_schema={'type': 7})\ndef a() -> None: ...",
        "plug:a: output_schema.type",
    ),
    "a guardrail at the wrong stage": (
        "@tool(guardrails=[{'stage': 'run_input', 'type': 'webhook', 'url': 'https://x'}])\n"
        "def a() -> None: ...",
        "plug:a: guardrails.0.stage: must be one of pre_approval, input, output",
    ),
    "a guardrail that is not there": (
        "@tool(guardrails=[{'stage': 'input', 'type': 'plugin', 'name': 'g'}])\n"
        "def a() -> None: ...",
        "the guardrail 'g' of the tool is not loaded",
    ),
    "a base without a name": (
        "class A(BaseTool):\n    parameters = {'type': 'object'}\n"
        "    async def run(self, c, a): ...\nTOOLS = [A]",
        "plug:A: a BaseTool requires the attribute 'name'",
    ),
    "a base without run": (
        "class A(BaseTool):\n    name = 'a'\nTOOLS = [A]",
        "plug:A: the class cannot be instantiated: Can't instantiate abstract class A",
    ),
    "a base with a broken schema": (
        "class A(BaseTool):\n    name = 'a'\n    parameters = {'type': 'array'}\n"
        "    async def run(self, c, a): ...\nTOOLS = [A]",
        "plug:A: parameters.type: ",
    ),
    "an isolated lambda": (
        "TOOLS = [tool(lambda: 1, name='a', isolation='process')]",
        "isolation='process' requires a function or class at the top level of a module",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_plugin_that_cannot_be_used_is_named_with_what_is_wrong(folder: Path, name: str) -> None:
    source, expected = ERRORS[name]
    with pytest.raises(PluginError) as error:
        load(folder, source)
    assert expected in str(error.value)
    assert "plug (RUNWARD_PLUGINS)" in str(error.value)


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(PluginError, match="nowhere_at_all cannot be imported: ModuleNotFound"):
        load_plugins(["nowhere_at_all:x"])


def test_a_name_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(PluginError, match="plug has no 'three'"):
        load(folder, ONE, value="plug:three")


def decide(ctx: object, arguments: object) -> bool:
    return True


def shown(ctx: object) -> bool:
    return True


def test_every_option_reaches_the_tools_settings() -> None:
    def function() -> None: ...

    spec = make_tool(
        tool(
            function,
            approval={"when": "args.x > 1"},
            approval_expires_seconds=60,
            reject_message="No.",
            enabled=shown,
            timeout_seconds=2,
            on_timeout="fail_run",
            on_error={"message": "Sorry."},
            idempotent=True,
            on_unknown="ask",
            retry={"max_attempts": 5},
            strict=False,
            guardrails=[{"stage": "input", "type": "plugin", "name": "g"}],
            concurrency={"serial": True},
            max_output_bytes=1000,
            metadata={"a": 1},
        )
    ).spec
    assert spec.approval == CelRule(when="args.x > 1")
    assert spec.enabled == CallableRule(callable=f"{__name__}:shown")
    assert (spec.on_timeout, spec.on_error) == ("fail_run", Message(message="Sorry."))
    assert (spec.retry, spec.concurrency) == (Retry(max_attempts=5), Concurrency(serial=True))
    assert (spec.idempotent, spec.on_unknown, spec.strict) == (True, "ask", False)
    assert (spec.reject_message, spec.approval_expires_seconds) == ("No.", 60)
    assert (spec.timeout_seconds, spec.max_output_bytes, spec.metadata) == (2, 1000, {"a": 1})
    assert [one.stage for one in spec.guardrails] == ["input"]
    decided = make_tool(tool(function, approval=decide)).spec
    assert decided.approval == CallableRule(callable=f"{__name__}:decide")


@pytest.mark.processes
def test_the_names_for_authors_are_light_to_import() -> None:
    import subprocess  # noqa: PLC0415

    code = "import sys, runward.tools; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"aiohttp", "sqlalchemy", "fastapi", "griffe", "openai", "cel_expr_python", "uvicorn"}
    assert heavy.isdisjoint(done.stdout.split())
