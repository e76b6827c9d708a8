"""The version of Runward."""

from typing import Final

VERSION: Final = "0.1.0"
"""The version in pyproject.toml. It is repeated here for checkouts that are not installed."""
