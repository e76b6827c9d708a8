"""Evaluate users' rules in a separate process that can be killed.

Each service process starts one small process at the first rule. This process evaluates the rules of
one turn at a time, within limits of CPU time and memory. If it exceeds a limit, it is killed, and
every rule without a result fails. A project whose rules are slow is moved to a second process for a
minute, so that other projects do not wait for it."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final, TypeAlias
from uuid import UUID

import structlog
from pydantic import JsonValue

from runward.domain.ids import Prefix, ProjectId, format_id
from runward.domain.json import JsonObject, compact
from runward.domain.registry.rules import RuleFailure, RuleValue
from runward.tools.environment import child_environment
from runward.tools.rule_process import CPU_SECONDS, MEMORY_BYTES

log = structlog.get_logger()

WAIT_SECONDS: Final = 10.0
"""Seconds that rules can wait for a busy process, and for their results."""
SLOW_SECONDS: Final = CPU_SECONDS / 10
"""CPU time of one turn's rules above which a project counts as slow."""
SLOW_FOR_SECONDS: Final = 60.0

TOO_SLOW: Final = f"The rules of this turn need more than {CPU_SECONDS:g} seconds of CPU time."
BUSY: Final = f"The rule was not evaluated within {WAIT_SECONDS:g} seconds."
_PROCESS_ENDED: Final = (
    f"The rule needs more than {MEMORY_BYTES >> 20} MiB, or could not be evaluated."
)
_PROGRAM: Final = Path(__file__).with_name("rule_process.py")


@dataclass(frozen=True, slots=True)
class RuleQuestion:
    """A rule and the values of its own variables, `args` and `tool`."""

    rule: str
    values: JsonObject


RuleResult: TypeAlias = bool | RuleFailure
_Answer: TypeAlias = list[RuleValue] | str
"""A list with the result, or the reason why there is no result. A rule that was only compiled has
an empty list."""


class RuleEvaluator:
    def __init__(self) -> None:
        self._normal = _Lane()
        self._slow = _Lane()
        self._slow_until: dict[UUID, float] = {}

    async def decide(
        self,
        project_id: ProjectId,
        questions: Sequence[RuleQuestion],
        shared: Mapping[str, JsonValue],
    ) -> list[RuleResult]:
        """Return one result for each question. `shared`: the values of the variables that all rules
        can read."""
        if not questions:
            return []
        rules = [(one.rule, one.values) for one in questions]
        answers = await self._ask(project_id, rules, shared)
        return [RuleFailure(one) if isinstance(one, str) else one[0] is True for one in answers]

    async def compute_keys(
        self, project_id: ProjectId, keys: Sequence[str], shared: Mapping[str, JsonValue]
    ) -> list[RuleValue | RuleFailure]:
        """Return the value of each concurrency key."""
        answers = await self._ask(project_id, [(key, {}) for key in keys], shared, keys=True)
        return [RuleFailure(one) if isinstance(one, str) else one[0] for one in answers]

    async def problem(
        self, project_id: ProjectId, rule: str, *, is_key: bool = False
    ) -> str | None:
        """Return the reason why `rule` does not compile, or None if it does. `is_key`: it is a
        concurrency key."""
        [answer] = await self._ask(project_id, [(rule, None)], {}, keys=is_key)
        return answer if isinstance(answer, str) else None

    async def _ask(
        self,
        project_id: UUID,
        rules: Sequence[tuple[str, JsonObject | None]],
        shared: Mapping[str, JsonValue],
        *,
        keys: bool = False,
    ) -> list[_Answer]:
        count = len(rules)
        try:
            line = compact({"shared": shared, "rules": rules, "keys": keys}).encode() + b"\n"
        except ValueError as error:  # a lone surrogate
            return [str(error)] * count
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                if not self._is_slow(project_id):
                    async with self._normal.turn:
                        if not self._is_slow(project_id):  # it may be slow by now
                            return await self._ask_in(self._normal, project_id, line, count)
                async with self._slow.turn:
                    return await self._ask_in(self._slow, project_id, line, count)
        except TimeoutError:
            log.warning(
                "rules_not_evaluated", project=format_id(Prefix.PROJECT, project_id), reason=BUSY
            )
            return [BUSY] * count

    async def _ask_in(
        self, lane: "_Lane", project_id: UUID, line: bytes, count: int
    ) -> list[_Answer]:
        answers, seconds = await lane.ask(line, count)
        if seconds is None or seconds > SLOW_SECONDS:
            self._mark_slow(project_id)
        if len(answers) == count:
            return answers
        reason = lane.why_it_ended
        log.warning(
            "rules_not_evaluated", project=format_id(Prefix.PROJECT, project_id), reason=reason
        )
        return answers + [reason] * (count - len(answers))

    def _is_slow(self, project_id: UUID) -> bool:
        return self._slow_until.get(project_id, 0) > monotonic()

    def _mark_slow(self, project_id: UUID) -> None:
        now = monotonic()
        self._slow_until = {one: until for one, until in self._slow_until.items() if until > now}
        self._slow_until[project_id] = now + SLOW_FOR_SECONDS

    async def aclose(self) -> None:
        await self._normal.end()
        await self._slow.end()


class _Lane:
    """A process that starts at first use. Hold `turn` while you send it a request."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.why_it_ended = ""
        self._process: Process | None = None

    async def ask(self, line: bytes, count: int) -> tuple[list[_Answer], float | None]:
        """Return the results and their CPU time. The time is None if the process ended before all
        of them were known."""
        try:
            process = self._process
            if process is None or process.returncode is not None:
                process = self._process = await _start()
        except OSError as error:
            self.why_it_ended = f"The process that evaluates rules could not be started: {error}"
            return [], None
        assert process.stdin is not None
        assert process.stdout is not None
        answers: list[_Answer] = []
        try:
            with suppress(ConnectionError):  # the process ended, which the read below reports
                process.stdin.write(line)
                await process.stdin.drain()
            while answer := await process.stdout.readline():
                if len(answers) == count:
                    return answers, json.loads(answer)
                answers.append(json.loads(answer))
        except BaseException:  # its next line would answer another request
            await self.end()
            raise
        code = await process.wait()
        self._process = None
        self.why_it_ended = TOO_SLOW if code == -signal.SIGPROF else _PROCESS_ENDED
        return answers, None

    async def end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _start() -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(_PROGRAM)),
        stdin=PIPE,
        stdout=PIPE,
        env=child_environment(),
        start_new_session=True,
    )
