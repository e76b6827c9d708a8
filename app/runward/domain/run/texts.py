"""Every text that a model reads from Runward itself. SEMANTICS of each:
docs/reference/model-texts.md."""

from collections.abc import Iterable, Sequence
from typing import Final

from runward.domain.json import JsonObject, as_text, compact
from runward.domain.run.items import HostedCall

MAX_HOSTED: Final = 8192
"""Characters of what a provider's own tool answered."""

TOOL_ERROR: Final = "An error occurred while running the tool. Please try again."
NOT_REACHED: Final = "The tool could not be reached."
NOT_SENT: Final = f"{NOT_REACHED} It has not run."
INVALID_RESPONSE: Final = "The tool answered with something that is not a valid result."
UNKNOWN_OUTCOME: Final = "It may or may not have taken effect; verify before repeating."
INTERRUPTED: Final = f"The tool did not answer completely. {UNKNOWN_OUTCOME}"
NOT_APPROVED: Final = "Tool execution was not approved."
GUARDED: Final = "A guardrail rejected this."
OUTPUT_GUARDED: Final = "The call was made, but a guardrail withheld its result."
HOOK_FAILED: Final = "A hook failed, so the tool was not run."
OUTPUT_HOOK_FAILED: Final = "The call was made, but a hook failed, so its result is withheld."
DECLINED_BEFORE: Final = (
    "An identical call was declined earlier in this run; it was not asked again."
)
NOBODY_ANSWERED: Final = (
    "Nobody answered the request for approval in time, so the tool was not run. "
    "This is not a rejection."
)
TRUNCATED: Final = (
    "The response was cut off in the middle of this call, so it was not run. "
    "Make it again, shorter."
)
TOO_MANY_CALLS: Final = "The run has used all its tool calls; this one was not run."
REPEATED_WARNING: Final = (
    "(This is the third identical call. Its answer is not going to change; do something else.)"
)
REPEATED: Final = "This identical call was made too often; it was not run."
STORED: Final = "(This call has run already; this is its stored result.)"
OTHER_HANDOFF: Final = "Multiple handoffs detected, ignoring this one."
TOO_DEEP: Final = "Agents call agents too deep here; this one was not started."
NO_SUCH_AGENT: Final = "The agent behind this tool does not exist; nothing was started."
NOT_IN_RESULT: Final = "The result does not have this text at or after the offset."
TOOLS_FOUND: Final = "These tools can be called now."
NO_TOOL_FOUND: Final = "No tool was found. Search again with other words for what it should do."
CANCELLED: Final = "The run was cancelled before this call finished."
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
    return f"Tool '{name}' was disabled or deleted before this call could run. It has not run."


def search_first(name: str) -> str:
    return f"Tool '{name}' is not loaded. Find it with search_tools first, then call it."


def hosted_call(item: HostedCall) -> str:
    """What a model is told of what another provider ran by itself."""
    outcome = "failed with" if item.is_error else "answered"
    shown = as_text(item.output)
    if len(shown) > MAX_HOSTED:
        shown = f"{shown[:MAX_HOSTED]}…"
    return f"(Called {item.name} with {compact(item.arguments)}; it {outcome}: {shown})"


def cut_result(call_id: str) -> str:
    return f'(This result was cut. read_result with call_id "{call_id}" reads all of it.)'


def no_result(call_id: str) -> str:
    return f"There is no result of a call '{call_id}' in this run."


def invalid_arguments(tool: str, problems: Sequence[tuple[str, str]]) -> str:
    lines = "\n".join(f"- {path}: {message}" for path, message in problems)
    return f"Tool '{tool}' was not run, because its arguments are not valid:\n{lines}"


def handoff(agent: str, description: str | None) -> str:
    text = f"Handoff to the {agent} agent to handle the request."
    return f"{text} {description}" if description else text


def too_much_state(size: int, limit: int) -> str:
    return f"The call's changes were dropped: the state would have {size} bytes of {limit}."


def handed_over(agent: str) -> str:
    return f'{{"assistant": "{agent}"}}'


def step_failed(agent: str, error: str) -> str:
    return f"The step '{agent}' failed: {error}"


def edited(arguments: str) -> str:
    return f"(A person changed the arguments of this call before it ran, to: {arguments})"


def repair(problems: Sequence[tuple[str, str]]) -> str:
    lines = "\n".join(f"- {path}: {message}" for path, message in problems)
    return (
        "The answer does not match the required JSON schema. "
        f"Answer again with JSON alone that does.\n{lines}"
    )


def answer_by_schema(schema: JsonObject) -> str:
    return (
        "Your final answer must be JSON that matches this JSON Schema, and nothing else:\n"
        f"{compact(schema)}"
    )


SUMMARISE: Final = (
    "No more tool calls can be made. Summarise what was done and found so far, and what is "
    "still open."
)
