"""Record the changes of a request in the audit log."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from runward.api.http.requests import ApiRequest
from runward.domain.audit import AuditAction
from runward.domain.ids import Prefix, ProjectId, RunId, format_id
from runward.domain.json import JsonObject
from runward.store.access import audit
from runward.store.access.audit import AuditActor, AuditChange
from runward.store.postgres.db import Tx


@dataclass(frozen=True, slots=True)
class Audit:
    """Records changes by the principal of a request."""

    project_id: ProjectId
    actor: AuditActor

    @property
    def project(self) -> str:
        """Return the ID of a resource that each project has once."""
        return format_id(Prefix.PROJECT, self.project_id)

    async def record(
        self,
        tx: Tx,
        action: AuditAction,
        resource: str,
        *,
        before: BaseModel | JsonObject | None = None,
        after: BaseModel | JsonObject | None = None,
        run_id: RunId | None = None,
        project_id: ProjectId | None = None,
    ) -> None:
        """Append an entry at the end of the transaction that changes the resource. `resource`:
        its ID or name. `before` and `after`: the resource as a GET request shows it, and never a
        model with a secret. `run_id`: the run whose erasure erases them. `project_id`: the project
        of the resource, if it is another one."""
        newest = after if after is not None else before
        change = AuditChange(
            action,
            resource,
            version=getattr(newest, "version", None),
            before=to_jsonable_python(before),
            after=to_jsonable_python(after),
            run_id=run_id,
        )
        await audit.append(tx, project_id or self.project_id, self.actor, change)


def _read_audit(request: Request) -> Audit:
    assert isinstance(request, ApiRequest)
    return Audit(request.principal.project_id, AuditActor.from_principal(request.principal))


AuditDep = Annotated[Audit, Depends(_read_audit)]
"""A handler's parameter, used together with its principal."""
