"""What Runward itself sends (OpenAPI 3.1, `webhooks`): calls of tools, and questions to guardrails
and hooks. All are signed by Standard Webhooks, https://www.standardwebhooks.com."""

from typing import Final

from runward.api.http.models import RUN_ID
from runward.api.openapi.tidy import Json

_CALL_ID: Final = "call_019a5f1e8c537e648f3a7d9cbc5f4e82"
_HEADERS: Final[tuple[tuple[str, str, str], ...]] = (
    ("webhook-id", "The same whenever the same thing is sent or asked again.", _CALL_ID),
    ("webhook-timestamp", "When it was signed, in Unix seconds.", "1793612345"),
    (
        "webhook-signature",
        "`v1,` and the base64 of an HMAC-SHA-256 over `ID.TIMESTAMP.BODY`; two of them, separated "
        "by a space, while a secret is being replaced.",
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
    "ToolRequest": {
        "call": {
            "summary": "A call",
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
            "summary": "Nobody waits any more",
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
            "summary": "May the model read this?",
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
    "GuardrailAnswer": {
        "allow": {"value": {"action": "allow"}},
        "reject": {"value": {"action": "reject", "message": "Not above 100 euros."}},
        "fail": {"value": {"action": "fail", "message": "This must not go on."}},
    },
    "HookRequest": {
        "before_model": {
            "summary": "The model is about to be asked",
            "value": {
                "type": "hook",
                "on": "before_model",
                "run_id": RUN_ID,
                "agent": None,
                "context": None,
                "turn": 1,
                "items": [{"role": "user", "content": "Please pay(amount=500)"}],
            },
        }
    },
    "HookAnswer": {
        "go_on": {"summary": "Go on", "value": {}},
        "instead": {"summary": "Answer instead", "value": {"message": "Come back on Monday."}},
    },
}


def build_webhooks() -> Json:
    later = {"description": "Later: the call waits for its callback."}
    result = {
        "description": "The result of the call: any JSON, or text. `content`, `metadata` and "
        "`is_error` of an object have a meaning; see docs/how-to/webhooks.md.",
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/JsonValue"},
                "examples": {"result": {"value": {"paid": True}}},
            },
            "text/plain": {"schema": {"type": "string"}, "example": "Paid."},
        },
    }
    refused = {
        "description": "An error, whose `message`, `error` or `detail` the model reads. 408, 425, "
        "429, 502, 503 and 504 are tried again where the tool is idempotent."
    }
    return {
        "tool_call": _post(
            "receive_tool_call",
            "Tools",
            "Receive a tool call",
            "A call of a tool, POSTed to its `url` with its headers and an `Idempotency-Key` that "
            "is the `webhook-id`; or word that nobody waits for it any more.",
            "ToolRequest",
            {"200": result, "202": later, "4XX": refused, "5XX": refused},
        ),
        "guardrail": _post(
            "receive_guardrail_question",
            "Policy",
            "Receive a guardrail's question",
            "Whether something may go on. Whatever is no clear answer rejects.",
            "GuardrailRequest",
            {"200": _answer("The verdict.", "GuardrailAnswer"), "default": _NO_VERDICT},
        ),
        "hook": _post(
            "receive_hook",
            "Policy",
            "Receive a hook's notice",
            "What is about to happen, or has happened. An empty object, null or no body goes on.",
            "HookRequest",
            {"200": _answer("Go on, or what is used instead.", "HookAnswer"), "default": _FAILED},
        ),
    }


_NO_VERDICT: Final[Json] = {"description": "Rejects."}
_FAILED: Final[Json] = {"description": "The hook has failed."}


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
