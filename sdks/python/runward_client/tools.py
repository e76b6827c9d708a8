"""Tools as functions, and ASGI and WSGI applications that serve them as webhook tools."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import (
    Any,
    Generic,
    Literal,
    NotRequired,
    ParamSpec,
    TypedDict,
    TypeVar,
    cast,
    overload,
)

from runward_client._async.callback import AsyncCallbackClient
from runward_client._schema import injected_name, make_parameters
from runward_client._serving import (
    LATER,
    AsgiApp,
    OnCancelled,
    Server,
    ToolCall,
    ToolError,
    WsgiApp,
    make_asgi_app,
    make_wsgi_app,
)
from runward_client._sync.callback import CallbackClient
from runward_client.signature import TOLERANCE_SECONDS, SignatureError, verify_signature
from runward_client.types import ToolEnvelope

__all__ = [
    "LATER",
    "AsyncCallbackClient",
    "CallbackClient",
    "SignatureError",
    "Tool",
    "ToolCall",
    "ToolEnvelope",
    "ToolError",
    "asgi_app",
    "tool",
    "verify_signature",
    "wsgi_app",
]

P = ParamSpec("P")
R = TypeVar("R")


class Definition(TypedDict):
    """The fields with which to register a tool: `client.tools.upsert(**tool.definition, url=…)`."""

    name: str
    description: str
    parameters: dict[str, Any]
    response: NotRequired[Literal["envelope"]]


@dataclass(frozen=True)
class Tool(Generic[P, R]):
    """A function with what a model reads about it. It can be called as before."""

    function: Callable[P, R]
    definition: Definition
    _call_name: str | None = field(repr=False)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def answer(self, call: ToolCall) -> object:
        """Call the function with the arguments of a call."""
        extra = {} if self._call_name is None else {self._call_name: call}
        return cast(Callable[..., object], self.function)(**call.request["arguments"], **extra)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: dict[str, Any] | None = None,
    response: Literal["output", "envelope"] = "output",
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: dict[str, Any] | None = None,
    response: Literal["output", "envelope"] = "output",
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Define a tool. Its name, description and JSON Schema default to the name, the docstring and
    the typed parameters of the function. A parameter of the type `ToolCall` gets the call. With
    `response="envelope"`, the function returns a `ToolEnvelope`."""

    def define(function: Callable[P, R]) -> Tool[P, R]:
        definition: Definition = {
            "name": name or function.__name__,
            "description": description or inspect.getdoc(function) or "",
            "parameters": parameters or make_parameters(function, ToolCall),
        }
        if response == "envelope":
            definition["response"] = response
        return Tool(function, definition, injected_name(function, ToolCall))

    return define if function is None else define(function)


def asgi_app(
    tools: Iterable[Tool[..., Any]],
    *,
    secret: str | Sequence[str],
    tolerance: float = TOLERANCE_SECONDS,
    on_cancelled: OnCancelled | None = None,
) -> AsgiApp:
    """Return an ASGI application that answers calls of the tools, and refuses requests that are not
    signed. Functions that are not `async` run in a thread. `on_cancelled` is called with a call
    that is closed without its response, for example because its run was cancelled."""
    return make_asgi_app(_make_server(tools, secret, tolerance, on_cancelled))


def wsgi_app(
    tools: Iterable[Tool[..., Any]],
    *,
    secret: str | Sequence[str],
    tolerance: float = TOLERANCE_SECONDS,
    on_cancelled: OnCancelled | None = None,
) -> WsgiApp:
    """The same as a WSGI application. `async` functions run in an event loop of their own."""
    return make_wsgi_app(_make_server(tools, secret, tolerance, on_cancelled))


def _make_server(
    tools: Iterable[Tool[..., Any]],
    secret: str | Sequence[str],
    tolerance: float,
    on_cancelled: OnCancelled | None,
) -> Server:
    functions = {tool.definition["name"]: tool.answer for tool in tools}
    return Server(functions, secret, tolerance, on_cancelled)
