"""The README's first run is executed: its blocks, in order, in one shell, against what `make run`
starts."""

import re
from pathlib import Path

import pytest

from tests.docs.story import Story
from tests.e2e.own_machine import OwnMachine
from tests.support.services.service import free_port

pytestmark = pytest.mark.timeout(180)


def test_the_first_run_of_the_readme_works_as_written(tmp_path: Path) -> None:
    with OwnMachine() as machine:
        machine.start()
        here = {".runward/api-key": f"{machine.data_dir / 'api-key'}", "9000": f"{free_port()}"}
        with machine.client() as client, Story("README.md", client, tmp_path, here) as page:
            for line in page.not_run().splitlines():
                page.run(f"make --dry-run {line.split()[1]}")
            page.sh()
            registered, served = page.sh(), page.sh()
            assert '"secret":"whsec_' in registered
            assert "whsec_" not in served
            assert '"status":"requires_action"' in page.sh()
            decided, read = page.sh(), page.sh()
            assert '"status":"edited"' in decided
            assert '"status":"completed"' in decided
            assert '\\"amount\\":400' in decided
            events, stream = read.split("retry: ", 1)
            assert events.count('"sequence":') == 3
            assert '"has_more":true' in events
            numbers = [int(number) for number in re.findall(r"^id: (\d+)$", stream, re.MULTILINE)]
            assert numbers == list(range(4, numbers[-1] + 1))
            assert stream.count("event: run.completed\n") == 1
            page.elsewhere("../e2e/test_typescript.py")
            page.not_run()
        assert machine.stop() == 0
