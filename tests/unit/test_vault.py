"""The data keys of a deployment: one that encrypts, and others that still decrypt."""

from typing import Final
from uuid import UUID

import pytest

from runward.domain.ids import ProjectId, RunId
from runward.store.access.vault import ID_BYTES, CallRef, DataKey, SecretUnreadableError, Vault

PROJECT: Final = ProjectId(UUID(int=1))
OLD, NEW, OTHER = DataKey.create(), DataKey.create(), DataKey.create()
ORIGINAL: Final = DataKey.from_secret_key("s" * 32)


def seal(vault: Vault) -> bytes:
    return vault.seal("secret", column="secrets.value", project_id=PROJECT, row="NAME")


def unseal(vault: Vault, sealed: bytes) -> str:
    return vault.open(sealed, column="secrets.value", project_id=PROJECT, row="NAME")


@pytest.mark.parametrize("key", [OLD, ORIGINAL])
def test_a_value_is_decrypted_as_long_as_the_deployment_has_its_key(key: DataKey) -> None:
    sealed = seal(Vault(key))
    for keys in ((key,), (NEW, key), (key, NEW), (NEW, OTHER, key)):
        assert unseal(Vault(*keys), sealed) == "secret"
    with pytest.raises(SecretUnreadableError, match="of 'NAME' cannot be decrypted"):
        unseal(Vault(NEW, OTHER), sealed)


def test_the_current_key_encrypts_and_each_value_names_its_key() -> None:
    assert seal(Vault(OLD, NEW))[:ID_BYTES] == OLD.id
    assert seal(Vault(NEW, OLD))[:ID_BYTES] == NEW.id
    assert unseal(Vault(NEW), seal(Vault(NEW, OLD))) == "secret"


def test_only_the_key_that_a_value_names_is_tried() -> None:
    renamed = NEW.id + seal(Vault(OLD))[ID_BYTES:]
    with pytest.raises(SecretUnreadableError):
        unseal(Vault(NEW, OLD), renamed)


def test_a_value_is_encrypted_again_with_the_current_key() -> None:
    vault = Vault(ORIGINAL)
    before = seal(vault)
    vault.replace_keys(NEW, ORIGINAL)
    after = vault.reseal(before, column="secrets.value", project_id=PROJECT, row="NAME")
    assert unseal(Vault(NEW), after) == "secret"


def test_a_callback_token_is_valid_as_long_as_the_deployment_has_its_key() -> None:
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


def test_a_key_is_not_shown_in_logs() -> None:
    assert repr(OLD.root) not in repr(OLD)
