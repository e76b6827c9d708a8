"""One of everything in a project, and a body for every operation: for tests of who may do what."""

import time
from dataclasses import dataclass

from tests.api.project import PATIENCE_SECONDS, Project, call
from tests.support.models.chat_server import calls
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

BODIES: dict[str, Json] = {
    "start_run": {"model": "offline:rules", "input": "hi"},
    "send_input": {"input": "and this"},
    "continue_run": {"max_turns": 1},
    "create_session": {"name": "mine"},
    "update_session": {"state": {"changed": True}},
    "fork_session": {"name": "mine"},
    "resolve_tool_call": {"resolution": "failed", "message": "no"},
    "submit_tool_result": {"output": 1},
    "decide_approval": {"decision": "approve"},
    "submit_callback": {"status": "completed", "output": 1},
    "register_tool": {
        "name": "mine",
        "parameters": {"type": "object"},
        "url": "http://127.0.0.1:9/",
    },
    "update_tool": {"description": "changed"},
    "test_tool": {"arguments": {"x": "1"}},
    "register_mcp_server": {"name": "mine", "url": "http://127.0.0.1:9/mcp"},
    "update_mcp_server": {"timeout_seconds": 1},
    "put_secret": {"value": "mine"},
    "register_agent": {"name": "mine", "model": "offline:rules"},
    "update_agent": {"description": "changed"},
    "put_policy": {"guardrails": []},
    "create_schedule": {
        "name": "mine",
        "cron": "0 0 1 1 *",
        "run": {"model": "offline:rules", "input": "hi"},
    },
    "update_schedule": {"name": "changed"},
    "create_webhook_endpoint": {"url": "http://127.0.0.1:9/", "events": ["approval.expired"]},
    "update_webhook_endpoint": {"description": "changed"},
    "put_retention": {"runs": 30_000},
    "preview_retention": {"runs": 30_000},
    "put_legal_hold": {"reason": "mine"},
    "create_erasure": {"metadata": {"user": "mine"}},
    "create_budget": {"limit_usd": 1_000},
    "update_budget": {"limit_usd": 2_000},
    "create_key": {"name": "mine", "scopes": ["admin"]},
    "create_response": {"model": "offline:rules", "input": "hi"},
    "create_chat_completion": {
        "model": "offline:rules",
        "messages": [{"role": "user", "content": "hi"}],
    },
    "compact_response": {"model": "offline:rules", "input": "hi"},
    "count_input_tokens": {"input": "hi"},
    "create_conversation": {"metadata": {"name": "mine"}},
    "update_conversation": {"metadata": {"name": "mine"}},
    "create_conversation_items": {"items": [{"role": "user", "content": "hi"}]},
    "create_project": {"name": "mine"},
    "create_project_key": {"name": "mine", "scopes": ["runs:read"]},
}

UNKNOWN: Json = {
    "run_id": "run_" + "f" * 32,
    "response_id": "resp_" + "f" * 32,
    "session_id": "sess_" + "f" * 32,
    "approval_id": "apr_" + "f" * 32,
    "key_id": "key_" + "f" * 32,
    "project_id": "proj_" + "f" * 32,
    "endpoint_id": "we_" + "f" * 32,
    "delivery_id": "wd_" + "f" * 32,
    "resource_id": "run_" + "f" * 32,
    "erasure_id": "era_" + "f" * 32,
    "budget_id": "bud_" + "f" * 32,
    "schedule_id": "sched_" + "f" * 32,
    "call_id": "c9",
    "name": "nobody",
    "token": "AAAA",
    "model": "nobody",
    "conversation_id": "conv_" + "f" * 32,
    "item_id": "msg_" + "f" * 32 + "_1_1",
}


@dataclass(frozen=True)
class Things:
    """One of everything, in one project; what its paths are made of."""

    values: Json
    agents: Json
    servers: Json


def furnish(project: Project, mcp_url: str) -> Things:
    project.tool("pay", approval="always")
    project.tool("broken", Behaviour("reset"), on_unknown="ask")
    both = calls(call(1, "pay"), call("9", "broken"))
    run = project.run(both, tools=["pay", "broken"])
    assert len(run["required_actions"]) == 2
    [approval] = project.client.approvals(run_id=run["id"])
    project.client.call("POST", "/v1/agents", {"name": "nobody-knows", "model": "offline:rules"})
    session = project.client.call("POST", "/v1/sessions", {"state": {"mine": True}})
    conversation = session["id"].replace("sess_", "conv_")
    item = {"role": "user", "content": "hi"}
    project.client.call("POST", f"/v1/conversations/{conversation}/items", {"items": [item]})
    schedule = project.client.call("POST", "/v1/schedules", BODIES["create_schedule"])
    ids = {
        "run_id": run["id"],
        "schedule_id": schedule["id"],
        "budget_id": project.key("admin").call("POST", "/v1/budgets", BODIES["create_budget"])[
            "id"
        ],
        "response_id": "resp_" + run["id"].removeprefix("run_"),
        "session_id": session["id"],
        "approval_id": approval["id"],
        "key_id": project.new_key("runs:read")["id"],
        "project_id": project.id,
        **furnish_webhook(project),
        **furnish_retention(project, run["id"]),
        "call_id": "c9",
        "token": "AAAA",
        "model": "nobody-knows",
        "conversation_id": conversation,
        "item_id": session["id"].replace("sess_", "msg_") + "_1_1",
    }
    project.client.call("POST", "/v1/mcp_servers", {"name": "box", "url": mcp_url})
    project.client.call("PUT", "/v1/secrets/pay", {"value": "of this project"})
    return Things({**ids, "name": "pay"}, {**ids, "name": "nobody-knows"}, {**ids, "name": "box"})


def furnish_webhook(project: Project) -> Json:
    """An endpoint, and a delivery that has ended."""
    admin = project.key("admin")
    body = BODIES["create_webhook_endpoint"]
    endpoint = admin.call("POST", "/v1/webhook_endpoints", body)["id"]
    delivery = admin.call("POST", f"/v1/webhook_endpoints/{endpoint}/test")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while delivery["status"] == "pending" and time.monotonic() < deadline:
        time.sleep(0.05)
        delivery = admin.call("GET", f"/v1/webhook_deliveries/{delivery['id']}")
    assert delivery["status"] == "failed", delivery
    return {"endpoint_id": endpoint, "delivery_id": delivery["id"]}


def furnish_retention(project: Project, run_id: str) -> Json:
    """A run that can be held, and an erasure that has ended."""
    erasure = project.client.call("POST", "/v1/erasures", BODIES["create_erasure"])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while erasure["status"] != "completed" and time.monotonic() < deadline:
        time.sleep(0.05)
        erasure = project.client.call("GET", f"/v1/erasures/{erasure['id']}")
    assert erasure["status"] == "completed", erasure
    return {"resource_id": run_id, "erasure_id": erasure["id"]}


def snapshot(project: Project) -> list[Json]:
    """Everything that can be read of a project."""
    admin = project.key("admin")
    paths = ["/v1/runs", "/v1/sessions", "/v1/approvals", "/v1/tools", "/v1/agents"]
    paths += ["/v1/mcp_servers", "/v1/secrets", "/v1/schedules"]
    owned = [admin.call("GET", path) for path in ("/v1/webhook_endpoints", "/v1/budgets")]
    keys = [key["id"] for key in admin.call("GET", "/v1/keys", limit=200, order="asc")["data"][:2]]
    return [*(project.client.call("GET", path) for path in paths), *owned, {"keys": keys}]
