"""What all tables share: their metadata, how constraints are named, columns that recur."""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import (
    CheckConstraint,
    Column,
    DateTime,
    ForeignKeyConstraint,
    MetaData,
    Uuid,
    text,
)

metadata: Final = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pk",
        "fk": "%(table_name)s_%(referred_table_name)s_fk",
        "ix": "%(column_0_label)s_ix",
        "uq": "%(table_name)s_%(column_0_name)s_uq",
        "ck": "%(table_name)s_%(constraint_name)s",
    }
)
NOW: Final = text("clock_timestamp()")
TIMESTAMP: Final = DateTime(timezone=True)


def enum_check(column: str, values: Iterable[str]) -> CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in sorted(values))
    return CheckConstraint(f"{column} IN ({listed})", name=f"{column}_known")


def project_column() -> Column[object]:
    return Column("project_id", Uuid, nullable=False)


def run_foreign_key() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["project_id", "run_id"], ["runs.project_id", "runs.id"], ondelete="CASCADE"
    )
