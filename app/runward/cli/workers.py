"""`runward workers`: the workers of the deployment."""

from typing import Final

from runward.cli.connection import connect
from runward.cli.printing import Columns, format_age, print_list

COLUMNS: Final[Columns] = {
    "worker": lambda one: one["id"],
    "version": lambda one: one["version"],
    "host": lambda one: one["host"],
    "runs": lambda one: f"{one['runs']} of {one['concurrency']}",
    "started": lambda one: format_age(one["started_at"]),
    "heartbeat": lambda one: format_age(one["last_heartbeat_at"]),
}


def list_workers(url: str | None, key: str | None, *, limit: int, as_json: bool) -> None:
    with connect(url, key) as runward:
        found = runward.list_all("/v1/workers", limit)
    print_list(found, COLUMNS, empty_text="There are no workers.", as_json=as_json)
