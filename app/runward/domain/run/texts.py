"""All texts that models read from Runward itself. docs/reference/model-texts.md describes each of
them."""

from collections.abc import Iterable, Sequence
from typing import Final

from runward.domain.json import JsonObject, as_text, compact
from runward.domain.run.items import HostedCall

MAX_HOSTED: Final = 8192
"""Maximum number of characters of a hosted tool's output."""

TOOL_ERROR: Final = "An error occurred while running the tool. Please try again."
NOT_REACHED: Final = "The tool could not be reached."
NOT_SENT: Final = f"{NOT_REACHED} The tool has not run."
INVALID_RESPONSE: Final = "The tool returned an invalid result."
UNKNOWN_OUTCOME: Final = "The call may or may not have taken effect. Check before you repeat it."
INTERRUPTED: Final = f"The tool did not return a complete response. {UNKNOWN_OUTCOME}"
NOT_APPROVED: Final = "Tool execution was not approved."
GUARDED: Final = "A guardrail rejected this content."
OUTPUT_GUARDED: Final = "The tool was called, but a guardrail withheld the result."
HOOK_FAILED: Final = "A hook failed, so the tool was not run."
OUTPUT_HOOK_FAILED: Final = "The tool was called, but a hook failed, so the result is withheld."
DECLINED_BEFORE: Final = (
    "This call was not run, because an identical call was rejected earlier in this run."
)
NOBODY_ANSWERED: Final = (
    "The approval request expired before a person decided, so the tool was not run. "
    "This is not a rejection."
)
TRUNCATED: Final = (
    "The response was cut off in the middle of this call, so the tool was not run. "
    "Make the call again with shorter arguments."
)
TOO_MANY_CALLS: Final = (
    "The run has reached its maximum number of tool calls, so this call was not run."
)
REPEATED_WARNING: Final = (
    "(This is the third identical call. The result will not change. Try something else.)"
)
REPEATED: Final = "This call was not run, because identical calls were made too often."
STORED: Final = "(This call has already run. This is its stored result.)"
OTHER_HANDOFF: Final = "Multiple handoffs detected, ignoring this one."
TOO_DEEP: Final = (
    "This agent was not started because the maximum depth of nested agents has been reached."
)
NO_SUCH_AGENT: Final = "The agent of this tool is not available, so nothing was started."
NOT_IN_RESULT: Final = "The result does not contain this text at or after the offset."
TOOLS_FOUND: Final = "You can call these tools now."
NO_TOOL_FOUND: Final = (
    "No tool was found. Search again with different words for what the tool should do."
)
CANCELLED: Final = "The run was cancelled before this call finished."
RETURNED_TO_CLIENT: Final = "The client of a chat completion received this call, and runs it."
RUN_ENDED: Final = "The run ended before this call finished."


def timed_out(tool: str, seconds: float, *, idempotent: bool) -> str:
    text = f"Tool '{tool}' timed out after {seconds:g} seconds."
    return text if idempotent else f"{text} {UNKNOWN_OUTCOME}"


def unknown_tool(name: str, callable_now: Iterable[str]) -> str:
    names = ", ".join(callable_now)
    return f"Tool '{name}' not found. " + (
        f"Tools that can be called now: {names}." if names else "No tools can be called now."
    )


def tool_gone(name: str) -> str:
    return (
        f"Tool '{name}' was disabled or deleted before this call could run, so the call "
        "was not run."
    )


def search_first(name: str) -> str:
    return f"Tool '{name}' is not loaded. Find it with search_tools first, then call it."


def hosted_call(item: HostedCall) -> str:
    """Return the text that describes a call which another provider ran."""
    outcome = "Error" if item.is_error else "Result"
    shown = as_text(item.output)
    if len(shown) > MAX_HOSTED:
        shown = f"{shown[:MAX_HOSTED]}…"
    return f"(Called {item.name} with {compact(item.arguments)}. {outcome}: {shown})"


def cut_result(call_id: str) -> str:
    return f'(This result was cut. Call read_result with call_id "{call_id}" to read all of it.)'


def no_result(call_id: str) -> str:
    return f"This run has no result of a call with the ID '{call_id}'."


def invalid_arguments(tool: str, problems: Sequence[tuple[str, str]]) -> str:
    lines = "\n".join(f"- {path}: {message}" for path, message in problems)
    return f"Tool '{tool}' was not run, because its arguments are not valid:\n{lines}"


def handoff(agent: str, description: str | None) -> str:
    text = f"Handoff to the {agent} agent to handle the request."
    return f"{text} {description}" if description else text


def too_much_state(size: int, limit: int) -> str:
    return (
        "The changes that this call made to the shared state were dropped: the state "
        f"would have {size} bytes, and the limit is {limit} bytes."
    )


def handed_over(agent: str) -> str:
    return f'{{"assistant": "{agent}"}}'


def step_failed(agent: str, error: str) -> str:
    return f"The step '{agent}' failed: {error}"


def edited(arguments: str) -> str:
    return f"(A person edited this call before it ran. It ran with these arguments: {arguments})"


def repair(problems: Sequence[tuple[str, str]]) -> str:
    lines = "\n".join(f"- {path}: {message}" for path, message in problems)
    return (
        "The answer does not match the required JSON schema. Reply with only valid "
        "JSON that matches the schema.\n"
        f"{lines}"
    )


def answer_by_schema(schema: JsonObject) -> str:
    return f"Your final answer must be only JSON that matches this JSON Schema:\n{compact(schema)}"


TOOLS_IN_PROMPT: Final = (
    'You can call tools. To call a tool, write <tool_call>{"name": "NAME", "arguments": '
    "{…}}</tool_call> on a separate line. The arguments are a JSON object that matches the tool's "
    "parameters. You can write several calls. End your response after the calls. The next message "
    "contains the results. The tools are:"
)
CALL_A_TOOL: Final = "You must call a tool in this response."
CALL_ONE_TOOL: Final = "You must not call more than one tool in a response."


def call_this_tool(name: str) -> str:
    return f"You must call the tool '{name}' in this response."


def malformed_call(problem: str) -> str:
    return (
        f"A tool call in your response cannot be read, and no tool was run: {problem}. Write the "
        "complete response again."
    )


SUMMARISE: Final = (
    "You cannot make more tool calls. Summarize what you have done and found so "
    "far, and what remains to be done."
)
