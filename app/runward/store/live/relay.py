"""The relay of drafts to readers in other processes, through NOTIFY.

A process that follows a run announces it to all processes. The process that executes the run sends
pieces as long as another process follows the run. Messages can be lost: a reader that misses a
piece requests the draft again, and final texts are stored.

`runward_follow`: `SENDER ?RUN,RUN` requests the complete drafts and all further pieces. `SENDER
+RUN` only renews the announcement. `runward_deltas`: `SENDER [[…], …]` contains pieces.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast
from uuid import UUID

import structlog
from pydantic_core import from_json, to_json
from sqlalchemy import text

from runward.domain.ids import Prefix, format_id
from runward.store.live.drafts import Delta
from runward.store.postgres.db import DATABASE_ERRORS, log_fields
from runward.store.postgres.engine import AsyncEngine

log = structlog.get_logger()

RENEW_SECONDS: Final = 20.0
FOLLOWED_SECONDS: Final = 60.0
"""Seconds for which an announcement is valid."""
MAX_PAYLOAD_BYTES: Final = 7_900
"""Maximum size in bytes of a payload. PostgreSQL's limit is 8,000."""
MAX_BATCH_BYTES: Final = MAX_PAYLOAD_BYTES - 32
"""Maximum size in bytes of the pieces in one payload, without the sender."""
MAX_DELTA_CHARACTERS: Final = 1_000
"""Maximum number of characters of a piece. JSON uses up to six bytes for one character."""
MAX_QUEUED: Final = 10_000
"""Maximum number of pieces that wait for the database. If there are more, all of them are dropped,
and readers request them again."""
IDS_PER_PAYLOAD: Final = 200

_NOTIFY: Final = text(
    "SELECT pg_notify(channel, payload) FROM unnest(CAST(:channels AS text[]),"
    " CAST(:payloads AS text[])) AS one(channel, payload)"
)


class Relay:
    """The relay. `run` sends messages until it is cancelled. The process that executes a run calls
    `is_wanted`."""

    def __init__(self, autocommit: AsyncEngine) -> None:
        self._engine = autocommit
        self._me = secrets.token_hex(4)
        self._followed: dict[UUID, float] = {}
        self._pieces: list[Delta] = []
        self._asks: set[UUID] = set()
        self._notices: list[tuple[str, str]] = []
        self._wake = asyncio.Event()

    def is_wanted(self, run_id: UUID) -> bool:
        """Return whether another process follows the run."""
        until = self._followed.get(run_id)
        return until is not None and until > _now()

    def send(self, piece: Delta) -> None:
        if len(self._pieces) >= MAX_QUEUED:
            self._pieces.clear()
        self._pieces.append(piece)
        self._wake.set()

    def notify(self, channel: str, payload: str) -> None:
        self._notices.append((channel, payload))
        self._wake.set()

    def request_draft(self, run_id: UUID) -> None:
        """Request the draft of a run and all further pieces."""
        self._asks.add(run_id)
        self._wake.set()

    def receive_follow(self, payload: str) -> list[UUID]:
        """Store an announcement, and return the runs whose drafts it requests. This process's own
        announcements are ignored."""
        sender, _, rest = payload.partition(" ")
        if sender == self._me or not rest:
            return []
        try:
            run_ids = [UUID(one) for one in rest[1:].split(",")]
        except ValueError:
            return []
        now = _now()
        if len(self._followed) > MAX_QUEUED:
            self._followed = {id_: until for id_, until in self._followed.items() if until > now}
        self._followed.update(dict.fromkeys(run_ids, now + FOLLOWED_SECONDS))
        return run_ids if rest[0] == "?" else []

    def decode_deltas(self, payload: str) -> list[Delta]:
        sender, _, rest = payload.partition(" ")
        return [] if sender == self._me else list(_decode(rest))

    async def run(self, followed: Callable[[], Iterable[UUID]]) -> None:
        """Send messages until cancelled. `followed` returns the runs that this process follows and
        other processes execute."""
        renew_at = _now() + RENEW_SECONDS
        while True:
            left = renew_at - _now()
            if left <= 0:
                renew_at = _now() + RENEW_SECONDS
                await self._send([], {"+": list(followed())})
                continue
            try:
                async with asyncio.timeout(left):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()
            pieces, self._pieces = self._pieces, []
            asks, self._asks = self._asks, set()
            await self._send(pieces, {"?": list(asks)})

    async def _send(self, pieces: list[Delta], runs: dict[str, list[UUID]]) -> None:
        payloads, self._notices = self._notices, []
        payloads += [("runward_deltas", f"{self._me} {one}") for one in _encode_batches(pieces)]
        for mark, run_ids in runs.items():
            for start in range(0, len(run_ids), IDS_PER_PAYLOAD):
                shown = ",".join(one.hex for one in run_ids[start : start + IDS_PER_PAYLOAD])
                payloads.append(("runward_follow", f"{self._me} {mark}{shown}"))
        if not payloads:
            return
        channels, texts = zip(*payloads, strict=True)
        try:
            async with self._engine.connect() as tx:
                await tx.execute(_NOTIFY, {"channels": list(channels), "payloads": list(texts)})
        except DATABASE_ERRORS as error:  # Lost hints are harmless, so the error is only logged.
            log.warning("relay_failed", **log_fields(error), lost=len(pieces))


def _encode_batches(pieces: Iterable[Delta]) -> Iterator[str]:
    """Return JSON arrays of pieces, each small enough for one notification."""
    batch: list[bytes] = []
    size = 0
    for piece in pieces:
        for part in _split(piece):
            one = _encode(part)
            if one is None:
                log.warning(
                    "relay_piece_skipped", run=format_id(Prefix.RUN, part.run_id), type=part.type
                )
                continue
            if batch and size + len(one) > MAX_BATCH_BYTES:
                yield f"[{b','.join(batch).decode()}]"
                batch, size = [], 0
            batch.append(one)
            size += len(one) + 1
    if batch:
        yield f"[{b','.join(batch).decode()}]"


def _encode(piece: Delta) -> bytes | None:
    """Return the piece as JSON, or None if no notification can hold it."""
    said = [piece.run_id.hex, piece.version, piece.key, piece.offset, piece.text, piece.context]
    try:
        one = to_json(said)
    except ValueError:
        return None
    return one if len(one) <= MAX_BATCH_BYTES else None


def _split(piece: Delta) -> Iterator[Delta]:
    """Yield the piece in parts that fit a notification."""
    yield Delta(
        piece.run_id,
        piece.version,
        piece.key,
        piece.offset,
        piece.text[:MAX_DELTA_CHARACTERS],
        piece.context,
    )
    for at in range(MAX_DELTA_CHARACTERS, len(piece.text), MAX_DELTA_CHARACTERS):
        rest = piece.text[at : at + MAX_DELTA_CHARACTERS]
        yield Delta(piece.run_id, piece.version, piece.key, piece.offset + at, rest, piece.context)


def _decode(payload: str) -> Iterator[Delta]:
    """Yield the pieces of a message. If another version of Runward sent an unknown format, yield
    none."""
    try:
        found = cast("list[Any]", from_json(payload))
        for run_id, stamp, strand, offset, said, about in found:
            turn, fence, attempt = stamp
            kind, index = strand
            yield Delta(UUID(run_id), (turn, fence, attempt), (kind, index), offset, said, about)
    except (TypeError, ValueError):
        log.warning("relay_not_understood", payload=payload[:200])


def _now() -> float:
    return asyncio.get_running_loop().time()
