"""Encryption of stored secrets, and keys that are derived from the deployment's data keys.

The cipher is AES-256-GCM (NIST SP 800-38D). The ID of the data key and a random 96-bit nonce
precede each ciphertext. The associated data names the table, column, project and row, so a
ciphertext that was moved to another place cannot be decrypted.
"""

import base64
import binascii
import hashlib
import hmac
import os
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from runward.domain.ids import ProjectId, RunId

ID_BYTES: Final = 8
_NONCE_BYTES: Final = 12
_ATTEMPT_BYTES: Final = 3
_ROOT_BYTES: Final = 32


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


@dataclass(frozen=True, slots=True)
class DataKey:
    """A key of the deployment, from which the keys for all purposes are derived. `id` precedes the
    ciphertexts of this key. Versions without data keys used the secret key itself and wrote no ID:
    the ID of this key is empty."""

    id: bytes
    root: bytes = field(repr=False)

    @classmethod
    def create(cls) -> "DataKey":
        return cls(os.urandom(ID_BYTES), os.urandom(_ROOT_BYTES))

    @classmethod
    def from_secret_key(cls, secret_key: str) -> "DataKey":
        """Return the key of a deployment whose secret key was its only key."""
        return cls(b"", secret_key.encode())


def derive_key(root: bytes, purpose: bytes) -> bytes:
    """Derive a key of 256 bits by HKDF (RFC 5869) with SHA-256."""
    return HKDF(SHA256(), 32, salt=None, info=b"runward " + purpose).derive(root)


class _DerivedKeys:
    """The keys for all purposes that are derived from a data key."""

    def __init__(self, data_key: DataKey) -> None:
        self.id = data_key.id
        self._cipher = AESGCM(derive_key(data_key.root, b"stored secrets"))
        self.pepper = derive_key(data_key.root, b"api keys")
        self.sessions = derive_key(data_key.root, b"console sessions")
        self.callbacks = derive_key(data_key.root, b"callback tokens")
        self.guards = derive_key(data_key.root, b"guard secrets")

    def encrypt(self, secret: str, associated_data: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return self.id + nonce + self._cipher.encrypt(nonce, secret.encode(), associated_data)

    def decrypt(self, sealed: bytes, associated_data: bytes) -> str | None:
        """Return the secret. Returns None if it was encrypted with another key."""
        box = sealed[len(self.id) :]
        nonce, ciphertext = box[:_NONCE_BYTES], box[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, ciphertext, associated_data).decode()
        except (InvalidTag, ValueError):
            return None


class Vault:
    """Encrypts with the current data key, and decrypts with every data key."""

    def __init__(self, current: DataKey, *others: DataKey) -> None:
        self.replace_keys(current, *others)

    def replace_keys(self, current: DataKey, *others: DataKey) -> None:
        """Use these keys from now on."""
        self._keys = [_DerivedKeys(one) for one in (current, *others)]
        self._current = self._keys[0]
        self._by_id = {key.id: key for key in self._keys}

    @property
    def current_id(self) -> bytes:
        return self._current.id

    def seal(self, secret: str, *, column: str, project_id: UUID, row: str) -> bytes:
        return self._current.encrypt(secret, _associated_data(column, project_id, row))

    def open(self, sealed: bytes, *, column: str, project_id: UUID, row: str) -> str:
        """Return the decrypted secret. Raises SecretUnreadableError."""
        key = self._by_id.get(sealed[:ID_BYTES]) or self._by_id.get(b"")
        secret = key and key.decrypt(sealed, _associated_data(column, project_id, row))
        if secret is None:
            raise SecretUnreadableError(f"{column} of '{row}' cannot be decrypted")
        return secret

    def reseal(self, sealed: bytes, *, column: str, project_id: UUID, row: str) -> bytes:
        """Return the secret encrypted with the current data key. Raises SecretUnreadableError."""
        secret = self.open(sealed, column=column, project_id=project_id, row=row)
        return self.seal(secret, column=column, project_id=project_id, row=row)

    def key_digests(self, api_key: str) -> tuple[bytes, ...]:
        """Return the HMAC-SHA-256 of an API key under each data key, the current one first. The
        peppers are not in the database."""
        return tuple(hmac.digest(key.pepper, api_key.encode(), "sha256") for key in self._keys)

    def session_digests(self, token: str) -> tuple[bytes, ...]:
        """Return the HMAC-SHA-256 of a console session's token under each data key, the current
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
        and its agents: one for each data key, the current one first. They are derived, so they are
        not stored."""
        data = f"guards\0{project_id.hex}\0{generation}".encode()
        digests = (hmac.digest(key.guards, data, "sha256") for key in self._keys)
        return tuple(f"whsec_{base64.b64encode(digest).decode()}" for digest in digests)


def _make_mac(key: _DerivedKeys, data: bytes) -> bytes:
    """Return a MAC of 128 bits that only this deployment can compute."""
    return hmac.digest(key.callbacks, data, "sha256")[:16]


def _associated_data(column: str, project_id: UUID, row: str) -> bytes:
    return hashlib.sha256(f"{column}\0{project_id.hex}\0{row}".encode()).digest()
