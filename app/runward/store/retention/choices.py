"""The retention that a project has chosen."""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import select, update

from runward.domain.ids import ProjectId
from runward.domain.retention import DataClass
from runward.store.postgres.db import Tx
from runward.store.postgres.tables import projects

_CHOICE: Final = select(projects.c.retention)


async def get_choice(tx: Tx, project_id: ProjectId, *, lock: bool = False) -> dict[str, int | None]:
    """Return the number of days of each class that the project has chosen. None: forever. `lock`:
    no other transaction changes it until this one ends."""
    query = _CHOICE.where(projects.c.id == project_id)
    locked = query.with_for_update(key_share=True)
    return (await tx.execute(locked if lock else query)).scalar_one()


async def put_choice(tx: Tx, project_id: ProjectId, days: Mapping[DataClass, int | None]) -> None:
    """Replace the choice. The update waits until no transaction removes data of the project."""
    await tx.execute(
        update(projects).where(projects.c.id == project_id).values(retention=dict(days))
    )
