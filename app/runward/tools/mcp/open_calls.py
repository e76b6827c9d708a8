"""Open calls of MCP servers. A server of the protocol of 2025 can ask for input while a call is
open. The attempt then ends with an input request, and the call stays open in this process until the
client of the run has answered."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

import structlog
from pydantic import JsonValue

from runward.domain.ids import ProjectId, RunId
from runward.domain.json import JsonObject, clean_text, is_same_json
from runward.domain.run.outcomes import Outcome
from runward.tools.base import Report
from runward.tools.mcp.elicitation import read_answered, read_answers, request_input
from runward.tools.mcp.outcome import MAX_MESSAGE

if TYPE_CHECKING:
    from mcp.types import ElicitResult

log = structlog.get_logger()

MAX_HELD: Final = 256
"""Maximum number of calls that one process keeps open for answers."""
CHECK_SECONDS: Final = 10.0
"""Seconds between two checks whether the kept calls are still open in the database."""
MATCH_SECONDS: Final = 30.0
"""Seconds to find the call that a question belongs to."""

sending: Final[ContextVar["OpenCall | None"]] = ContextVar("mcp_call", default=None)
"""The call that the current task sends. The SDK handles a question in the context of the request on
whose stream the question arrived."""


@dataclass(frozen=True, slots=True)
class HeldCall:
    """A call that a process keeps open."""

    project_id: ProjectId
    run_id: RunId
    id: UUID


FindOpenCalls: TypeAlias = Callable[[Sequence[HeldCall]], Awaitable[set[UUID]]]
"""Returns the IDs of the calls that have no result yet. Raises AppError."""


@dataclass(eq=False, slots=True)
class _Question:
    params: JsonObject
    answer: "asyncio.Future[ElicitResult]"


@dataclass(eq=False, slots=True)
class OpenCall:
    """One `tools/call` request. `answered`: the questions that have an answer, with their answers.
    If the call is sent again, each of these questions gets the same answer once more."""

    report: Report
    answered: list[JsonValue] = field(default_factory=list[JsonValue])
    _known: list[JsonValue] = field(init=False)
    task: asyncio.Task[Outcome] = field(init=False)
    _questions: dict[str, _Question] = field(default_factory=dict[str, _Question])
    _count: int = 0
    _asked: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._known = [*self.answered]

    def send(self, request: Callable[["OpenCall"], Awaitable[Outcome]]) -> None:
        async def run() -> Outcome:
            sending.set(self)
            return await request(self)

        self.task = asyncio.create_task(run())

    async def ask(self, params: JsonObject) -> "ElicitResult":
        """Return the client's answer to a question of the server."""
        from mcp.types import ElicitResult  # noqa: PLC0415

        for one in self._known:
            assert isinstance(one, dict)
            if _is_same_question(one["question"], params):
                self._known.remove(one)
                return ElicitResult.model_validate(one["answer"])
        self._count += 1
        key, answer = str(self._count), asyncio.get_running_loop().create_future()
        self._questions[key] = _Question(params, answer)
        self._asked.set()
        try:
            return await answer
        finally:
            self._questions.pop(key, None)
            self._note_questions()

    def answer(self, given: JsonObject) -> None:
        """Answer the questions of an input request."""
        from mcp.types import ElicitResult  # noqa: PLC0415

        self.answered = read_answered(given)
        for key, answer in read_answers(given).items():
            question = self._questions.pop(key, None)
            if question is not None and not question.answer.done():
                question.answer.set_result(ElicitResult.model_validate(answer))
        self._note_questions()

    async def wait(self) -> Outcome:
        """Return the outcome of the call, or its questions as an input request."""
        asked = asyncio.create_task(self._asked.wait())
        try:
            await asyncio.wait({self.task, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
        if self.task.done():
            return self.task.result()
        questions = {key: one.params for key, one in self._questions.items()}
        return request_input(questions, {"answered": self.answered})

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        share = min(max(progress / total, 0.0), 1.0) if total else None
        self.report(share, None if message is None else clean_text(message)[:MAX_MESSAGE])

    async def close(self) -> None:
        """Cancel the call on the server unless it has ended."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def _note_questions(self) -> None:
        if not self._questions:
            self._asked.clear()


class AskingCalls:
    """The open calls of one session. `on_unmatched` is called if it is not certain which of them a
    question belongs to. The session must then not start other calls."""

    def __init__(self, on_unmatched: Callable[[], None]) -> None:
        self._on_unmatched = on_unmatched
        self._calls: set[OpenCall] = set()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def include(self, call: OpenCall) -> AsyncGenerator[None]:
        """Accept questions about the call inside the block."""
        self._calls.add(call)
        try:
            yield
        finally:
            self._calls.discard(call)
            self._changed.set()

    async def ask(self, params: JsonObject) -> "ElicitResult | None":
        """Return the answer to a question. None: it belongs to no call, or it is not certain to
        which."""
        call = sending.get()
        if call not in self._calls:
            call = await self._find_only()
        return None if call is None else await call.ask(params)

    async def _find_only(self) -> OpenCall | None:
        """Return the only open call. If there are several, wait for the ends of the others."""
        if self._calls:
            self._on_unmatched()
        try:
            async with asyncio.timeout(MATCH_SECONDS):
                while len(self._calls) > 1:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return None
        return next(iter(self._calls), None)


class HeldCalls:
    """The calls that this process keeps open for answers. Close it with `aclose`."""

    def __init__(self, find_open: FindOpenCalls) -> None:
        self._find_open = find_open
        self._held: dict[HeldCall, OpenCall] = {}
        self._checking: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        return len(self._held) >= MAX_HELD

    def put(self, key: HeldCall, call: OpenCall) -> None:
        self._held[key] = call
        if self._checking is None or self._checking.done():
            # Without the context of this call, because the task checks the calls of all projects.
            self._checking = asyncio.create_task(self._check(), context=Context())

    def take(self, key: HeldCall) -> OpenCall | None:
        return self._held.pop(key, None)

    async def aclose(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, return_exceptions=True)
        await self._drop(list(self._held))

    async def _check(self) -> None:
        """Close the calls whose run was cancelled, or that received a result in another way."""
        while self._held:
            await asyncio.sleep(CHECK_SECONDS)
            keys = list(self._held)
            try:
                open_ids = await self._find_open(keys)
            except Exception as error:  # the next check tries again
                log.info("mcp_held_calls_not_checked", error=str(error)[:300])
                continue
            await self._drop([key for key in keys if key.id not in open_ids])

    async def _drop(self, keys: Iterable[HeldCall]) -> None:
        dropped = [call for key in keys if (call := self.take(key)) is not None]
        await asyncio.gather(*(call.close() for call in dropped))


def _is_same_question(one: JsonValue, other: JsonObject) -> bool:
    """Compare two questions without the IDs that a server creates for each request."""
    assert isinstance(one, dict)
    compared = [
        {name: value for name, value in question.items() if name not in ("elicitationId", "_meta")}
        for question in (one, other)
    ]
    return is_same_json(compared[0], compared[1])
