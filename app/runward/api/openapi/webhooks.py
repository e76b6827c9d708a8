"""The requests that Runward sends (OpenAPI 3.1, `webhooks`): calls of tools, guardrails, and hooks,
and notifications.
They are signed with Standard Webhooks, https://www.standardwebhooks.com. The details are in
docs/reference/webhook-requests.md and docs/reference/guardrail-requests.md."""

from typing import Final

from runward.api.http.models import APPROVAL_ID, DIGEST, RUN_ID
from runward.api.openapi.tidy import Json

_CALL_ID: Final = "call_019a5f1e8c537e648f3a7d9cbc5f4e82"
_HEADERS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "webhook-id",
        "ID of the request. It stays the same when Runward sends the same request again.",
        _CALL_ID,
    ),
    (
        "webhook-timestamp",
        "When Runward signed the request, as a Unix timestamp in seconds.",
        "1793612345",
    ),
    (
        "webhook-signature",
        "Signature: `v1,` followed by the base64 of an HMAC-SHA-256 over `ID.TIMESTAMP.BODY`. "
        "During a rotation of the secret, the header contains two signatures, separated by a "
        "space.",
        "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
    ),
)
_ABOUT: Final[Json] = {
    "run_id": RUN_ID,
    "call_id": "call_1",
    "tool": "pay",
    "tool_version": 1,
    "agent": None,
}
_URL: Final = "http://127.0.0.1:8080/v1/callbacks/cb_5f1e"

EXAMPLES: Final[Json] = {
    "Notification": {
        "run": {
            "summary": "A completed run",
            "value": {
                "type": "run.completed",
                "id": "evt_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57_7",
                "timestamp": "2026-11-02T09:30:00.125000Z",
                "data": {"run_id": RUN_ID, "sequence": 7},
            },
        },
        "approval": {
            "summary": "A requested approval",
            "value": {
                "type": "approval.requested",
                "id": "evt_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57_4",
                "timestamp": "2026-11-02T09:30:00.125000Z",
                "data": {
                    "run_id": RUN_ID,
                    "sequence": 4,
                    "approval_id": APPROVAL_ID,
                    "call_id": "call_1",
                    "tool": "pay",
                    "tool_version": 1,
                    "digest": DIGEST,
                    "expires_in_seconds": 604800,
                },
            },
        },
    },
    "ToolRequest": {
        "call": {
            "summary": "A tool call",
            "value": {
                "type": "tool_call",
                **_ABOUT,
                "arguments": {"amount": 500},
                "context": None,
                "attempt": 1,
                "fence": 1,
                "deadline_ms": 30000,
                "callback": {"url": _URL, "token": "cb_5f1e"},
            },
        },
        "cancelled": {
            "summary": "A cancelled tool call",
            "value": {
                "type": "tool_call.cancelled",
                **_ABOUT,
                "attempt": 1,
                "fence": 1,
                "reason": "run_cancelled",
            },
        },
    },
    "GuardrailRequest": {
        "output": {
            "summary": "Check the output of a call",
            "value": {
                "type": "guardrail",
                "stage": "output",
                **_ABOUT,
                "context": None,
                "arguments": {"amount": 500},
                "output": {"paid": True},
                "is_error": False,
            },
        }
    },
    "GuardrailResponse": {
        "allow": {"value": {"action": "allow"}},
        "reject": {"value": {"action": "reject", "message": "Not above 100 euros."}},
        "fail": {"value": {"action": "fail", "message": "The account is blocked."}},
    },
    "HookRequest": {
        "before_model": {
            "summary": "Notify before a model request",
            "value": {
                "type": "hook",
                "on": "before_model",
                "run_id": RUN_ID,
                "agent": None,
                "context": None,
                "turn": 1,
                "items": [{"type": "message", "role": "user", "content": "Please pay(amount=500)"}],
            },
        }
    },
    "HookResponse": {
        "unchanged": {"summary": "Change nothing", "value": {}},
        "replacement": {
            "summary": "Replace the model's message",
            "value": {"message": "Come back on Monday."},
        },
    },
}


_TOOL_RESULT: Final[Json] = {
    "description": "The result of the call: any JSON value or string. If it is an object, "
    "Runward reads `content`, `metadata`, and `is_error` as described in "
    "docs/reference/webhook-requests.md. If the tool has `response` set to `envelope`, the "
    "response is an envelope.",
    "content": {
        "application/json": {
            "schema": {
                "anyOf": [
                    {"$ref": "#/components/schemas/JsonValue"},
                    {"$ref": "#/components/schemas/ToolEnvelope"},
                ]
            },
            "examples": {
                "result": {"summary": "An output", "value": {"paid": True}},
                "envelope": {
                    "summary": "An envelope",
                    "value": {"output": {"paid": True}, "state": {"paid": 500}},
                },
            },
        },
        "text/plain": {"schema": {"type": "string"}, "example": "Paid."},
    },
}


def build_webhooks() -> Json:
    later = {
        "description": "The tool accepted the call and will submit its result to the callback URL."
    }
    refused = {
        "description": "An error. The model reads its `message`, `error`, or `detail`. If the "
        "tool is idempotent, Runward retries the call after status 408, 425, 429, 502, 503, or 504."
    }
    return {
        "tool_call": _post(
            "receive_tool_call",
            "Tools",
            "Receive a tool call",
            "Runward sends a tool call to the tool's `url`, with the headers of the tool. The "
            "`Idempotency-Key` has the same value as the `webhook-id`. If Runward no longer waits "
            "for the result, it sends a notification to the same URL.",
            "ToolRequest",
            {"200": _TOOL_RESULT, "202": later, "4XX": refused, "5XX": refused},
        ),
        "guardrail": _post(
            "receive_guardrail_question",
            "Policy",
            "Receive a guardrail request",
            "Runward calls a guardrail to check a tool call, an input, or an output. Runward "
            "treats a response without a valid verdict as a rejection.",
            "GuardrailRequest",
            {
                "200": _answer("The verdict of the guardrail.", "GuardrailResponse"),
                "default": _NO_VERDICT,
            },
        ),
        "notification": _build_notification(),
        "hook": _post(
            "receive_hook",
            "Policy",
            "Receive a hook request",
            "Runward calls a hook before or after a model request or a tool call. If the response "
            "is an empty object, null, or has an empty body, nothing changes.",
            "HookRequest",
            {
                "200": _answer(
                    "The response of the hook: an empty object, or data that replaces the "
                    "original.",
                    "HookResponse",
                ),
                "default": _FAILED,
            },
        ),
    }


def _build_notification() -> Json:
    return _post(
        "receive_notification",
        "Webhook endpoints",
        "Receive a notification",
        "Runward sends a notification to each webhook endpoint that selects its type, and to the "
        "`webhook` of the run. The `Idempotency-Key` has the same value as the `webhook-id`. The "
        "order of notifications is not guaranteed.",
        "Notification",
        {
            "2XX": {"description": "The endpoint received the notification."},
            "410": {"description": "Runward disables the endpoint."},
            "default": {"description": "Runward sends the notification again, over three days."},
        },
    )


_NO_VERDICT: Final[Json] = {
    "description": "The response contains no valid verdict. Runward treats it as a rejection."
}
_FAILED: Final[Json] = {"description": "The hook failed."}


def _post(id_: str, tag: str, summary: str, description: str, model: str, responses: Json) -> Json:
    parameters = [
        {
            "name": name,
            "in": "header",
            "required": True,
            "description": text,
            "schema": {"type": "string"},
            "example": example,
        }
        for name, text, example in _HEADERS
    ]
    body = {"required": True, "content": {"application/json": _media(model)}}
    operation: Json = {
        "operationId": id_,
        "tags": [tag],
        "summary": summary,
        "description": description,
        "security": [],
        "parameters": parameters,
        "requestBody": body,
        "responses": responses,
    }
    return {"post": operation}


def _answer(description: str, model: str) -> Json:
    return {"description": description, "content": {"application/json": _media(model)}}


def _media(model: str) -> Json:
    schema = {"$ref": f"#/components/schemas/{model}"}
    return {"schema": schema, "examples": EXAMPLES[model]}
