"""Removal of secrets from texts that other services wrote."""

from typing import Final

LEAST_PART: Final = 4
"""Characters of a secret's beginning that count as a part of it."""


def without_secret(text: str, secret: str, mark: str = "***") -> str:
    """Return `text` without the secret. If the text was cut, it may end with a beginning of the
    secret, which is removed, too."""
    if not secret:
        return text
    text = text.replace(secret, mark)
    for length in range(min(len(secret), len(text)), LEAST_PART - 1, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + mark
    return text
