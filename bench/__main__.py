"""`make bench`: Runward over HTTP beside the floor, in one sitting, on one PostgreSQL.

What is measured and what is to be reached stands in the table that this prints. It takes under
three minutes; `make bench ARGS=--full` takes longer and measures at full size.
"""

import argparse
import os
import platform
import resource
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import uvloop

from bench import floor, machine, measures, postgres, service, streams
from bench.measures import Load, Meter, Peer
from bench.processes import PROJECT, ProcessError
from bench.report import Findings, markdown
from bench.streams import Streamer
from bench.work import WrongAnswerError
from runward.store.postgres.embedded_home import EmbeddedError

PARTS: Final = ("runs", "approvals", "streams", "parked", "readers", "starts")
RESULTS: Final = PROJECT / "bench" / "RESULTS.md"


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
    parts: tuple[str, ...]


async def bench(sizes: Sizes) -> Findings:
    begun = time.perf_counter()
    with TemporaryDirectory(prefix="runward-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the embedded PostgreSQL runs as another user than root
        log = folder / "log"
        findings = Findings("")
        async with AsyncExitStack() as stack:
            _say("Starting PostgreSQL, the fake model and Runward")
            server = await stack.enter_async_context(postgres.running(folder / "data"))
            fake, fake_pid = await stack.enter_async_context(service.fake_model(log))
            database = await server.make_database("runward")
            ours = await stack.enter_async_context(service.serving(database, fake, log))
            limit = await stack.enter_async_context(
                floor.ready(await server.make_database("floor"), fake)
            )

            def mine() -> float:
                trees = sum(map(machine.cpu_seconds, (ours.pid, fake_pid)))
                return trees + time.process_time() + server.cpu_seconds()

            await _compare(sizes, Meter(server, mine), (limit, ours), findings)
            if "streams" in sizes.parts:
                relay = await stack.enter_async_context(streams.relay(fake, log))
                await _streams(sizes, (relay, streams.of(ours)), fake, findings)
            if {"parked", "readers"} & set(sizes.parts):
                _say(f"{sizes.parked:,} parked runs, {sizes.readers:,} idle readers")
                findings.parking, parked = await measures.parking(
                    ours, server, database, sizes.parked
                )
                if "readers" in sizes.parts:
                    findings.idling = await measures.idling(
                        ours, server, database, parked, sizes.readers
                    )
            about = server.about
        if "starts" in sizes.parts:
            _say("Starting on the embedded PostgreSQL, twice")
            findings.starts = await measures.starts(folder / "first-minute", log)
    findings.about = _about(sizes, about, time.perf_counter() - begun)
    return findings


async def _compare(
    sizes: Sizes, meter: Meter[Any], peers: Sequence[Peer[Any]], findings: Findings
) -> None:
    """Floor and service take turns, so that what else the machine does burdens both."""
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
                _say(f"  {repeat}  {peer.name:11}  approve to finished  {took:8.2f} ms")


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


def _line(repeat: int, load: Load) -> str:
    return (
        f"  {repeat}  {load.peer:11}  c={load.concurrency:<3} {load.runs_per_second:8,.0f} runs/s"
        f"  {load.cpu:6.2f} ms CPU a run ({load.own_cpu:.2f} + {load.postgres_cpu:.2f} PostgreSQL)"
    )


def _about(sizes: Sizes, database: str, seconds: float) -> str:
    return (
        "One run: user message, model, one webhook tool call, model, answer; every step in"
        " PostgreSQL. The model and the tool answer at once. Runward is one `serve` process, used"
        " over HTTP: POST, then its events over SSE to the end. `floor-batch` is the same work in"
        " one loop without HTTP in front, with group commit: the practical limit (bench/floor.py)."
        " CPU is that of the service's process and of PostgreSQL; the clients' is not counted,"
        " but they share the machine. Where words are streamed, the model sends each as a packet"
        f" of its own, one every {streams.PAUSE_MS} ms in each stream; CPU is then that of the"
        " service's process alone. `bare relay` is the least that could stand there"
        " (bench/relay.py).\n\n"
        f"{os.cpu_count()} CPUs, Python {platform.python_version()}, {database}."
        f" {sizes.repeats} x {sizes.seconds:g} s for each number of clients, taking turns;"
        f" {seconds:.0f} s in all, load average {os.getloadavg()[0]:.1f} at the end."
    )


def _sizes(arguments: Sequence[str]) -> tuple[Sizes, Path]:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--full", action="store_true", help="10,000 parked runs, 2,000 readers")
    parser.add_argument("--clients", default="1,16,64", help="how many at once (%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.5, help="of each load (%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="of each load (%(default)s)")
    parser.add_argument("--streams", type=int, default=64, help="that speak at once (%(default)s)")
    parser.add_argument("--words", type=int, default=600, help="of each stream (%(default)s)")
    parser.add_argument("--firsts", type=int, default=70, help="first tokens (%(default)s)")
    parser.add_argument("--parked", type=int, help="runs that wait for approval (1,000)")
    parser.add_argument("--readers", type=int, help="idle event streams (200)")
    parser.add_argument("--parts", default=",".join(PARTS), help="what to measure (%(default)s)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the table is written")
    given = parser.parse_args(arguments)
    parts = tuple(cast(str, given.parts).split(","))
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts: {', '.join(sorted(unknown))} is none of {', '.join(PARTS)}")
    sizes = Sizes(
        concurrency=tuple(int(one) for one in given.clients.split(",")),
        seconds=given.seconds,
        repeats=given.repeats,
        streams=given.streams,
        words=given.words,
        firsts=given.firsts,
        parked=given.parked or (10_000 if given.full else 1_000),
        readers=given.readers or (2_000 if given.full else 200),
        parts=parts,
    )
    return sizes, given.output


def _allow_many_files() -> None:
    """Each idle reader is a socket here and in the service, which inherits the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _say(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    sizes, output = _sizes(sys.argv[1:])
    _allow_many_files()
    try:
        text = markdown(uvloop.run(bench(sizes)))
    except (ProcessError, WrongAnswerError, EmbeddedError) as error:
        raise SystemExit(str(error)) from None
    except ExceptionGroup as group:
        raise SystemExit("\n".join(str(error) for error in group.exceptions)) from group
    output.write_text(text, encoding="utf-8")
    _say(f"\n{text}\nWritten to {output}.")


if __name__ == "__main__":
    main()
