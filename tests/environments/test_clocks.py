"""Nothing depends on the clock of a host. One worker is an hour ahead, one an hour behind, and the
API's clock jumps. The clocks of PostgreSQL and of the tests are right.
"""

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from tests.environments.clocks import HOUR, WrongClock
from tests.environments.processes import Measured, Process, environment
from tests.environments.workload import HALF_AN_HOUR, Workload
from tests.support.services.client import Client
from tests.support.services.service import Service

pytestmark = pytest.mark.timeout(180)

TOLERANCE_SECONDS = 10.0
PROBE = """
import time, datetime as module
moments = [
    time.time(), time.time_ns() / 1e9, module.datetime.now().timestamp(),
    module.datetime.now(module.UTC).timestamp(), module.datetime.today().timestamp(),
    module.datetime.utcnow().replace(tzinfo=module.UTC).timestamp(), time.mktime(time.localtime()),
]
begun = time.monotonic()
time.sleep(0.01)
assert 0 < time.monotonic() - begun < 60
print(*moments)
"""


def test_a_wrong_clock_is_wrong_in_every_way_to_ask(tmp_path: Path) -> None:
    clock = WrongClock(tmp_path / "clock", -HOUR)
    shown = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROBE],
        env=clock.env,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    wrong_by = [float(moment) - time.time() for moment in shown.split()]
    assert len(wrong_by) == 7
    assert [one for one in wrong_by if abs(one + HOUR) > TOLERANCE_SECONDS] == []


def test_clocks_that_are_wrong_and_jump_change_nothing(
    database_url: str, tmp_path: Path, measured: Measured
) -> None:
    ahead, behind = (WrongClock(tmp_path / f"{hour}", hour) for hour in (HOUR, -HOUR))
    jumping = WrongClock(tmp_path / "jumping")
    with environment() as here:
        victim = here.start("worker", Process(database_url, ahead.env))
        api = here.start("api", Process(database_url, jumping.env))
        workload = here.workload(api)
        with key_for_half_an_hour(api) as reader:
            workload.begin()
            jumping.jump(HOUR)
            check_wrong_by(HOUR, reader)
            victim.kill()
            here.start("worker", Process(database_url, behind.env))
            workload.finish()
            jumping.jump(-HOUR)
            check_wrong_by(-HOUR, reader)
        workload.check()
        check_times(workload)
        measured("wrong clocks", workload.figures())


def key_for_half_an_hour(api: Service) -> Client:
    expires = datetime.now(UTC) + timedelta(seconds=HALF_AN_HOUR)
    body = {"name": "short", "scopes": ["runs:read"], "expires_at": expires.isoformat()}
    with api.client() as operator:
        return Client(api.url, operator.call("POST", "/v1/keys", body)["key"])


def check_wrong_by(seconds: int, client: Client) -> None:
    """Check that the API's clock is wrong, and that the key works nevertheless."""
    end = time.monotonic() + TOLERANCE_SECONDS
    while True:
        response = client.request("GET", "/v1/runs")
        assert response.status_code == 200, response.text
        shown = parsedate_to_datetime(response.headers["Date"]).timestamp()
        if abs(shown - time.time() - seconds) < TOLERANCE_SECONDS:
            return
        assert time.monotonic() < end, shown


def check_times(workload: Workload) -> None:
    """Check that every time that the API shows is of PostgreSQL's clock."""
    first, last = workload.began - TOLERANCE_SECONDS, time.time() + TOLERANCE_SECONDS
    shown = [datetime.fromisoformat(one).timestamp() for one in workload.shown_times()]
    assert shown
    assert [one for one in shown if not first < one < last + HALF_AN_HOUR] == []
