"""`runward retention`: how long data is kept, and how much of it would be removed now."""

from typing import Final

from runward.cli.connection import JsonBody, connect
from runward.cli.printing import Columns, format_age, print_list

FOREVER: Final = "forever"
KEPT: Final[Columns] = {
    "data": lambda one: one["data_class"],
    "days": lambda one: _format_days(one["days"]) + (" (default)" if one["is_default"] else ""),
    "maximum": lambda one: _format_days(one["max_days"]),
}
REMOVED: Final[Columns] = {
    "data": lambda one: one["data_class"],
    "rows": lambda one: f"{one['rows']}{' or more' if one['more'] else ''}",
    "oldest": lambda one: format_age(one["oldest_at"]) if one["oldest_at"] else "",
}


def show_retention(url: str | None, key: str | None, *, dry_run: bool, as_json: bool) -> None:
    with connect(url, key) as runward:
        found = runward.post("/v1/retention/preview") if dry_run else runward.get("/v1/retention")
    rows: list[JsonBody] = [
        {"data_class": name, **one} for name, one in found.items() if name != "object"
    ]
    print_list(rows, REMOVED if dry_run else KEPT, empty_text="", as_json=as_json)


def _format_days(days: int | None) -> str:
    return FOREVER if days is None else str(days)
