"""Hypothesis for the unit tests: what a test may take is what pytest's timeout says, since a
machine that does other work too makes any single example slow. And the check that a unit test
opens no database and starts no process."""

import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("unit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unit")

STARTS = frozenset(
    ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen")
)
"""Audit events of the interpreter."""
ADVICE = "tests/unit may not do this: mark the test with @pytest.mark.processes"


class Guard:
    """Python offers no way to remove an audit hook, so that one serves all tests."""

    def __init__(self) -> None:
        self.active = False

    def check(self, event: str, _arguments: object) -> None:
        if self.active and event in STARTS:
            raise AssertionError(f"{event}: {ADVICE}")


GUARD = Guard()
sys.addaudithook(GUARD.check)


@pytest.fixture(autouse=True)
def guarded(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("processes") is None:
        assert "databases" not in request.fixturenames, ADVICE
        GUARD.active = True
    yield
    GUARD.active = False
