"""Examples of requests and responses in openapi.json. Tests validate each example, and send each
request to a real service."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from runward.api.http.models import DIGEST, RUN_ID
from runward.api.openapi.tidy import Json

_SESSION: Final = "sess_019a5f1e7a4d7e209c3b5d7f9a1c3e5d"
_WEATHER: Final[Json] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}

REQUESTS: Final[Mapping[str, Mapping[str, tuple[str, Any]]]] = {
    "start_run": {
        "agent": ("Use a registered agent", {"agent": "clerk", "input": "Please pay(amount=5)"}),
        "session": (
            "Continue a session",
            {
                "model": "offline:rules",
                "input": "And what did I ask before?",
                "session_id": _SESSION,
                "on_conflict": "queue",
            },
        ),
        "messages": (
            "Send messages and request JSON",
            {
                "model": ["openai:gpt-5.2", "anthropic:claude-opus-4-6"],
                "input": [
                    {"role": "user", "content": [{"type": "text", "text": "Where is order 7?"}]}
                ],
                "output_schema": {"type": "object", "properties": {"where": {"type": "string"}}},
                "limits": {"max_turns": 3, "deadline_seconds": 60},
            },
        ),
    },
    "cancel_run": {
        "immediate": ("Cancel immediately", {"mode": "immediate"}),
        "after_turn": ("Cancel after the current turn", {"mode": "after_turn"}),
    },
    "decide_approval": {
        "approve": ("Approve the call", {"decision": "approve", "digest": DIGEST}),
        "remember": (
            "Approve and remember the decision",
            {
                "decision": "approve",
                "remember": {"scope": "run", "exact_arguments": False},
            },
        ),
        "edit": (
            "Approve with edited arguments",
            {"decision": "edit", "arguments": {"amount": 50}, "message": "50 is enough."},
        ),
        "reject": ("Reject with a message", {"decision": "reject", "message": "Ask me in May."}),
        "respond": (
            "Respond without calling the tool",
            {"decision": "respond", "output": {"paid": False, "why": "closed"}},
        ),
    },
    "resolve_tool_call": {
        "completed": (
            "The call took effect",
            {"resolution": "completed", "output": {"paid": True}},
        ),
        "failed": (
            "The call did not take effect",
            {"resolution": "failed", "message": "The bank refused."},
        ),
        "retry": ("Send the call again", {"resolution": "retry"}),
    },
    "submit_tool_result": {
        "error": ("The tool failed", {"error": "The sensor does not answer."}),
    },
    "submit_callback": {
        "progress": ("Report progress", {"status": "progress", "progress": 0.4, "message": "4/10"}),
        "completed": ("Submit the result", {"status": "completed", "output": {"paid": True}}),
        "failed": ("Report a failure", {"status": "failed", "message": "The bank refused."}),
        "input_required": (
            "Request input from the client",
            {"status": "input_required", "requests": "Which account?", "state": {"step": 2}},
        ),
    },
    "register_tool": {
        "client": (
            "Register a client tool",
            {
                "name": "weather",
                "description": "Returns the current weather in a city.",
                "type": "client",
                "parameters": _WEATHER,
            },
        ),
        "agent": (
            "Register an agent as a tool",
            {
                "name": "ask_clerk",
                "description": "Pays invoices.",
                "type": "agent",
                "agent": "clerk",
            },
        ),
        "hosted": (
            "Register a hosted tool",
            {"name": "search", "type": "hosted", "hosted": {"kind": "web_search"}},
        ),
    },
    "update_tool": {
        "approval": ("Require approval for every call", {"approval": "always"}),
        "target": (
            "Change the URL and the timeout",
            {"url": "https://tools.example.com/v2/pay", "timeout_seconds": 10},
        ),
    },
    "update_mcp_server": {
        "tools": ("Use fewer tools", {"tools": {"allow": ["read"]}, "timeout_seconds": 10}),
    },
    "register_agent": {
        "workflow": (
            "Register a workflow of agents",
            {"name": "office", "kind": "sequential", "agents": ["clerk"]},
        ),
    },
    "update_agent": {
        "instructions": (
            "Update the instructions and a limit",
            {"instructions": "Pay what is asked for, and say so.", "limits": {"max_turns": 5}},
        ),
    },
    "fork_session": {
        "here": ("Fork the whole session", {}),
    },
    "create_response": {
        "streamed": (
            "Stream a response with a client function",
            {
                "model": "offline:rules",
                "input": "What is the weather in Bonn?",
                "tools": [{"type": "function", "name": "weather", "parameters": _WEATHER}],
                "stream": True,
            },
        ),
    },
    "create_chat_completion": {
        "streamed": (
            "Stream a completion with a client function",
            {
                "model": "offline:rules",
                "messages": [{"role": "user", "content": "What is the weather in Bonn?"}],
                "tools": [
                    {
                        "type": "function",
                        "function": {"name": "weather", "parameters": _WEATHER},
                    }
                ],
                "stream": True,
            },
        ),
    },
    "compact_response": {
        "conversation": (
            "Compact a conversation",
            {
                "model": "offline:rules",
                "input": [
                    {"type": "message", "role": "user", "content": "Hello"},
                    {"type": "message", "role": "assistant", "content": "Hello. What can I do?"},
                ],
            },
        ),
    },
}
"""Additional examples of request bodies: operation -> name -> summary and body."""

STREAM: Final = (
    "retry: 1000\n\n"
    "id: 1\nevent: run.created\n"
    'data: {"id":"evt_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57_1","type":"run.created","sequence":1,'
    f'"run_id":"{RUN_ID}","created_at":"2026-11-02T09:30:00.125000Z",'
    '"data":{"agent":null,"model":"offline:rules","tools":["pay"]}}\n\n'
    "event: message.delta\n"
    f'data: {{"type":"message.delta","run_id":"{RUN_ID}",'
    '"data":{"turn":1,"agent":null,"text":"Hel","offset":0}}\n\n'
)
"""The beginning of a run's event stream."""

RESPONSE_STREAM: Final = (
    "event: response.output_text.delta\n"
    'data: {"type":"response.output_text.delta","sequence_number":4,'
    '"item_id":"msg_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57_2","output_index":0,"content_index":0,'
    '"delta":"Hel","logprobs":[]}\n\n'
)
"""A frame of a response's stream."""
COMPLETION_STREAM: Final = (
    'data: {"id":"chatcmpl-019a5f1e7d3c7b0e9a4f2c6d8e1b3a57","object":"chat.completion.chunk",'
    '"created":1793610600,"model":"offline:rules","choices":[{"index":0,"delta":'
    '{"content":"Hel"},"logprobs":null,"finish_reason":null}],"usage":null,'
    '"service_tier":null,"system_fingerprint":null}\n\n'
)
"""A chunk of a chat completion's stream."""
METRICS: Final = (
    "# HELP runward_database_up Whether the database responds.\n"
    "# TYPE runward_database_up gauge\n"
    "runward_database_up 1.0\n"
)
"""Three lines of the metrics."""


def add_examples(document: Json) -> None:
    """Add examples to all bodies of requests and responses."""
    components: Json = document["components"]
    schemas: Json = components["schemas"]
    _add_lists(schemas)
    schemas["EventStream"]["examples"] = [STREAM]
    schemas["ResponseStream"]["examples"] = [RESPONSE_STREAM]
    schemas["ChatCompletionStream"]["examples"] = [COMPLETION_STREAM]
    shown = {
        name: schema["examples"][0] for name, schema in schemas.items() if "examples" in schema
    }
    known = {name: {"value": value} for name, value in sorted(shown.items())}
    _add_own(document["paths"], shown)
    for path in document["paths"].values():
        for operation in path.values():
            more = REQUESTS.get(operation["operationId"], {})
            for media in operation.get("requestBody", {}).get("content", {}).values():
                media["examples"] = _of(media, schemas, known) | {
                    name: {"summary": summary, "value": value}
                    for name, (summary, value) in more.items()
                }
            for response in operation["responses"].values():
                for media in response.get("content", {}).values():
                    media.setdefault("examples", _of(media, schemas, known))
    used = set(re.findall(r"#/components/examples/(\w+)", json.dumps(document["paths"])))
    components["examples"] = {name: value for name, value in known.items() if name in used}


def _add_own(paths: Json, shown: Json) -> None:
    """Add examples of operations for which the example of the schema would be wrong."""
    versions = paths["/v1/agents/{name}/versions"]["get"]["responses"]["200"]["content"]
    page: Json = {**shown["AgentList"], "first_id": "1", "last_id": "1"}
    versions["application/json"]["examples"] = {"versions": {"value": page}}
    entries = paths["/v1/audit_log"]["get"]["responses"]["200"]["content"]
    page = {**shown["AuditEntryList"], "first_id": "42", "last_id": "42"}
    entries["application/json"]["examples"] = {"entries": {"value": page}}
    export = paths["/v1/audit_log/export"]["get"]["responses"]["200"]["content"]
    lines = json.dumps(shown["AuditEntry"]) + "\n"
    export["application/jsonl"]["examples"] = {"entries": {"value": lines}}
    metrics = paths["/metrics"]["get"]["responses"]["200"]["content"]
    metrics["text/plain"]["examples"] = {"metrics": {"value": METRICS}}


def _of(media: Json, schemas: Json, known: Json) -> Json:
    """Return the example of the body's schema, or the examples of the members of a union."""
    name = _get_name(media.get("schema", {}))
    names = [name] if name in known else map(_get_name, schemas.get(name, {}).get("anyOf", ()))
    return {one: {"$ref": f"#/components/examples/{one}"} for one in names if one in known}


def _get_name(schema: Json) -> str:
    return str(schema.get("$ref", "")).rsplit("/", 1)[-1]


def _add_lists(schemas: Json) -> None:
    """Add examples of lists: a page with the example of its item."""
    for name, schema in schemas.items():
        if not name.endswith("List") or "examples" in schema:
            continue
        one: Json = schemas[name.removesuffix("List")]["examples"][0]
        id_: str = one["name"] if {"name", "version"} <= one.keys() else one["id"]
        page = {"object": "list", "data": [one], "first_id": id_, "last_id": id_, "has_more": False}
        schema["examples"] = [page]
