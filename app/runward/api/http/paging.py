"""Lists: the envelope of all pages, and cursors in both directions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
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
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous page,
    pass `first_id` as `before`."""

    # `use_attribute_docstrings` is off. With it, Pydantic would search every module for the class
    # of each kind of page when the service starts.
    model_config = ConfigDict(
        frozen=True, extra="forbid", json_schema_serialization_defaults_required=True
    )

    object: Literal["list"] = "list"
    data: Annotated[list[Item], Field(description="Items of the page, in the requested order.")]
    first_id: Annotated[
        str | None,
        Field(
            description="Cursor for the previous page. Pass it as `before`. The cursor is the ID "
            "of the first item, or of the last resource that a search examined. Null if the page "
            "is empty and no search can continue."
        ),
    ]
    last_id: Annotated[
        str | None,
        Field(
            description="Cursor for the next page. Pass it as `after`. The cursor is the ID of "
            "the last item, or of the last resource that a search examined. Null if the page is "
            "empty and no search can continue."
        ),
    ]
    has_more: Annotated[
        bool,
        Field(
            description="Whether there are more items after this page. If the request contains "
            "`before`, whether there are more items before this page."
        ),
    ]

    @classmethod
    def from_rows(
        cls,
        rows: Sequence[Row],
        limit: int,
        render: Callable[[Row], Item],
        get_id: Callable[[Item], str],
        *,
        backwards: bool = False,
    ) -> "Page[Item]":
        """Return the page of up to `limit` + 1 rows. The additional row shows that there are more.
        `backwards`: the rows were read from the end of the page to its beginning."""
        shown = reversed(rows[:limit]) if backwards else rows[:limit]
        data = [render(row) for row in shown]
        return cls(
            data=data,
            first_id=get_id(data[0]) if data else None,
            last_id=get_id(data[-1]) if data else None,
            has_more=len(rows) > limit,
        )


class RowWindow(TypedDict, Generic[Item]):
    """The rows to read for a page, in reading order: one more than the page contains, starting
    after the row `after`. To read a page before a row, the order is reversed."""

    after: Item | None
    limit: int
    descending: bool


def make_window(
    limit: int, after: Item | None, before: Item | None, *, descending: bool
) -> RowWindow[Item]:
    """Return the window of the parameters. Raises InvalidRequestError if both cursors are set."""
    if before is None:
        return {"after": after, "limit": limit + 1, "descending": descending}
    if after is not None:
        wrong = FieldError("query.before", "cannot be combined with after")
        raise InvalidRequestError(errors=[wrong])
    return {"after": before, "limit": limit + 1, "descending": not descending}


@dataclass(frozen=True, slots=True)
class PageParams:
    """The query parameters of a list."""

    limit: int
    after: str | None
    before: str | None
    descending: bool

    @property
    def by_name(self) -> RowWindow[str]:
        """Return the rows of a list that is ordered by name. Raises InvalidRequestError."""
        return make_window(self.limit, self.after, self.before, descending=self.descending)

    def by_id(self, prefix: Prefix) -> RowWindow[UUID]:
        """Return the rows of a list that is ordered by ID. Raises InvalidRequestError if a cursor
        is not an ID of this list's kind."""
        return self.by_cursor(partial(parse_id, prefix), f"must be an ID like {prefix}_…")

    def by_cursor(self, parse: Callable[[str], Item | None], problem: str) -> RowWindow[Item]:
        """Return the rows of a list whose cursors `parse` reads. If `parse` returns None, raises
        InvalidRequestError with `problem`."""
        cursors: dict[str, Item | None] = {}
        for name, given in (("after", self.after), ("before", self.before)):
            cursors[name] = None if given is None else parse(given)
            if given is not None and cursors[name] is None:
                raise InvalidRequestError(errors=[FieldError(f"query.{name}", problem)])
        return make_window(
            self.limit, cursors["after"], cursors["before"], descending=self.descending
        )

    def page(
        self, rows: Sequence[Row], render: Callable[[Row], Item], get_id: Callable[[Item], str]
    ) -> Page[Item]:
        """Return the page of `rows`, which were read for these parameters."""
        backwards = self.before is not None
        return Page[Item].from_rows(rows, self.limit, render, get_id, backwards=backwards)


PageLimit = Annotated[
    int, Query(ge=1, le=MAX_LIMIT, description="Maximum number of items to return.")
]


AFTER: Final = "Return the page that follows this cursor. Use the `last_id` of a page."
BEFORE: Final = (
    "Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with "
    "`after`."
)


def _read_page_params(
    limit: PageLimit = 20,
    after: Annotated[str | None, Query(max_length=128, description=AFTER)] = None,
    before: Annotated[str | None, Query(max_length=128, description=BEFORE)] = None,
    order: Annotated[
        Literal["asc", "desc"],
        Query(description="Order of the list. `asc`: oldest first. `desc`: newest first."),
    ] = "desc",
) -> PageParams:
    return PageParams(limit, after, before, order == "desc")


def _read_named_page_params(
    limit: PageLimit = 20,
    after: Annotated[str | None, Query(max_length=128, description=AFTER)] = None,
    before: Annotated[str | None, Query(max_length=128, description=BEFORE)] = None,
    order: Annotated[
        Literal["asc", "desc"],
        Query(description="Order of the list by name. `asc`: A to Z. `desc`: Z to A."),
    ] = "asc",
) -> PageParams:
    return PageParams(limit, after, before, order == "desc")


def _read_ordered_page_params(
    limit: PageLimit = 100,
    after: Annotated[str | None, Query(max_length=600, description=AFTER)] = None,
    before: Annotated[str | None, Query(max_length=600, description=BEFORE)] = None,
    order: Annotated[
        Literal["asc", "desc"],
        Query(description="Order of the items. `asc`: oldest first. `desc`: newest first."),
    ] = "asc",
) -> PageParams:
    return PageParams(limit, after, before, order == "desc")


Pagination = Annotated[PageParams, Depends(_read_page_params)]
"""A handler's parameter: `limit`, `after`, `before` and `order`, newest first."""
NamePagination = Annotated[PageParams, Depends(_read_named_page_params)]
"""The same for a list that is ordered by name: from A to Z."""
ChronologicalPagination = Annotated[PageParams, Depends(_read_ordered_page_params)]
"""Like `Pagination`, for lists of one run's items. The default order is from oldest to newest."""


def slice_page(
    items: Sequence[Item], params: PageParams, get_id: Callable[[Item], str]
) -> Page[Item]:
    """Return a page of a list that was read completely, because it is small."""
    places = {get_id(item): place for place, item in enumerate(items)}
    problem = "must be the `first_id` or `last_id` of a page of this list"
    window = params.by_cursor(places.get, problem)
    rows = list(enumerate(items))
    if window["descending"]:
        rows.reverse()
    after = window["after"]
    if after is not None:
        rows = [row for row in rows if (row[0] < after if window["descending"] else row[0] > after)]
    return params.page(rows, lambda row: row[1], get_id)
