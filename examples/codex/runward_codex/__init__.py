"""The Codex CLI as a tool of Runward. The entry point in pyproject.toml names this module."""

from runward_codex.tool import codex

TOOLS = [codex]
