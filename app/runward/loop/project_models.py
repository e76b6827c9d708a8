"""The models that each project may ask: those of the service's environment, or in their place those
that the project's own secrets reach."""

from collections.abc import Awaitable, Callable, Collection, Mapping

from runward.domain.ids import ProjectId
from runward.egress.targets import TargetError
from runward.llm.catalog import PROJECT_SECRET_NAMES, ModelCatalog, Models
from runward.loop.project_cache import ProjectCache


class ProjectModels(ProjectCache[Models]):
    """`secrets` reads values by name; `check_url` raises TargetError for an address that may not be
    called."""

    def __init__(
        self,
        catalog: ModelCatalog,
        secrets: Callable[[ProjectId, Collection[str]], Awaitable[Mapping[str, str]]],
        check_url: Callable[[str], Awaitable[None]],
    ) -> None:
        async def read(project_id: ProjectId) -> Models:
            own = await secrets(project_id, PROJECT_SECRET_NAMES)
            return catalog.for_project(
                own, await _find_url_problem(own.get("OPENAI_BASE_URL"), check_url)
            )

        super().__init__(read)


async def _find_url_problem(
    url: str | None, check_url: Callable[[str], Awaitable[None]]
) -> str | None:
    if url is None:
        return None
    try:
        await check_url(url)
    except TargetError as error:
        return f"the project's OPENAI_BASE_URL {error}"
    return None
