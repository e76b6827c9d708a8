"""`runward keys`, over the API. `runward.operating.keys` creates the first key in the database."""

from datetime import UTC, datetime, timedelta
from typing import Final

import typer

from runward.cli.connection import JsonBody, build_path, connect
from runward.cli.printing import (
    Columns,
    format_age,
    print_json,
    print_list,
    print_result,
    print_text,
)

COLUMNS: Final[Columns] = {
    "key": lambda one: one["id"],
    "state": lambda one: "revoked" if one["revoked_at"] else "active",
    "name": lambda one: one["name"],
    "scopes": lambda one: " ".join(one["scopes"]),
    "used": lambda one: format_age(one["last_used_at"]) or "never",
    "expires": lambda one: format_age(one["expires_at"]) or "never",
}


def list_keys(url: str | None, key: str | None, *, limit: int, as_json: bool) -> None:
    with connect(url, key) as runward:
        found = runward.list_all("/v1/keys", limit)
    print_keys(found, as_json=as_json)


def print_keys(found: list[JsonBody], *, as_json: bool) -> None:
    print_list(found, COLUMNS, empty_text="There are no API keys.", as_json=as_json)


def create_key(
    url: str | None,
    key: str | None,
    *,
    name: str,
    scopes: list[str],
    expires_in_days: float | None,
    project: str | None,
    as_json: bool,
) -> None:
    """Create an API key. `project` is allowed only with an operator's key."""
    body: dict[str, object] = {"name": name, "scopes": scopes}
    if expires_in_days is not None:
        body["expires_at"] = (datetime.now(UTC) + timedelta(days=expires_in_days)).isoformat()
    where = build_path("projects", project, "keys") if project else build_path("keys")
    with connect(url, key) as runward:
        made = runward.post(where, body)
    print_created(made, as_json=as_json)


def print_created(made: JsonBody, *, as_json: bool) -> None:
    """Print only the secret to standard output, so that a shell can assign it to a variable."""
    if as_json:
        print_json(made)
        return
    print_text(made["key"])
    typer.echo(f"{made['id']} was created. The secret above is not shown again.", err=True)


def revoke_key(url: str | None, key: str | None, *, key_id: str, as_json: bool) -> None:
    with connect(url, key) as runward:
        revoked = runward.delete(build_path("keys", key_id))
    print_revoked(revoked, as_json=as_json)


def print_revoked(revoked: JsonBody, *, as_json: bool) -> None:
    print_result(revoked, f"{revoked['id']} was revoked.", as_json=as_json)
