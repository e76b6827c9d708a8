"""Change the tool calls of a model's response as an `after_model` hook requests."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Annotated, Final
from uuid import UUID

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject, clean_json, clean_text, compact, is_same_json, parse
from runward.domain.registry.guards import Frozen
from runward.domain.run.bounds import MAX_CALL_ID
from runward.domain.run.items import Message
from runward.domain.run.response import ModelResponse, Output, RequestedCall

MAX_CALLS: Final = 128
"""Maximum number of calls that one hook may return."""
MAX_NAMED: Final = 5
"""Maximum number of problems that one message lists."""


class HookCall(Frozen):
    """A tool call in the response of an `after_model` hook. If the model requested a call with the
    same `call_id`, this object changes it. Otherwise, it adds a call."""

    call_id: Annotated[str, Field(min_length=1, max_length=MAX_CALL_ID)] | None = None
    """ID of the call. Null for an added call: Runward generates the ID."""
    name: Annotated[str, Field(min_length=1)] | None = None
    """Name of the tool. Null: the name that the model requested."""
    arguments: JsonObject | None = None
    """Arguments of the call. Null: the arguments that the model requested."""
    arguments_text: str | None = None
    """Arguments as a text that is not a JSON object. If it is set, Runward ignores
    `arguments`."""


_CALLS: Final = TypeAdapter(Annotated[list[HookCall], Field(max_length=MAX_CALLS)])


class InvalidCallsError(Exception):
    """The calls that a hook returned cannot be used. The message is for operators."""


def describe_requested_call(call: RequestedCall) -> JsonObject:
    """Describe a call whose arguments are not validated yet. Arguments that are not a JSON object
    are included as text."""
    shown: JsonObject = {"call_id": call.call_id, "name": call.name}
    try:
        arguments, _ = clean_json(parse(call.arguments))
    except ValueError:
        arguments = None
    if isinstance(arguments, dict):
        return shown | {"arguments": arguments}
    return shown | {"arguments": {}, "arguments_text": clean_text(call.arguments)}


def identify_calls(response: ModelResponse, mint: Callable[[], UUID]) -> ModelResponse:
    """Return the response with an ID for each call, so that a hook can refer to the calls."""
    if all(call.call_id for call in response.calls):
        return response
    return replace(response, output=tuple(_identify(one, mint) for one in response.output))


def _identify(one: Output, mint: Callable[[], UUID]) -> Output:
    if not isinstance(one, RequestedCall) or one.call_id:
        return one
    return replace(one, call_id=format_id(Prefix.CALL, mint()))


def change_calls(
    response: ModelResponse,
    calls: JsonValue,
    used_ids: Collection[str],
    mint: Callable[[], UUID],
) -> ModelResponse:
    """Return the response with the hook's calls. The model's calls stay in their order, and added
    calls follow. `used_ids`: the IDs of all earlier calls of the run. Raises InvalidCallsError."""
    requested = {call.call_id: call for call in response.calls}
    wanted: dict[str, RequestedCall] = {}
    for index, call in enumerate(_parse(calls)):
        made = _make_call(f"calls.{index}", call, requested, mint)
        if wanted.setdefault(made.call_id, made) != made:
            raise InvalidCallsError(f"calls.{index}: two calls have the ID '{made.call_id}'.")
        if made.call_id in used_ids and made != requested.get(made.call_id):
            raise InvalidCallsError(
                f"calls.{index}: an earlier call of the run has the ID '{made.call_id}'."
            )
    output: list[Output] = []
    for one in response.output:
        if not isinstance(one, RequestedCall):
            output.append(one)
        elif one.call_id in wanted:
            output.append(wanted.pop(one.call_id))
    return replace(response, output=(*output, *wanted.values()))


def replace_message(response: ModelResponse, text: str) -> ModelResponse:
    """Return the response with `text` in place of its messages."""
    others = [one for one in response.output if not isinstance(one, Message | RequestedCall)]
    return replace(response, output=(*others, Message("assistant", text), *response.calls))


def _parse(calls: JsonValue) -> list[HookCall]:
    try:
        return _CALLS.validate_python(calls)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        lines = [
            f"{'.'.join(map(str, ('calls', *one['loc'])))}: {one['msg']}"
            for one in problems[:MAX_NAMED]
        ]
        raise InvalidCallsError("; ".join(lines)) from None


def _make_call(
    path: str, call: HookCall, requested: Mapping[str, RequestedCall], mint: Callable[[], UUID]
) -> RequestedCall:
    """Return the call. An unchanged call keeps the data of its provider."""
    before = requested.get(call.call_id) if call.call_id else None
    text = call.arguments_text
    if text is None and call.arguments is not None:
        text = compact(call.arguments)
    if before is None:
        if call.name is None or text is None:
            raise InvalidCallsError(f"{path}: an added call requires `name` and `arguments`.")
        call_id = clean_text(call.call_id or "") or format_id(Prefix.CALL, mint())
        return RequestedCall(call_id, call.name, text)
    name = before.name if call.name is None else call.name
    if name == before.name and (text is None or _is_same(text, before.arguments)):
        return before
    return RequestedCall(before.call_id, name, before.arguments if text is None else text)


def _is_same(text: str, other: str) -> bool:
    if text == other:
        return True
    try:
        return is_same_json(parse(text), parse(other))
    except ValueError:
        return False
