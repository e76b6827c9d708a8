"""A project's policy: the hooks and guardrails that stand around every run of it."""

from datetime import datetime
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from runward.api.http.models import EXAMPLE_TIME, RequestModel, ResponseModel, with_example
from runward.domain.registry.guards import Guardrail, Guardrails, Hook, Hooks

_POLICY: Final[dict[str, Any]] = {
    "hooks": [
        {"on": "before_model", "type": "webhook", "url": "https://guards.example.com/context"}
    ],
    "guardrails": [
        {"stage": "output", "type": "webhook", "url": "https://guards.example.com/secrets"}
    ],
}


class PutPolicy(RequestModel):
    """The whole policy; what is left out is emptied."""

    model_config = ConfigDict(json_schema_extra=with_example(**_POLICY))

    hooks: Hooks = ()
    """Asked around every model's answer and every tool call, after the agent's own."""
    guardrails: Guardrails = ()
    """Asked around every tool call and every run, after the tool's and the agent's own."""


class Policy(ResponseModel):
    """What is asked around every run of the project."""

    model_config = ConfigDict(
        json_schema_extra=with_example(
            object="policy", **_POLICY, version=1, updated_at=EXAMPLE_TIME
        )
    )

    object: Literal["policy"] = "policy"
    """`policy`."""
    hooks: list[Hook]
    """Asked around every model's answer and every tool call, after the agent's own."""
    guardrails: list[Guardrail]
    """Asked around every tool call and every run, after the tool's and the agent's own."""
    version: int
    """Counts the changes; 0: it was never set."""
    updated_at: datetime | None
    """When it was set last."""


class PolicySecret(BaseModel):
    """The project's new signing secret for guardrails and hooks; the one before stays valid for a
    while."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        json_schema_extra=with_example(secret="whsec_…"),  # noqa: S106  # an example
    )

    secret: str
    """`whsec_…`. Shown this once."""
