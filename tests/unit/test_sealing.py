"""Sealed conversations: what a client can send of them in one request."""

import random
from uuid import UUID

import pytest

from runward.api.responses import compaction
from runward.domain.errors import InvalidRequestError
from runward.domain.ids import ProjectId
from runward.domain.run.items import Message
from runward.store.access.vault import DataKey, Vault

PROJECT = ProjectId(UUID(int=1))


def test_what_is_sealed_in_few_bytes_cannot_be_sent_many_times() -> None:
    vault = Vault(DataKey.create())
    large = [Message("user", "a" * (compaction.MAX_ITEM_BYTES // 2))]
    sealed = compaction.seal(vault, PROJECT, large, 1_048_576)
    assert len(sealed) < 20_000
    unseal = compaction.make_unsealer(vault, PROJECT).compaction
    assert unseal(sealed) == large
    with pytest.raises(InvalidRequestError, match="exceed"):
        unseal(sealed)
    assert compaction.make_unsealer(vault, PROJECT).compaction(sealed) == large


def test_what_could_not_be_sent_back_is_not_sealed() -> None:
    incompressible = Message("user", random.Random(0).randbytes(400_000).hex())
    vault = Vault(DataKey.create())
    assert len(compaction.seal(vault, PROJECT, [incompressible], 1_048_576)) < 1_048_576
    with pytest.raises(InvalidRequestError, match="the limit is 1048576 bytes"):
        compaction.seal(vault, PROJECT, [incompressible, incompressible], 1_048_576)
