"""Shared commands for resources that have a name or an ID: list, show and delete."""

from dataclasses import dataclass
from typing import Annotated

import typer

from runward.cli.connection import build_path, connect
from runward.cli.exits import Exit, fail
from runward.cli.options import AsJson, KeyOption, Limit, Url, Yes, complete_from
from runward.cli.printing import Columns, print_list, print_resource, print_result


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of resource. `path` is below /v1. `empty_text` is printed if a list is empty.
    `delete_warning` is printed before a resource is deleted."""

    path: str
    noun: str
    columns: Columns
    empty_text: str
    delete_warning: str = ""
    id_field: str = "name"
    """The field that identifies a resource in commands."""

    @property
    def argument(self) -> object:
        return typer.Argument(
            help=f"{'ID' if self.id_field == 'id' else 'Name'} of the {self.noun}.",
            metavar=self.noun.upper().replace(" ", "_"),
            autocompletion=complete_from(f"/v1/{self.path}", self.id_field),
        )


def add_list_command(
    app: typer.Typer, kind: ResourceKind, *, order: str = "asc", limit: int = 1000
) -> None:
    how = "by name" if kind.id_field == "name" else "newest first"

    @app.command("list", help=f"List {kind.noun}s, {how}.")
    def list_all(
        limit: Limit = limit, url: Url = None, key: KeyOption = None, as_json: AsJson = False
    ) -> None:
        with connect(url, key) as runward:
            found = runward.list_all(f"/v1/{kind.path}", limit, order=order)
        print_list(found, kind.columns, empty_text=kind.empty_text, as_json=as_json)


def add_show_command(app: typer.Typer, kind: ResourceKind) -> None:
    @app.command("show", help=f"Show all fields of one {kind.noun}.")
    def show(
        name: Annotated[str, kind.argument],
        url: Url = None,
        key: KeyOption = None,
        as_json: AsJson = False,
    ) -> None:
        with connect(url, key) as runward:
            found = runward.get(build_path(kind.path, name))
        print_resource(found, as_json=as_json)


def add_delete_command(app: typer.Typer, kind: ResourceKind) -> None:
    @app.command("delete", help=f"Delete one {kind.noun} after a confirmation.")
    def delete(
        name: Annotated[str, kind.argument],
        yes: Yes = False,
        url: Url = None,
        key: KeyOption = None,
        as_json: AsJson = False,
    ) -> None:
        with connect(url, key) as runward:
            runward.get(build_path(kind.path, name))
            question = f"Delete the {kind.noun} {name}? {kind.delete_warning}".strip()
            if not yes and not typer.confirm(question, err=True):
                fail("Nothing was deleted.", Exit.FAILED)
            runward.delete(build_path(kind.path, name))
        print_result(
            {kind.id_field: name, "deleted": True}, f"{name} was deleted.", as_json=as_json
        )
