"""The payloads of requests to guardrails and hooks. docs/reference/guardrail-requests.md documents
them."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject
from runward.domain.registry.guards import HookPoint, Stage
from runward.domain.run.changed_calls import describe_requested_call
from runward.domain.run.conversation import find_new_input
from runward.domain.run.items import Item, Part, item_to_json, part_to_json
from runward.domain.run.response import ModelResponse
from runward.domain.run.state import Call, Result, RunState


@dataclass(frozen=True, slots=True)
class VisibleResult:
    """The current result of a call. It is complete even if the model reads only a part of it.
    `detail`: the technical error, which the model does not see."""

    output: JsonValue
    is_error: bool = False
    parts: tuple[Part, ...] = ()
    detail: str | None = None

    @classmethod
    def of(cls, result: Result) -> "VisibleResult":
        whole = result.output if result.full is None else result.full
        return cls(whole, result.is_error, result.parts, result.detail)

    def to_json(self) -> JsonObject:
        shown: JsonObject = {"output": self.output, "is_error": self.is_error}
        if self.parts:
            shown["content"] = [part_to_json(part) for part in self.parts]
        if self.detail is not None:
            shown["detail"] = self.detail
        return shown


def build_guardrail_payload(state: RunState, stage: Stage, about: JsonObject) -> JsonObject:
    return {"type": "guardrail", "stage": stage, **_run(state), **about}


def build_hook_payload(
    state: RunState, on: HookPoint, *, turn: int, about: JsonObject
) -> JsonObject:
    return {"type": "hook", "on": on, **_run(state), "turn": turn, **about}


def _run(state: RunState) -> JsonObject:
    return {
        "run_id": format_id(Prefix.RUN, state.id),
        "agent": state.agent,
        "context": state.context,
    }


def describe_call(call: Call, seen: VisibleResult | None = None) -> JsonObject:
    about: JsonObject = {
        "call_id": call.id,
        "tool": call.tool,
        "tool_version": call.version,
        "arguments": call.arguments,
    }
    if call.child_run_id is not None:
        about["child_run_id"] = format_id(Prefix.RUN, call.child_run_id)
    return about if seen is None else about | seen.to_json()


def describe_conversation(items: Sequence[Item]) -> JsonObject:
    return {"items": [item_to_json(item) for item in items]}


def describe_response(response: ModelResponse) -> JsonObject:
    calls: list[JsonValue] = [describe_requested_call(call) for call in response.calls]
    return {"message": response.text, "calls": calls, "refusal": response.refusal}


def describe_new_input(state: RunState) -> list[JsonValue]:
    return [item_to_json(item) for segment in find_new_input(state) for item in segment.items]
