"""A wrapping key in AWS KMS. boto3 has no types, so this module disables some of pyright's
rules."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from runward.store.access.vault import DataKey
from runward.store.data_keys.wrapping import KeyUnavailableError

SECONDS: Final = 5
"""Timeout of a connection to KMS, and of a response."""
ATTEMPTS: Final = 3


class AwsKmsKey:
    """A key that never leaves KMS. `arn`: of the key. It contains the region of the requests.
    boto3 finds the credentials, and the address if it is not Amazon's."""

    def __init__(self, arn: str) -> None:
        self.id = f"aws-kms:{arn}"
        self._arn = arn
        self._client: Any = None

    async def wrap(self, data_key: DataKey) -> bytes:
        answer = await asyncio.to_thread(
            self._call, "encrypt", data_key.id, Plaintext=data_key.root
        )
        return answer["CiphertextBlob"]

    async def unwrap(self, key_id: bytes, wrapped: bytes) -> DataKey:
        answer = await asyncio.to_thread(self._call, "decrypt", key_id, CiphertextBlob=wrapped)
        return DataKey(key_id, answer["Plaintext"])

    def _call(self, operation: str, key_id: bytes, **parameters: bytes) -> Any:
        """The encryption context binds the wrapped key to its ID."""
        context = {"runward-data-key": key_id.hex() or "original"}
        try:
            call = getattr(self._connect(), operation)
            return call(KeyId=self._arn, EncryptionContext=context, **parameters)
        except (BotoCoreError, ClientError) as error:
            raise KeyUnavailableError(
                f"AWS KMS could not {operation} a data key with {self._arn}. {error}. Check the"
                " state of the key, its policy, and the AWS credentials of this process."
            ) from error

    def _connect(self) -> Any:
        if self._client is None:
            limits = Config(
                connect_timeout=SECONDS,
                read_timeout=SECONDS,
                retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
            )
            region = self._arn.split(":")[3]
            self._client = boto3.client("kms", region_name=region, config=limits)
        return self._client
