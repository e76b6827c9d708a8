"""Minting ids. UUIDv7 (RFC 9562): they sort by the time at which they were made."""

from uuid import UUID

from uuid_utils.compat import uuid7


def mint() -> UUID:
    return uuid7()
