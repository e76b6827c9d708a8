"""The words of openapi.json that stand at no handler: the introduction, the tags, and the fields
of models that the domain defines."""

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

SUMMARIES: Final[Mapping[str, str]] = {
    "cancel_response": "Cancel a response",
    "cancel_run": "Cancel a run",
    "capabilities": "Show what this installation can do",
    "call_back": "Deliver progress or a result",
    "change_agent": "Change an agent",
    "change_mcp_server": "Change an MCP server",
    "change_session": "Change a session",
    "change_tool": "Change a tool",
    "compact_response": "Seal a conversation",
    "continue_run": "Go on from an incomplete run",
    "create_key": "Create a key",
    "create_project": "Create a project",
    "create_project_key": "Create a key of a project",
    "create_response": "Create a response",
    "create_session": "Create a session",
    "decide_approval": "Decide about a call",
    "delete_agent": "Delete an agent",
    "delete_mcp_server": "Delete an MCP server",
    "delete_secret": "Delete a secret",
    "delete_session": "Delete a session",
    "delete_tool": "Delete a tool",
    "fork_session": "Fork a session",
    "get_agent": "Show an agent",
    "get_approval": "Show an approval",
    "get_key": "Show a key",
    "get_mcp_server": "Show an MCP server",
    "get_policy": "Show the policy",
    "get_response": "Show a response",
    "get_run": "Show a run, or wait for it",
    "get_secret": "Show a secret, without its value",
    "get_session": "Show a session",
    "get_tool": "Show a tool",
    "give_tool_result": "Give the result of a client's tool",
    "healthz": "Is the process alive?",
    "list_agent_versions": "List the versions of an agent",
    "list_events": "Poll or stream the events of a run",
    "list_input_items": "List what a response was given",
    "list_items": "List the conversation of a run",
    "list_mcp_servers": "List MCP servers",
    "list_session_items": "List the conversation of a session",
    "list_tool_calls": "List the tool calls of a run",
    "metrics": "Show Prometheus' metrics",
    "put_policy": "Set the policy",
    "put_secret": "Set a secret",
    "readyz": "Can the process serve?",
    "refresh_mcp_server": "List an MCP server's tools again",
    "register_agent": "Register an agent",
    "register_mcp_server": "Register an MCP server",
    "register_tool": "Register a tool",
    "resolve_tool_call": "Settle a call whose outcome is unknown",
    "revoke_key": "Revoke a key",
    "rotate_policy_secret": "Replace the project's signing secret",
    "rotate_tool_secret": "Replace a tool's signing secret",
    "send_input": "Send another message to a run",
    "start_run": "Start a run",
    "try_tool": "Try a tool",
}
"""Operation -> what it does; of the others the operation's name says it."""

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

_TOOL: Final = {
    "name": "What the model calls it; unique in the project.",
    "description": "What it does and when to use it, for the model.",
    "parameters": "A JSON Schema of the arguments, an object. Calls that do not match it are not "
    "sent.",
    "output_schema": "A JSON Schema of the result. One that does not match is an error result.",
    "type": "How it is executed: `webhook`, a signed POST to `url`; `agent`, a child run; "
    "`client`, by whoever uses the API; `hosted`, by the model's vendor; `plugin`, a function that "
    "is installed with the service; or `mcp`, a tool of a registered MCP server.",
    "url": "Where a webhook tool is called; of a tool of type `mcp` its server's.",
    "agent": "Of a tool of type `agent`: whom the child run is started with.",
    "output": "Of a tool of type `agent`: what of the child run is the result. `final`, its "
    "output; `json`, that output as JSON; or the last good output of one of its tools.",
    "hosted": "Of a tool of type `hosted`: what it is to the vendor.",
    "executes": "The kind of vendors' own tool that a webhook or a plugin carries out. Its "
    "parameters are then those of the kind, and a person approves each call unless `approval` "
    "says otherwise.",
    "headers": "Sent with every call.",
    "strict": "Holds the model to the schema: every property required, none beside them. "
    "Optional ones become nullable.",
    "timeout_seconds": "For one call, all its attempts together. Wins over the run's "
    "`tool_timeout_seconds`. Without it a tool of type `client` has as long as its run.",
    "on_timeout": "After a timeout: tell the model (`return_error`), end the run (`fail_run`), or "
    "tell the model a text of yours.",
    "on_error": "The same after an error.",
    "idempotent": "Repeating a call under the same id does no harm, so Runward may.",
    "on_unknown": "When a call was sent and nobody knows whether it took effect: tell the model, "
    "`ask` a person, or end the run.",
    "retry": "How often and how long between attempts, where trying again is allowed.",
    "approval": "Whether a person is asked before a call: `never`, `always`, or a CEL rule over "
    "`args`, `context`, `run` and `tool`; of a plugin's tool also a function of the plugin.",
    "approval_expires_seconds": "An approval expires after this time, and the model is told that "
    "nobody answered. 7 days by default, 365 days at most.",
    "reject_message": "What the model is told about a rejection without words.",
    "enabled": "Whether models see it: yes, no, or a CEL rule, asked every turn; of a plugin's "
    "tool also a function of the plugin.",
    "guardrails": "Asked before and after a call: webhooks, signed with the tool's secret, or "
    "plugins.",
    "concurrency": "How many calls of it one run has in flight.",
    "max_output_bytes": "A longer result is cut for the model and kept whole.",
    "metadata": "Your own notes; rules see them as `tool.metadata`.",
    "code": "Of a plugin's tool: a digest of its source. Changed code is another version. Of a "
    "tool of an MCP server that is a command: a digest of that.",
    "mcp": "Of a tool of type `mcp`: its server here, and its name there.",
}

_GUARD: Final = {
    "stage": "When it is asked: before a person is (`pre_approval`), before the call (`input`), "
    "about its result (`output`); of an agent or a project also about what a run is given "
    "(`run_input`) and its final output (`run_output`).",
    "on": "What it stands before or after.",
    "timeout_seconds": "For its answer. A guardrail that is slower rejects, a hook that is slower "
    "has failed.",
}
_WEBHOOK_GUARD: Final = {
    "type": "`webhook`: a signed POST.",
    "url": "Where it is asked.",
    **_GUARD,
}
_PLUGIN_GUARD: Final = {
    "type": "`plugin`: a function of a plugin.",
    "name": "What the plugin registered it as.",
    **_GUARD,
}

_MCP_SERVER: Final = {
    "name": "Unique in the project.",
    "url": "Where it is called, by streamable HTTP.",
    "command": "What is started instead, to be spoken to over its standard input and output. Only "
    "what the operator allows.",
    "args": "The command's arguments.",
    "headers": "Sent with every request.",
    "tools": "Which of its tools are taken.",
    "prefix": "What the names of its tools begin with, before an underscore; null: its name.",
    "approval": "Whether a person is asked before a call of its tools; null: `never` for those "
    "that are annotated with `readOnlyHint`, `always` for the others.",
    "timeout_seconds": "For one call of its tools.",
}

FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "RegisterMcpServer": _MCP_SERVER,
    "PatchMcpServer": _MCP_SERVER,
    "ToolFilter": {
        "allow": "Only these, by the server's names; null: all.",
        "deny": "Never these.",
    },
    "RegisterTool": _TOOL,
    "PatchTool": _TOOL,
    "Tool": _TOOL,
    "NewTool": _TOOL,
    "WebhookGuardrail": _WEBHOOK_GUARD,
    "PluginGuardrail": _PLUGIN_GUARD,
    "WebhookHook": _WEBHOOK_GUARD,
    "PluginHook": _PLUGIN_GUARD,
    "Retry": {
        "max_attempts": "Attempts in all, the first included.",
        "initial_seconds": "Before the second attempt; it doubles from there.",
        "max_seconds": "At most, between two attempts.",
        "on": "HTTP statuses after which even a tool that is not idempotent is tried again.",
    },
    "Concurrency": {
        "limit": "Calls in flight.",
        "group": "Tools of one group share the limit.",
        "serial": "The call runs alone, after every earlier and before every later one.",
    },
    "Hosted": {
        "kind": "Which of the tools that vendors run.",
        "settings": "Its options in the vendor's own words, passed on as they are.",
        "secrets": "Further options, whose values are stored secrets: the option, and the "
        "secret's name.",
    },
    "FromServer": {
        "server": "The registered MCP server.",
        "tool": "What the server calls the tool.",
    },
    "ByCallable": {"callable": "Of a plugin: the function that decides, `package.module:name`."},
    "OutputOfTool": {"tool": "The tool of the child run."},
    "SecretRef": {
        "secret": "Name of a secret of the project (`/v1/secrets`).",
        "prefix": "Text before the secret's value, for example `Bearer ` with a space at its end.",
    },
    "When": {"when": "A CEL expression that answers true or false."},
    "Text": {"message": "What the model reads."},
    "Limits": {
        "max_turns": "Model calls, resumes included.",
        "max_tool_calls": "Tool calls in all.",
        "max_tokens": "Input and output tokens together.",
        "max_cost_usd": "US dollars, by the prices that this installation knows; a model without "
        "a price costs nothing known.",
        "deadline_seconds": "Wall time from the run's creation, waiting included.",
        "tool_timeout_seconds": "For tools that set none of their own.",
        "max_parallel_tool_calls": "Calls in flight at once.",
    },
    "History": {
        "max_turns": "The last so many turns: a message of a user and all that followed it.",
        "max_tokens": "The newest turns that fit, by an estimate of four bytes a token.",
        "trim_tool_outputs": "Outputs of tools in earlier runs are cut to so many bytes.",
    },
    "NamedTool": {"name": "The tool that the model must call."},
    "StopAt": {"stop_at": "Tools whose result ends the run."},
    "FixedOutput": {"output": "The run's output then."},
    "Approve": {
        "decision": "`approve`: the call is sent as it is.",
        "digest": "Of the call as it was shown; another one is refused with 409.",
        "remember": "Decide likewise about later calls.",
    },
    "Reject": {
        "decision": "`reject`: the call is never sent.",
        "digest": "Of the call as it was shown; another one is refused with 409.",
        "message": "What the model is told.",
        "remember": "Decide likewise about later calls.",
    },
    "Edit": {
        "decision": "`edit`: the call is sent with other arguments.",
        "digest": "Of the call as it was shown; another one is refused with 409.",
        "arguments": "The new arguments, whole; the tool's schema checks them.",
        "message": "Why, for the log.",
    },
    "Respond": {
        "decision": "`respond`: the tool is not called; this is its result.",
        "digest": "Of the call as it was shown; another one is refused with 409.",
        "output": "The result, any JSON.",
    },
    "Remember": {
        "scope": "`run`: the rest of this run; `session`: its session's later runs too.",
        "exact_arguments": "Only calls with the very same arguments.",
        "expires_seconds": "For how long.",
    },
    "ResolvedCompleted": {
        "resolution": "`completed`: it took effect.",
        "output": "What it answered, for the model.",
    },
    "ResolvedFailed": {
        "resolution": "`failed`: it did not take effect.",
        "message": "What the model is told.",
    },
    "ResolvedRetry": {"resolution": "`retry`: it did not take effect; send it again."},
    "Progress": {
        "status": "`progress`: still working.",
        "progress": "From 0 to 1.",
        "message": "For whoever watches; the model does not see it.",
    },
    "CallbackCompleted": {
        "status": "`completed`: here is the result.",
        "output": "The result, any JSON.",
    },
    "CallbackFailed": {
        "status": "`failed`: there will be no result.",
        "message": "What went wrong, for the model.",
    },
    "InputRequired": {
        "status": "`input_required`: the caller must say more.",
        "requests": "What is to be said, in words or a form that the caller understands; at most "
        "64 KiB of JSON.",
        "state": "Given back unseen with the answer; at most 64 KiB of JSON.",
    },
}
"""Schema -> field -> description."""
