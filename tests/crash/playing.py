"""Test many cells at once, on several lanes of one PostgreSQL server."""

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Lock

from tests.crash.cells import Cell
from tests.crash.lane import Lane, Outcome
from tests.crash.subject import Peers
from tests.support.mcp.server import McpServer
from tests.support.models.chat_server import ModelServer
from tests.support.postgres import Databases
from tests.support.services.forks import Forks
from tests.support.services.service import PORT_ATTEMPTS
from tests.support.tools.server import ToolServer

PLAYS = 3
"""How often a cell is played at most while its point is not reached: a process that is busy commits
a step another way if somebody has locked the run just then, or loses its lease while it is cut off.
A cell whose point was reached is played once, and so is one in which anything went wrong: neither
is ever played again. A point that is not reached in any of the plays fails."""
PRELOADED = ("tests.crash.build", "tests.crash.charging")


@contextmanager
def shared_peers() -> Generator[Peers]:
    with ModelServer() as model, ToolServer() as tools, _mcp_server() as far:
        yield Peers(model, tools, far.url)


@contextmanager
def _mcp_server() -> Generator[McpServer]:
    server = _started()
    try:
        yield server
    finally:
        server.kill()


def _started() -> McpServer:
    """Another process may be faster to take a port that was free."""
    for _ in range(PORT_ATTEMPTS):
        server = McpServer(module="tests.support.mcp.relay")
        try:
            return server.start()
        except AssertionError:
            server.kill()
    raise AssertionError("the MCP server did not start")


def play_until_reached(lane: Lane, cell: Cell) -> Outcome:
    """The outcome of the first play that reached the point or had a problem, or of the last."""
    outcome = lane.play(cell)
    for _ in range(PLAYS - 1):
        if outcome.reached or outcome.problems:
            break
        outcome = lane.play(cell)
    return outcome


def play_all(
    databases: Databases,
    cells: Iterable[Cell],
    lanes: int,
    say: Callable[[Outcome], None] | None = None,
    mistake: str = "",
    seconds: float = math.inf,
) -> list[Outcome]:
    """The outcomes in the order of the cells' names. `say` is called with each when it is known;
    `mistake` is planted into all processes. After `seconds` no other cell is begun."""
    end = time.monotonic() + seconds
    waiting, lock, outcomes = deque(cells), Lock(), list[Outcome]()

    def work(lane: Lane) -> None:
        while True:
            with lock:
                if not waiting or time.monotonic() > end:
                    return
                cell = waiting.popleft()
            outcome = play_until_reached(lane, cell)
            if say is not None:
                say(outcome)
            with lock:
                outcomes.append(outcome)

    with ExitStack() as stack:
        peers = stack.enter_context(shared_peers())
        forks = stack.enter_context(Forks(preload=PRELOADED, prepare="tests.crash.build:prepare"))
        opened: list[Lane] = []
        for number in range(lanes):
            url = stack.enter_context(databases.migrated())
            lane = Lane(f"lane_{number}", forks, url, peers, mistake)
            stack.callback(lane.close)
            opened.append(lane)
        with ThreadPoolExecutor(lanes) as pool:
            for done in [pool.submit(work, lane) for lane in opened]:
                done.result()
    return sorted(outcomes, key=lambda outcome: str(outcome.cell))
