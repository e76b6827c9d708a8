"""Rename stored event types, approval statuses, and fields of agents, runs and tools

| table | before | after |
|---|---|---|
| approvals | `void`, `withdrawn` | `superseded`, `cancelled` |
| run_events | `model.downgraded`, `agent.changed` | `model.setting_dropped`, `handoff.completed` |
| agents, runs | `repair_attempts`, `history.max_turns` | `output_retries`, `history.max_exchanges` |
| tools | `executes` | `implements` |

Processes of the version before cannot read the new names. Stop them first. No statement blocks
writers of other rows.
"""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _rename_values("approvals", "status", "void", "superseded")
    _rename_values("approvals", "status", "withdrawn", "cancelled")
    op.execute("ALTER TABLE approvals VALIDATE CONSTRAINT approvals_status_known")
    _rename_values("run_events", "type", "model.downgraded", "model.setting_dropped")
    _rename_values("run_events", "type", "agent.changed", "handoff.completed")

    _update(
        "tool_versions",
        "spec",
        _rename("spec", "executes", "implements"),
        "spec -> 'executes' IS NOT NULL",
    )
    for table in ("agents", "agent_versions"):
        _update(table, "spec", _rename_settings("spec"), _SETTINGS.format(json="spec"))
    # A trigger rejects all other changes of runs that have ended.
    op.execute("SELECT set_config('runward.erasing', 'on', true)")
    _update("runs", "config", _rename_settings("config"), _SETTINGS.format(json="config"))
    _update("runs", "team", _rename_settings_of_team(), "CAST(team AS text) <> '{}'")


_SETTINGS = (
    "({json} -> 'repair_attempts' IS NOT NULL OR {json} #> '{{history,max_turns}}' IS NOT NULL)"
)


def _rename_values(table: str, column: str, before: str, after: str) -> None:
    op.execute(f"UPDATE {table} SET {column} = '{after}' WHERE {column} = '{before}'")


def _update(table: str, column: str, query: str, condition: str) -> None:
    op.execute(f"UPDATE {table} SET {column} = ({query}) WHERE {condition}")


def _rename_settings_of_team() -> str:
    """Return SQL for the agents to which a run can be handed over, by name."""
    settings = _rename_settings("member.value -> 'config'")
    return (
        f"SELECT json_object_agg(member.key, json_build_object('config', ({settings}),"
        " 'version', member.value -> 'version', 'description', member.value -> 'description')"
        " ORDER BY member.ordinality) FROM json_each(team) WITH ORDINALITY AS member"
    )


def _rename_settings(json: str) -> str:
    history = _rename("field.value", "max_turns", "max_exchanges", each="inner_field")
    value = f"CASE field.key WHEN 'history' THEN ({history}) ELSE field.value END"
    return _rename(json, "repair_attempts", "output_retries", value=value)


def _rename(json: str, before: str, after: str, *, each: str = "field", value: str = "") -> str:
    """Return SQL for an object with one key renamed. The order of its keys does not change."""
    return (
        f"SELECT coalesce(json_object_agg(CASE {each}.key WHEN '{before}' THEN '{after}'"
        f" ELSE {each}.key END, {value or f'{each}.value'} ORDER BY {each}.ordinality), '{{}}')"
        f" FROM json_each({json}) WITH ORDINALITY AS {each}"
    )
