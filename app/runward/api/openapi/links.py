"""The links of openapi.json: operations that accept the IDs in a response."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from runward.api.openapi.tidy import Json

IdPointers: TypeAlias = Mapping[str, Mapping[str, str]]
"""The path of a resource, and JSON pointers to its parameters in a response."""

_KEY: Final[IdPointers] = {"/v1/keys/{key_id}": {"key_id": "/id"}}
_WEBHOOK_ENDPOINT: Final[IdPointers] = {
    "/v1/webhook_endpoints/{endpoint_id}": {"endpoint_id": "/id"}
}
_TOOL: Final[IdPointers] = {"/v1/tools/{name}": {"name": "/name"}}
_TOOL_CALL: Final[IdPointers] = {
    "/v1/runs/{run_id}/tool_calls/{call_id}": {"run_id": "/run_id", "call_id": "/call_id"}
}

ID_POINTERS: Final[Mapping[str, IdPointers]] = {
    "Agent": {"/v1/agents/{name}": {"name": "/name"}},
    "Approval": {"/v1/approvals/{approval_id}": {"approval_id": "/id"}, **_TOOL_CALL},
    "Erasure": {"/v1/erasures/{erasure_id}": {"erasure_id": "/id"}},
    "Budget": {"/v1/budgets/{budget_id}": {"budget_id": "/id"}},
    "Key": _KEY,
    "LegalHold": {"/v1/legal_holds/{resource_id}": {"resource_id": "/id"}},
    "Conversation": {
        "/v1/conversations/{conversation_id}": {"conversation_id": "/id"},
    },
    "McpServer": {"/v1/mcp_servers/{name}": {"name": "/name"}},
    "ModelObject": {"/v1/models/{model}": {"model": "/id"}},
    "NewKey": _KEY,
    "NewTool": _TOOL,
    "NewWebhookEndpoint": _WEBHOOK_ENDPOINT,
    "PendingAction": _TOOL_CALL,
    "Project": {"/v1/projects/{project_id}": {"project_id": "/id"}},
    "ResponseObject": {"/v1/responses/{response_id}": {"response_id": "/id"}},
    "Run": {"/v1/runs/{run_id}": {"run_id": "/id"}},
    "Schedule": {"/v1/schedules/{schedule_id}": {"schedule_id": "/id"}},
    "Secret": {"/v1/secrets/{name}": {"name": "/name"}},
    "Session": {"/v1/sessions/{session_id}": {"session_id": "/id"}},
    "Tool": _TOOL,
    "ToolCall": _TOOL_CALL,
    "WebhookDelivery": {"/v1/webhook_deliveries/{delivery_id}": {"delivery_id": "/id"}},
    "WebhookEndpoint": _WEBHOOK_ENDPOINT,
}
"""The IDs in each response, by the name of its schema."""

QUERY_PARAMETERS: Final[Mapping[str, Mapping[str, str]]] = {
    "Run": {
        "list_approvals": "run_id",
        "list_runs": "parent_run_id",
        "list_webhook_deliveries": "run_id",
    },
    "Schedule": {"list_runs": "schedule_id"},
    "Session": {"list_runs": "session_id"},
    "WebhookEndpoint": {"list_webhook_deliveries": "webhook_endpoint_id"},
}
"""The operations that accept a resource's ID as a query parameter, by the name of the resource's
schema."""

_SOURCES_WITHOUT_LINKS: Final = frozenset({"create_project_key"})
"""Excluded, because the response is a key of another project, and the caller's key cannot use its
ID."""
_TARGETS_WITHOUT_LINKS: Final = frozenset({"start_mcp_login", "delete_mcp_login"})
"""Excluded, because most MCP servers have no login."""

_PARAMETER: Final = re.compile(r"\{(\w+)\}")


def add_links(document: Json) -> None:
    """Add links from each successful response to the operations that accept its IDs. A list links
    with the IDs of its first item."""
    shared: Json = {}
    for path in document["paths"].values():
        for operation in path.values():
            if operation["operationId"] in _SOURCES_WITHOUT_LINKS:
                continue
            for status, response in operation["responses"].items():
                if status.startswith("2") and (model := _get_schema_name(response)):
                    links = dict(_iterate_links(document, model))
                    for excluded in (operation["operationId"], *_TARGETS_WITHOUT_LINKS):
                        links.pop(excluded, None)
                    if links:
                        shared |= {f"{model}.{name}": link for name, link in links.items()}
                        response["links"] = {
                            name: {"$ref": f"#/components/links/{model}.{name}"} for name in links
                        }
    document["components"]["links"] = dict(sorted(shared.items()))


def _get_schema_name(response: Json) -> str:
    """Return the schema's name of a JSON response, or an empty string."""
    media: Json = response.get("content", {}).get("application/json", {})
    return media.get("schema", {}).get("$ref", "").rpartition("/")[2]


def _iterate_links(document: Json, model: str) -> Iterator[tuple[str, Json]]:
    """Yield operation IDs and the links to them."""
    place, fields = "", document["components"]["schemas"].get(model, {}).get("properties", {})
    if model.endswith("List"):
        place = "/data/0"
        model = fields["data"]["items"].get("$ref", "").rpartition("/")[2]
    ids = ID_POINTERS.get(model, {})
    for path, method in _iterate_operations(document):
        for resource, pointers in ids.items():
            below = path == resource or path.startswith(f"{resource}/")
            if below and set(_PARAMETER.findall(path)) == pointers.keys():
                yield _make_link(method["operationId"], "path", place, pointers)
    for operation_id, parameter in QUERY_PARAMETERS.get(model, {}).items():
        yield _make_link(operation_id, "query", place, {parameter: "/id"})


def _iterate_operations(document: Json) -> Iterator[tuple[str, Json]]:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            yield path, operation


def _make_link(
    operation_id: str, kind: str, place: str, pointers: Mapping[str, str]
) -> tuple[str, Json]:
    parameters = {
        f"{kind}.{name}": f"$response.body#{place}{pointer}" for name, pointer in pointers.items()
    }
    return operation_id, {"operationId": operation_id, "parameters": parameters}
