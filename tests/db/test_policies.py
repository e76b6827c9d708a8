"""A project's policy as workers know it: remembered until it changes, signed by what is valid."""

from collections.abc import Callable
from dataclasses import replace
from time import monotonic

import pytest
from sqlalchemy import event, text

from runward.api.runs.call_routes import submit_callback
from runward.domain.ids import CallId
from runward.domain.registry.guards import WebhookGuardrail
from runward.domain.run.resolve import CallbackCompleted
from runward.loop.project_cache import PolicyCache
from runward.settings import Settings
from runward.store.access.vault import CallRef, DataKey, Vault
from runward.store.postgres.db import Tx
from runward.store.registry import policies
from runward.store.registry.policies import StoredPolicy
from runward.tools import signing
from runward.wiring import open_services
from tests.db.store import PROJECT, Store
from tests.db.test_outside import accepted_for_later

RAIL = WebhookGuardrail(stage="input", type="webhook", url="https://guards.example/x")


async def rotated(store: Store) -> str:
    async with store.pool.begin() as tx:
        generation = await policies.rotate_guard_secret(tx, PROJECT)
    [secret] = store.vault.derive_guard_secrets(PROJECT, generation)
    return secret


async def put(store: Store, *guardrails: WebhookGuardrail) -> StoredPolicy:
    async with store.pool.begin() as tx:
        return await policies.put_policy(tx, PROJECT, (), guardrails)


def counted(store: Store) -> list[str]:
    """The statements from now on."""
    asked: list[str] = []

    def asks(_0: object, _1: object, statement: str, *_: object) -> None:
        asked.append(statement)

    event.listen(store.pool.sync_engine, "before_cursor_execute", asks)
    return asked


async def test_a_policy_is_read_once_until_something_changes(store: Store) -> None:
    known = PolicyCache(store.pool, store.vault)
    assert (await known.of(PROJECT)).guardrails == ()
    await put(store, RAIL)
    asked = counted(store)
    assert (await known.of(PROJECT)).guardrails == ()
    assert asked == []
    known.forget(PROJECT)
    assert (await known.of(PROJECT)).guardrails == (RAIL,)
    asked.clear()
    known.forget(None)
    await known.of(PROJECT)
    assert len(asked) == 1


async def test_a_callback_is_checked_by_a_policy_whose_notification_was_lost(store: Store) -> None:
    settings = Settings.model_validate({"secret_key": "k" * 32})
    state = await accepted_for_later(store)
    ref = CallRef(PROJECT, state.id, state.calls[CallId("c1")].uuid, 1)
    async with open_services(settings, store.url) as services:
        await services.registry.policies.of(PROJECT)
        await put(store, RAIL.model_copy(update={"stage": "output"}))
        said = CallbackCompleted(status="completed", output="secret")
        token = services.storage.vault.make_callback_token(ref)
        await submit_callback(services.storage, services.queue, token, said)
    assert (await store.load(state.id)).calls[CallId("c1")].received is not None


async def test_what_was_read_before_a_change_is_not_kept_after_it(store: Store) -> None:
    known = PolicyCache(store.pool, store.vault)
    changes: list[Callable[[], None]] = [lambda: known.forget(PROJECT)]

    def meanwhile(*_: object) -> None:
        if changes:
            changes.pop()()

    event.listen(store.pool.sync_engine, "after_cursor_execute", meanwhile)
    await known.of(PROJECT)
    assert changes == []
    asked = counted(store)
    await known.of(PROJECT)
    assert len(asked) == 1


async def test_two_secrets_are_valid_for_a_day_after_a_rotation(store: Store) -> None:
    known = PolicyCache(store.pool, store.vault)
    (first,) = (await known.of(PROJECT)).secrets
    second = await rotated(store)
    known.forget(PROJECT)
    assert (await known.of(PROJECT)).secrets == (second, first)
    third = await rotated(store)
    known.forget(PROJECT)
    assert (await known.of(PROJECT)).secrets == (third, second)
    async with store.pool.begin() as tx:
        await _wait_a_day(tx)
    known.forget(PROJECT)
    assert (await known.of(PROJECT)).secrets == (third,)


async def _wait_a_day(tx: Tx) -> None:
    await tx.execute(
        text("UPDATE project_policies SET rotated_at = rotated_at - interval '24 hours 1 second'")
    )


async def test_a_rotation_changes_no_policy_and_a_policy_no_secret(store: Store) -> None:
    await rotated(store)
    async with store.pool.connect() as tx:
        before = await policies.get_policy(tx, PROJECT)
    assert (before.version, before.updated_at) == (0, None)
    after = await put(store, RAIL)
    assert (after.version, after.generations) == (1, before.generations)
    assert (await put(store)).version == 2


async def test_a_secret_that_was_replaced_signs_for_a_day_though_nothing_is_read_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = (await PolicyCache(store.pool, store.vault).of(PROJECT)).secrets
    second = await rotated(store)
    policy = await PolicyCache(store.pool, store.vault).of(PROJECT)
    read_at = monotonic()
    assert policy.secrets == (second, *first)
    for seconds, secrets in ((86_340, (second, *first)), (86_401, (second,))):
        monkeypatch.setattr(signing, "monotonic", lambda at=read_at + seconds: at)
        assert policy.secrets == secrets


async def test_the_secrets_of_previous_data_keys_sign_also_after_the_overlap(
    store: Store,
) -> None:
    """Receivers verify with the secret that Runward returned when the other key was current."""
    both = Vault(DataKey.create(), DataKey(b"", b"k" * 32))
    await rotated(store)
    during = await PolicyCache(store.pool, both).of(PROJECT)
    newest = both.derive_guard_secrets(PROJECT, 2)
    assert during.secrets == newest + both.derive_guard_secrets(PROJECT, 1)
    assert replace(during, overlap_ends=0.0).secrets == newest
