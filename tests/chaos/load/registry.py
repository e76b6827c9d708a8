"""The projects of the load, with their tools, agents and MCP server."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.chaos.load.api import Api, Client
from tests.chaos.load.plan import PROJECTS, SHORT_SECONDS, Json
from tests.chaos.load.tools import KNOWN_FILE

SCOPES: Final = ["runs:read", "runs:write", "tools:write", "approvals:decide"]
ARGUMENTS: Final[Json] = {
    "type": "object",
    "properties": {
        "plan": {"type": "string"},
        "call": {"type": "string"},
        "amount": {"type": "integer"},
    },
    "required": ["plan", "call", "amount"],
    "additionalProperties": False,
}
QUICK_RETRY: Final[Json] = {"max_attempts": 5, "initial_seconds": 0.1, "max_seconds": 0.5}
CALL_SECONDS: Final = 8.0
WEBHOOK_TOOLS: Final[dict[str, Json]] = {
    "fetch": {"idempotent": True, "retry": QUICK_RETRY},
    "fetch_short": {
        "idempotent": True,
        "retry": QUICK_RETRY,
        "timeout_seconds": SHORT_SECONDS,
    },
    "charge": {},
    "charge_short": {"timeout_seconds": SHORT_SECONDS},
    "transfer": {"on_unknown": "ask"},
    "job": {},
    "job_short": {"timeout_seconds": SHORT_SECONDS},
    "refund": {"approval": "always"},
    "refund_brief": {"approval": "always", "approval_expires_seconds": 1},
}
PATIENT: Final[Json] = {"timeout_seconds": 8.0, "first_token_timeout_seconds": 3.0}
DESKS: Final = 8
"""Agents that /v1/responses names as models."""


@dataclass(frozen=True, slots=True)
class Project:
    name: str
    key: str


async def register(
    api: Api, folder: Path, servers: Json, operator_key: str, seed: int
) -> list[Project]:
    """Create the projects and what their runs name. Every request may be repeated."""
    secrets: dict[str, str] = {}
    projects = [
        await _project(api, f"chaos-{seed}-{number}", servers, operator_key, secrets)
        for number in range(PROJECTS)
    ]
    known = {"apis": api.apis, "secrets": secrets}
    (folder / KNOWN_FILE).write_text(json.dumps(known))
    return projects


async def _project(
    api: Api, name: str, servers: Json, operator_key: str, secrets: dict[str, str]
) -> Project:
    made = await _post(api, operator_key, "/v1/projects", {"name": name}, name)
    body = {"name": "load", "scopes": SCOPES}
    key = await _post(api, operator_key, f"/v1/projects/{made['id']}/keys", body, name)
    project = Project(name, key["key"])
    for tool, more in WEBHOOK_TOOLS.items():
        spec = {
            "name": tool,
            "type": "webhook",
            "description": f"The tool {tool}.",
            "parameters": ARGUMENTS,
            "url": f"{servers['tools_url']}/{name}/{tool}",
            "timeout_seconds": CALL_SECONDS,
            **more,
        }
        secrets[f"{name}/{tool}"] = (await _post(api, project.key, "/v1/tools", spec, name))[
            "secret"
        ]
    for spec in _other_tools():
        await _post(api, project.key, "/v1/tools", spec, name)
    for spec in _agents():
        await _post(api, project.key, "/v1/agents", spec, name)
    box = {
        "name": "box",
        "url": servers["mcp_url"],
        "approval": "never",
        "timeout_seconds": 2 * SHORT_SECONDS,
    }
    await _post(api, project.key, "/v1/mcp_servers", box, name)
    return project


def _other_tools() -> list[Json]:
    return [
        {
            "name": "read_file",
            "type": "client",
            "description": "Read a file.",
            "parameters": ARGUMENTS,
        },
        {"name": "ask_clerk", "type": "agent", "agent": "clerk", "description": "Ask the clerk."},
    ]


def _agents() -> list[Json]:
    def agent(name: str, model: str, *tools: str) -> Json:
        return {
            "name": name,
            "model": f"openai:{model}",
            "model_settings": PATIENT,
            "tools": list(tools),
        }

    desks = [
        agent(
            f"desk-{number:02d}",
            f"desk-{number:02d}",
            "fetch",
            "fetch_short",
            "charge",
            "charge_short",
            "refund",
        )
        for number in range(DESKS)
    ]
    return [
        agent("clerk", "clerk", "fetch", "fetch_short", "charge", "charge_short", "refund"),
        agent("first", "first", "fetch", "fetch_short"),
        agent("second", "second", "charge", "charge_short"),
        {"name": "in_turn", "kind": "sequential", "agents": ["first", "second"]},
        {"name": "at_once", "kind": "parallel", "agents": ["first", "second"]},
        *desks,
    ]


async def _post(api: Api, bearer: str, path: str, body: Json, name: str) -> Any:
    key = f"{name}-{path}-{body['name']}".replace("/", "-")
    answer = await api.insist("POST", path, body, client=Client("setup", bearer), key=key)
    if not answer.accepted:
        raise RuntimeError(f"{path} {body['name']}: {answer.status} {answer.body}")
    return answer.body
