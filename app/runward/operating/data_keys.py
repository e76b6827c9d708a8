"""`runward data-keys`: list, create and remove data keys."""

from typing import Any, Final

import typer

from runward.cli.connection import JsonBody
from runward.cli.printing import Columns, format_age, print_list, print_result
from runward.domain.audit import AuditAction
from runward.operating.deployment import open_deployment
from runward.operating.environment import read_settings, run_command, stop
from runward.store.access import audit
from runward.store.data_keys import inventory
from runward.store.data_keys.inventory import Dependents, KeyState
from runward.store.data_keys.key_ring import ACTIVATION, format_key_id, parse_key_id
from runward.worker.reencryption import Reencryption

COLUMNS: Final[Columns] = {
    "data key": lambda one: one["id"],
    "status": lambda one: one["status"],
    "values": lambda one: str(one["values"]),
    "created": lambda one: format_age(one["created_at"]),
    "wrapped by": lambda one: ", ".join(one["secret_keys"]),
}


def list_keys(*, as_json: bool) -> None:
    async def listed() -> None:
        async with open_deployment(read_settings()) as (database, _), database.pool.connect() as tx:
            found = await inventory.list_states(tx)
        print_list([_encode(one) for one in found], COLUMNS, empty_text="", as_json=as_json)

    run_command(listed())


def rotate(*, as_json: bool) -> None:
    async def create() -> None:
        async with open_deployment(read_settings()) as (_, ring):
            key_id = format_key_id((await ring.add_key()).id)
        text = (
            f"The data key {key_id} was created. In {ACTIVATION.total_seconds():.0f} seconds, all"
            " processes encrypt with it. Then the workers encrypt all stored values again. To see"
            " the progress, run: runward data-keys list"
        )
        print_result({"id": key_id}, text, as_json=as_json)

    run_command(create())


def remove(shown: str, *, yes: bool, as_json: bool) -> None:
    key_id = parse_key_id(shown)

    async def removed() -> None:
        async with open_deployment(read_settings()) as (database, ring):
            async with database.pool.connect() as tx:
                states = {one.id: one for one in await inventory.list_states(tx)}
                state = None if key_id is None else states.get(key_id)
                if state is None:
                    stop(f"There is no data key with the ID {shown}.")
                if state.status != "previous":
                    stop(
                        f"The data key {shown} is in use. Only a previous data key can be removed."
                        " To replace this key, run: runward data-keys rotate"
                    )
                dependents = await inventory.count_dependents(tx)
            if not yes:
                typer.echo(_describe(shown, dependents), err=True)
                if not typer.confirm("Remove the data key?", err=True):
                    raise typer.Exit(1)
            if not await Reencryption(database, ring).run_pass():
                stop(
                    f"The data key {shown} still encrypts values, or processes may still encrypt"
                    " with it. Try again in a few minutes: `runward data-keys list` shows the"
                    " progress."
                )
            async with database.pool.begin() as tx:
                await inventory.delete_key(tx, state.id)
                await audit.append_for_deployment(tx, AuditAction.DATA_KEY_DELETED, shown)
        print_result({"id": shown}, f"The data key {shown} was removed.", as_json=as_json)

    run_command(removed())


def _describe(shown: str, found: Dependents) -> str:
    return (
        f"Without the data key {shown}:\n"
        f"- {found.api_keys} API keys become invalid. They were not used since"
        f" {found.since:%Y-%m-%d %H:%M:%S %Z}.\n"
        f"- {found.callbacks} tool calls that have waited since before reject their callbacks.\n"
        f"- {found.open_runs} open runs cannot call inline tools with encrypted headers.\n"
        "- Requests to guardrails, hooks and inline tools have no signature with a signing secret\n"
        "  that was returned before that time.\n"
        "- Encrypted reasoning and compacted conversations of /v1/responses from before that time\n"
        "  cannot be read."
    )


def _encode(state: KeyState) -> JsonBody:
    shown: dict[str, Any] = {
        "id": format_key_id(state.id),
        "status": state.status,
        "values": state.values,
        "created_at": state.created_at.isoformat(),
        "secret_keys": list(state.secret_keys),
    }
    return shown
