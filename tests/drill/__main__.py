"""Run the service on several hosts against PostgreSQL with automatic failover, while hosts fail.

    make drill
    python -m tests.drill --runs 1800 --keep DIR

The hosts are network namespaces: three with etcd, Patroni and PostgreSQL 15, one with haproxy, two
with an API process and three with a worker. The load and the checker are those of `make chaos`. The
program prints one row for each phase, and the violations of each rule of the checker. It needs root
and packages of Debian 12. At the end, and after Ctrl-C, it removes everything that it has started.
"""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop

from tests.drill.cluster import missing
from tests.drill.stage import Drill
from tests.drill.table import CHECKED, judge

SHOWN_VIOLATIONS: Final = 20
STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Options:
    runs: int
    seed: int
    keep: Path | None
    synchronous: bool


def main() -> None:
    options = _options()
    _check_machine()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="runward-drill-"))
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty.")
    drill = Drill(folder, options.runs, options.seed, synchronous=options.synchronous)
    try:
        uvloop.run(_play(drill))
    except (asyncio.CancelledError, SystemExit) as end:
        if options.keep is None:
            shutil.rmtree(folder)
        interrupted = SystemExit("The drill was interrupted. Its hosts are removed.")
        raise end if isinstance(end, SystemExit) else interrupted from None
    if not _report(drill):
        raise SystemExit(f"\nFAILED. The evidence is in {folder}; seed {options.seed}.")
    if options.keep is None:
        shutil.rmtree(folder)


def _check_machine() -> None:
    if os.geteuid() != 0:
        raise SystemExit("The drill needs root, because it creates network namespaces.")
    if packages := missing():
        raise SystemExit(
            "The drill needs packages of Debian 12: apt-get install --no-install-recommends "
            + " ".join(packages)
        )


def _report(drill: Drill) -> bool:
    """Print the table, the number of violations of each rule, and the first of them. Return whether
    there are neither violations nor other problems."""
    table, broken = judge(drill.folder, drill.phases, drill.outages)
    counts = Counter(violation.rule for violation in broken)
    print(f"\n{table}\n\n{len(broken)} violations of {len(CHECKED)} rules:")
    for rule in CHECKED:
        print(f"{counts[rule.__name__]:4}  {rule.__name__.replace('_', ' ')}")
    for violation in broken[:SHOWN_VIOLATIONS]:
        print(f"VIOLATION {violation.rule}\n  {violation.where}: {violation.what}")
    for problem in drill.problems:
        print(problem)
    return not broken and not drill.problems


async def _play(drill: Drill) -> None:
    """Until the end, or until Ctrl-C, SIGTERM or SIGHUP. A second signal does not interrupt the
    removal of the hosts."""
    playing = asyncio.current_task()
    assert playing is not None

    def stop() -> None:
        if not playing.cancelling():
            print("Removing the hosts …", flush=True)
            playing.cancel()

    for number in STOPPING:
        if signal.getsignal(number) is signal.SIG_IGN:  # nohup ignores SIGHUP
            continue
        asyncio.get_running_loop().add_signal_handler(number, stop)
    await drill.play()


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="python -m tests.drill", description=__doc__)
    parser.add_argument("--runs", type=int, default=1800, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the load (%(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the evidence there")
    parser.add_argument(
        "--asynchronous", action="store_true", help="commit without waiting for a standby"
    )
    given = parser.parse_args()
    return Options(given.runs, given.seed, given.keep, not given.asynchronous)


if __name__ == "__main__":
    sys.exit(main())
