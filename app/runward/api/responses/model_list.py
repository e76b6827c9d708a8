"""/v1/models: the agents and models that `model` can name, in OpenAI's format."""

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from fastapi import Path

from runward.api.http.auth import RunsReader
from runward.api.http.dependencies import RegistryDep, StorageDep
from runward.api.http.models import ResponseModel, with_example
from runward.api.http.routes import make_router
from runward.domain import not_found
from runward.llm.catalog import OFFLINE_MODELS, ModelNotInCatalogError, Models
from runward.store.registry import agents
from runward.store.registry.agents import RegisteredAgent

routes = make_router("Responses")

MAX_AGENTS: Final = 1000
"""Maximum number of agents in the list."""
OWNER: Final = "runward"
"""The owner of agents and of the offline model."""
_EXAMPLE: Final = {"id": "clerk", "created": 1793610600, "owned_by": OWNER}


class ModelObject(ResponseModel):
    """An agent or a model, in OpenAI's format."""

    model_config = with_example(**_EXAMPLE)

    id: str
    """Name of the agent, or the model as `provider:model`. Send it as `model`."""
    object: Literal["model"] = "model"
    created: int
    """When the agent was registered, as a Unix timestamp in seconds. 0 for models."""
    owned_by: str
    """`runward` for agents. The name of the provider for models."""


class ModelList(ResponseModel):
    """Agents and models."""

    model_config = with_example(data=[_EXAMPLE])

    object: Literal["list"] = "list"
    data: list[ModelObject]
    """Agents in the order of their names, followed by models."""


@routes.get("/models", summary="List models")
async def list_models(
    principal: RunsReader, storage: StorageDep, registry: RegistryDep
) -> ModelList:
    """List the registered agents, at most 1,000, and the models that Runward knows by name: the
    offline model, the models of these agents, and the models in `RUNWARD_MODEL_PRICES`. Runward
    does not ask the providers. Other models of a configured provider also work."""
    models = await registry.get_models(principal.project_id)
    async with storage.connect() as tx:
        found = await agents.list_agents(
            tx, principal.project_id, after=None, limit=MAX_AGENTS, descending=False
        )
    named = [name for agent in found for name in agent.config.models]
    offline = [f"offline:{name}" for name in sorted(OFFLINE_MODELS)]
    names = _select_usable(models, [*offline, *sorted({*named, *registry.list_priced_models()})])
    return ModelList(data=[*map(_show_agent, found), *map(_show_model, names)])


@routes.get("/models/{model:path}", summary="Get a model")
async def get_model(
    principal: RunsReader,
    storage: StorageDep,
    registry: RegistryDep,
    model: Annotated[str, Path(description="Name of an agent, or a model as `provider:model`.")],
) -> ModelObject:
    """Get an agent or a model. Runward does not ask the provider whether the model exists."""
    if ":" in model:
        if not _select_usable(await registry.get_models(principal.project_id), [model]):
            raise not_found.ModelNotFoundError
        return _show_model(model)
    async with storage.connect() as tx:
        agent = await agents.get_agent(tx, principal.project_id, model)
    if agent is None:
        raise not_found.ModelNotFoundError
    return _show_agent(agent)


def _select_usable(models: Models, names: Iterable[str]) -> list[str]:
    """Return the models whose providers are configured, without duplicates."""
    usable: dict[str, None] = {}
    for name in names:
        try:
            models.resolve(name)
        except ModelNotInCatalogError:
            continue
        usable[name] = None
    return list(usable)


def _show_agent(agent: RegisteredAgent) -> ModelObject:
    created = int(agent.created_at.timestamp())
    return ModelObject(id=agent.name, created=created, owned_by=OWNER)


def _show_model(name: str) -> ModelObject:
    provider = name.partition(":")[0]
    return ModelObject(id=name, created=0, owned_by=OWNER if provider == "offline" else provider)
