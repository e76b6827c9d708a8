"""The demo's own Runward ends with it."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.services.service import ROOT

SERVER = """
import os, signal, sys, time
with open(os.environ["SERVER_PID"], "w") as file:
    print(os.getpid(), file=file, flush=True)
time.sleep(60)
"""
DEMO = """
import sys
from pathlib import Path
from runward.operating import demo
demo.find_package = lambda: "pgserver"
demo.ROOT = Path(sys.argv[1])
demo.run_demo(yes=True)
"""


@pytest.mark.processes
def test_the_server_of_a_demo_ends_when_its_terminal_is_closed(tmp_path: Path) -> None:
    (tmp_path / "runward").mkdir()
    (tmp_path / "runward" / "__init__.py").touch()
    (tmp_path / "runward" / "__main__.py").write_text(SERVER)
    told = tmp_path / "pid"
    os.mkfifo(told)
    env = {**os.environ, "SERVER_PID": str(told), "PYTHONPATH": str(ROOT / "app")}
    demo = subprocess.Popen(
        [sys.executable, "-P", "-c", DEMO, str(tmp_path)],
        env=env | {"PYTHONSAFEPATH": ""},
        cwd=ROOT,
    )
    server = int(told.read_text())
    try:
        demo.send_signal(signal.SIGHUP)
        demo.wait(20)
        with pytest.raises(ProcessLookupError):
            os.kill(server, 0)
    finally:
        demo.kill()
        demo.wait()
        with contextlib.suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)
