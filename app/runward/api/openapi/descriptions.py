"""Texts of openapi.json that belong neither to a route nor to a model."""

from collections.abc import Mapping
from typing import Final

TITLE: Final = "Runward"

INTRODUCTION: Final = """\
Runward runs LLM agents durably. A run survives crashes of the service. Tool calls that need \
approval wait for a person's decision. Each run has a log of numbered events that never change.

- Request bodies are strict JSON. Runward rejects unknown fields, duplicate keys, NUL characters, \
and more than 64 levels of nesting.
- Errors have the media type `application/problem+json` and a stable `code`.
- Lists return pages. Use `limit`, `after`, `before`, and `order` to read them.
- POST requests that create a resource or submit a decision accept an `Idempotency-Key`.
- If a resource belongs to another project, Runward responds as if the resource did not exist.
- If an operation does not accept a query parameter or the body of a request, Runward responds \
with 422.
- Later versions may add fields to responses, values to enumerations, types of events and items, \
error codes, and optional fields to requests. Clients must ignore fields, values, \
and types that they do not know.

Clients of the Model Context Protocol can call the tools and agents of a project at `/mcp`. The \
transport is streamable HTTP, and the API keys are the same. Each call starts a run and requires \
the scope `runs:write`."""

CONTACT: Final = {"name": "Runward"}
LICENSE: Final = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
SERVERS: Final = [{"url": "/", "description": "The deployment that serves this document."}]

TAGS: Final[Mapping[str, str]] = {
    "Runs": "Start, follow, continue, and cancel runs.",
    "Responses": "Start and follow runs with clients of OpenAI's Responses API. Errors have "
    "OpenAI's format.",
    "Chat completions": "Start runs with clients of OpenAI's Chat Completions API. Errors have "
    "OpenAI's format.",
    "Sessions": "Conversations shared by several runs. Only one run of a session executes at a "
    "time.",
    "Schedules": "Start runs at certain times: by a cron expression, once at a time, or once after "
    "a delay.",
    "Approvals": "Requests for a person's decision on a tool call.",
    "Tools": "Registered tools: webhooks, agents, client tools, hosted tools, plugin functions, "
    "and tools of MCP servers.",
    "MCP servers": "Servers of the Model Context Protocol, whose tools become tools of the "
    "project.",
    "Secrets": "Encrypted values that other resources refer to by name. Runward never shows them.",
    "Agents": "Named and versioned configurations of a model, instructions, tools, and limits, "
    "and workflows of such agents.",
    "Policy": "Hooks and guardrails that apply to every run of the project.",
    "Callbacks": "Callback URLs for tools that return 202 and submit the result later.",
    "Webhook endpoints": "Addresses that receive notifications of the project's events, and the "
    "deliveries of these notifications.",
    "Limits": "The share of the deployment's capacity that the project can use.",
    "Retention": "How long Runward keeps data, legal holds that keep it longer, and erasures of "
    "everything with the same metadata.",
    "Audit log": "Who changed which resource of the project, when and from where, as a chain of "
    "hashes.",
    "Budgets": "Limits of the cost of models in each day or month.",
    "Keys": "API keys of the project.",
    "Projects": "Projects of this deployment, for operators.",
    "Service": "Capabilities, health, and metrics of this deployment.",
}
