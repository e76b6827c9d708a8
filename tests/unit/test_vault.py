"""The secret keys of a deployment: one that encrypts, and others that still decrypt."""

from typing import Final
from uuid import UUID

import pytest

from runward.domain.ids import ProjectId, RunId
from runward.store.access.vault import CallRef, SecretUnreadableError, Vault

PROJECT: Final = ProjectId(UUID(int=1))
OLD, NEW, OTHER = "o" * 32, "n" * 32, "x" * 32
KEY_ID_BYTES: Final = 8


def seal(vault: Vault) -> bytes:
    return vault.seal("secret", column="secrets.value", project_id=PROJECT, row="NAME")


def unseal(vault: Vault, sealed: bytes) -> str:
    return vault.open(sealed, column="secrets.value", project_id=PROJECT, row="NAME")


@pytest.mark.parametrize("keys", [(OLD,), (NEW, OLD), (OLD, NEW), (NEW, OTHER, OLD)])
@pytest.mark.parametrize("with_id", [True, False])
def test_a_value_is_decrypted_as_long_as_its_key_is_configured(
    keys: tuple[str, ...], *, with_id: bool
) -> None:
    sealed = seal(Vault(OLD))
    stored = sealed if with_id else sealed[KEY_ID_BYTES:]
    assert unseal(Vault(*keys), stored) == "secret"
    with pytest.raises(SecretUnreadableError, match="of 'NAME' cannot be decrypted"):
        unseal(Vault(*({*keys, OTHER} - {OLD})), stored)


def test_the_current_key_encrypts_and_each_value_names_its_key() -> None:
    by_old, by_new = seal(Vault(OLD, NEW)), seal(Vault(NEW, OLD))
    assert by_old[:KEY_ID_BYTES] == seal(Vault(OLD))[:KEY_ID_BYTES]
    assert by_old[:KEY_ID_BYTES] != by_new[:KEY_ID_BYTES]
    assert unseal(Vault(NEW), by_new) == "secret"


def test_only_the_key_that_a_value_names_is_tried() -> None:
    by_old, by_new = seal(Vault(OLD)), seal(Vault(NEW))
    renamed = by_new[:KEY_ID_BYTES] + by_old[KEY_ID_BYTES:]
    with pytest.raises(SecretUnreadableError):
        unseal(Vault(NEW, OLD), renamed)


def test_a_callback_token_is_valid_as_long_as_its_key_is_configured() -> None:
    ref = CallRef(PROJECT, RunId(UUID(int=2)), UUID(int=3), 1)
    token = Vault(OLD).make_callback_token(ref)
    assert Vault(NEW, OLD).read_callback_token(token) == ref
    assert Vault(NEW).read_callback_token(token) is None
    assert Vault(NEW).read_callback_token(Vault(NEW, OLD).make_callback_token(ref)) == ref


def test_digests_and_signing_secrets_of_every_key_are_derived_with_the_current_one_first() -> None:
    both, old, new = Vault(NEW, OLD), Vault(OLD), Vault(NEW)
    assert both.key_digests("k") == new.key_digests("k") + old.key_digests("k")
    assert both.session_digests("t") == new.session_digests("t") + old.session_digests("t")
    assert both.derive_guard_secrets(PROJECT, 1) == (
        new.derive_guard_secrets(PROJECT, 1) + old.derive_guard_secrets(PROJECT, 1)
    )


def test_a_key_that_is_configured_twice_counts_once() -> None:
    assert len(Vault(NEW, NEW).derive_guard_secrets(PROJECT, 1)) == 1
