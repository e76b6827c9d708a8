"""The parts of openapi.json that belong to no route and no model."""

from collections.abc import Mapping
from typing import Final

VERSION: Final = "0.1.0"
"""As in pyproject.toml; a checkout that was not installed has no other place for it."""

INTRODUCTION: Final = """\
Runward runs LLM agents durably: a run is accepted, its tool calls are made once, a person is \
asked where that was wanted, and every step is an event that never changes.

Bodies are strict JSON: unknown fields, duplicate keys, NUL and nesting deeper than 64 are \
refused. Errors are `application/problem+json` with a stable `code`. Lists are walked with \
`limit`, `after` and `order`. Every POST that creates or decides takes an `Idempotency-Key`. An \
id of another project is answered exactly like an unknown one.

The tools and agents of a project can also be called by any client of the Model Context Protocol: \
its endpoint is `/mcp`, over streamable HTTP, with the same API keys (`runs:write` for calls). A \
call there is a run here."""

LICENSE: Final = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
SERVERS: Final = [{"url": "/", "description": "The installation that serves this document."}]

TAGS: Final[Mapping[str, str]] = {
    "Runs": "Start, follow, cancel and continue runs.",
    "Responses": "The same runs for clients of OpenAI's Responses API, with errors of its shape.",
    "Sessions": "Conversations across runs, of which one works at a time.",
    "Approvals": "Calls that wait for a person, and the decisions about them.",
    "Tools": "The registered tools: HTTP endpoints of yours in any language, agents, what the "
    "client runs itself, functions of plugins, and tools of MCP servers.",
    "MCP servers": "Servers of the Model Context Protocol, whose tools become the project's.",
    "Secrets": "Values that are stored encrypted, never shown, and referred to by name.",
    "Agents": "Named, versioned sets of model, instructions, tools and limits, and workflows of "
    "such agents.",
    "Policy": "Hooks and guardrails around every run of the project.",
    "Callbacks": "Where a tool that answered 202 delivers its result.",
    "Keys": "API keys of the project.",
    "Projects": "For operators: the projects of this installation.",
    "Service": "What this installation can do, and whether it is well.",
}
