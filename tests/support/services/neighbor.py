"""A project that works while others are attacked, and measures its runs."""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

from tests.support.services.client import Client, Json

WAIT_SECONDS = 60


@dataclass(slots=True)
class Neighbor:
    """Starts one run after another, each with one tool call, until it is stopped."""

    client: Client
    seconds: list[float] = field(default_factory=list[float])
    failures: list[Json] = field(default_factory=list[Json])
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _stopped: bool = False

    def work(self) -> None:
        while not self._stopped:
            began = time.monotonic()
            run = self.client.start_run(model="openai:neighbor", tools=["greet"])
            run = self.client.settle(run["id"])
            with self._changed:
                self.seconds.append(time.monotonic() - began)
                if run["status"] != "completed":
                    self.failures.append(run)
                self._changed.notify_all()

    def wait_for_more(self, count: int) -> None:
        """Returns when `count` more runs have ended."""
        with self._changed:
            wanted = len(self.seconds) + count
            assert self._changed.wait_for(lambda: len(self.seconds) >= wanted, WAIT_SECONDS)

    def stop(self) -> None:
        self._stopped = True

    @contextmanager
    def measured(self, title: str, runs: int = 5) -> Generator[None]:
        """Wait at the end until `runs` more runs have completed, and print their latency."""
        before, began = len(self.seconds), time.monotonic()
        yield
        took = time.monotonic() - began
        self.wait_for_more(runs)
        seconds = self.seconds[before:]
        print(
            f"{title:32} {took:5.1f} s, neighbor: {len(seconds):4} runs, "
            f"median {median(seconds) * 1000:6.1f} ms, slowest {max(seconds) * 1000:7.1f} ms"
        )
        assert self.failures == [], title


@contextmanager
def working(client: Client) -> Generator[Neighbor]:
    """A neighbor that works with `client`, whose project has the model `neighbor` and the tool
    `greet`."""
    neighbor = Neighbor(client)
    thread = threading.Thread(target=neighbor.work)
    thread.start()
    try:
        yield neighbor
    finally:
        neighbor.stop()
        thread.join()
