"""`runward agents`: list, show, delete, and apply a file."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from runward.cli.connection import JsonBody, Runward, build_path, connect
from runward.cli.editor import print_changed_lines
from runward.cli.exits import Exit, fail
from runward.cli.options import AsJson, KeyOption, Url, Yes, format_examples, read_yaml
from runward.cli.plan import AgentSchema, Change, PlanStep, plan_changes
from runward.cli.printing import format_age, format_short, print_json, print_resource, print_text
from runward.cli.registry import ResourceKind, add_delete_command, add_list_command

app = typer.Typer(no_args_is_help=True, help="Manage agents.")

ACTION_MARKS: Final = {
    "create": ("+", "green"),
    "update": ("~", "yellow"),
    "delete": ("-", "red"),
    "unchanged": ("=", "dim"),
}
MAX_AGENTS: Final = 10_000
MAX_LINE_CHARACTERS: Final = 80
"""Maximum number of characters of the old and the new value together."""


def _get_tool_name(tool: str | dict[str, Any]) -> str:
    """Return the name of a registered or an inline tool."""
    return tool if isinstance(tool, str) else str(tool["name"])


AGENTS = ResourceKind(
    path="agents",
    noun="agent",
    columns={
        "agent": lambda one: one["name"],
        "version": lambda one: str(one["version"]),
        "model": lambda one: format_short(one.get("model") or one.get("kind")),
        "tools": lambda one: ", ".join(map(_get_tool_name, one.get("tools", ()))),
        "changed": lambda one: format_age(one["updated_at"]),
    },
    empty_text="There are no agents. Create agents with `runward agents apply`.",
    delete_warning="Runs that have already started continue.",
)

add_list_command(app, AGENTS)


@app.command()
def show(
    name: Annotated[str, AGENTS.argument],
    version: Annotated[
        int | None,
        typer.Option(min=1, help="Version of the agent. Default: the current version."),
    ] = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Show all fields of an agent."""
    with connect(url, key) as runward:
        agent = runward.get(build_path("agents", name), version=version)
    print_resource(agent, as_json=as_json)


add_delete_command(app, AGENTS)


@app.command(
    epilog=format_examples(
        "runward agents apply -f agents.yaml",
        "runward agents apply -f agents.yaml --prune --dry-run",
        "runward agents apply -f agents.yaml --yes --json",
    )
)
def apply(
    file: Annotated[
        Path,
        typer.Option(
            "--file", "-f", help="YAML or JSON file with a list `agents`. Use - for standard input."
        ),
    ],
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete the agents that are not in the file.")
    ] = False,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and exit.")] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Show the plan and exit. The exit code is 2 if the plan has changes."
        ),
    ] = False,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Create and update agents from a file. Show the plan, then ask for confirmation.

    The file defines each agent completely: a field that is missing gets its default value. Agents
    that are not in the file do not change. With --prune, they are deleted.
    """
    declared = _read_agents(file)
    with connect(url, key) as runward:
        contract = AgentSchema(runward.get("/openapi.json"))
        problems = [text for one in declared for text in contract.problems(one)]
        names = Counter(str(one.get("name")) for one in declared)
        problems += [f"The agent {name} is defined twice." for name, n in names.items() if n > 1]
        if problems:
            fail("\n".join(f"{file}: {text}" for text in problems), Exit.USAGE)
        found = {name: runward.find(build_path("agents", name)) for name in names}
        if prune:
            there = runward.list_all("/v1/agents", MAX_AGENTS, order="asc")
            found |= {one["name"]: one for one in there if one["name"] not in names}
        steps = plan_changes(declared, found, contract)
        changing = [step for step in steps if step.action != "unchanged"]
        if not as_json:
            _print_plan(steps)
        if check or dry_run or not changing:
            if as_json:
                print_json({"applied": False, "plan": [step.as_json() for step in steps]})
            raise typer.Exit(int(Exit.USAGE if check and changing else Exit.OK))
        if not yes and not typer.confirm("Apply these changes?", err=True):
            fail("Nothing was applied.", Exit.FAILED)
        bodies = {one["name"]: one for one in declared}
        made = [_apply_step(runward, step, bodies, verbose=not as_json) for step in changing]
    if as_json:
        plan_shown = [step.as_json() for step in steps]
        print_json({"applied": True, "plan": plan_shown, "agents": made})


def _read_agents(file: Path) -> list[JsonBody]:
    found = read_yaml(file)
    agents: Any = found.get("agents") if isinstance(found, dict) else None  # pyright: ignore
    whole = isinstance(found, dict) and set(found) == {"agents"}  # pyright: ignore
    if not whole or not isinstance(agents, list) or not all(isinstance(a, dict) for a in agents):  # pyright: ignore
        fail(
            f"{file} must be an object with one field, `agents`: a list of agents, each "
            "with a name and other fields.",
            Exit.USAGE,
        )
    return agents  # pyright: ignore[reportUnknownVariableType]


def _print_plan(steps: list[PlanStep]) -> None:
    for step in steps:
        mark, style = ACTION_MARKS[step.action]
        print_text(f"{mark} {step.name}: {step.action}", style)
        for change in step.changes:
            _print_change(step, change)
    counted = Counter(step.action for step in steps)
    coming = [f"{counted[action]} to {action}" for action in ("create", "update", "delete")]
    if not counted["delete"]:
        coming.pop()
    print_text(f"{', '.join(coming)}, {counted['unchanged']} unchanged.")


def _print_change(step: PlanStep, change: Change) -> None:
    """Print a change in one line, or only the changed lines if one line would be too long."""
    before, after = format_short(change.before), format_short(change.after)
    if step.action == "create":
        indented = after.rstrip().replace("\n", "\n" + " " * 6)
        print_text(f"    {change.field}: {indented}")
    elif len(before) + len(after) <= MAX_LINE_CHARACTERS and "\n" not in before + after:
        print_text(f"    {change.field}: {before} -> {after}")
    else:
        print_text(f"    {change.field}:")
        print_changed_lines(change.before, change.after, "      ")


def _apply_step(
    runward: Runward, step: PlanStep, bodies: Mapping[str, JsonBody], *, verbose: bool
) -> JsonBody:
    """Return the updated agent, or `{"name": …, "deleted": true}` for a deleted agent."""
    match step.action:
        case "create":
            done = runward.post("/v1/agents", bodies[step.name])
        case "delete":
            runward.delete(build_path("agents", step.name))
            done = {"name": step.name, "deleted": True}
        case _:
            patch = {change.field: change.after for change in step.changes}
            done = runward.patch(build_path("agents", step.name), patch)
    if verbose:
        gone = step.action == "delete"
        print_text(
            f"{step.name} {'was deleted' if gone else 'has version ' + str(done['version'])}."
        )
    return done
