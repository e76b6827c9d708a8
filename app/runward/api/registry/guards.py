"""Checks of registered guardrails and hooks that their schema does not cover."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from runward.domain.errors import FieldError, InvalidRequestError
from runward.domain.registry.guards import (
    Guardrail,
    Hook,
    PluginGuardrail,
    PluginHook,
    Stage,
    WebhookGuardrail,
    WebhookHook,
)
from runward.egress.addresses import TargetError
from runward.services import Registry

TOOL_STAGES: Final[tuple[Stage, ...]] = ("pre_approval", "input", "output")
ALL_STAGES: Final[tuple[Stage, ...]] = (*TOOL_STAGES, "run_input", "run_output")


async def ensure_guards(
    registry: Registry, guardrails: Sequence[Guardrail] | None, hooks: Sequence[Hook] | None
) -> None:
    """Check the guardrails and hooks of an agent, a run or a project. It may use DNS, so do not
    call it in a transaction. Raises InvalidRequestError."""
    if guardrails or hooks:
        errors = await check_guards(registry, guardrails or (), hooks or ())
        if errors:
            raise InvalidRequestError(errors=errors)


async def check_guards(
    registry: Registry,
    guardrails: Sequence[Guardrail],
    hooks: Sequence[Hook] = (),
    *,
    at: str = "",
    stages: Collection[Stage] = ALL_STAGES,
) -> list[FieldError]:
    """Return the errors of the guardrails and hooks. `at`: the prefix of each path, such as `agent`
    for `agent.guardrails.0.url`."""
    prefix = f"{at}." if at else ""
    errors: list[FieldError] = []
    for number, guardrail in enumerate(guardrails):
        if guardrail.stage not in stages:
            path = f"{prefix}guardrails.{number}.stage"
            errors.append(FieldError(path, f"must be one of {', '.join(stages)} here"))
    checks = [
        *(
            _check_guard(registry, f"{prefix}guardrails.{n}", one)
            for n, one in enumerate(guardrails)
        ),
        *(_check_guard(registry, f"{prefix}hooks.{n}", one) for n, one in enumerate(hooks)),
    ]
    return errors + [error for error in await asyncio.gather(*checks) if error is not None]


async def _check_guard(registry: Registry, path: str, guard: Guardrail | Hook) -> FieldError | None:
    plugins = registry.plugins
    match guard:
        case WebhookGuardrail(url=url) | WebhookHook(url=url):
            try:
                await registry.check_target(url)
            except TargetError as error:
                return FieldError(f"{path}.url", str(error))
        case PluginGuardrail(name=name):
            if name not in plugins.guardrail_names:
                return FieldError(f"{path}.name", "is not a guardrail of a loaded plugin")
        case PluginHook(name=name):
            if name not in plugins.hook_names:
                return FieldError(f"{path}.name", "is not a hook of a loaded plugin")
    return None
