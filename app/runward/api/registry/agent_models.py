"""Agents, as they are registered, changed and shown."""

from copy import copy
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, JsonValue
from pydantic.fields import FieldInfo

from runward.api.http.models import EXAMPLE_TIME, Metadata, create_request_model, with_example
from runward.domain.registry.tools import ToolName
from runward.domain.run.config import AgentConfig, AgentKind

_AGENT_EXAMPLE: Final[dict[str, Any]] = {
    "name": "clerk",
    "description": "Pays invoices.",
    "model": "offline:rules",
    "instructions": "Pay what is asked for.",
    "tools": ["pay"],
    "metadata": {},
}

Description = Annotated[str, Field(max_length=4096)]


class RegisterAgent(AgentConfig):
    """An agent: the same fields as in an inline run, under a name."""

    model_config = ConfigDict(
        use_attribute_docstrings=True, json_schema_extra=with_example(**_AGENT_EXAMPLE)
    )

    kind: AgentKind = "llm"  # pyright: ignore[reportIncompatibleVariableOverride]
    name: ToolName
    """What runs call it by."""
    description: Description | None = None
    """For people, and for agents that may hand over to it."""
    metadata: Metadata = Field(default_factory=dict[str, JsonValue])
    """The caller's own notes: up to 64 keys and 16 KiB."""

    def to_config(self) -> AgentConfig:
        given = self.model_fields_set & AgentConfig.model_fields.keys()
        return AgentConfig.model_construct(None, **{name: getattr(self, name) for name in given})


class Agent(RegisterAgent):
    """A registered agent, as it is now."""

    model_config = ConfigDict(
        strict=False,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
        json_schema_extra=with_example(
            object="agent",
            version=1,
            created_at=EXAMPLE_TIME,
            updated_at=EXAMPLE_TIME,
            **_AGENT_EXAMPLE,
        ),
    )

    object: Literal["agent"] = "agent"
    """`agent`."""
    version: int
    """Counts the changes, from 1."""
    created_at: datetime
    """When it was registered."""
    updated_at: datetime
    """When this version was made."""

    @classmethod
    def from_config(cls, config: AgentConfig, **fields: Any) -> "Agent":
        """`fields`: the other fields. Without validation: the agent was validated before."""
        return cls.model_construct(None, **(dict(config) | fields))


def _make_optional(field: FieldInfo) -> Any:
    changed = copy(field)
    changed.default, changed.default_factory = None, None
    return (changed.annotation, changed)


_AgentPatchFields = create_request_model(
    "_Optional",
    {
        name: _make_optional(field)
        for name, field in RegisterAgent.model_fields.items()
        if name != "name"
    },
)


class PatchAgent(_AgentPatchFields):
    """What to change; a field that is given replaces the old value whole."""

    def get_given(self, name: str, default: Any) -> Any:
        """What the client gave, null included, or else `default`."""
        return getattr(self, name) if name in self.model_fields_set else default

    def apply_to(self, config: AgentConfig) -> AgentConfig:
        given = self.model_fields_set & AgentConfig.model_fields.keys()
        return config.model_copy(update={name: getattr(self, name) for name in given})
