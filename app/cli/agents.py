"""`runward agents`: list, show, and apply a file."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.connection import Json, Runward, connected
from app.cli.exits import Exit, fail
from app.cli.options import AsJson, Key, Limit, Url, read_yaml
from app.cli.plan import Contract, Step, plan
from app.cli.shown import print_fields, print_json, print_table, say, short, shown, when

app = typer.Typer(no_args_is_help=True, help="What runs are started from by name.")

MARKS = {"create": ("+", "green"), "change": ("~", "yellow"), "unchanged": ("=", "dim")}


@app.command("list")
def list_agents(
    limit: Limit = 1000, url: Url = None, key: Key = None, as_json: AsJson = False
) -> None:
    """List agents by name."""
    with connected(url, key) as runward:
        found = list(runward.every("/v1/agents", limit, order="asc"))
    if as_json:
        print_json(found)
        return
    rows = (
        [
            one["name"],
            str(one["version"]),
            short(one.get("model") or one.get("kind")),
            ", ".join(one.get("tools", ())),
            when(one["updated_at"]),
        ]
        for one in found
    )
    columns = ["agent", "version", "model", "tools", "changed"]
    print_table(columns, rows, none="There are no agents. `runward agents apply` makes them.")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="AGENT")],
    version: Annotated[int | None, typer.Option(min=1, help="An earlier version.")] = None,
    url: Url = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show an agent with every field."""
    with connected(url, key) as runward:
        agent = runward.get(f"/v1/agents/{name}", version=version)
    if as_json:
        print_json(agent)
    else:
        print_fields((field, shown(value)) for field, value in agent.items() if field != "object")


@app.command()
def apply(
    file: Annotated[
        Path, typer.Option("--file", "-f", help="YAML or JSON with a list `agents`; - is stdin.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan alone.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Show the plan alone; end with 2 if it has changes.")
    ] = False,
    url: Url = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Make the agents what a file says: show the plan, ask, apply.

    The file is the whole agent: a field that it leaves out has its default. Agents that it does
    not name are left alone.
    """
    declared = _declared(file)
    with connected(url, key) as runward:
        contract = Contract(runward.get("/openapi.json"))
        problems = [text for one in declared for text in contract.problems(one)]
        names = Counter(str(one.get("name")) for one in declared)
        problems += [f"Agent {name} is there twice." for name, n in names.items() if n > 1]
        if problems:
            fail("\n".join(f"{file}: {text}" for text in problems), Exit.USAGE)
        steps = plan(
            declared, {name: runward.find(f"/v1/agents/{name}") for name in names}, contract
        )
        changing = [step for step in steps if step.action != "unchanged"]
        if not as_json:
            _show(steps)
        if check or dry_run or not changing:
            if as_json:
                print_json({"applied": False, "plan": [step.as_json() for step in steps]})
            raise typer.Exit(int(Exit.USAGE if check and changing else Exit.OK))
        if not yes and not typer.confirm("Apply this?", err=True):
            fail("Nothing was applied.", Exit.FAILED)
        bodies = {one["name"]: one for one in declared}
        made = [_apply(runward, step, bodies[step.name], told=not as_json) for step in changing]
    if as_json:
        plan_shown = [step.as_json() for step in steps]
        print_json({"applied": True, "plan": plan_shown, "agents": made})


def _declared(file: Path) -> list[Json]:
    found = read_yaml(file)
    agents: Any = found.get("agents") if isinstance(found, dict) else None  # pyright: ignore
    whole = isinstance(found, dict) and set(found) == {"agents"}  # pyright: ignore
    if not whole or not isinstance(agents, list) or not all(isinstance(a, dict) for a in agents):  # pyright: ignore
        fail(f"{file} must hold one list: agents, each with a name and its fields.", Exit.USAGE)
    return agents  # pyright: ignore[reportUnknownVariableType]


def _show(steps: list[Step]) -> None:
    for step in steps:
        mark, style = MARKS[step.action]
        say(f"{mark} {step.name}: {step.action}", style)
        for change in step.changes:
            if step.action == "create":
                say(f"    {change.field}: {short(change.after)}")
            else:
                say(f"    {change.field}: {short(change.before)} -> {short(change.after)}")
    counted = Counter(step.action for step in steps)
    say(
        ", ".join(f"{counted[action]} to {action}" for action in ("create", "change"))
        + f", {counted['unchanged']} unchanged."
    )


def _apply(runward: Runward, step: Step, declared: Json, *, told: bool) -> Json:
    if step.action == "create":
        done = runward.post("/v1/agents", declared)
    else:
        patch = {change.field: change.after for change in step.changes}
        done = runward.patch(f"/v1/agents/{step.name}", patch)
    if told:
        say(f"{done['name']} is at version {done['version']}.")
    return done
