"""Keys that wrap the data keys of a deployment."""

import os
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from runward.domain.errors import OperatorError
from runward.store.access.vault import DataKey, derive_key

_NONCE_BYTES: Final = 12
_WRAPPED: Final = b"runward data key "


class KeyUnavailableError(OperatorError):
    """A wrapping key cannot be read or used."""


class KeyProvider(Protocol):
    """Wraps the data keys of a deployment, so that the database contains none in clear text."""

    @property
    def id(self) -> str:
        """The ID of the wrapping key, which is stored with each data key that it has wrapped."""
        ...

    async def wrap(self, data_key: DataKey) -> bytes:
        """Return the wrapped key. Raises KeyUnavailableError."""
        ...

    async def unwrap(self, key_id: bytes, wrapped: bytes) -> DataKey:
        """Return the data key. Raises KeyUnavailableError."""
        ...


class LocalKey:
    """A secret key in the memory of this process, from its environment or from a file."""

    def __init__(self, secret_key: str) -> None:
        self.secret_key = secret_key
        root = secret_key.encode()
        self.id = f"local:{derive_key(root, b'key id')[:8].hex()}"
        self._cipher = AESGCM(derive_key(root, b"data keys"))

    async def wrap(self, data_key: DataKey) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data_key.root, _WRAPPED + data_key.id)

    async def unwrap(self, key_id: bytes, wrapped: bytes) -> DataKey:
        nonce, ciphertext = wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:]
        try:
            return DataKey(key_id, self._cipher.decrypt(nonce, ciphertext, _WRAPPED + key_id))
        except (InvalidTag, ValueError) as error:
            raise KeyUnavailableError(
                f"A data key of the database was changed: the secret key {self.id} cannot decrypt"
                " it. Restore the table data_keys from a backup."
            ) from error
