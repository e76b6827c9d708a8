"""The command `runward audit verify`. It imports its modules when it runs, like those in
`runward.__main__`."""

from pathlib import Path
from typing import Annotated

import typer

from runward.cli.audit import app
from runward.cli.options import AsJson, format_examples

__all__ = ["app"]


@app.command("verify", epilog=format_examples("runward audit verify audit.jsonl"))
def verify_audit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of `audit export`.")],
    head: Annotated[
        str | None,
        typer.Option(
            metavar="HASH",
            help="A hash that `audit head` printed before. Notices missing entries, and hashes "
            "that were computed again.",
        ),
    ] = None,
    previous_hash: Annotated[
        str | None,
        typer.Option(
            metavar="HASH",
            help="The hash of the entry before the first one. Notices missing entries at the "
            "beginning of a log that does not begin with the number 1.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify an export of the audit log. The command needs no running service.

    The exit code is 1 if an entry was changed, added, moved or removed. The command then names the
    first entry that does not fit.
    """
    from runward.operating.audit import verify_file

    verify_file(file, head=head, previous_hash=previous_hash, as_json=as_json)
