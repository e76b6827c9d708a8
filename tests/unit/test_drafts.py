"""Drafts: pieces for those who watch, all for those who come late, nothing twice."""

import asyncio
import json
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject
from runward.store.live.drafts import RESTARTED, Delta, DeltaCursor, DeltaVersion, Draft

RUN = UUID(int=1)
TEXT = "message.delta"


class Watched:
    """A draft and whoever watches it."""

    def __init__(self, *, watched: bool = True) -> None:
        self.watched = watched
        self.shown: list[Delta] = []
        self.more = asyncio.Event()
        self.draft = Draft(
            RUN, turn=2, fence=1, agent="clerk", send=self._show, is_wanted=lambda _: self.watched
        )

    def _show(self, piece: Delta) -> None:
        self.shown.append(piece)
        self.more.set()

    async def next(self) -> Delta:
        self.more.clear()
        async with asyncio.timeout(10):
            await self.more.wait()
        return self.shown[-1]

    @property
    def texts(self) -> list[str]:
        return [piece.text for piece in self.shown]


async def test_what_arrives_in_one_read_goes_out_at_once_and_the_next_ones_together() -> None:
    one = Watched()
    one.draft.add(TEXT, "He")
    one.draft.add(TEXT, "l")
    assert one.texts == []
    assert (await one.next()).text == "Hel"
    for text in ("lo", " wor", "ld"):
        one.draft.add(TEXT, text)
    assert one.texts == ["Hel"]
    piece = await one.next()
    assert (piece.offset, piece.text) == (3, "lo world")
    one.draft.close()
    assert one.texts == ["Hel", "lo world"]


async def test_closing_shows_what_is_left() -> None:
    one = Watched()
    one.draft.add(TEXT, "a")
    one.draft.add(TEXT, "b")
    one.draft.close()
    assert one.texts == ["ab"]
    await asyncio.sleep(0)
    assert one.texts == ["ab"]


async def test_while_nobody_watches_nothing_is_shown_and_nothing_is_lost() -> None:
    one = Watched(watched=False)
    one.draft.add(TEXT, "Hello")
    one.draft.close()
    assert one.shown == []
    one.watched = True
    one.draft.flush()
    one.draft.add(TEXT, " you")
    assert [piece.text for piece in one.draft.snapshot()] == ["Hello"]
    one.draft.flush()
    assert [(piece.offset, piece.text) for piece in one.shown] == [(0, "Hello"), (5, " you")]
    assert [(piece.offset, piece.text) for piece in one.draft.snapshot()] == [(0, "Hello you")]


async def test_each_call_is_a_strand_of_its_own_and_is_told_before_it_has_arguments() -> None:
    one = Watched()
    for index, (call_id, text) in enumerate((("c1", ""), ("c2", "{}"))):
        about: JsonObject = {"call_id": call_id, "tool": "pay"}
        one.draft.add("tool_call.arguments.delta", text, index, about)
    one.draft.flush()
    assert [(p.context["call_id"], p.text) for p in one.shown] == [("c1", ""), ("c2", "{}")]
    assert json.loads(one.shown[-1].frame.split(b"data: ")[1]) == {
        "type": "tool_call.arguments.delta",
        "run_id": format_id(Prefix.RUN, RUN),
        "data": {
            "turn": 2,
            "agent": "clerk",
            "call_id": "c2",
            "tool": "pay",
            "text": "{}",
            "offset": 0,
        },
    }


async def test_a_restart_makes_void_what_was_said() -> None:
    one = Watched()
    one.draft.add(TEXT, "Hel")
    one.draft.flush()
    one.draft.restart()
    one.draft.add(TEXT, "Bye")
    one.draft.flush()
    assert [piece.type for piece in one.shown] == [TEXT, RESTARTED, TEXT]
    assert one.shown[0].version < one.shown[1].version == one.shown[2].version
    assert one.shown[2].offset == 0
    assert one.shown[1].data == {"turn": 2, "agent": "clerk"}


def piece(offset: int, text: str, stamp: DeltaVersion = (1, 1, 0), type_: str = TEXT) -> Delta:
    return Delta(RUN, stamp, (type_, 0), offset, text, {"agent": None})


def heard(reader: DeltaCursor, *pieces: Delta) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for one in pieces:
        news = reader.select_unseen(one)
        assert news is not None
        found += [(new.type, new.text) for new in news]
    return found


def test_what_was_had_already_is_left_out() -> None:
    reader = DeltaCursor()
    shown = heard(reader, piece(0, "Hel"), piece(0, "Hel"), piece(0, "Hello"), piece(2, "llo!"))
    assert shown == [(TEXT, "Hel"), (TEXT, "lo"), (TEXT, "!")]


def test_a_gap_is_noticed() -> None:
    reader = DeltaCursor()
    assert heard(reader, piece(0, "Hel")) == [(TEXT, "Hel")]
    assert reader.select_unseen(piece(4, "o")) is None
    assert heard(reader, piece(0, "Hello")) == [(TEXT, "lo")]
    assert DeltaCursor().select_unseen(piece(1, "x")) is None


def test_a_later_attempt_makes_an_earlier_one_void() -> None:
    reader, again = DeltaCursor(), (1, 1, 1)
    assert heard(reader, piece(0, "Hel"), piece(0, "Bye", again)) == [
        (TEXT, "Hel"),
        (RESTARTED, ""),
        (TEXT, "Bye"),
    ]
    assert heard(reader, piece(3, "lo"), piece(0, "", again, RESTARTED)) == []
    assert heard(reader, piece(0, "Next", (2, 1, 0))) == [(TEXT, "Next")]


def test_a_word_of_the_restart_itself_is_passed_on_once() -> None:
    reader, again = DeltaCursor(), (1, 1, 1)
    restart = piece(0, "", again, RESTARTED)
    shown = heard(reader, piece(0, "Hel"), restart, restart, piece(0, "Bye", again))
    assert shown == [(TEXT, "Hel"), (RESTARTED, ""), (TEXT, "Bye")]


@given(st.text(min_size=1, max_size=30), st.lists(st.tuples(st.integers(0), st.integers(0))))
def test_whatever_comes_twice_or_late_the_reader_has_the_text_once(
    whole: str, cuts: list[tuple[int, int]]
) -> None:
    reader, shown = DeltaCursor(), ""
    for one, other in [*cuts, (0, len(whole))]:
        begin, end = sorted((one % (len(whole) + 1), other % (len(whole) + 1)))
        news = reader.select_unseen(piece(begin, whole[begin:end]))
        assert (news is None) == (begin > len(shown))
        shown += "".join(new.text for new in news or [])
        assert whole.startswith(shown)
    assert shown == whole
