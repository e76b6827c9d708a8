"""The fields of events that stay when the content of a run is erased: IDs, names, times, numbers
and codes. Texts and values of clients, models, tools and approvers are content."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pydantic import JsonValue

from runward.domain.events import call_data, run_data
from runward.domain.events.base import get_data_type
from runward.domain.events.kinds import STORED
from runward.domain.json import JsonObject


class EventFields(NamedTuple):
    """The names of the fields, separated by spaces."""

    kept: str
    erased: str = ""


FIELDS: Final[Mapping[Any, EventFields]] = {
    run_data.RunCreatedData: EventFields("agent model tools parent_call_id continued_from"),
    run_data.EmptyData: EventFields(""),
    run_data.RunWaitingData: EventFields("waiting_for"),
    run_data.BudgetExceededData: EventFields(
        "budget_id limit_usd estimate_usd limit_tokens estimate_tokens period_ends_at"
    ),
    run_data.RunEndedData: EventFields("error incomplete_details truncated", "output"),
    run_data.RunError: EventFields("code", "message"),
    run_data.IncompleteDetails: EventFields("reason", "message"),
    run_data.MessageCompletedData: EventFields("turn agent refusal", "text"),
    run_data.ReasoningCompletedData: EventFields("turn agent", "reasoning"),
    run_data.HandoffCompletedData: EventFields("from to turn"),
    run_data.StateUpdatedData: EventFields("call_id changes_bytes truncated", "changes"),
    run_data.InputReceivedData: EventFields("turn messages"),
    run_data.UsageUpdatedData: EventFields(
        "turn model call_id input_tokens output_tokens cached_tokens reasoning_tokens total_tokens "
        "cost_usd"
    ),
    run_data.ModelRetriedData: EventFields("code model after_seconds", "message"),
    run_data.ModelSettingDroppedData: EventFields("model setting", "reason"),
    run_data.ModelCallsChangedData: EventFields(
        "turn agent hook requested_calls_bytes truncated", "requested_calls"
    ),
    call_data.ToolCallCreatedData: EventFields(
        "call_id tool tool_version tool_type hosted turn agent arguments_bytes "
        "arguments_text_bytes truncated",
        "arguments arguments_text",
    ),
    call_data.ApprovalRequestedData: EventFields(
        "approval_id call_id tool tool_version arguments_bytes truncated digest expires_in_seconds",
        "arguments",
    ),
    call_data.ApprovalDecidedData: EventFields(
        "approval_id call_id tool decision status decided_by arguments_bytes truncated digest "
        "remembered",
        "message arguments",
    ),
    call_data.ToolCallStartedData: EventFields(
        "call_id tool attempt digest webhook_id timeout_seconds"
    ),
    call_data.ToolCallProgressData: EventFields(
        "call_id status progress requests_bytes truncated run_id agent", "message requests"
    ),
    call_data.ToolCallEndedData: EventFields(
        "call_id tool hosted attempt output_bytes truncated is_error reason awaiting_resolution",
        "output detail metadata",
    ),
}
"""The fields of the data of each kind of event, and of the objects in it that are kept in part."""
_PARTLY_KEPT: Final = {
    "error": run_data.RunError,
    "incomplete_details": run_data.IncompleteDetails,
}
_BLANKS: Final[Mapping[type, JsonValue]] = {str: "", dict: {}, list: []}


def erase_event_data(type_: str, data: JsonObject) -> JsonObject:
    """Return the data of an event without its content. Erased values keep their type: a text, an
    object or a list becomes empty. All others become null. Unknown fields are content too."""
    kind = STORED.get(type_)
    return _erase(get_data_type(kind) if kind else None, data)


def drop_content(type_: str, data: JsonObject) -> JsonObject:
    """Return the data of an event without the fields that `erase_event_data` erases."""
    kind = STORED.get(type_)
    return _drop(get_data_type(kind) if kind else None, data)


def _drop(data_type: Any, data: JsonObject) -> JsonObject:
    kept = FIELDS[data_type].kept.split() if data_type in FIELDS else ()
    return {
        name: _drop(_PARTLY_KEPT[name], value)
        if name in _PARTLY_KEPT and isinstance(value, dict)
        else value
        for name, value in data.items()
        if name in kept
    }


def erase_error(error: JsonObject) -> JsonObject:
    """Return the error of a run without its content."""
    return _erase(run_data.RunError, error)


def erase_incomplete_details(details: JsonObject) -> JsonObject:
    return _erase(run_data.IncompleteDetails, details)


def _erase(data_type: Any, data: JsonObject) -> JsonObject:
    kept = FIELDS[data_type].kept.split() if data_type in FIELDS else ()
    return {
        name: _erase_part(name, value) if name in kept else _BLANKS.get(type(value))
        for name, value in data.items()
    }


def _erase_part(name: str, value: JsonValue) -> JsonValue:
    if name in _PARTLY_KEPT and isinstance(value, dict):
        return _erase(_PARTLY_KEPT[name], value)
    return value


TOOL_CALL_EVENTS: Final = frozenset(
    type_
    for type_, kind in STORED.items()
    if (data_type := get_data_type(kind)).__module__ == call_data.__name__
    or data_type in (run_data.ModelCallsChangedData, run_data.ReasoningCompletedData)
)
"""The types of events that contain arguments or results of tool calls, or reasoning about them."""


def erase_tool_content(item: JsonObject) -> JsonObject | None:
    """Return an item of a conversation without the content of tool calls. Returns None for
    reasoning, which may repeat this content. A hosted call no longer belongs to its provider,
    because the provider's own data about it is erased."""
    kept = {
        name: item[name] for name in ("type", "call_id", "name", "kind", "is_error") if name in item
    }
    match item.get("type"):
        case "reasoning":
            return None
        case "tool_call":
            return {**kept, "arguments": {}}
        case "tool_result":
            return {**kept, "output": ""}
        case "hosted_call":
            return {**kept, "provider": "", "arguments": {}, "output": "", "data": {}}
        case _:
            return item
