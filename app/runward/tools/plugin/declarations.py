"""Declare a plugin's tools, guardrails and hooks. They are checked when the plugin is loaded. An
error stops the process."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import (
    Any,
    Final,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.guards import Fail, Guardrail, Instead, Reject
from runward.domain.registry.tools import (
    CelRule,
    ComputerSettings,
    Concurrency,
    ExecutorKind,
    OnFailure,
    Retry,
    UnknownOutcomeMode,
)
from runward.tools.plugin.context import GuardContext, RuleContext, ToolContext

P = ParamSpec("P")
R = TypeVar("R")

DocstringStyle: TypeAlias = Literal["auto", "google", "numpy", "sphinx", "off"]
Isolation: TypeAlias = Literal["thread", "process"]

AsksApproval: TypeAlias = Callable[[RuleContext, JsonObject], bool | Awaitable[bool]]
"""Decides whether a person must approve a call with these arguments."""
AsksEnabled: TypeAlias = Callable[[RuleContext], bool | Awaitable[bool]]
"""Decides whether the tool is shown to the model in this turn."""
DeclaredGuards: TypeAlias = Callable[
    [GuardContext, JsonObject],
    bool | str | Reject | Fail | Awaitable[bool | str | Reject | Fail | None] | None,
]
Hooks: TypeAlias = Callable[[GuardContext, JsonObject], Instead | Awaitable[Instead | None] | None]


ExplainsError: TypeAlias = Callable[[Exception], str | Awaitable[str]]
"""Returns the text for the model, or raises an exception to fail the run."""


class Options(TypedDict, total=False):
    """A tool's settings in code. Durations are in seconds. Projects can override it for themselves.
    `docs/reference/plugin-api.md` describes each option."""

    approval: Literal["never", "always"] | CelRule | Mapping[str, str] | AsksApproval
    approval_expires_seconds: float
    reject_message: str
    enabled: bool | CelRule | Mapping[str, str] | AsksEnabled
    defer: bool
    timeout_seconds: float
    on_timeout: OnFailure | Mapping[str, str]
    on_error: OnFailure | Mapping[str, str] | ExplainsError
    idempotent: bool
    on_unknown: UnknownOutcomeMode
    retry: Retry | Mapping[str, Any]
    strict: bool
    guardrails: Sequence[Guardrail | Mapping[str, Any]]
    concurrency: Concurrency | Mapping[str, Any]
    max_output_bytes: int
    metadata: Mapping[str, JsonValue]
    output_schema: JsonObject | bool
    """True: derived from the function's return type."""
    implements: ExecutorKind
    """The kind of provider tool that the function implements. The function has the parameters of
    this kind. Each call requires approval unless `approval` is set."""
    settings: ComputerSettings | Mapping[str, Any]
    """The screen of a function that implements `computer`."""
    isolation: Isolation
    """`process`: a new process for each call, which a timeout ends."""
    docstring: DocstringStyle
    """The docstring's style. `off`: models do not read the docstring."""


class FunctionTool(Generic[P, R]):
    """A function that is a tool. It can still be called like the original function."""

    def __init__(
        self,
        function: Callable[P, R],
        options: Options,
        *,
        name: str | None = None,
        description: str | None = None,
    ) -> None:
        self.function = function
        self.options = options
        self.name = name
        self.description = description
        self.__doc__ = function.__doc__
        self.__module__ = getattr(function, "__module__", __name__)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {getattr(self.function, '__qualname__', self.function)}>"


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[Options],
) -> FunctionTool[P, R]: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, **options: Unpack[Options]
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[Options],
) -> Any:
    """Turn a function into a tool: `@tool`, `@tool(approval="always")`, or `tool(function, …)`."""

    def declare(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        return FunctionTool(function, options, name=name, description=description)

    return declare if function is None else declare(function)


class BaseTool(ABC):
    """A tool with its own JSON Schema: set the attributes and write `run`. `arguments` are the
    model's arguments, validated against `parameters`. `run` can also be a plain method, which is
    called on a thread."""

    name: str
    description: str = ""
    parameters: JsonObject
    options: Options = {}  # noqa: RUF012  # never changed

    @abstractmethod
    async def run(self, ctx: ToolContext, arguments: JsonObject) -> Any: ...


class NamedCheck:
    """A function that tools and agents refer to as `{"type": "plugin", "name": name}`."""

    def __init__(self, name: str, function: Callable[[GuardContext, JsonObject], Any]) -> None:
        self.name: Final = name
        self.function: Final = function
        self.__module__ = getattr(function, "__module__", __name__)

    def __call__(self, ctx: GuardContext, payload: JsonObject) -> Any:
        return self.function(ctx, payload)


class NamedGuardrail(NamedCheck):
    pass


class NamedHook(NamedCheck):
    pass


def guardrail(*, name: str | None = None) -> Callable[[DeclaredGuards], NamedGuardrail]:
    """Declare a guardrail. None or True allows, a string or `Reject` rejects, `Fail` fails the run.
    An exception rejects. The default name is the function's."""

    def declare(function: DeclaredGuards) -> NamedGuardrail:
        return NamedGuardrail(name or getattr(function, "__name__", "guardrail"), function)

    return declare


def hook(*, name: str | None = None) -> Callable[[Hooks], NamedHook]:
    """Declare a hook. None changes nothing. `Instead(value)` replaces the response, the arguments
    or the result. The default name is the function's."""

    def declare(function: Hooks) -> NamedHook:
        return NamedHook(name or getattr(function, "__name__", "hook"), function)

    return declare
