"""Secrets in the words of others, which may be shown once these are struck out."""

from typing import Final

LEAST_PART: Final = 4
"""Characters of a secret's beginning that are taken for a part of it."""


def without_secret(text: str, secret: str, mark: str = "***") -> str:
    """Return `text` without the secret, and without the beginning of it with which a text ends that
    was cut."""
    if not secret:
        return text
    text = text.replace(secret, mark)
    for length in range(min(len(secret), len(text)), LEAST_PART - 1, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + mark
    return text
