"""`runward approvals`: the inbox, and decisions with what a person has to know for them."""

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

app = typer.Typer(no_args_is_help=True, help="See what waits for a person, and decide.")

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
    status: Annotated[Status, typer.Option(help="Only those, or all.")] = "pending",
    run: Annotated[str | None, typer.Option(help="Only those of one run.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only those of one tool.")] = None,
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
        "Nothing waits for a decision." if status == "pending" else "There are no such approvals."
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
            help="apr_…; without it all that wait.",
            autocompletion=complete_from("/v1/approvals", "id", status="pending"),
        ),
    ] = None,
    decision: Annotated[
        Decision | None, typer.Option("--decision", "-d", help="Without asking a person.")
    ] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="A reason.")] = None,
    arguments: Annotated[
        str | None, typer.Option(help="For edit: the whole new arguments, JSON or @FILE.")
    ] = None,
    output: Annotated[str | None, typer.Option(help="For respond: JSON or @FILE.")] = None,
    remember: Annotated[
        Literal["run", "session"] | None,
        typer.Option(help="Decide the same from now on, in this run or its session."),
    ] = None,
    yes: Yes = False,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Decide about a call. Without --decision it shows each and asks.

    An edit opens $VISUAL or $EDITOR, shows the difference and asks again.
    """
    if approval_id is None and decision is not None:
        fail("--decision needs the approval that it is about.", Exit.USAGE)
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
    """The one that is named; otherwise all, oldest first."""
    if approval_id is not None:
        return [runward.get(build_path("approvals", approval_id))]
    found = runward.list_all("/v1/approvals", MAX_PENDING, status="pending", order="asc")
    if not found:
        typer.echo("Nothing waits for a decision.", err=True)
    return found


def send_decision(runward: Runward, approval: JsonBody, body: JsonBody) -> JsonBody:
    """Bound to the arguments that were shown: others are refused."""
    sent = body | {"digest": approval["digest"]}
    return runward.post(build_path("approvals", approval["id"], "decision"), sent)


def prompt_decision(runward: Runward, approval: JsonBody) -> JsonBody | None:
    """Shows the call, and asks until there is a decision. None: not now."""
    print_approval(runward, approval)
    if approval["status"] != "pending":
        fail(f"It was {approval['status']} already.", Exit.REFUSED)
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
    """All that a decision depends on."""
    run = runward.get(build_path("runs", approval["run_id"]))
    starter: JsonBody | None = run["created_by"]
    started: JsonBody = approval["run"] or {}
    print_fields(
        [
            ("approval", approval["id"]),
            ("tool", f"{approval['tool']}, version {approval['tool_version']}"),
            ("sends to", approval.get("url") or ""),
            ("asked by", approval["agent"] or format_short(run["model"] or run["agent"])),
            ("run", f"{run['id']} ({run['status']})"),
            ("started by", starter["name"] if starter else ""),
            ("user said", started.get("input") or ""),
            ("expires", format_time(approval["expires_at"])),
            ("arguments", format_json(approval["arguments"])),
        ]
    )


def _ask_reason(approval: JsonBody) -> JsonBody:
    reason = typer.prompt("Why? The model reads it", default="", show_default=False, err=True)
    return {"message": reason} if reason else {}


def _build_approval(approval: JsonBody) -> JsonBody:
    return {}


def _ask_arguments(approval: JsonBody) -> JsonBody | None:
    return _confirm_edit(approval, edit_json(approval["arguments"]))


def _ask_output(approval: JsonBody) -> JsonBody:
    return {"output": typer.prompt("What the model gets instead of a call", err=True)}


_PROMPTS: Final[dict[str, Callable[[JsonBody], JsonBody | None]]] = {
    "approve": _build_approval,
    "reject": _ask_reason,
    "edit": _ask_arguments,
    "respond": _ask_output,
}


def _confirm_edit(approval: JsonBody, arguments: Any) -> JsonBody | None:
    if not print_difference(approval["arguments"], arguments):
        typer.echo("Nothing was changed.", err=True)
        return None
    if not typer.confirm("Run it with these arguments?", err=True):
        return None
    return {"arguments": arguments}


def _build_decision(
    approval: JsonBody, decision: str, arguments: str | None, output: str | None, *, yes: bool
) -> JsonBody | None:
    """What the options say."""
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
            fail("respond needs --output, what the model gets instead of a call.", Exit.USAGE)
        body["output"] = read_json(output, "--output")
    return body
