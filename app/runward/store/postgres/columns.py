"""Columns that all tables share, column lists of statements, and conversions between dataclasses
and rows.

Lists and conversions are created from the tables once, at import. Statements are plain strings, and
the functions that convert a row are compiled.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from enum import Enum
from functools import cached_property
from types import NoneType
from typing import (
    Any,
    Final,
    Generic,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from sqlalchemy import (
    CheckConstraint,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Index,
    MetaData,
    Table,
    Uuid,
    text,
)
from sqlalchemy.dialects import postgresql

T = TypeVar("T")
Convert: TypeAlias = Callable[[Any], Any]

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
TRANSACTION_ID: Final = text("CAST(CAST(pg_current_xact_id() AS text) AS bigint)")
"""The number of the current transaction, without wraparound."""
_DIALECT: Final = postgresql.dialect()


# Common columns and constraints.


def enum_check(column: str, values: Iterable[str]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({list_values(values)})", name=f"{column}_known")


def project_column() -> Column[object]:
    return Column("project_id", Uuid, nullable=False)


def run_foreign_key() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["project_id", "run_id"], ["runs.project_id", "runs.id"], ondelete="CASCADE"
    )


def partial_index(name: str, *columns: str, where: str) -> Index:
    return Index(name, *columns, postgresql_where=text(where))


# Parts of statements.


def list_values(values: Iterable[str]) -> str:
    """Return strings as a list in SQL, for `IN`."""
    return ", ".join(f"'{value}'" for value in sorted(values))


def recordset(table: Table, parameter: str, alias: str, columns: Iterable[str], more: str) -> str:
    """Return SQL that reads a parameter, a JSON array of rows, as a relation. The types of
    `columns` come from the table. `more`: additional columns with their types."""
    listed = "".join(f"{name} {table.c[name].type.compile(_DIALECT)}, " for name in columns)
    return f"json_to_recordset(CAST(:{parameter} AS json)) AS {alias}({listed}{more})"


def take(alias: str, columns: Iterable[str]) -> dict[str, str]:
    """Return SQL for the columns with their values from the relation `alias`."""
    return {name: f"{alias}.{name}" for name in columns}


def select_list(values: Mapping[str, str]) -> str:
    """Return the list of a SELECT, in which each expression has its name."""
    return ", ".join(f"{value} AS {name}" for name, value in values.items())


def insert_select(table: Table, values: Mapping[str, str]) -> str:
    """Return an INSERT of these expressions, up to its FROM."""
    columns = ", ".join(table.c[name].name for name in values)
    return f"INSERT INTO {table.name} ({columns})\n  SELECT {', '.join(values.values())}"


def set_columns(table: Table, values: Mapping[str, str]) -> str:
    """Return the SET list of an UPDATE."""
    return ", ".join(f"{table.c[name].name} = {value}" for name, value in values.items())


# Conversions of dataclasses.


class RowMapping(Generic[T]):
    """Maps a dataclass to columns of `table`. A field's column has the field's name, or the name in
    `names`. `read` and `write` convert values that a column stores in another form. Enums, UUIDs
    and tuples are converted by their types. None is never converted. `only`: the fields that are
    columns, if some are not. The other fields are additional arguments of `from_row`."""

    def __init__(
        self,
        type_: type[T],
        table: Table,
        *,
        names: Mapping[str, str] | None = None,
        read: Mapping[str, Convert] | None = None,
        write: Mapping[str, Convert] | None = None,
        only: Iterable[str] | None = None,
    ) -> None:
        chosen = only or [field.name for field in fields(cast("Any", type_))]
        names = names or {}
        self._type = type_
        self._columns = {name: table.c[names.get(name, name)].name for name in chosen}
        self._read, self._write = read or {}, write or {}
        self._others = ", **others" if only else ""
        self.columns: Final = tuple(self._columns.values())

    @cached_property
    def to_row(self) -> Callable[[Any], dict[str, Any]]:
        values = (
            f"{column!r}: {_convert(f'row.{name}', name, self._write)}"
            for name, column in self._columns.items()
        )
        return _compile(f"{{{', '.join(values)}}}", self._write)

    @cached_property
    def from_row(self) -> Callable[..., T]:
        hints = get_type_hints(self._type)
        readers = {name: _find_reader(hints[name]) for name in self._columns} | dict(self._read)
        values = (
            f"{name}={_convert(f'row[{column!r}]', name, readers)}"
            for name, column in self._columns.items()
        )
        source = f"type_({', '.join(values)}{self._others})"
        return _compile(source, readers, self._others, type_=self._type)

    def read(self, row: Any, **others: Any) -> T:
        """Convert a row that SQLAlchemy has selected to an object."""
        return self.from_row(row._mapping, **others)


def _find_reader(hint: Any) -> Convert | None:
    """Return the conversion to a field's type, or None if no conversion is necessary."""
    if NoneType in get_args(hint):
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    kind = getattr(hint, "__supertype__", hint)  # The type is a NewType.
    if kind is UUID:
        return read_uuid
    if get_origin(kind) is tuple:
        return tuple
    return kind if isinstance(kind, type) and issubclass(kind, Enum) else None


def read_uuid(value: UUID | str) -> UUID:
    """Return the UUID of a column, or of a row that was read as JSON."""
    return UUID(value) if isinstance(value, str) else UUID(int=value.int)


def _convert(source: str, name: str, converters: Mapping[str, Convert | None]) -> str:
    if converters.get(name) is None:
        return source
    return f"None if (value := {source}) is None else convert_{name}(value)"


def _compile(
    source: str, converters: Mapping[str, Convert | None], others: str = "", **names: Any
) -> Any:
    """Return a function of `row`. It is compiled from source like the methods of a dataclass,
    because a loop over the columns would be slower for each row."""
    names |= {f"convert_{name}": converter for name, converter in converters.items()}
    return eval(f"lambda row{others}: {source}", names)  # noqa: S307  # made of the tables' names
