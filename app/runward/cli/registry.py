"""What the commands of everything that is registered by name or id have in common."""

from dataclasses import dataclass
from typing import Annotated

import typer

from runward.cli.completion import suggested
from runward.cli.connection import connected, path
from runward.cli.exits import Exit, fail
from runward.cli.options import AsJson, KeyOption, Limit, Url, Yes
from runward.cli.printing import Columns, print_list, print_one, report


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """`where`: below /v1. `begin` is said where there is none; `lost`, before one is deleted."""

    where: str
    word: str
    columns: Columns
    begin: str
    lost: str = ""
    field: str = "name"
    """What it is called by."""

    @property
    def argument(self) -> object:
        return typer.Argument(
            metavar=self.word.upper().replace(" ", "_"),
            autocompletion=suggested(f"/v1/{self.where}", self.field),
        )


def add_list(
    app: typer.Typer, kind: ResourceKind, *, order: str = "asc", at_most: int = 1000
) -> None:
    how = "by name" if kind.field == "name" else "newest first"

    @app.command("list", help=f"List {kind.word}s, {how}.")
    def list_all(
        limit: Limit = at_most, url: Url = None, key: KeyOption = None, as_json: AsJson = False
    ) -> None:
        with connected(url, key) as runward:
            found = list(runward.every(f"/v1/{kind.where}", limit, order=order))
        print_list(found, kind.columns, none=kind.begin, as_json=as_json)


def add_show(app: typer.Typer, kind: ResourceKind) -> None:
    @app.command("show", help=f"Show one {kind.word} with every field.")
    def show(
        name: Annotated[str, kind.argument],
        url: Url = None,
        key: KeyOption = None,
        as_json: AsJson = False,
    ) -> None:
        with connected(url, key) as runward:
            found = runward.get(path(kind.where, name))
        print_one(found, as_json=as_json)


def add_delete(app: typer.Typer, kind: ResourceKind) -> None:
    @app.command("delete", help=f"Delete one {kind.word}. Asks first.")
    def delete(
        name: Annotated[str, kind.argument],
        yes: Yes = False,
        url: Url = None,
        key: KeyOption = None,
        as_json: AsJson = False,
    ) -> None:
        with connected(url, key) as runward:
            runward.get(path(kind.where, name))
            question = f"Delete the {kind.word} {name}? {kind.lost}".strip()
            if not yes and not typer.confirm(question, err=True):
                fail("Nothing was deleted.", Exit.FAILED)
            runward.delete(path(kind.where, name))
        report({kind.field: name, "deleted": True}, f"{name} is deleted.", as_json=as_json)
