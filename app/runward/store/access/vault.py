"""Secrets at rest, and what is derived from the instance's one key.

AES-256-GCM (NIST SP 800-38D) with a random 96-bit nonce in front; the associated data names
table, column, project and row, so that a ciphertext moved elsewhere does not open.
"""

import base64
import hashlib
import hmac
import os
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE_BYTES: Final = 12
MIN_KEY_CHARACTERS: Final = 32


class SecretUnreadableError(Exception):
    """A stored secret cannot be decrypted: it was sealed with another key or for another row, or
    altered. The message names its column and row."""


class Vault:
    """`secret_key` is RUNWARD_SECRET_KEY: 32 characters or more, the same for every process."""

    def __init__(self, secret_key: str) -> None:
        if len(secret_key) < MIN_KEY_CHARACTERS:
            raise ValueError(f"the secret key needs {MIN_KEY_CHARACTERS} characters or more")
        self._root = secret_key.encode()
        self._cipher = AESGCM(self._derive(b"stored secrets"))
        self._pepper = self._derive(b"api keys")
        self._sessions = self._derive(b"console sessions")
        self._callbacks = self._derive(b"callback tokens")
        self._guards = self._derive(b"guard secrets")

    def seal(self, secret: str, *, column: str, project_id: UUID, row: str) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(
            nonce, secret.encode(), _associated_data(column, project_id, row)
        )

    def open(self, sealed: bytes, *, column: str, project_id: UUID, row: str) -> str:
        """Raises SecretUnreadableError."""
        nonce, box = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(
                nonce, box, _associated_data(column, project_id, row)
            ).decode()
        except (InvalidTag, ValueError):
            raise SecretUnreadableError(f"{column} of '{row}' cannot be decrypted") from None

    def key_digest(self, api_key: str) -> bytes:
        """HMAC-SHA-256 of an API key, under a pepper that is not in the database."""
        return hmac.digest(self._pepper, api_key.encode(), "sha256")

    def session_digest(self, token: str) -> bytes:
        """HMAC-SHA-256 of a console session's token."""
        return hmac.digest(self._sessions, token.encode(), "sha256")

    def make_callback_mac(self, what: bytes) -> bytes:
        """128 bits that only this instance can make."""
        return hmac.digest(self._callbacks, what, "sha256")[:16]

    def derive_guard_secret(self, project_id: UUID, generation: int) -> str:
        """`whsec_…`: signs what the guardrails and hooks of a project's agents, and its own, are
        asked. Derived, so that nothing of it has to be stored."""
        what = f"guards\0{project_id.hex}\0{generation}".encode()
        return f"whsec_{base64.b64encode(hmac.digest(self._guards, what, 'sha256')).decode()}"

    def _derive(self, purpose: bytes) -> bytes:
        """HKDF (RFC 5869) with SHA-256."""
        return HKDF(SHA256(), 32, salt=None, info=b"runward " + purpose).derive(self._root)


def _associated_data(column: str, project_id: UUID, row: str) -> bytes:
    return hashlib.sha256(f"{column}\0{project_id.hex}\0{row}".encode()).digest()
