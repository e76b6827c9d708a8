"""Plan the changes of `agents apply`, field by field. The functions are pure: their inputs are the
file, the existing agents, and the OpenAPI document of the service.

The file defines each agent completely. A field that is missing has its default value.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from runward.cli.connection import JsonBody

JSON_TYPES: Final[dict[type[Any], str]] = {
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}
"""Names of the types in JSON Schema."""


@dataclass(frozen=True, slots=True)
class Change:
    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class PlanStep:
    name: str
    action: Literal["create", "update", "delete", "unchanged"]
    changes: tuple[Change, ...]

    def as_json(self) -> JsonBody:
        """Return the step as `apply --json` prints it."""
        changes = [
            {"field": one.field, "before": one.before, "after": one.after} for one in self.changes
        ]
        return {"name": self.name, "action": self.action, "changes": changes}


class AgentSchema:
    """The schema of an agent, from /openapi.json."""

    def __init__(self, openapi: JsonBody) -> None:
        self._schemas: JsonBody = openapi["components"]["schemas"]
        self._agent: JsonBody = self._schemas["RegisterAgent"]

    @property
    def fields(self) -> list[str]:
        return [field for field in self._agent["properties"] if field != "name"]

    def problems(self, declared: JsonBody) -> Iterator[str]:
        """Yield a message for each field of the file that agents do not have."""
        name = declared.get("name")
        if not isinstance(name, str) or not name:
            yield "An agent has no name. Add the field `name`."
        for field in declared:
            if field != "name" and field not in self.fields:
                yield (
                    f"Agent {name}: the field '{field}' does not exist. The fields are: "
                    f"{', '.join(self.fields)}"
                )

    def complete(self, declared: JsonBody) -> JsonBody:
        """Return the agent with all defaults, as Runward would show it."""
        return {
            field: self._complete(schema, declared.get(field, _default(schema)))
            for field, schema in self._agent["properties"].items()
            if field != "name"
        }

    def _complete(self, schema: JsonBody, value: Any) -> Any:
        schema = self._fitting(schema, value)
        if isinstance(value, list):
            found: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
            return [self._complete(schema.get("items", {}), one) for one in found]
        if not isinstance(value, dict):
            return value
        given: JsonBody = value  # pyright: ignore[reportUnknownVariableType]
        properties: JsonBody = schema.get("properties", {})
        defaults = {field: _default(inner) for field, inner in properties.items()}
        whole = {field: one for field, one in defaults.items() if one is not None} | given
        return {
            field: self._complete(properties.get(field, {}), one)
            for field, one in whole.items()
            if one is not None or field not in properties
        }

    def _fitting(self, schema: JsonBody, value: Any) -> JsonBody:
        """Return the alternative of the schema that matches the value."""
        if "$ref" in schema:
            return self._fitting(self._schemas[schema["$ref"].rpartition("/")[2]], value)
        for one in schema.get("anyOf", schema.get("oneOf", ())):
            fitting = self._fitting(one, value)
            if _matches(fitting, value):
                return fitting
        return schema


def plan_changes(
    declared: list[JsonBody], found: Mapping[str, JsonBody | None], contract: AgentSchema
) -> list[PlanStep]:
    """Return the steps of the plan. `found`: the existing agents, as Runward shows them. Agents in
    `found` that are not declared are deleted."""
    steps = [_plan_step(one, found[one["name"]], contract) for one in declared]
    gone = found.keys() - {one["name"] for one in declared}
    return steps + [PlanStep(name, "delete", ()) for name in sorted(gone)]


def _plan_step(declared: JsonBody, former: JsonBody | None, contract: AgentSchema) -> PlanStep:
    wanted = contract.complete(declared)
    before = contract.complete(former or {})
    changes = [
        Change(field, None if former is None else before[field], wanted[field])
        for field in contract.fields
        if wanted[field] != before[field]
    ]
    action = "create" if former is None else "update" if changes else "unchanged"
    return PlanStep(declared["name"], action, tuple(changes))


def _default(schema: JsonBody) -> Any:
    """Return the default value. For an object without a declared default, return an empty
    object."""
    if "default" in schema:
        return schema["default"]
    return {} if schema.get("type") == "object" else None


def _matches(schema: JsonBody, value: Any) -> bool:
    if not isinstance(value, dict):
        return any(
            type(value) is kind and schema.get("type") == name for kind, name in JSON_TYPES.items()
        )
    given: JsonBody = value  # pyright: ignore[reportUnknownVariableType]
    properties: JsonBody = schema.get("properties", {})
    consts = {field: one["const"] for field, one in properties.items() if "const" in one}
    return (
        schema.get("type") == "object"
        and all(field in given for field in schema.get("required", ()))
        and all(given.get(field, const) == const for field, const in consts.items())
    )
