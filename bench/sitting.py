"""One run of the benchmark: its sizes, its PostgreSQL and its fake model, for all of its parts."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import service
from bench.postgres import Postgres
from bench.processes import Version
from bench.service import NO_SETTINGS, Service


@dataclass(frozen=True, slots=True)
class Sizes:
    concurrency: tuple[int, ...]
    seconds: float
    repeats: int
    streams: int
    words: int
    firsts: int
    parked: int
    readers: int
    stored: int
    """Finished runs in the database of the part `growth`."""
    parts: tuple[str, ...]
    full: bool
    """`--full`: measure at the sizes that the goals name."""


@dataclass(frozen=True, slots=True)
class Sitting:
    """Resources for a part of the benchmark, and the version of Runward that it measures."""

    sizes: Sizes
    postgres: Postgres
    fake: str
    """The address of the fake model and tool."""
    log: Path
    version: Version

    @asynccontextmanager
    async def serving(
        self, purpose: str, settings: Mapping[str, str] = NO_SETTINGS
    ) -> AsyncGenerator[tuple[Service, str]]:
        """Start a `serve` process on a new database, and return it with the database's URL."""
        database = await self.postgres.make_database(purpose)
        start = service.serving(database, self.fake, self.log, self.version, settings)
        async with start as process:
            yield process, database
