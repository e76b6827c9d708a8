"""`runward budgets`: limits for the cost and the tokens of models."""

from typing import Annotated, Any, Literal

import typer

from runward.cli.connection import build_path, connect
from runward.cli.options import AsJson, KeyOption, Url, format_examples, read_fields
from runward.cli.printing import format_time, print_result
from runward.cli.registry import (
    ResourceKind,
    add_delete_command,
    add_list_command,
    add_show_command,
)

app = typer.Typer(
    no_args_is_help=True,
    help="Manage budgets, which limit the cost or the tokens of models for each period.",
)


def _format_subject(budget: dict[str, Any]) -> str:
    """Return the runs to which the budget applies, for a table."""
    return ", ".join(one for one in (budget["agent"], budget["key_id"]) if one) or "all runs"


def _format_amount(budget: dict[str, Any], name: str) -> str:
    """Return the `limit`, `spent` or `reserved` amount in the unit of the budget."""
    if (tokens := budget[f"{name}_tokens"]) is not None:
        return f"{tokens:,} tokens"
    amount = budget[f"{name}_usd"]
    return f"${amount:g}" if name == "limit" else f"${amount:.2f}"


BUDGETS = ResourceKind(
    path="budgets",
    noun="budget",
    columns={
        "budget": lambda one: one["id"],
        "applies to": _format_subject,
        "limit": lambda one: f"{_format_amount(one, 'limit')} per {one['period']}",
        "spent": lambda one: _format_amount(one, "spent"),
        "reserved": lambda one: _format_amount(one, "reserved"),
        "at the limit": lambda one: one["on_limit"],
        "period ends": lambda one: format_time(one["period_end"]),
    },
    empty_text="There are no budgets. Create one with `runward budgets create`.",
    id_field="id",
)

Tokens = Annotated[
    int | None,
    typer.Option(help="Limit in input and output tokens for each period, for a budget of tokens."),
]
OnLimit = Annotated[
    Literal["wait", "ask"] | None,
    typer.Option(help="What a run does at the limit: wait for the next period, or ask a person."),
]


@app.command(
    epilog=format_examples(
        "runward budgets create 20",
        "runward budgets create 5 --agent clerk --on-limit ask",
        "runward budgets create --tokens 100000 --period minute",
    )
)
def create(
    limit: Annotated[
        float | None, typer.Argument(metavar="LIMIT", help="Limit in US dollars for each period.")
    ] = None,
    tokens: Tokens = None,
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", help="Agent to limit. Default: all agents.")
    ] = None,
    key_id: Annotated[
        str | None, typer.Option(help="ID of the API key to limit. Default: all API keys.")
    ] = None,
    period: Annotated[
        Literal["minute", "day", "month"] | None, typer.Option(help="Period in UTC. Default: day.")
    ] = None,
    on_limit: OnLimit = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Create a budget and print its ID."""
    body = read_fields(
        None,
        limit_usd=limit,
        limit_tokens=tokens,
        agent=agent,
        key_id=key_id,
        period=period,
        on_limit=on_limit,
    )
    with connect(url, key) as runward:
        made = runward.post("/v1/budgets", body)
    print_result(made, made["id"], as_json=as_json)


add_list_command(app, BUDGETS, order="desc", limit=20)
add_show_command(app, BUDGETS)


@app.command(epilog=format_examples("runward budgets update BUDGET --limit 50"))
def update(
    budget: Annotated[str, BUDGETS.argument],
    limit: Annotated[
        float | None, typer.Option(help="Limit in US dollars for each period.")
    ] = None,
    tokens: Tokens = None,
    on_limit: OnLimit = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Change the limit of a budget, or what a run does at the limit."""
    with connect(url, key) as runward:
        changed = runward.patch(
            build_path("budgets", budget),
            read_fields(None, limit_usd=limit, limit_tokens=tokens, on_limit=on_limit),
        )
    print_result(changed, f"{changed['id']} was updated.", as_json=as_json)


add_delete_command(app, BUDGETS)
