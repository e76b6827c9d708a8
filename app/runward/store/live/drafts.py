"""Drafts: the output that a model is generating, in pieces for current readers and as a whole for
readers that connect later.

Drafts are never stored. `message.completed` contains the complete text. A strand is the text of a
turn, its reasoning, or the arguments of one call. Each piece contains its offset in its strand, so
that a reader detects repeated and missing pieces.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias
from uuid import UUID

from runward.domain import ids
from runward.domain.ids import Prefix
from runward.domain.json import JsonObject, to_compact_json

FLUSH_SECONDS: Final = 0.03
"""Minimum number of seconds between two pieces of one run. The first piece is sent immediately."""
RESTARTED: Final = "message.restarted"

DeltaVersion: TypeAlias = tuple[int, int, int]
"""Turn, fence and attempt. Pieces of a higher version invalidate all pieces of a lower one."""
DeltaKey: TypeAlias = tuple[str, int]
"""The type of the events, and the index of the strand among those of this type."""


@dataclass(slots=True)
class Delta:
    """A piece of a draft. `offset` counts characters."""

    run_id: UUID
    version: DeltaVersion
    key: DeltaKey
    offset: int
    text: str
    context: JsonObject
    _frame: bytes = field(default=b"", init=False, repr=False, compare=False)

    @property
    def type(self) -> str:
        return self.key[0]

    @property
    def end(self) -> int:
        return self.offset + len(self.text)

    @property
    def data(self) -> JsonObject:
        """Return the data of the event."""
        data: JsonObject = {"turn": self.version[0], **self.context}
        if self.type != RESTARTED:
            data["text"], data["offset"] = self.text, self.offset
        return data

    @property
    def frame(self) -> bytes:
        """Return the server-sent event. It is encoded once for all readers of the complete
        piece."""
        if not self._frame:
            run_id = ids.format_id(Prefix.RUN, self.run_id)
            event = to_compact_json({"type": self.type, "run_id": run_id, "data": self.data})
            self._frame = b"event: %b\ndata: %b\n\n" % (self.type.encode(), event)
        return self._frame

    def trim_before(self, offset: int) -> "Delta":
        """Return the piece without the characters before `offset`."""
        if offset <= self.offset:
            return self
        return replace(self, offset=offset, text=self.text[offset - self.offset :])


@dataclass(slots=True)
class _DraftText:
    context: JsonObject
    sent: list[str] = field(default_factory=list[str])
    sent_length: int = 0
    unsent: list[str] = field(default_factory=list[str])
    is_new: bool = True


class Draft:
    """The draft of one turn. `send` receives the pieces, but only while `is_wanted` returns True
    because the run has readers. Call `close` at the end of the turn."""

    def __init__(
        self,
        run_id: UUID,
        *,
        turn: int,
        fence: int,
        agent: str | None,
        send: Callable[[Delta], None],
        is_wanted: Callable[[UUID], bool],
    ) -> None:
        self._run_id = run_id
        self._stamp: DeltaVersion = (turn, fence, 0)
        self._agent = agent
        self._show = send
        self._wanted = is_wanted
        self._strands: dict[DeltaKey, _DraftText] = {}
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._next_flush = 0.0

    def add(self, type_: str, text: str, index: int = 0, context: JsonObject | None = None) -> None:
        said = self._strands.get((type_, index))
        if said is None:
            said = _DraftText({"agent": self._agent, **(context or {})})
            self._strands[type_, index] = said
        said.unsent.append(text)
        if self._timer is None and self._wanted(self._run_id):
            left = self._next_flush - self._loop.time()
            # Even the first piece contains everything that has arrived with its first character.
            self._timer = self._loop.call_later(max(left, 0.0), self.flush)

    def restart(self) -> None:
        """Discard the draft, because the model request is repeated from the start."""
        turn, fence, attempt = self._stamp
        self._stamp = (turn, fence, attempt + 1)
        self._strands.clear()
        if self._wanted(self._run_id):
            about: JsonObject = {"agent": self._agent}
            self._show(Delta(self._run_id, self._stamp, (RESTARTED, 0), 0, "", about))

    def flush(self) -> None:
        """Send the text that was not sent yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._next_flush = self._loop.time() + FLUSH_SECONDS
        for strand, said in self._strands.items():
            if not said.unsent:
                continue
            text = "".join(said.unsent)
            said.unsent.clear()
            if not text and not said.is_new:
                continue
            said.is_new = False
            self._show(self._piece(strand, said, said.sent_length, text))
            said.sent.append(text)
            said.sent_length += len(text)

    def snapshot(self) -> list[Delta]:
        """Return the text that was sent so far, one piece for each strand."""
        return [
            self._piece(strand, said, 0, "".join(said.sent))
            for strand, said in self._strands.items()
            if not said.is_new
        ]

    def close(self) -> None:
        if self._wanted(self._run_id):
            self.flush()
        elif self._timer is not None:
            self._timer.cancel()

    def _piece(self, strand: DeltaKey, draft_text: _DraftText, offset: int, text: str) -> Delta:
        return Delta(self._run_id, self._stamp, strand, offset, text, draft_text.context)


class DeltaCursor:
    """The position of one reader in the drafts of its runs."""

    def __init__(self) -> None:
        self._stamps: dict[UUID, DeltaVersion] = {}
        self._ends: dict[UUID, dict[DeltaKey, int]] = {}

    def select_unseen(self, piece: Delta) -> list[Delta] | None:
        """Return the part of a piece that is new to the reader. If the piece invalidates earlier
        pieces of the turn, a restart event precedes it. Returns None if an earlier piece is
        missing."""
        run_id = piece.run_id
        stamp = self._stamps.get(run_id)
        if stamp is not None and piece.version < stamp:
            return []
        news: list[Delta] = []
        if stamp != piece.version:
            told_before = bool(self._ends.get(run_id)) and stamp is not None
            self._stamps[run_id], self._ends[run_id] = piece.version, {}
            if told_before and stamp is not None and stamp[0] == piece.version[0]:
                about: JsonObject = {"agent": piece.context["agent"]}
                news.append(Delta(run_id, piece.version, (RESTARTED, 0), 0, "", about))
        if piece.type == RESTARTED:
            return news
        ends = self._ends[run_id]
        end = ends.get(piece.key)
        if piece.offset > (end or 0):
            return None
        if end is None or piece.end > end:
            ends[piece.key] = piece.end
            news.append(piece.trim_before(end or 0))
        return news
