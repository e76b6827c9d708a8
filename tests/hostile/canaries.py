"""Canaries: a different secret of every kind, and the places where each may appear."""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

LOG, METRICS, DUMP, EVENTS, ANSWERS, ERRORS, CONSOLE, PROCESSES, BUNDLE = (
    *("log", "metrics", "dump", "events", "answers", "errors", "console", "processes", "bundle"),
)
PLACES: Final = (LOG, METRICS, DUMP, EVENTS, ANSWERS, ERRORS, CONSOLE, PROCESSES, BUNDLE)
CONTENT: Final = frozenset({DUMP, ANSWERS})
"""What a run is given and says is stored and shown to its project, and is never logged."""
TOLD: Final = CONTENT | {EVENTS}

ENVIRONMENT: Final = (
    *("bootstrap_key", "secret_key", "database_password", "openai_key", "anthropic_key"),
    *("gemini_key", "aws_secret", "aws_session", "plugin_secret", "unrelated_variable"),
)
KEYS: Final = (
    *("project_key", "admin_key", "revoked_key", "console_cookie", "ended_cookie"),
    *("wrong_key", "wrong_console_key", "wrong_cookie", "wrong_callback_token"),
)
PROJECT_SECRETS: Final = (
    *("stored", "stored_before", "stored_deleted", "stored_in_header", "stored_in_mcp"),
    *("stored_hosted", "stored_hosted_header", "own_openai_key", "own_anthropic_key"),
    *("own_gemini_key", "own_bedrock_token", "stored_client_secret"),
)
TOOLS: Final = (
    *("tool_header", "tool_header_before", "tool_signing", "tool_signing_rotated"),
    *("policy_signing", "callback_token", "cookie_of_a_tool", "header_of_a_tool"),
)
MCP: Final = (
    *("mcp_header", "mcp_header_before", "oauth_client_secret", "oauth_refresh_token"),
    *("oauth_access_token", "oauth_new_refresh_token", "oauth_secret_in_a_refusal"),
)
REFUSED: Final = (
    *("userinfo_of_a_tool", "userinfo_of_mcp", "userinfo_of_a_guardrail", "broken_json"),
    *("secret_of_wrong_type", "unknown_field", "header_with_a_line", "key_of_wrong_type"),
)
CONTENTS: Final[Mapping[str, frozenset[str]]] = {
    "instructions": TOLD,
    "input": TOLD,
    "context": CONTENT,
    "metadata": CONTENT,
    "arguments": TOLD,
    "result": TOLD,
    "output": TOLD,
    "query_of_a_tool": CONTENT,
    "words_of_a_failed_tool": TOLD,
}
NEVER: Final = (*ENVIRONMENT, *KEYS, *PROJECT_SECRETS, *TOOLS, *MCP, *REFUSED)
NOWHERE: Final[frozenset[str]] = frozenset()
ALLOWED: Final[Mapping[str, frozenset[str]]] = {**dict.fromkeys(NEVER, NOWHERE), **CONTENTS}


def value_of(name: str) -> str:
    """Long enough for a key, and like no other."""
    return f"canary-{name.replace('_', '-')}-" + "0123456789abcdef" * 2


def forms(secret: str) -> Iterator[str]:
    """As it may be seen: as it is, quoted, in hexadecimal, or in base64 at any offset."""
    yield from (secret, json.dumps(secret)[1:-1], quote(secret, safe=""), secret.encode().hex())
    for padding in ("", "x", "xx"):
        yield base64.b64encode((padding + secret).encode()).decode()[4:-4]


def sightings(secrets: Mapping[str, str], places: Mapping[str, str]) -> dict[str, set[str]]:
    """Where each secret was seen."""
    return {
        name: {
            place
            for place, text in places.items()
            if any(form in text for form in set(forms(secret)))
        }
        for name, secret in secrets.items()
    }
