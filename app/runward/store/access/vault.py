"""Encryption of stored secrets, and keys that are derived from the deployment's secret keys.

The cipher is AES-256-GCM (NIST SP 800-38D). The ID of the secret key and a random 96-bit nonce
precede each ciphertext. The associated data names the table, column, project and row, so a
ciphertext that was moved to another place cannot be decrypted.
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

_ID_BYTES: Final = 8
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


class _SecretKey:
    """One secret key, and the keys that are derived from it."""

    def __init__(self, secret_key: str) -> None:
        if len(secret_key) < MIN_KEY_CHARACTERS:
            raise ValueError(f"the secret key must have at least {MIN_KEY_CHARACTERS} characters")
        self._root = secret_key.encode()
        self.id = self._derive(b"key id")[:_ID_BYTES]
        self._cipher = AESGCM(self._derive(b"stored secrets"))
        self.pepper = self._derive(b"api keys")
        self.sessions = self._derive(b"console sessions")
        self.callbacks = self._derive(b"callback tokens")
        self.guards = self._derive(b"guard secrets")

    def encrypt(self, secret: str, associated_data: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return self.id + nonce + self._cipher.encrypt(nonce, secret.encode(), associated_data)

    def decrypt(self, box: bytes, associated_data: bytes) -> str | None:
        """Return the secret in a nonce and its ciphertext. Returns None if this is not the key."""
        nonce, ciphertext = box[:_NONCE_BYTES], box[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, ciphertext, associated_data).decode()
        except (InvalidTag, ValueError):
            return None

    def _derive(self, purpose: bytes) -> bytes:
        """Derive a key by HKDF (RFC 5869) with SHA-256."""
        return HKDF(SHA256(), 32, salt=None, info=b"runward " + purpose).derive(self._root)


class Vault:
    """Encrypts with the current secret key, and decrypts with every key. Each key has at least 32
    characters."""

    def __init__(self, current: str, *previous: str) -> None:
        """`current`: the value of RUNWARD_SECRET_KEY. `previous`: the values of
        RUNWARD_PREVIOUS_SECRET_KEYS."""
        self._keys = [_SecretKey(one) for one in dict.fromkeys((current, *previous))]
        self._current = self._keys[0]
        self._by_id = {key.id: key for key in self._keys}

    def seal(self, secret: str, *, column: str, project_id: UUID, row: str) -> bytes:
        return self._current.encrypt(secret, _associated_data(column, project_id, row))

    def open(self, sealed: bytes, *, column: str, project_id: UUID, row: str) -> str:
        """Return the decrypted secret. Raises SecretUnreadableError."""
        return self._find(sealed, column, project_id, row)[1]

    def reseal(self, sealed: bytes, *, column: str, project_id: UUID, row: str) -> bytes | None:
        """Return the secret encrypted with the current key, or None if it already is. Raises
        SecretUnreadableError."""
        key, secret = self._find(sealed, column, project_id, row)
        if key is self._current:
            return None
        return self.seal(secret, column=column, project_id=project_id, row=row)

    def _find(
        self, sealed: bytes, column: str, project_id: UUID, row: str
    ) -> tuple[_SecretKey, str]:
        """Return the secret and its key. A value without the ID of a configured key was stored by a
        version that stored no IDs, or with an unknown key."""
        associated_data = _associated_data(column, project_id, row)
        named = self._by_id.get(sealed[:_ID_BYTES])
        box = sealed if named is None else sealed[_ID_BYTES:]
        for key in self._keys if named is None else [named]:
            if (secret := key.decrypt(box, associated_data)) is not None:
                return key, secret
        raise SecretUnreadableError(f"{column} of '{row}' cannot be decrypted")

    def key_digests(self, api_key: str) -> tuple[bytes, ...]:
        """Return the HMAC-SHA-256 of an API key under each secret key, the current one first. The
        peppers are not in the database."""
        return tuple(hmac.digest(key.pepper, api_key.encode(), "sha256") for key in self._keys)

    def session_digests(self, token: str) -> tuple[bytes, ...]:
        """Return the HMAC-SHA-256 of a console session's token under each secret key, the current
        one first."""
        return tuple(hmac.digest(key.sessions, token.encode(), "sha256") for key in self._keys)

    def make_callback_token(self, ref: CallRef) -> str:
        """Return a token that names the call and proves that this deployment made it: base64url of
        project, run and call (16 bytes each), the attempt (3 bytes) and a MAC of 16 bytes. It has
        90 characters and is not stored."""
        attempt = ref.attempt.to_bytes(_ATTEMPT_BYTES, "big")
        data = ref.project_id.bytes + ref.run_id.bytes + ref.call.bytes + attempt
        mac = _make_mac(self._current, data)
        return base64.urlsafe_b64encode(data + mac).decode().rstrip("=")

    def read_callback_token(self, token: str) -> CallRef | None:
        """Return the call that the token names, or None if this deployment did not create the
        token."""
        try:
            raw = base64.b64decode(token + "==", altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        data, mac = raw[:-16], raw[-16:]
        if len(data) != 48 + _ATTEMPT_BYTES:
            return None
        if not any(hmac.compare_digest(mac, _make_mac(key, data)) for key in self._keys):
            return None
        project, run, call = (UUID(bytes=data[at : at + 16]) for at in (0, 16, 32))
        attempt = int.from_bytes(data[48:], "big")
        return CallRef(ProjectId(project), RunId(run), call, attempt)

    def derive_guard_secrets(self, project_id: UUID, generation: int) -> tuple[str, ...]:
        """Return the secrets (`whsec_…`) that sign requests to guardrails and hooks of a project
        and its agents: one for each secret key, the current one first. They are derived, so they
        are not stored."""
        data = f"guards\0{project_id.hex}\0{generation}".encode()
        digests = (hmac.digest(key.guards, data, "sha256") for key in self._keys)
        return tuple(f"whsec_{base64.b64encode(digest).decode()}" for digest in digests)


def _make_mac(key: _SecretKey, data: bytes) -> bytes:
    """Return a MAC of 128 bits that only this deployment can compute."""
    return hmac.digest(key.callbacks, data, "sha256")[:16]


def _associated_data(column: str, project_id: UUID, row: str) -> bytes:
    return hashlib.sha256(f"{column}\0{project_id.hex}\0{row}".encode()).digest()
