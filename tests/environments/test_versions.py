"""This version and the one before it run together, on a database that this one has migrated."""

from pathlib import Path

import pytest

from tests.environments.processes import Measured, Process, environment, only_in_full
from tests.environments.versions import HistoryError, install_previous
from tests.support.services.service import ROOT

pytestmark = [pytest.mark.timeout(180), only_in_full]


def test_this_version_and_the_one_before_share_a_database(
    database_url: str, tmp_path: Path, measured: Measured
) -> None:
    try:
        folder = install_previous(tmp_path)
    except HistoryError as error:
        pytest.skip(str(error))
    assert _migrations(tmp_path / "source") <= _migrations(ROOT)
    now = Process(database_url)
    before = Process(database_url, folder=folder)
    with environment() as here:
        victim = here.start("worker", before)
        apis = [here.start("api", before), here.start("api", now)]
        workload = here.workload(*apis)
        here.run(workload, victim, now)
        workload.check()
        measured("two versions", workload.figures())


def _migrations(folder: Path) -> set[str]:
    found = {path.name for path in (folder / "migrations" / "versions").glob("*.py")}
    assert found
    return found
