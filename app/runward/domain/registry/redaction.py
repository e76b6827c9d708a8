"""Removal of secrets from texts that other services wrote."""

from typing import Final

LEAST_PART: Final = 4
"""If a text ends with at least this many characters of a secret's beginning, they are removed."""


def without_secret(text: str, secret: str, mark: str = "***") -> str:
    """Return `text` without the secret. A truncated text may end with the beginning of the secret,
    which is removed as well."""
    if not secret:
        return text
    text = text.replace(secret, mark)
    for length in range(min(len(secret), len(text)), LEAST_PART - 1, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + mark
    return text
