"""Schemas that no route's model contains: the types of events, the items of conversations, and the
requests that Runward sends. They are built together with the document."""

from collections.abc import Iterable, Mapping
from inspect import getdoc
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter

from runward.api.completions.response_models import ChatCompletionChunk
from runward.api.http.paging import Page
from runward.api.openapi import webhook_data
from runward.api.openapi.response_events import build_stream_events
from runward.api.openapi.tidy import Json
from runward.api.runs.item_types import ITEMS
from runward.domain.events.base import NewEvent, TransientEvent, get_data_type
from runward.domain.events.kinds import STORED, TRANSIENT
from runward.domain.run.envelopes import ToolEnvelope

REF_TEMPLATE: Final = "#/components/schemas/{model}"
_OF_A_RUN: Final[Json] = {
    "id": {
        "type": "string",
        "description": "ID of the item. Use it as `after` to get the items that follow it.",
    },
    "agent": {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "description": "Name of the agent that the item belongs to. Null if the run uses no "
        "registered agent.",
    },
    "turn": {
        "type": "integer",
        "description": "Number of the turn that the item belongs to. 0 for items before the first "
        "turn.",
    },
}
_OF_A_SESSION: Final[Json] = {
    "id": _OF_A_RUN["id"],
    "run_id": {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "description": "ID of the run that the item belongs to. Null if a client added the item at "
        "`/v1/conversations`.",
    },
}
_POSTED_TYPES: Final[Mapping[str, Any]] = {
    "Notification": webhook_data.Notification,
    "ToolRequest": webhook_data.ToolRequest,
    "ToolEnvelope": ToolEnvelope,
    "GuardrailRequest": webhook_data.GuardrailRequest,
    "GuardrailResponse": webhook_data.GuardrailResponse,
    "HookRequest": webhook_data.HookRequest,
    "HookResponse": webhook_data.HookResponse,
}
EventKind: TypeAlias = type[NewEvent[Any] | TransientEvent[Any]]


def add_schemas(schemas: Json) -> None:
    """Add the schemas to the components that FastAPI derived from the routes."""
    data = (get_data_type(kind) for kind in (*STORED.values(), *TRANSIENT.values()))
    types = {each.__name__: each for each in (*data, *ITEMS)}
    for name, schema in build_schemas(types | _POSTED_TYPES).items():
        # The schema of a model would require all fields of an item.
        if name in types or name not in schemas:
            schemas[name] = schema
    schemas["JsonValue"] = {"description": "Any JSON value."}
    _add_events(schemas)
    _add_response_events(schemas)
    _add_completion_chunks(schemas)
    for page, item, about in (
        ("RunItemList", "RunItem", _OF_A_RUN),
        ("SessionItemList", "SessionItem", _OF_A_SESSION),
    ):
        schemas[item] = _add_items(schemas, item, about)
        schemas[page]["properties"]["data"]["items"] = {"$ref": _make_ref(item)}
    for name, schema in schemas.items():
        if name.endswith("List"):  # Pydantic gives generic classes no description.
            schema.setdefault("description", getdoc(Page))


def build_schemas(types: Mapping[str, Any]) -> Json:
    """Return name -> schema, for the types and all types that they contain."""
    asked: list[Any] = [(name, "serialization", TypeAdapter(one)) for name, one in types.items()]
    made, rest = TypeAdapter.json_schemas(asked, ref_template=REF_TEMPLATE)
    found: Json = dict(rest.get("$defs", {}))
    for (name, _), schema in made.items():
        found.setdefault(str(name), schema)
    return found


def make_union(names: Iterable[str], discriminator: str, mapping: Mapping[str, str]) -> Json:
    return {
        "oneOf": [{"$ref": _make_ref(name)} for name in names],
        "discriminator": {
            "propertyName": discriminator,
            "mapping": {value: _make_ref(name) for value, name in mapping.items()},
        },
    }


def _add_events(schemas: Json) -> None:
    """Add one schema for each type of event, `Event` as the union of the stored types, and
    `StreamedEvent` as the union of all types in a stream."""
    stored: Json = schemas["Event"]
    fields: Json = stored["properties"]
    transient = {"properties": {name: fields[name] for name in ("type", "run_id", "data")}}
    for kind in STORED.values():
        schemas[kind.__name__] = _make_event(kind, stored)
    for kind in TRANSIENT.values():
        schemas[kind.__name__] = _make_event(kind, transient)
    example, description = stored["examples"], stored["description"]
    schemas["Event"] = _make_event_union(STORED) | {
        "description": description,
        "examples": example,
    }
    schemas["StreamedEvent"] = _make_event_union({**STORED, **TRANSIENT}) | {
        "description": "An event in a stream. Events without a `sequence` are pieces of a later "
        "event and are never stored."
    }
    schemas["EventStream"] = {
        "type": "string",
        "contentMediaType": "text/event-stream",
        "contentSchema": {"$ref": _make_ref("StreamedEvent")},
        "description": "A stream of server-sent events. `id` is the sequence number, `event` is "
        "the type, and `data` is a StreamedEvent as one line of JSON. Pieces have no `id`.",
    }


def _add_response_events(schemas: Json) -> None:
    """Add one schema for each type of event of `/v1/responses`, and their union."""
    events, names = build_stream_events(REF_TEMPLATE)
    schemas.update(events)
    schemas["ResponseStreamEvent"] = make_union(names.values(), "type", names) | {
        "description": "An event in a stream of `/v1/responses`."
    }
    schemas["ResponseStream"] = {
        "type": "string",
        "contentMediaType": "text/event-stream",
        "contentSchema": {"$ref": _make_ref("ResponseStreamEvent")},
        "description": "A stream of server-sent events in the format of OpenAI's Responses API. "
        "`event` is the type, and `data` is a ResponseStreamEvent as one line of JSON.",
    }


def _add_completion_chunks(schemas: Json) -> None:
    """Add the schemas of a stream of `/v1/chat/completions`."""
    chunk = ChatCompletionChunk.model_json_schema(ref_template=REF_TEMPLATE, mode="serialization")
    schemas.update(chunk.pop("$defs"))
    schemas["ChatCompletionChunk"] = chunk
    schemas["ChatCompletionStream"] = {
        "type": "string",
        "contentMediaType": "text/event-stream",
        "contentSchema": {"$ref": _make_ref("ChatCompletionChunk")},
        "description": "A stream of server-sent events in the format of OpenAI's Chat Completions "
        "API. `data` is a ChatCompletionChunk as one line of JSON. The last `data` is `[DONE]`.",
    }


def _make_event_union(kinds: Mapping[str, EventKind]) -> Json:
    mapping = {type_: kind.__name__ for type_, kind in kinds.items()}
    return make_union(mapping.values(), "type", mapping)


def _make_event(kind: EventKind, like: Json) -> Json:
    data = get_data_type(kind).__name__
    fields: Json = like["properties"] | {
        "type": {"type": "string", "const": kind.type},
        "data": {
            "$ref": _make_ref(data),
            "description": "Data of the event. Its fields depend on the event's type.",
        },
    }
    return {
        "type": "object",
        "description": " ".join((getdoc(kind) or "").split()),
        "properties": fields,
        "required": list(fields),
    }


def _add_items(schemas: Json, union: str, about: Json) -> Json:
    """Add each kind of item with the fields that identify its run, and the union of the kinds."""
    place = union.removesuffix("Item")
    names: dict[str, str] = {}
    for kind in ITEMS:
        bare: Json = schemas[kind.__name__]
        name = names[bare["properties"]["type"]["const"]] = place + kind.__name__
        schemas[name] = {
            **bare,
            "properties": about | bare["properties"],
            "required": [*about, *bare["required"]],
        }
    return make_union(names.values(), "type", names) | {"description": "An item of a conversation."}


def add_discriminators(schemas: Json) -> None:
    """Add the discriminator `type` to unions whose schemas all have a constant `type`, and require
    the field. Runward also accepts a message without a type, but other programs cannot determine
    its schema."""
    for schema in schemas.values():
        names = [one.get("$ref", "").rpartition("/")[2] for one in schema.get("oneOf", ())]
        types = [schemas.get(name, {}).get("properties", {}).get("type", {}) for name in names]
        if names and "discriminator" not in schema and all("const" in one for one in types):
            mapping = {one["const"]: name for one, name in zip(types, names, strict=True)}
            schema.update(make_union(names, "type", mapping))
            for one in (schemas[name] for name in names):
                one["required"] = list(dict.fromkeys(("type", *one.get("required", ()))))


def _make_ref(name: str) -> str:
    return REF_TEMPLATE.format(model=name)
