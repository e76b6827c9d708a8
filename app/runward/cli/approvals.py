"""`runward approvals`: list approvals, show them, and decide them."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import typer

from runward.cli.connection import JsonBody, Runward, build_path, connect
from runward.cli.editor import edit_json, print_difference
from runward.cli.exits import Exit, fail
from runward.cli.options import (
    AsJson,
    KeyOption,
    Limit,
    Url,
    Yes,
    complete_from,
    format_examples,
    read_json,
    read_object,
)
from runward.cli.printing import (
    Columns,
    format_age,
    format_json,
    format_short,
    format_time,
    print_fields,
    print_json,
    print_list,
    print_text,
)

app = typer.Typer(no_args_is_help=True, help="List and decide approvals.")

DECISION_LETTERS: Final = {"approve": "a", "reject": "r", "edit": "e", "respond": "s"}
Decision = Literal["approve", "reject", "edit", "respond"]
COLUMNS: Final[Columns] = {
    "approval": lambda one: one["id"],
    "status": lambda one: one["status"],
    "tool": lambda one: one["tool"],
    "arguments": lambda one: format_short(one["arguments"]),
    "asked": lambda one: format_age(one["requested_at"]),
    "expires": lambda one: format_age(one["expires_at"]),
}
Status = Literal[
    "all",
    "pending",
    "approved",
    "rejected",
    "edited",
    "responded",
    "expired",
    "cancelled",
    "superseded",
]
MAX_PENDING: Final = 1000


@app.command("list")
def list_approvals(
    status: Annotated[
        Status,
        typer.Option(help="List only approvals with this status. Use `all` for every status."),
    ] = "pending",
    run: Annotated[str | None, typer.Option(help="List only approvals of this run.")] = None,
    tool: Annotated[str | None, typer.Option(help="List only approvals of this tool.")] = None,
    limit: Limit = 100,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """List approvals, oldest first."""
    wanted = None if status == "all" else status
    with connect(url, key) as runward:
        found = runward.list_all(
            "/v1/approvals", limit, status=wanted, run_id=run, tool=tool, order="asc"
        )
    columns = {
        title: cell for title, cell in COLUMNS.items() if wanted is None or title != "status"
    }
    none = (
        "There are no pending approvals."
        if status == "pending"
        else "No approvals match these options."
    )
    print_list(found, columns, empty_text=none, as_json=as_json)


@app.command(
    epilog=format_examples(
        "runward approvals decide",
        "runward approvals decide APPROVAL -d reject -m 'More than was paid.'",
        """runward approvals decide APPROVAL -d edit --arguments '{"amount": 400}' --yes""",
    )
)
def decide(
    approval_id: Annotated[
        str | None,
        typer.Argument(
            metavar="APPROVAL",
            help="ID of the approval (apr_…). Default: all pending approvals.",
            autocompletion=complete_from("/v1/approvals", "id", status="pending"),
        ),
    ] = None,
    decision: Annotated[
        Decision | None,
        typer.Option("--decision", "-d", help="The decision. Default: prompt for it."),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option("--message", "-m", help="Reason. The model reads the reason for a rejection."),
    ] = None,
    arguments: Annotated[
        str | None,
        typer.Option(help="For `edit`: all new arguments of the call, as JSON or @FILE."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(help="For `respond`: the output that the model receives, as JSON or @FILE."),
    ] = None,
    remember: Annotated[
        Literal["run", "session"] | None,
        typer.Option(help="Also apply the decision to later calls of this tool."),
    ] = None,
    yes: Yes = False,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Decide approvals. Without --decision, show each one and prompt for a decision.

    The decision `edit` opens $VISUAL or $EDITOR, shows the changes and asks for confirmation.
    """
    if approval_id is None and decision is not None:
        fail("--decision requires the ID of an approval.", Exit.USAGE)
    further: JsonBody = {"message": message, "remember": {"scope": remember} if remember else None}
    further = {field: value for field, value in further.items() if value is not None}
    decided: list[JsonBody] = []
    with connect(url, key) as runward:
        for approval in _fetch_approvals(runward, approval_id):
            if decision is None:
                body = prompt_decision(runward, approval)
            else:
                body = _build_decision(approval, decision, arguments, output, yes=yes or as_json)
            if body is not None:
                decided.append(send_decision(runward, approval, body | further))
                if not as_json:
                    print_text(f"{approval['id']} {decided[-1]['status']}")
    if as_json:
        print_json(decided)


def _fetch_approvals(runward: Runward, approval_id: str | None) -> list[JsonBody]:
    """Return the approval with this ID. Without an ID, return all pending approvals, oldest
    first."""
    if approval_id is not None:
        return [runward.get(build_path("approvals", approval_id))]
    found = runward.list_all("/v1/approvals", MAX_PENDING, status="pending", order="asc")
    if not found:
        typer.echo("There are no pending approvals.", err=True)
    return found


def send_decision(runward: Runward, approval: JsonBody, body: JsonBody) -> JsonBody:
    """Send the digest of the shown arguments, so that Runward rejects the decision if they
    changed."""
    sent = body | {"digest": approval["digest"]}
    return runward.post(build_path("approvals", approval["id"], "decision"), sent)


def prompt_decision(runward: Runward, approval: JsonBody) -> JsonBody | None:
    """Show the call and prompt for a decision. Return None if the person skips the approval."""
    print_approval(runward, approval)
    if approval["status"] != "pending":
        fail(f"This approval already has the status {approval['status']}.", Exit.REFUSED)
    choices = {DECISION_LETTERS[one]: one for one in approval["allowed_decisions"]}
    words = [f"({letter}){word[1:]}" for letter, word in choices.items() if word[0] == letter]
    words += [f"re({letter})pond" for letter, word in choices.items() if word[0] != letter]
    question = f"{', '.join(words)}, (n)ot now?"
    while True:
        chosen = str(typer.prompt(question, prompt_suffix=" ", err=True)).strip().lower()
        if chosen in {"n", "not now"}:
            return None
        wanted = choices.get(chosen) or (chosen if chosen in choices.values() else None)
        if wanted is None:
            continue
        body = _PROMPTS[wanted](approval)
        if body is not None:
            return {"decision": wanted, **body}


def print_approval(runward: Runward, approval: JsonBody) -> None:
    """Print everything that a person needs to decide."""
    run = runward.get(build_path("runs", approval["run_id"]))
    starter: JsonBody | None = run["created_by"]
    started: JsonBody = approval["run"] or {}
    print_fields(
        [
            ("approval", approval["id"]),
            ("tool", f"{approval['tool']}, version {approval['tool_version']}"),
            ("sends to", approval.get("url") or ""),
            ("requested by", approval["agent"] or format_short(run["model"] or run["agent"])),
            ("run", f"{run['id']} ({run['status']})"),
            ("started by", starter["name"] if starter else ""),
            ("user input", started.get("input") or ""),
            ("expires", format_time(approval["expires_at"])),
            ("arguments", format_json(approval["arguments"])),
        ]
    )


def _ask_reason(approval: JsonBody) -> JsonBody:
    reason = typer.prompt("Reason, which the model reads", default="", show_default=False, err=True)
    return {"message": reason} if reason else {}


def _build_approval(approval: JsonBody) -> JsonBody:
    return {}


def _ask_arguments(approval: JsonBody) -> JsonBody | None:
    return _confirm_edit(approval, edit_json(approval["arguments"]))


def _ask_output(approval: JsonBody) -> JsonBody:
    return {
        "output": typer.prompt(
            "Output that the model receives instead of the tool's result", err=True
        )
    }


_PROMPTS: Final[dict[str, Callable[[JsonBody], JsonBody | None]]] = {
    "approve": _build_approval,
    "reject": _ask_reason,
    "edit": _ask_arguments,
    "respond": _ask_output,
}


def _confirm_edit(approval: JsonBody, arguments: Any) -> JsonBody | None:
    if not print_difference(approval["arguments"], arguments):
        typer.echo("The arguments were not changed.", err=True)
        return None
    if not typer.confirm("Approve the call with these arguments?", err=True):
        return None
    return {"arguments": arguments}


def _build_decision(
    approval: JsonBody, decision: str, arguments: str | None, output: str | None, *, yes: bool
) -> JsonBody | None:
    """Return the body of the decision that the options describe."""
    body: JsonBody = {"decision": decision}
    if decision == "edit":
        new = (
            read_object(arguments, "--arguments") if arguments else edit_json(approval["arguments"])
        )
        if yes:
            return body | {"arguments": new}
        confirmed = _confirm_edit(approval, new)
        return None if confirmed is None else body | confirmed
    if decision == "respond":
        if output is None:
            fail(
                "The decision `respond` requires --output: the output that the model "
                "receives instead of the tool's result.",
                Exit.USAGE,
            )
        body["output"] = read_json(output, "--output")
    return body
