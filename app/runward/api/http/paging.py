"""Lists: one envelope, one way to walk them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Generic, Literal, TypedDict, TypeVar
from uuid import UUID

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from runward.domain.errors import FieldError, InvalidRequestError
from runward.domain.ids import Prefix, parse_id

MAX_LIMIT: Final = 200

Row = TypeVar("Row")
Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """A page of a list. To get the next page, pass `last_id` as `after`."""

    # No `use_attribute_docstrings`: for each kind of page pydantic would look through every module
    # for a class that is not there, while the service starts.
    model_config = ConfigDict(
        frozen=True, extra="forbid", json_schema_serialization_defaults_required=True
    )

    object: Literal["list"] = "list"
    data: Annotated[list[Item], Field(description="Items of the page, in the requested order.")]
    first_id: Annotated[
        str | None, Field(description="ID of the first item. Null if the page is empty.")
    ]
    last_id: Annotated[
        str | None,
        Field(
            description="ID to pass as `after` to get the next page: the ID of the last item, or "
            "of the last resource that a search examined. Null if there is none."
        ),
    ]
    has_more: Annotated[bool, Field(description="Whether there are more items after this page.")]

    @classmethod
    def from_rows(
        cls,
        rows: Sequence[Row],
        limit: int,
        render: Callable[[Row], Item],
        get_id: Callable[[Item], str],
    ) -> "Page[Item]":
        """`rows` are up to `limit` + 1: the one too many says that there is more."""
        data = [render(row) for row in rows[:limit]]
        return cls(
            data=data,
            first_id=get_id(data[0]) if data else None,
            last_id=get_id(data[-1]) if data else None,
            has_more=len(rows) > limit,
        )


class RowWindow(TypedDict, Generic[Item]):
    """The rows to read for a page: one more than the page has, after that of `after`."""

    after: Item | None
    limit: int
    descending: bool


@dataclass(frozen=True, slots=True)
class PageParams:
    """How a list is asked for."""

    limit: int
    after: str | None
    descending: bool

    @property
    def by_name(self) -> RowWindow[str]:
        """The rows of a list that is ordered by name."""
        return {"after": self.after, "limit": self.limit + 1, "descending": self.descending}

    def by_id(self, prefix: Prefix) -> RowWindow[UUID]:
        """Return the rows of a list that is ordered by id. Raises InvalidRequestError where
        `after` is not an id of this list's kind."""
        after = None if self.after is None else parse_id(prefix, self.after)
        if after is None and self.after is not None:
            raise InvalidRequestError(
                errors=[FieldError("query.after", f"must be an id like {prefix}_…")]
            )
        return {"after": after, "limit": self.limit + 1, "descending": self.descending}

    def page(
        self, rows: Sequence[Row], render: Callable[[Row], Item], get_id: Callable[[Item], str]
    ) -> Page[Item]:
        """Return the page of the rows that were read for it."""
        return Page[Item].from_rows(rows, self.limit, render, get_id)


PageLimit = Annotated[
    int, Query(ge=1, le=MAX_LIMIT, description="Maximum number of items to return.")
]


async def _read_page_params(
    limit: PageLimit = 20,
    after: Annotated[
        str | None,
        Query(max_length=128, description="`last_id` of the previous page."),
    ] = None,
    order: Annotated[
        Literal["asc", "desc"],
        Query(
            description="Order of the list. `desc`: newest first, or Z to A if the list is "
            "ordered by name. `asc`: the reverse."
        ),
    ] = "desc",
) -> PageParams:
    return PageParams(limit, after, order == "desc")


async def _read_ordered_page_params(
    limit: PageLimit = 100,
    after: Annotated[
        str | None,
        Query(max_length=600, description="`last_id` of the previous page."),
    ] = None,
    order: Annotated[
        Literal["asc", "desc"],
        Query(description="Order of the items. `asc`: oldest first. `desc`: newest first."),
    ] = "asc",
) -> PageParams:
    return PageParams(limit, after, order == "desc")


Pagination = Annotated[PageParams, Depends(_read_page_params)]
"""A handler's parameter: `limit`, `after` and `order`, newest first."""
ChronologicalPagination = Annotated[PageParams, Depends(_read_ordered_page_params)]
"""The same for what belongs to one run: as it happened."""


def slice_page(
    items: Sequence[Item], params: PageParams, get_id: Callable[[Item], str]
) -> Page[Item]:
    """A page of a list that was read whole, because it is small."""
    rows = list(reversed(items)) if params.descending else list(items)
    if params.after is not None:
        ids = [get_id(row) for row in rows]
        if params.after not in ids:
            raise InvalidRequestError(
                errors=[FieldError("query.after", "must be the last_id of a page of this list")]
            )
        rows = rows[ids.index(params.after) + 1 :]
    return Page[Item].from_rows(rows, params.limit, lambda row: row, get_id)
