"""The README's first run is executed: its blocks marked `sh`, in order, in one shell, against
what `make run` starts."""

import os
import re
import signal
import subprocess

import pytest

from tests.e2e.own_machine import OwnMachine, needs
from tests.support.service import ROOT, free_port

pytestmark = pytest.mark.timeout(180)

MARK = "---- end of block {} ----"


def blocks() -> list[str]:
    text = (ROOT / "README.md").read_text("utf-8")
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_first_run_of_the_readme_works_as_written() -> None:
    needs("curl", "curl")
    assert len(blocks()) == 6
    with OwnMachine() as machine:
        service = machine.start()
        script = "set -eu\n" + "".join(
            f"{block}echo; echo '{MARK.format(number)}'\n" for number, block in enumerate(blocks())
        )
        for written, here in (
            ("http://127.0.0.1:8080", service.url),
            (".runward/api-key", str(machine.data_dir / "api-key")),
            ("9000", str(free_port())),
        ):
            assert written in script
            script = script.replace(written, here)
        shown = run(script)
        registered, served, started, decided, read = shown[1:6]
        assert '"secret":"whsec_' in registered
        assert "whsec_" not in served
        assert '"status":"requires_action"' in started
        assert '"status":"edited"' in decided
        assert '"status":"completed"' in decided
        assert '\\"amount\\":400' in decided
        page, stream = read.split("retry: ", 1)
        assert page.count('"sequence":') == 3
        assert '"has_more":true' in page
        numbers = [int(number) for number in re.findall(r"^id: (\d+)$", stream, re.MULTILINE)]
        assert numbers == list(range(4, numbers[-1] + 1))
        assert stream.count("event: run.completed\n") == 1
        assert machine.stop() == 0


def run(script: str) -> list[str]:
    """What each block printed. The tool that the script leaves running is ended with it."""
    shell = subprocess.Popen(
        [needs("bash", "bash"), "-c", script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert shell.stdout is not None
        lines: list[str] = []
        last = MARK.format(len(blocks()) - 1)
        for line in shell.stdout:
            lines.append(line)
            if line.startswith(last):
                break
        shown = "".join(lines)
        assert last in shown, shown
        return re.split(r"^---- end of block \d+ ----$", shown, flags=re.MULTILINE)
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.communicate()
