"""Errors for resources that do not exist. The response for an ID of another project is the same as
for an ID that does not exist."""

from runward.domain.errors import AppError


class NotFoundError(AppError):
    code = "not_found"
    text = "No resource exists at this path."


class RunNotFoundError(NotFoundError):
    code = "run_not_found"
    text = "This project has no run with this ID."


class RunErasedError(RunNotFoundError):
    code = "run_erased"
    text = "The content of this run has been erased."


class CallNotFoundError(NotFoundError):
    code = "call_not_found"
    text = "This run has no tool call with this ID."


class ApprovalNotFoundError(NotFoundError):
    code = "approval_not_found"
    text = "This project has no approval with this ID."


class ResponseNotFoundError(NotFoundError):
    code = "response_not_found"
    text = "This project has no response with this ID."


class ModelNotFoundError(NotFoundError):
    code = "model_not_found"
    text = "This model does not exist or is not configured."


class ToolNotFoundError(NotFoundError):
    code = "tool_not_found"
    text = "This project has no tool with this name."


class AgentNotFoundError(NotFoundError):
    code = "agent_not_found"
    text = "This project has no agent with this name."


class McpServerNotFoundError(NotFoundError):
    code = "mcp_server_not_found"
    text = "This project has no MCP server with this name."


class SecretNotFoundError(NotFoundError):
    code = "secret_not_found"
    text = "This project has no secret with this name."


class SessionNotFoundError(NotFoundError):
    code = "session_not_found"
    text = "This project has no session with this ID."


class KeyNotFoundError(NotFoundError):
    code = "key_not_found"
    text = "This project has no API key with this ID."


class ProjectNotFoundError(NotFoundError):
    code = "project_not_found"
    text = "No project with this ID exists."


class WebhookEndpointNotFoundError(NotFoundError):
    code = "webhook_endpoint_not_found"
    text = "This project has no webhook endpoint with this ID."


class LegalHoldNotFoundError(NotFoundError):
    code = "legal_hold_not_found"
    text = "This project has no legal hold of a resource with this ID."


class ErasureNotFoundError(NotFoundError):
    code = "erasure_not_found"
    text = "This project has no erasure with this ID."


class WebhookDeliveryNotFoundError(NotFoundError):
    code = "webhook_delivery_not_found"
    text = "This project has no webhook delivery with this ID."


class ScheduleNotFoundError(NotFoundError):
    code = "schedule_not_found"
    text = "This project has no schedule with this ID."


class BudgetNotFoundError(NotFoundError):
    code = "budget_not_found"
    text = "This project has no budget with this ID."


class CallbackNotFoundError(NotFoundError):
    code = "callback_not_found"
    text = "The callback URL is not valid, or its run was deleted."
