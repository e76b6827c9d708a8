"""The tools of a plugin, checked and ready to be called."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

from pydantic import ValidationError

from runward.domain.json import JsonObject, compute_digest
from runward.domain.registry.guards import ToolGuardrailStage
from runward.domain.registry.provider_tools import EXECUTORS, describe_executor
from runward.domain.registry.rules import RuleError, compile_rule
from runward.domain.registry.tools import (
    CallableRule,
    CelRule,
    ExecutorKind,
    FailureFunction,
    ToolSpec,
    is_reserved,
)
from runward.domain.schema.validator import check_schema
from runward.tools.plugin.context import ToolContext, jsonable
from runward.tools.plugin.declarations import BaseTool, FunctionTool, Isolation, Options
from runward.tools.plugin.docstrings import ParsedDocstring, read_docstring
from runward.tools.plugin.errors import PluginError
from runward.tools.plugin.function import name_of, read_signature, return_schema

TOOL_STAGES: Final = get_args(ToolGuardrailStage)
_PLUGIN_OPTIONS: Final = frozenset({"isolation", "docstring", "output_schema"})
_NOT_OF_PLUGINS: Final = frozenset({"url", "agent", "output", "headers", "code", "mcp", "hosted"})
_CALLABLE: Final = {"approval": 2, "enabled": 1, "on_error": 1}
"""Options that can be functions, and the number of their arguments."""
_CHOICES: Final = {"isolation": ("thread", "process"), "implements": tuple(EXECUTORS)} | {
    "docstring": ("auto", "google", "numpy", "sphinx", "off")
}


@dataclass(frozen=True, slots=True)
class PluginTool:
    """One tool of a plugin. `bind` binds arguments and returns a callable that makes the call; it
    raises ValidationError or ArgumentsError. `on_loop`: the call is a coroutine. `approval`,
    `enabled` and `on_error` are the author's callables. `reference` is the name under which another
    process imports the function."""

    spec: ToolSpec
    bind: Callable[[ToolContext, JsonObject], Callable[[], Any]]
    on_loop: bool
    isolation: Isolation
    reference: str
    approval: Callable[..., Any] | None
    enabled: Callable[..., Any] | None
    on_error: Callable[..., Any] | None


def make_tool(item: Any) -> PluginTool:
    """Create a tool from a function, decorated or not, or from a BaseTool, object or class. Raises
    PluginError."""
    if isinstance(item, type) and issubclass(item, BaseTool):
        return _of_object(_instance(item))
    if isinstance(item, BaseTool):
        return _of_object(item)
    if isinstance(item, FunctionTool):
        return _of_function(cast("FunctionTool[..., Any]", item))
    if inspect.isroutine(cast(object, item)):
        return _of_function(FunctionTool(cast(Callable[..., Any], item), {}))
    raise PluginError(f"{item!r:.200} is not a tool, because it is not a function or a BaseTool")


def load_functions(
    item: Any,
) -> tuple[Callable[[ToolContext, JsonObject], Callable[[], Any]], Callable[..., Any] | None]:
    """Return the `bind` and the `on_error` of an item that was already checked, without building
    its schema."""
    if isinstance(item, type):
        item = item()
    if isinstance(item, BaseTool):
        return _binder(item), _find_callable(item.options, "on_error")
    if not isinstance(item, FunctionTool):
        return read_signature(item, ParsedDocstring()).call, None
    declared = cast("FunctionTool[..., Any]", item)
    bind = read_signature(declared.function, ParsedDocstring()).call
    return bind, _find_callable(declared.options, "on_error")


def find_tool(reference: str) -> Any:
    """Return the function, FunctionTool or BaseTool at `package.module:name`, whose module is
    imported. Raises LookupError."""
    module, _, path = reference.partition(":")
    found: Any = sys.modules[module]
    for step in path.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            raise LookupError(f"{module} has no {path}") from None
    return found


def _of_function(declared: "FunctionTool[..., Any]") -> PluginTool:
    function, options = declared.function, declared.options
    where = name_of(function)
    if not inspect.isroutine(function):
        raise PluginError(f"{where} is not a tool, because it is not a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise PluginError(f"{where}: a generator cannot be a tool; return a list")
    _check_choices(where, options)
    described = read_docstring(function, options.get("docstring", "auto"))
    signature = read_signature(function, described)
    return _tool(
        where,
        options,
        function,
        function,
        signature.call,
        name=declared.name or function.__name__,
        description=described.text if declared.description is None else declared.description,
        parameters=signature.schema(),
    )


def _of_object(tool: BaseTool) -> PluginTool:
    where = name_of(type(tool))
    _check_choices(where, tool.options)
    for needed in ("name", "parameters"):
        if not hasattr(tool, needed):
            raise PluginError(f"{where}: a BaseTool requires the attribute '{needed}'")
    return _tool(
        where,
        tool.options,
        type(tool),
        tool.run,
        _binder(tool),
        name=tool.name,
        description=tool.description or read_docstring(type(tool), "auto").text,
        parameters=tool.parameters,
    )


def _binder(tool: BaseTool) -> Callable[[ToolContext, JsonObject], Callable[[], Any]]:
    return lambda ctx, arguments: lambda: tool.run(ctx, arguments)


def _tool(
    where: str,
    options: Options,
    source: Any,
    function: Callable[..., Any],
    bind: Callable[[ToolContext, JsonObject], Callable[[], Any]],
    **contract: Any,
) -> PluginTool:
    """Return the tool. `source` is the function or class whose text is its code."""
    output = options.get("output_schema")
    if output is True:
        output = return_schema(function)
    code = _digest(source, options)
    spec = _spec(where, options, **contract, output_schema=output or None, code=code)
    isolation = options.get("isolation", "thread")
    if isolation == "process":
        _check_reachable(where)
    return PluginTool(
        spec=spec,
        bind=bind,
        on_loop=inspect.iscoroutinefunction(function),
        isolation=isolation,
        reference=where,
        approval=_find_callable(options, "approval"),
        enabled=_find_callable(options, "enabled"),
        on_error=_find_callable(options, "on_error"),
    )


def _find_callable(options: Options, key: str) -> Callable[..., Any] | None:
    value = options.get(key)
    return cast(Callable[..., Any], value) if callable(value) else None


def _spec(where: str, options: Options, **contract: Any) -> ToolSpec:
    """Return the tool's spec. Raises PluginError with all problems."""
    settings = {
        key: _named(where, key, value) if key in _CALLABLE else value
        for key, value in options.items()
        if key not in _PLUGIN_OPTIONS
    }
    if (kind := options.get("implements")) is not None:
        settings |= {"approval": settings.get("approval", "always"), "strict": False}
        contract = _executor(where, kind, contract)
    if "settings" in options and kind != "computer":
        raise PluginError(f"{where}: settings requires implements='computer'")
    try:
        settings["metadata"] = jsonable(dict(options.get("metadata", {})))
        contract["parameters"] = jsonable(contract["parameters"])
        spec = ToolSpec.model_validate({**settings, **contract, "type": "plugin"}, strict=False)
        if kind is not None and not spec.description:
            text = describe_executor(kind, spec.settings)
            spec = spec.model_copy(update={"description": text})
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        lines = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found]
        raise PluginError(f"{where}: {'; '.join(lines)}") from None
    except (TypeError, ValueError) as error:
        raise PluginError(f"{where}: {error}") from None
    if problems := _problems(spec):
        raise PluginError(f"{where}: {'; '.join(problems)}")
    return spec


def _executor(where: str, kind: ExecutorKind, contract: dict[str, Any]) -> dict[str, Any]:
    """Return the options of an executor. The function must accept the parameters that providers
    define for this kind."""
    known = EXECUTORS[kind]
    wanted = known.parameters["properties"]
    own = contract["parameters"].get("properties", {})
    assert isinstance(wanted, dict)
    if own.keys() != wanted.keys():
        raise PluginError(
            f"{where}: a function that implements '{kind}' must have exactly these parameters: "
            f"{', '.join(wanted)}"
        )
    return contract | {"parameters": known.parameters}


def _digest(source: Any, options: Options) -> str | None:
    """Return a digest of the source of the tool and of its callables, but not of the functions that
    they call. Return None if there is no source, for example for compiled code."""
    asked: list[Any] = [options[key] for key in sorted(_CALLABLE.keys() & options.keys())]
    sources = [source, *(one for one in asked if callable(one))]
    try:
        return compute_digest([inspect.getsource(inspect.unwrap(one)) for one in sources])[:23]
    except (OSError, TypeError):
        return None


def _named(where: str, key: str, value: Any) -> Any:
    if not callable(value):
        return value
    if isinstance(value, type):
        raise PluginError(f"{where}: {key} must be a function, not the class {value.__name__}")
    check_callable(where, key, value, _CALLABLE[key])
    kind = FailureFunction if key == "on_error" else CallableRule
    return kind(callable=name_of(value)[:256])


def check_callable(where: str, option: str, function: Callable[..., Any], count: int) -> None:
    """Check that the function takes that many arguments. Raises PluginError."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # the function is not written in Python
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        raise PluginError(
            f"{where}: {option} is called with {count} "
            f"argument{'s' if count > 1 else ''}, which the function "
            f"{name_of(function)} does not accept: {error}"
        ) from None


def _problems(spec: ToolSpec) -> list[str]:
    found = [f"{p.path}: {p.message}" for p in check_schema(spec.parameters, strict=spec.strict)]
    if is_reserved(spec.name):
        found.append(f"name: '{spec.name}' is reserved for a built-in tool")
    if spec.output_schema is not None:
        problems = check_schema(
            spec.output_schema, strict=False, at="output_schema", object_root=False
        )
        found += [f"{p.path}: {p.message}" for p in problems]
    for field, rule in (("approval.when", spec.approval), ("enabled.when", spec.enabled)):
        if isinstance(rule, CelRule):
            try:
                compile_rule(rule.when)
            except RuleError as error:
                found.append(f"{field}: {error}")
    for index, guardrail in enumerate(spec.guardrails):
        if guardrail.stage not in TOOL_STAGES:
            found.append(f"guardrails.{index}.stage: must be one of {', '.join(TOOL_STAGES)}")
    return found


def _check_choices(where: str, options: Options) -> None:
    """Check the values that a type checker would have checked."""
    known = {*ToolSpec.model_fields, *_PLUGIN_OPTIONS} - {
        "name",
        "description",
        "parameters",
        "type",
    }
    for key, value in options.items():
        if key not in known or key in _NOT_OF_PLUGINS:
            raise PluginError(f"{where}: there is no option '{key}'")
        if key in _CHOICES and value not in _CHOICES[key]:
            raise PluginError(f"{where}: {key} must be one of {', '.join(_CHOICES[key])}")


def _check_reachable(where: str) -> None:
    """Check that a new process can import the function."""
    module = where.partition(":")[0]
    try:
        reachable = module != "__main__" and "<" not in where and find_tool(where) is not None
    except LookupError:
        reachable = False
    if not reachable:
        raise PluginError(
            f"{where}: isolation='process' requires a function or class at the top "
            "level of a module that can be imported"
        )


def _instance(kind: type[BaseTool]) -> BaseTool:
    try:
        return kind()
    except Exception as error:
        raise PluginError(f"{name_of(kind)}: the class cannot be instantiated: {error}") from error
