"""Rename fields of stored items and events

| table | before | after |
|---|---|---|
| run_items, session_items | `vendor`, also in `native` | `provider` |
| run_events, of `model.setting_dropped` | `what`, `why` | `setting`, `reason` |

Processes of the version before cannot read the new names. Stop them first. No statement blocks
writers of other rows.
"""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    provider = {"vendor": "provider"}
    native = _rename("field.value", provider, each="inner_field")
    value = f"CASE field.key WHEN 'native' THEN ({native}) ELSE field.value END"
    item = _rename("item.value", provider, value=value)
    for table in ("run_items", "session_items"):
        op.execute(
            f"UPDATE {table} SET items = (SELECT json_agg(({item}) ORDER BY item.ordinality)"
            " FROM json_array_elements(items) WITH ORDINALITY AS item)"
            " WHERE CAST(items AS text) LIKE '%\"vendor\":%'"
        )
    data = _rename("data", {"what": "setting", "why": "reason"})
    op.execute(f"UPDATE run_events SET data = ({data}) WHERE type = 'model.setting_dropped'")


def _rename(json: str, names: dict[str, str], *, each: str = "field", value: str = "") -> str:
    """Return SQL for an object with some keys renamed. The order of its keys does not change."""
    cases = " ".join(f"WHEN '{before}' THEN '{after}'" for before, after in names.items())
    return (
        f"SELECT coalesce(json_object_agg(CASE {each}.key {cases} ELSE {each}.key END,"
        f" {value or f'{each}.value'} ORDER BY {each}.ordinality), '{{}}')"
        f" FROM json_each({json}) WITH ORDINALITY AS {each}"
    )
