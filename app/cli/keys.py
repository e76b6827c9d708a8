"""`runward keys`, over the API. `app.operating.keys` makes the first one on the database."""

from datetime import UTC, datetime, timedelta

import typer

from app.cli.connection import connected
from app.cli.shown import print_json, print_table, say, when


def list_keys(url: str | None, key: str | None, *, limit: int, as_json: bool) -> None:
    with connected(url, key) as runward:
        found = list(runward.every("/v1/keys", limit))
    if as_json:
        print_json(found)
        return
    rows = (
        [
            one["id"],
            "revoked" if one["revoked_at"] else "active",
            one["name"],
            " ".join(one["scopes"]),
            when(one["expires_at"]) or "never",
        ]
        for one in found
    )
    print_table(["key", "state", "name", "scopes", "expires"], rows, none="There are no keys.")


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
    """`project`: of the operator's key alone."""
    body: dict[str, object] = {"name": name, "scopes": scopes}
    if expires_in_days is not None:
        body["expires_at"] = (datetime.now(UTC) + timedelta(days=expires_in_days)).isoformat()
    path = f"/v1/projects/{project}/keys" if project else "/v1/keys"
    with connected(url, key) as runward:
        made = runward.post(path, body)
    if as_json:
        print_json(made)
        return
    say(made["key"])
    typer.echo(f"{made['id']} is made. Its secret above is shown this once.", err=True)


def revoke_key(url: str | None, key: str | None, *, key_id: str, as_json: bool) -> None:
    with connected(url, key) as runward:
        revoked = runward.delete(f"/v1/keys/{key_id}")
    if as_json:
        print_json(revoked)
    else:
        say(f"{key_id} is revoked.")
