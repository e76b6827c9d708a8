"""Encryption of stored secrets, and keys that are derived from the deployment's secret key.

The cipher is AES-256-GCM (NIST SP 800-38D). A random 96-bit nonce precedes each ciphertext. The
associated data names the table, column, project and row, so a ciphertext that was moved to another
place cannot be decrypted.
"""

import base64
import binascii
import hashlib
import hmac
import os
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from runward.domain.ids import ProjectId, RunId

_NONCE_BYTES: Final = 12
_ATTEMPT_BYTES: Final = 3
MIN_KEY_CHARACTERS: Final = 32


class SecretUnreadableError(Exception):
    """Raised if a stored secret cannot be decrypted: it was encrypted with another key or for
    another row, or it was changed. The message names its column and row."""


@dataclass(frozen=True, slots=True)
class CallRef:
    project_id: ProjectId
    run_id: RunId
    call: UUID
    attempt: int
    """The attempt for which the tool received the token."""


class Vault:
    """Encrypts and decrypts secrets. `secret_key`: the value of RUNWARD_SECRET_KEY. It has at least
    32 characters and is the same in every process."""

    def __init__(self, secret_key: str) -> None:
        if len(secret_key) < MIN_KEY_CHARACTERS:
            raise ValueError(f"the secret key must have at least {MIN_KEY_CHARACTERS} characters")
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
        """Return the decrypted secret. Raises SecretUnreadableError."""
        nonce, box = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(
                nonce, box, _associated_data(column, project_id, row)
            ).decode()
        except (InvalidTag, ValueError):
            raise SecretUnreadableError(f"{column} of '{row}' cannot be decrypted") from None

    def key_digest(self, api_key: str) -> bytes:
        """Return the HMAC-SHA-256 of an API key, under a pepper that is not in the database."""
        return hmac.digest(self._pepper, api_key.encode(), "sha256")

    def session_digest(self, token: str) -> bytes:
        """Return the HMAC-SHA-256 of a console session's token."""
        return hmac.digest(self._sessions, token.encode(), "sha256")

    def make_callback_token(self, ref: CallRef) -> str:
        """Return a token that names the call and proves that this deployment made it: base64url of
        project, run and call (16 bytes each), the attempt (3 bytes) and a MAC of 16 bytes. It has
        90 characters and is not stored."""
        attempt = ref.attempt.to_bytes(_ATTEMPT_BYTES, "big")
        data = ref.project_id.bytes + ref.run_id.bytes + ref.call.bytes + attempt
        return base64.urlsafe_b64encode(data + self._make_mac(data)).decode().rstrip("=")

    def read_callback_token(self, token: str) -> CallRef | None:
        """Return the call that the token names, or None if this deployment did not create the
        token."""
        try:
            raw = base64.b64decode(token + "==", altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        data, mac = raw[:-16], raw[-16:]
        if len(data) != 48 + _ATTEMPT_BYTES or not hmac.compare_digest(mac, self._make_mac(data)):
            return None
        project, run, call = (UUID(bytes=data[at : at + 16]) for at in (0, 16, 32))
        attempt = int.from_bytes(data[48:], "big")
        return CallRef(ProjectId(project), RunId(run), call, attempt)

    def _make_mac(self, data: bytes) -> bytes:
        """Return a MAC of 128 bits that only this deployment can compute."""
        return hmac.digest(self._callbacks, data, "sha256")[:16]

    def derive_guard_secret(self, project_id: UUID, generation: int) -> str:
        """Return the secret (`whsec_…`) that signs requests to guardrails and hooks of a project
        and its agents. It is derived, so it is not stored."""
        what = f"guards\0{project_id.hex}\0{generation}".encode()
        return f"whsec_{base64.b64encode(hmac.digest(self._guards, what, 'sha256')).decode()}"

    def _derive(self, purpose: bytes) -> bytes:
        """Derive a key by HKDF (RFC 5869) with SHA-256."""
        return HKDF(SHA256(), 32, salt=None, info=b"runward " + purpose).derive(self._root)


def _associated_data(column: str, project_id: UUID, row: str) -> bytes:
    return hashlib.sha256(f"{column}\0{project_id.hex}\0{row}".encode()).digest()
