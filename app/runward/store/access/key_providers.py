"""The keys that wrap the data keys of a deployment. `RUNWARD_SECRET_KEY` contains such a key or
refers to one: `file:/PATH` to a file, and `aws-kms:ARN` to a key of AWS KMS."""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from runward.domain.errors import OperatorError
from runward.store.access.vault import DataKey, derive_key

FILE: Final = "file:"
AWS_KMS: Final = "aws-kms:"
MIN_KEY_CHARACTERS: Final = 32
MAX_FILE_BYTES: Final = 65_536
KMS_SECONDS: Final = 5
"""Timeout of a connection to KMS, and of a response."""
KMS_ATTEMPTS: Final = 3
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
        except InvalidTag as error:
            raise KeyUnavailableError(
                f"A data key of the database was changed: the secret key {self.id} cannot decrypt"
                " it. Restore the table data_keys from a backup."
            ) from error


class AwsKmsKey:
    """A key of AWS KMS, which never leaves it. `arn`: of the key. Its region is that of the
    requests, and the credentials are those that boto3 finds."""

    def __init__(self, arn: str) -> None:
        self._arn = arn
        self.id = AWS_KMS + arn
        self._client: Any = None

    async def wrap(self, data_key: DataKey) -> bytes:
        answer = await self._call("encrypt", data_key.id, Plaintext=data_key.root)
        return answer["CiphertextBlob"]

    async def unwrap(self, key_id: bytes, wrapped: bytes) -> DataKey:
        answer = await self._call("decrypt", key_id, CiphertextBlob=wrapped)
        return DataKey(key_id, answer["Plaintext"])

    async def _call(self, operation: str, key_id: bytes, **parameters: bytes) -> Any:
        return await asyncio.to_thread(self._call_blocking, operation, key_id, parameters)

    def _call_blocking(self, operation: str, key_id: bytes, parameters: dict[str, bytes]) -> Any:
        try:
            import boto3  # noqa: PLC0415  # optional, and slow
            from botocore.config import Config  # noqa: PLC0415
            from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
        except ImportError as error:
            raise KeyUnavailableError(
                "RUNWARD_SECRET_KEY refers to AWS KMS, but boto3 is not installed. Install"
                " `runward[aws]`."
            ) from error
        try:
            if self._client is None:
                limits = Config(
                    connect_timeout=KMS_SECONDS,
                    read_timeout=KMS_SECONDS,
                    retries={"total_max_attempts": KMS_ATTEMPTS, "mode": "standard"},
                )
                region = self._arn.split(":")[3]
                self._client = boto3.client("kms", region_name=region, config=limits)
            context = {"runward:data-key": key_id.hex()}
            return getattr(self._client, operation)(
                KeyId=self._arn, EncryptionContext=context, **parameters
            )
        except (BotoCoreError, ClientError) as error:
            raise KeyUnavailableError(
                f"AWS KMS rejected the operation {operation} with the key {self._arn}: {error}."
                " Check the key, its policy, and the credentials of this process."
            ) from error


def open_providers(references: Iterable[str]) -> list[KeyProvider]:
    """Return the providers of keys. `references`: values of RUNWARD_SECRET_KEY. Raises
    KeyUnavailableError."""
    return list({one.id: one for one in map(_open_provider, references)}.values())


def _open_provider(reference: str) -> KeyProvider:
    if reference.startswith(AWS_KMS):
        return AwsKmsKey(reference.removeprefix(AWS_KMS))
    return LocalKey(_read_file(reference) if reference.startswith(FILE) else reference)


def read_local_key(reference: str) -> str | None:
    """Return the secret key, or None if it does not leave its provider. Raises
    KeyUnavailableError."""
    provider = _open_provider(reference)
    return provider.secret_key if isinstance(provider, LocalKey) else None


def _read_file(reference: str) -> str:
    path = Path(reference.removeprefix(FILE))
    try:
        with path.open(encoding="utf-8") as file:
            key = file.read(MAX_FILE_BYTES).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise KeyUnavailableError(
            f"The file {path} of the secret key cannot be read: {reason}. Correct the path in"
            " RUNWARD_SECRET_KEY or the permissions of the file."
        ) from error
    if len(key) < MIN_KEY_CHARACTERS:
        raise KeyUnavailableError(
            f"The file {path} does not contain a secret key of {MIN_KEY_CHARACTERS} characters or"
            " more. To create a key, run: openssl rand -hex 32"
        )
    return key
