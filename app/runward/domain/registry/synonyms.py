"""Names that other APIs use for fields of Runward's requests."""

from collections.abc import Mapping, Sequence
from typing import Final

_SYNONYMS: Final[Mapping[str, Sequence[str]]] = {
    "agent": ("agent_id", "agent_name", "assistant", "assistant_id"),
    "input": ("contents", "messages", "prompt", "query"),
    "instructions": ("system", "system_instruction", "system_prompt"),
    "max_output_tokens": (
        "max_completion_tokens",
        "max_new_tokens",
        "max_tokens",
        "maxOutputTokens",
        "maxTokens",
    ),
    "max_turns": ("max_iterations", "max_steps", "recursion_limit"),
    "output_schema": ("output_type", "response_format", "response_schema"),
    "parameters": ("input_schema", "inputSchema"),
    "session_id": ("conversation_id", "thread_id"),
    "timeout_seconds": ("timeout", "timeout_ms"),
    "tool_choice": ("function_call", "tool_config"),
    "tools": ("functions",),
    "top_p": ("topP",),
}
FIELD_NAMES_BY_SYNONYM: Final[Mapping[str, str]] = {
    theirs: ours for ours, names in _SYNONYMS.items() for theirs in names
}
"""Runward's name of each field, by the other API's name."""
