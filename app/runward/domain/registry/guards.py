"""Guardrails and hooks, which run before and after a model request, a tool call, and a complete
run.

A guardrail allows, rejects or fails. A hook can replace the value that it runs before or after.
Both are webhooks or plugin functions.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from runward.domain.json import JsonObject

ToolGuardrailStage: TypeAlias = Literal["pre_approval", "input", "output"]
RunGuardrailStage: TypeAlias = Literal["run_input", "run_output"]
Stage: TypeAlias = Literal[ToolGuardrailStage, RunGuardrailStage]
HookPoint: TypeAlias = Literal["before_model", "after_model", "before_tool", "after_tool"]

PluginName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,127}$")]
TargetUrl = Annotated[str, Field(min_length=1, max_length=2048)]
GuardSeconds = Annotated[
    float,
    Field(
        ge=0.01,
        le=60,
        description="Timeout of one check or hook, in seconds. If a guardrail times out, Runward "
        "treats the timeout as a rejection. If a hook times out, the hook fails.",
    ),
]
GuardStage = Annotated[
    Stage,
    Field(
        description="Stage at which Runward calls the guardrail: before an approval is created "
        "(`pre_approval`), before the call is sent (`input`), or after the call returned a result "
        "(`output`). Guardrails of agents and projects can also check the run's input "
        "(`run_input`) and final output (`run_output`)."
    ),
]


class Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        defer_build=True,  # at the first use: most processes do not use most models
    )


class _Webhook(Frozen):
    type: Literal["webhook"]
    """`webhook`: Runward sends a signed POST request."""
    url: TargetUrl
    """URL to which Runward sends the POST requests."""
    timeout_seconds: GuardSeconds = 10.0


class _Plugin(Frozen):
    type: Literal["plugin"]
    """`plugin`: Runward calls a function of a plugin."""
    name: PluginName
    """Name of the function, as the plugin registered it."""
    timeout_seconds: GuardSeconds = 10.0


class _AtStage(Frozen):
    stage: GuardStage


class _AtMoment(Frozen):
    on: HookPoint
    """Point at which Runward calls the hook: before or after a model request, or before or after a
    tool call."""


class WebhookGuardrail(_Webhook, _AtStage):
    """A guardrail that Runward calls with a signed POST request. The response contains the
    verdict."""


class PluginGuardrail(_Plugin, _AtStage):
    """A guardrail that is a function of a plugin."""


Guardrail: TypeAlias = Annotated[WebhookGuardrail | PluginGuardrail, Field(discriminator="type")]
Guardrails = Annotated[tuple[Guardrail, ...], Field(max_length=16)]


class WebhookHook(_Webhook, _AtMoment):
    """A hook that Runward calls with a signed POST request. The response may replace the message of
    the model or the output of the tool."""


class PluginHook(_Plugin, _AtMoment):
    """A hook that is a function of a plugin."""


Hook: TypeAlias = Annotated[WebhookHook | PluginHook, Field(discriminator="type")]
Hooks = Annotated[tuple[Hook, ...], Field(max_length=16)]


@dataclass(frozen=True, slots=True)
class Allow:
    pass


@dataclass(frozen=True, slots=True)
class Reject:
    """The guardrail rejects. `message` replaces the result, or the run's output. `detail` is for
    operators: the name of the guardrail, and the error in its response."""

    message: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """The run fails with `message`."""

    message: str
    detail: str | None = None


GuardrailVerdict: TypeAlias = Allow | Reject | Fail


@dataclass(frozen=True, slots=True)
class NoChange:
    """The hook changes nothing."""


@dataclass(frozen=True, slots=True)
class Instead:
    """The hook's replacement: the output of a tool call, or the message of a model. `metadata` is
    stored and never sent to the model. `calls`: the tool calls that replace those of the model,
    only for `after_model`. If `calls` is set and `value` is None, the model's message stays."""

    value: JsonValue = None
    metadata: JsonObject | None = None
    calls: JsonValue = None


@dataclass(frozen=True, slots=True)
class HookFailure:
    """The hook returned no usable response. If it is a `before` hook, the step after it does not
    run."""

    detail: str


HookAnswer: TypeAlias = NoChange | Instead | HookFailure
