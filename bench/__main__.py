"""`make bench`: measure Runward over HTTP and the floor, in turns, on one PostgreSQL.

The benchmark prints a table with all goals, and writes it to bench/RESULTS.md. It takes about three
minutes. With `--full`, it measures at the sizes that the goals name. With `--against REVISION`, it
also measures that revision of the repository, and the table shows the figures before and after.
"""

import argparse
import os
import platform
import resource
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import uvloop

from bench import floor, machine, measures, postgres, service, streams
from bench.checkout import RevisionError, check_out
from bench.measures import Load, Meter, Peer
from bench.parts import CHAPTERS
from bench.postgres import Postgres
from bench.processes import PROJECT, THIS, ProcessError, Version
from bench.report import Findings, Side, markdown
from bench.service import Service
from bench.sitting import Sitting, Sizes
from bench.streams import Streamer
from bench.work import WrongAnswerError
from runward.store.postgres.embedded_home import EmbeddedError

PARTS: Final = ("runs", "approvals", "streams", "parked", "readers", "starts", *CHAPTERS)
EXTRA: Final = "profile"
"""Not measured by default, because a sampler may need more rights than the service."""
RESULTS: Final = PROJECT / "bench" / "RESULTS.md"


@dataclass(frozen=True, slots=True)
class Measured:
    """A `serve` process of one version, its database, and what was measured."""

    version: Version
    process: Service
    database: str
    side: Side


async def bench(sizes: Sizes, against: str | None) -> Findings:
    begun = time.perf_counter()
    with TemporaryDirectory(prefix="runward-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the embedded PostgreSQL runs as another user than root
        versions = [check_out(against, folder / "before")] if against else []
        sides = {version.name: Side(version.name) for version in (*versions, THIS)}
        findings = Findings(sides[THIS.name], sides[versions[0].name] if versions else None)
        log = folder / "log"
        _say("Starting PostgreSQL and the fake model")
        async with (
            postgres.running(folder / "data") as server,
            service.fake_model(log) as (fake, fake_pid),
        ):
            async with _serving(server, fake, log, (*versions, THIS), sides) as measured:
                await _peers(sizes, server, (fake, fake_pid), log, measured, findings)
            for version in (*versions, THIS):
                sitting = Sitting(sizes, server, fake, log, version)
                await _chapters(sitting, sides[version.name])
            about = server.about
        if "starts" in sizes.parts:
            for version in (*versions, THIS):
                _say(f"Starting {version.name} on the embedded PostgreSQL, twice")
                data = folder / f"starts-{len(version.name)}"
                sides[version.name].starts = await measures.starts(data, log, version)
    findings.about = _about(sizes, about, time.perf_counter() - begun, findings.before)
    return findings


@asynccontextmanager
async def _serving(
    server: Postgres, fake: str, log: Path, versions: Sequence[Version], sides: dict[str, Side]
) -> AsyncGenerator[list[Measured]]:
    async with AsyncExitStack() as stack:
        measured: list[Measured] = []
        for version in versions:
            _say(f"Starting {version.name}")
            database = await server.make_database("runward")
            process = await stack.enter_async_context(service.serving(database, fake, log, version))
            measured.append(Measured(version, process, database, sides[version.name]))
        yield measured


async def _peers(
    sizes: Sizes,
    server: Postgres,
    model: tuple[str, int],
    log: Path,
    measured: Sequence[Measured],
    findings: Findings,
) -> None:
    fake, fake_pid = model
    processes = [one.process for one in measured]

    def mine() -> float:
        trees = sum(machine.cpu_seconds(pid) for pid in (fake_pid, *(one.pid for one in processes)))
        return trees + time.process_time() + server.cpu_seconds()

    if {"runs", "approvals"} & set(sizes.parts):
        async with floor.ready(await server.make_database("floor"), fake) as limit:
            await _compare(sizes, Meter(server, mine), (limit, *processes), findings)
    if "streams" in sizes.parts:
        async with streams.relay(fake, log) as relay:
            await _streams(sizes, (relay, *map(streams.of, processes)), fake, findings)
    for one in measured:
        await _waiting(sizes, server, one)


async def _compare(
    sizes: Sizes, meter: Meter, peers: Sequence[Peer[Any]], findings: Findings
) -> None:
    """Measure all peers in turns, so that other load on the machine affects all of them."""
    for peer in peers:
        await measures.warm_up(peer)
    for repeat in range(1, sizes.repeats + 1):
        if "runs" in sizes.parts:
            for concurrency in sizes.concurrency:
                for peer in peers:
                    load = await meter.load(peer, concurrency, sizes.seconds)
                    findings.loads.append(load)
                    _say(_line(repeat, load))
        if "approvals" in sizes.parts:
            for peer in peers:
                took = await measures.approvals(peer, sizes.seconds / 2)
                findings.approvals.setdefault(peer.name, []).append(took)
                _say(f"  {repeat}  {peer.name:11}  approval to end  {took:8.2f} ms")


async def _streams(sizes: Sizes, peers: Sequence[Streamer], fake: str, findings: Findings) -> None:
    for repeat in range(1, sizes.repeats + 1):
        for peer in peers:
            relaying = await streams.relaying(peer, sizes.streams, sizes.words)
            findings.relaying.append(relaying)
            _say(
                f"  {repeat}  {peer.name:11}  {relaying.streams} streams"
                f"  {relaying.per_second:8,.0f} tokens/s  {relaying.per_core_second:8,.0f} a core"
            )
        for peer in peers:
            first = await streams.first_token(peer, fake, sizes.firsts)
            findings.first_tokens.append(first)
            _say(f"  {repeat}  {peer.name:11}  first token  {first.added:6.2f} ms later")


async def _waiting(sizes: Sizes, server: Postgres, one: Measured) -> None:
    if "runs" in sizes.parts:
        one.side.hot_updates = await measures.hot_updates(server, one.database)
    if {"parked", "readers"} & set(sizes.parts):
        _say(f"{one.version.name}: {sizes.parked:,} parked runs, {sizes.readers:,} idle readers")
        one.side.parking, parked = await measures.parking(
            one.process, server, one.database, sizes.parked
        )
        if "readers" in sizes.parts:
            one.side.idling = await measures.idling(
                one.process, server, one.database, parked, sizes.readers
            )


async def _chapters(sitting: Sitting, side: Side) -> None:
    for part, measure in CHAPTERS.items():
        if part in sitting.sizes.parts:
            _say(f"{side.name}: {part}")
            side.chapters.append(await measure(sitting))


def _line(repeat: int, load: Load) -> str:
    return (
        f"  {repeat}  {load.peer:11}  c={load.concurrency:<3} {load.runs_per_second:8,.0f} runs/s"
        f"  {load.cpu:6.2f} ms CPU a run ({load.own_cpu:.2f} + {load.postgres_cpu:.2f} PostgreSQL)"
    )


def _about(sizes: Sizes, database: str, seconds: float, before: Side | None) -> str:
    earlier = (
        f" `{before.name}` is a `serve` process with the code of that revision, on the same"
        " PostgreSQL. The measurements of both versions and the floor alternated."
        if before
        else ""
    )
    return (
        "Each run has one user message, a model response with a webhook tool call, and a second"
        " model response. The model and the tool respond immediately. Runward is one `serve`"
        " process. Each client starts a run with POST, and reads its events over SSE until the run"
        " ends. `floor-batch` is a loop that does the same work without HTTP, and with group"
        f" commit. It shows the practical limit (`bench/floor.py`).{earlier}\n\n"
        "The CPU time is that of the service's process and of PostgreSQL. It does not include the"
        " CPU time of the clients, which run on the same machine. For P6, it is that of the"
        f" service's process alone, and the model sends one word every {streams.PAUSE_MS} ms in"
        " each stream. `bare relay` is a minimal relay between the model and the client"
        " (`bench/relay.py`).\n\n"
        f"{os.cpu_count()} CPUs, Python {platform.python_version()}, {database}."
        f" Repetitions of each load, in turns: {sizes.repeats} of {sizes.seconds:g} s. The"
        f" benchmark took {seconds:.0f} s. The load average at its end was"
        f" {os.getloadavg()[0]:.1f}."
    )


def _arguments(arguments: Sequence[str]) -> tuple[Sizes, str | None, Path]:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="10,000 parked runs, 2,000 readers, 1,000,000 stored runs",
    )
    parser.add_argument("--clients", default="1,16,64", help="numbers of clients (%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.5, help="for each load (%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="of each load (%(default)s)")
    parser.add_argument("--streams", type=int, default=64, help="active streams (%(default)s)")
    parser.add_argument("--words", type=int, default=600, help="in each stream (%(default)s)")
    parser.add_argument("--firsts", type=int, default=70, help="first tokens (%(default)s)")
    parser.add_argument("--parked", type=int, help="runs that wait for approval (1,000)")
    parser.add_argument("--readers", type=int, help="idle event streams (200)")
    parser.add_argument("--stored", type=int, help="finished runs in the database (50,000)")
    usual = ",".join(part for part in PARTS if part != EXTRA)
    parser.add_argument(
        "--parts", default=usual, help=f"parts to measure (%(default)s); also {EXTRA}"
    )
    parser.add_argument("--against", metavar="REVISION", help="a revision to measure in turns")
    parser.add_argument("--output", type=Path, default=RESULTS, help="the file for the results")
    given = parser.parse_args(arguments)
    parts = tuple(cast(str, given.parts).split(","))
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts: unknown: {', '.join(sorted(unknown))}. Known: {', '.join(PARTS)}")
    sizes = Sizes(
        concurrency=tuple(int(one) for one in given.clients.split(",")),
        seconds=given.seconds,
        repeats=given.repeats,
        streams=given.streams,
        words=given.words,
        firsts=given.firsts,
        parked=given.parked or (10_000 if given.full else 1_000),
        readers=given.readers or (2_000 if given.full else 200),
        stored=given.stored or (1_000_000 if given.full else 50_000),
        parts=parts,
        full=given.full,
    )
    return sizes, given.against, given.output


def allow_many_files() -> None:
    """Raise the limit of open files. An idle reader is a socket in this process and in `serve`."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _say(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    sizes, against, output = _arguments(sys.argv[1:])
    allow_many_files()
    try:
        findings = uvloop.run(bench(sizes, against))
    except (ProcessError, WrongAnswerError, EmbeddedError, RevisionError) as error:
        raise SystemExit(str(error)) from None
    except ExceptionGroup as group:
        raise SystemExit("\n".join(str(error) for error in group.exceptions)) from group
    text = markdown(findings)
    output.write_text(text, encoding="utf-8")
    for chapter in findings.after.chapters:
        for name, chart in chapter.charts.items():
            file = output.parent / "charts" / f"{name}.svg"
            file.parent.mkdir(exist_ok=True)
            file.write_text(chart, encoding="utf-8")
    _say(f"\n{text}\nWritten to {output}.")


if __name__ == "__main__":
    main()
