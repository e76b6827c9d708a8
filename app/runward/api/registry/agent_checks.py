"""Check that an agent's configuration can be used by a run."""

from collections.abc import Iterable, Mapping, Sequence

from runward.domain import errors as e
from runward.domain.errors import FieldError
from runward.domain.ids import ProjectId
from runward.domain.run.builtins import BUILTINS
from runward.domain.run.config import (
    PATTERN_SUFFIX,
    AgentConfig,
    NamedToolChoice,
    get_inline_tools,
    list_patterns,
)
from runward.domain.schema.validator import check_schema
from runward.llm.base import Abilities
from runward.llm.capabilities import unsupported_settings
from runward.llm.catalog import ModelNotInCatalogError, Models
from runward.llm.settings import check_settings
from runward.services import Registry, Storage
from runward.store import budgets


async def check_hosted_tools(
    registry: Registry,
    project_id: ProjectId,
    config: AgentConfig,
    paths: Mapping[str, str] | None = None,
) -> None:
    """Check that at least one of an agent's models supports each of its hosted tools. `paths`: the
    place of each tool in the request. None: its place in `config`. If the run later uses a model
    without support for a tool, an event reports the omitted tool. Raises InvalidRequestError."""
    names = [name for name in config.tools if name not in BUILTINS]
    known = await registry.find_tool_kinds(project_id, names)
    kinds = {name: kind for name in names if (kind := known.get(name)) is not None}
    inline_tools = get_inline_tools(config)
    kinds |= {one.name: one.hosted.kind for one in inline_tools if one.hosted is not None}
    if not kinds:
        return
    models = await registry.get_models(project_id)
    hosted = [models.resolve(model)[0].abilities.hosted for model in config.models]
    paths = list_tool_paths(config) if paths is None else paths
    errors = [
        FieldError(
            paths[name],
            "is run by the model's provider, and no provider of these models runs "
            f"{kind}; see GET /v1/capabilities",
        )
        for name, kind in kinds.items()
        if not any(kind in theirs for theirs in hosted)
    ]
    if errors:
        raise e.InvalidRequestError(errors=errors)


def list_tool_paths(config: AgentConfig) -> dict[str, str]:
    """Return the path of each tool of a registered agent."""
    return {name: f"tools.{number}" for number, name in enumerate(list_names(config))}


def _selects_tool(config: AgentConfig, name: str) -> bool:
    prefixes = tuple(one.removesuffix(PATTERN_SUFFIX) for one in list_patterns(config))
    return name in list_names(config) or name.startswith(prefixes)


def list_names(config: AgentConfig) -> tuple[str, ...]:
    """Return the names of the registered and the inline tools."""
    return (*config.tools, *(one.name for one in get_inline_tools(config)))


def check_agent(models: Models, config: AgentConfig) -> None:
    """Check the parts that every run needs: models, settings, schemas and choices. Raises
    InvalidRequestError. If the run later uses a model without support for a part, an event reports
    the omitted part."""
    _check_kind(config)
    try:
        can = [models.resolve(model)[0].abilities for model in config.models]
    except ModelNotInCatalogError as error:
        text = str(error)
        raise e.UnknownModelError(text, errors=[FieldError("model", text)]) from None
    if wrong := check_settings(config.model_settings) or _find_unsupported_settings(config, can):
        raise e.InvalidRequestError(errors=[FieldError("model_settings", line) for line in wrong])
    if config.output_schema is not None:
        problems: Sequence[FieldError] = check_schema(
            config.output_schema, strict=False, at="output_schema", object_root=False
        )
        if problems:
            raise e.InvalidRequestError(errors=problems)
    choice = config.tool_choice
    if isinstance(choice, NamedToolChoice) and not _selects_tool(config, choice.name):
        raise e.InvalidRequestError(
            errors=[FieldError("tool_choice.name", "must be one of the run's tools")]
        )


async def check_prices(
    registry: Registry, config: AgentConfig, team: Iterable[AgentConfig] = ()
) -> None:
    """Raises for a cost limit if one of the models has no price. `team`: agents that the run may be
    handed over to. Child runs are checked when they start."""
    if config.limits.max_cost_usd is None:
        return
    models = dict.fromkeys(model for one in (config, *team) for model in one.models)
    problems = [wrong for model in models if (wrong := await registry.find_price_problem(model))]
    if problems:
        raise e.InvalidRequestError(
            errors=[FieldError("limits.max_cost_usd", text) for text in problems]
        )


async def check_budgets(
    storage: Storage,
    registry: Registry,
    project_id: ProjectId,
    agent: str | None,
    config: AgentConfig,
) -> None:
    """Raises if a budget limits the cost of the project or the agent, and one of the models has no
    price. Budgets of API keys and of other agents of the run are checked before each model
    request."""
    if not await registry.has_budgets(project_id):
        return
    async with storage.connect() as tx:
        if not await budgets.needs_price(tx, project_id, agent, None):
            return
    unpriced = [model for model in config.models if await registry.find_price_problem(model)]
    if unpriced:
        raise e.InvalidRequestError(
            errors=[
                FieldError("model", f"has no known price, which a budget needs: '{model}'")
                for model in unpriced
            ]
        )


def _find_unsupported_settings(config: AgentConfig, abilities: Sequence[Abilities]) -> list[str]:
    """Return the settings that none of the models supports."""
    settings = config.model_settings
    losses = [{loss.part for loss in unsupported_settings(settings, one)} for one in abilities]
    everywhere = set[str]().union(*losses).intersection(*losses)
    providers = ", ".join(dict.fromkeys(one.provider for one in abilities))
    return [
        f"{what.removeprefix('model_settings.')}: is not supported by {providers}"
        for what in sorted(everywhere)
    ]


def _check_kind(config: AgentConfig) -> None:
    """Check that an agent has a model and a workflow has agents, and that neither has a field of
    the other. A run of kind `call` has neither, and requests cannot start one this way."""
    if config.kind == "call":
        return
    errors: list[FieldError] = []
    if config.kind == "llm":
        if config.model is None:
            errors.append(FieldError("model", "is required for an agent of kind llm"))
        if config.agents:
            errors.append(
                FieldError(
                    "agents",
                    "must be omitted for an agent of kind llm, because only a workflow has agents",
                )
            )
    else:
        if not config.agents:
            errors.append(FieldError("agents", f"is required for an agent of kind {config.kind}"))
        errors += [
            FieldError(name, f"must be omitted for an agent of kind {config.kind}")
            for name, given in (
                ("model", config.model),
                ("tools", list_names(config)),
                ("handoffs", config.handoffs),
            )
            if given
        ]
    if errors:
        raise e.InvalidRequestError(errors=errors)
