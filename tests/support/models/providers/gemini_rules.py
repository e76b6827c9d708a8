"""What Google's Gemini API refuses, as far as an agent runtime can get it wrong.

The fields are those of the official client's models (`google.genai.types`), which are closed, less
those that only its enterprise platform takes. Thought signatures are asked for as Gemini 3 does:
on the first call of every step of the current turn.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from tests.support.models.chat_rules import Body

NAME = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$")
ENTERPRISE = frozenset(
    {
        "audioTimestamp",
        "enableEnhancedCivicAnswers",
        "enterpriseWebSearch",
        "exaAiSearch",
        "modelSelectionConfig",
        "parallelAiSearch",
        "partialArgs",
        "retrieval",
        "routingConfig",
        "streamFunctionCallArguments",
    }
)
SCHEMA_WORDS = frozenset(
    {
        *("$anchor", "$defs", "$id", "$ref", "additionalProperties", "anyOf", "default"),
        *("description", "enum", "example", "format", "items", "maxItems", "maxLength"),
        *("maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum"),
        *("nullable", "oneOf", "pattern", "prefixItems", "properties", "propertyOrdering"),
        *("required", "title", "type"),
    }
)
"""What the documentation of `responseJsonSchema` and the `Schema` type list."""
SKIPS_CHECK = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Documented stand-ins for the signature of a call that Gemini did not make."""
BESIDE = frozenset({"thought", "thoughtSignature", "partMetadata", "videoMetadata"})
"""What may stand beside the one thing that a part holds."""
SKIPPED = tuple(b64encode(text.encode()).decode() for text in SKIPS_CHECK)


@cache
def shape() -> TypeAdapter[Any]:
    from google.genai import types  # noqa: PLC0415

    closed = ConfigDict(extra="forbid", val_json_bytes="base64")
    fields: dict[str, Any] = {
        "contents": (list[types.Content], ...),
        "systemInstruction": (types.Content, None),
        "tools": (list[types.Tool], None),
        "toolConfig": (types.ToolConfig, None),
        "safetySettings": (list[types.SafetySetting], None),
        "generationConfig": (types.GenerationConfig, None),
        "cachedContent": (str, None),
        "store": (bool, None),
        "serviceTier": (str, None),
    }
    model: type[BaseModel] = create_model("GenerateContent", __config__=closed, **fields)
    return TypeAdapter(model)


def check(body: Body, signatures: dict[str, str | None]) -> list[str]:
    """`signatures`: of each call that the server made, by its `call_key`."""
    try:
        body = understood(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(map(str, first["loc"]))
        return [f'Invalid JSON payload received. "{path}": {first["msg"]}: {first["input"]}']
    contents = _list(body["contents"])
    return [
        *(f'Unknown name "{key}": Cannot find field.' for key in ENTERPRISE & _keys(body)),
        *_check_contents(contents),
        *_check_tools(body),
        *_check_choice(body),
        *_check_output(_map(body.get("generationConfig"))),
        *_check_calls(contents),
        *_check_signatures(contents, signatures),
    ]


def understood(body: Body) -> Body:
    """Names may be written in either case; here they are in camel case. Raises ValidationError."""
    adapter = shape()
    read = adapter.validate_json(json.dumps(body))
    return adapter.dump_python(read, mode="json", by_alias=True, exclude_unset=True)


def call_key(call: Body) -> str:
    return str(call.get("id") or written(call))


def written(call: Body) -> str:
    """A call that the server gave no id may come back with one that the client made."""
    return f"{call['name']} {json.dumps(call.get('args') or {}, sort_keys=True)}"


def _list(value: Any) -> list[Body]:
    return cast(list[Body], value or [])


def _map(value: Any) -> Body:
    return cast(Body, value or {})


def _parts(content: Body, kind: str) -> list[Body]:
    return [part[kind] for part in _list(content.get("parts")) if kind in part]


def _keys(body: Body) -> set[str]:
    """Of the objects of the protocol: not of arguments, results and schemas."""
    calls = [one for content in body["contents"] for one in _parts(content, "functionCall")]
    calling = _map(_map(body.get("toolConfig")).get("functionCallingConfig"))
    config = _map(body.get("generationConfig"))
    return {key for one in (*calls, *_list(body.get("tools")), calling, config) for key in one}


def _check_contents(contents: list[Body]) -> Iterator[str]:
    if not contents:
        yield "* GenerateContentRequest.contents: contents is not specified"
    for at, content in enumerate(contents):
        if content.get("role") not in ("user", "model"):
            yield "Please use a valid role: user, model."
        for problem in _check_parts(_list(content.get("parts"))):
            yield f"* GenerateContentRequest.contents[{at}].parts: {problem}"
    if contents[-1:] and contents[-1].get("role") == "model":
        yield "Please ensure that the last turn is the user's, or a function response turn."


def _check_parts(parts: list[Body]) -> Iterator[str]:
    if not parts:
        yield "contents.parts must not be empty."
    for part in parts:
        if len(part.keys() - BESIDE) != 1:
            yield "required oneof field 'data' must have one initialized field"
        if part.get("text") == "" and "thoughtSignature" not in part:
            yield "Unable to submit request because it must have a text parameter"


def _declared(body: Body) -> list[Body]:
    tools = _list(body.get("tools"))
    return [one for tool in tools for one in _list(tool.get("functionDeclarations"))]


def _check_tools(body: Body) -> Iterator[str]:
    declared = _declared(body)
    names = [str(one.get("name")) for one in declared]
    for name, one in zip(names, declared, strict=True):
        if not NAME.match(name):
            yield f"Invalid function name {name!r}. Must start with a letter or an underscore."
        if "parameters" in one and "parametersJsonSchema" in one:
            yield f"{name}: only one of parameters and parameters_json_schema can be set"
        schema = one.get("parametersJsonSchema", one.get("parameters"))
        yield from check_schema(schema, f"{name}.parameters")
    if len(set(names)) != len(names):
        yield f"Duplicate function declaration found: {names}"
    if {} in _list(body.get("tools")):
        yield "tools: a tool is empty"


def _check_choice(body: Body) -> Iterator[str]:
    calling = _map(_map(body.get("toolConfig")).get("functionCallingConfig"))
    names = [one.get("name") for one in _declared(body)]
    allowed = cast(list[str], calling.get("allowedFunctionNames") or [])
    if calling and not names:
        yield "Function calling config is set without function_declarations."
    if allowed and calling.get("mode") not in ("ANY", "VALIDATED"):
        yield "allowed_function_names should only be set when mode is ANY or VALIDATED"
    for name in allowed:
        if name not in names:
            yield f"allowed_function_names contains {name}, which is not declared"


def _check_output(config: Body) -> Iterator[str]:
    schema = config.get("responseJsonSchema", config.get("responseSchema"))
    if schema is not None and config.get("responseMimeType") != "application/json":
        yield "response_schema only works with response_mime_type application/json"
    yield from check_schema(schema, "response_schema")


def check_schema(schema: Any, path: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    body = cast(Body, schema)
    for key in body.keys() - SCHEMA_WORDS:
        yield f"Unknown name \"{key}\" at '{path}': Cannot find field."
    for group in ("properties", "$defs"):
        for name, child in _map(body.get(group)).items():
            yield from check_schema(child, f"{path}.{name}")
    for group in ("anyOf", "oneOf", "prefixItems"):
        for at, child in enumerate(_list(body.get(group))):
            yield from check_schema(child, f"{path}.{group}[{at}]")
    for key in ("items", "additionalProperties"):
        yield from check_schema(body.get(key), f"{path}.{key}")


def _check_calls(contents: list[Body]) -> Iterator[str]:
    """A turn of calls is followed by a turn of as many responses, in their order."""
    before: list[Body] = []
    last = ""
    end: Body = {"role": "user"}
    for content in [*contents, end]:
        given = _parts(content, "functionResponse")
        if len(given) != len(before):
            yield (
                "Please ensure that the number of function response parts is equal to the number "
                "of function call parts of the function call turn."
            )
        for call, response in zip(before, given, strict=False):
            yield from _check_response(call, response)
        before = _parts(content, "functionCall")
        if before and (content["role"] != "model" or last == "model"):
            yield (
                "Please ensure that function call turn comes immediately after a user turn or "
                "after a function response turn."
            )
        last = str(content["role"])


def _check_response(call: Body, response: Body) -> Iterator[str]:
    ids = {one["id"] for one in (call, response) if one.get("id")}
    if response.get("name") != call.get("name") or len(ids) > 1:
        yield f"function_response {response.get('name')} {ids} is not that of {call}"
    if not isinstance(response.get("response"), dict):
        yield "function_response.response: must be an object"


def _check_signatures(contents: list[Body], signatures: dict[str, str | None]) -> Iterator[str]:
    """The current turn begins behind the last message that holds no function responses."""
    asked = [
        at
        for at, content in enumerate(contents)
        if content["role"] == "user" and not _parts(content, "functionResponse")
    ]
    for at, content in enumerate(contents):
        calls = [part for part in _list(content.get("parts")) if "functionCall" in part]
        for number, part in enumerate(calls):
            name = part["functionCall"].get("name")
            call = part["functionCall"]
            own = signatures.get(call_key(call), signatures.get(written(call)))
            given = part.get("thoughtSignature")
            if given is None and number == 0 and at > max(asked, default=-1):
                yield (
                    "Function call is missing a thought_signature in functionCall parts. "
                    f"Additional data, function call `{name}`, position {at}."
                )
            elif given != own and not (own is None and given in SKIPPED):
                yield f"The thought_signature of `{name}` was {own}, not {given}."
