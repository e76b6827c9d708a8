"""The clients of the load, in a process of their own:

    python -m tests.chaos.load --folder DIR --runs N --seed S --servers JSON --api URL --api URL

`--servers` is the line that `tests.chaos.load.servers` printed. The program prints a line with
`"ready": true` when its projects are registered, a line of progress every few seconds, and a
summary, which is also `load.summary.json` in the folder. It ends with 0: the checker judges the
evidence.
"""

import argparse
import json
import os
from pathlib import Path

import uvloop

from tests.chaos.load.clients import Load
from tests.support.services.service import BOOTSTRAP_KEY


async def drive(options: argparse.Namespace) -> None:
    load = Load(options.folder, options.api, seed=options.seed, at_once=options.at_once)
    try:
        await load.register(json.loads(options.servers), options.key)
        print(json.dumps({"ready": True, "pid": os.getpid()}), flush=True)
        await load.drive(options.runs, bound_seconds=options.bound)
    finally:
        await load.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--servers", required=True, help="what the servers' process printed")
    parser.add_argument(
        "--api", action="append", required=True, help="an API's address, repeatable"
    )
    parser.add_argument("--key", default=BOOTSTRAP_KEY, help="the operator's key")
    parser.add_argument("--at-once", type=int, default=40, help="runs in flight")
    parser.add_argument("--bound", type=float, default=90.0, help="seconds for one run")
    uvloop.run(drive(parser.parse_args()))


if __name__ == "__main__":
    main()
