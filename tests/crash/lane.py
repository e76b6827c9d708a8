"""A lane tests one cell after another on its own database, so that a lost process affects only the
runs of this lane.
"""

import os
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, Final

import httpx2

from tests.crash.build import Arms
from tests.crash.cells import Cell
from tests.crash.judging import judge
from tests.crash.subject import Driver, Peers, Subject
from tests.support.models.chat_server import text
from tests.support.services.client import TERMINAL, Client
from tests.support.services.forks import ForkedProcess, Forks
from tests.support.services.service import STOP_SECONDS, Command, Service

LEASE_SECONDS: Final = float(os.environ.get("RUNWARD_CRASH_LEASE", "2"))
REACH_SECONDS: Final = 30.0
FREEZE_SECONDS: Final = LEASE_SECONDS + 0.5
"""Past the lease. Used where a frozen process holds the lock of the run's row, so that nobody can
say by then that another has taken over."""
END_SECONDS: Final = 60.0


class NotReachedError(Exception):
    """The process went on without passing the point. Or it was cut off and lost its lease, because
    the machine was too busy for it to connect again in time. That is another fault."""


@dataclass(slots=True)
class Outcome:
    cell: Cell
    reached: bool = False
    problems: list[str] = field(default_factory=list[str])

    @property
    def fine(self) -> bool:
        return self.reached and not self.problems


class Lane:
    """An API process and a worker that nothing happens to, and for each cell a process with its
    point armed: a worker, or an API process. `mistake`: one that all of them have."""

    def __init__(
        self, name: str, forks: Forks, database_url: str, peers: Peers, mistake: str = ""
    ) -> None:
        self._name = name
        self._forks = forks
        self._database_url = database_url
        self._mistake = mistake
        self.peers = peers
        self._temporary = tempfile.TemporaryDirectory(prefix="runward-crash-")
        self.folder = Path(self._temporary.name)
        self._number = 0
        self._api = self.start("api")
        self.other = self.start_worker()
        self.operator = self._api.client()

    def close(self) -> None:
        self.operator.close()
        self.other.close()
        self._api.close()
        self._temporary.cleanup()

    def play(self, cell: Cell) -> Outcome:
        self._number += 1
        with self.operator.new_project(f"{self._name}_{self._number}") as client:
            play = _Play(self, cell, f"{self._name}_{self._number}", client)
            try:
                play.run()
            except NotReachedError:
                pass  # the outcome says so
            except Exception as error:  # it is the cell's outcome
                play.outcome.problems.append(f"{type(error).__name__}: {error}")
            finally:
                play.close()
            play.outcome.problems += self._revive()
            return play.outcome

    def start_worker(self) -> Service:
        """It works already: one that freezes while it starts may give up."""
        worker = self.start("worker")
        worker.wait_for_output("worker_started")
        return worker

    def _revive(self) -> list[str]:
        """Start the other worker again if it ended by itself, and return that as a problem."""
        if self.other.alive:
            return []
        output = self.other.output()
        self.other.close()
        self.other = self.start_worker()
        return [f"the other worker ended by itself:\n{output[-6000:]}"]

    def start(self, command: Command, arms: Path | None = None) -> Service:
        env = {"RUNWARD_PLUGINS": "tests.crash.charging", "RUNWARD_DATABASE_CONNECTIONS": "4"}
        if self._mistake:
            env["CRASH_MISTAKE"] = self._mistake
        if arms is not None:
            env["CRASH_ARMS"] = str(arms)
        service = Service(
            command,
            self._database_url,
            openai_base_url=self.peers.model.base_url,
            lease_seconds=LEASE_SECONDS,
            env=env,
            forks=self._forks,
        )
        return service.start()


class _Play:
    """One cell."""

    def __init__(self, lane: Lane, cell: Cell, name: str, client: Client) -> None:
        self.outcome = Outcome(cell)
        self._lane = lane
        self._cell = cell
        self._point = cell.point
        self._name = name
        self._arms_path = lane.folder / name
        self._arms = Arms(self._arms_path)
        self._client = client
        story = self._point.story
        self._subject = Subject(
            lane.peers,
            self._client,
            name,
            cell.kind,
            held=story in ("held", "sweep") or (story == "cancel" and cell.kind != "gated"),
            short=story if story.startswith("expire") else "",
        )
        self._victim: Service | None = None
        self._driver: Driver | None = None
        self._run_id = ""

    def run(self) -> None:
        if self._point.process == "api":
            self._run_against_api()
        else:
            self._run_against_worker()
        run = self._client.settle(self._run_id, TERMINAL, END_SECONDS)
        if self._cell.fault == "cut" and self._victim and "lease_lost" in self._victim.output():
            self.outcome.reached = False
            raise NotReachedError
        if self._cell.fault == "freeze" and not self._point.locks:
            self._wake_the_frozen()
        if self._driver is not None:
            self._driver.close()
            if self._driver.error is not None:
                raise self._driver.error
        self.outcome.problems += judge(self._cell, self._subject, self._client, run)
        self._stop_the_victim()

    def close(self) -> None:
        self._subject.release()
        if self._driver is not None:
            self._driver.close()
        if self._victim is not None:
            self._victim.resume()
            self._victim.close()
        self._lane.other.resume()

    # -- a worker ---------------------------------------------------------------------------------

    def _run_against_worker(self) -> None:
        self._bring_to_the_worker()
        story, fault = self._point.story, self._cell.fault
        if story != "held":
            self._arms.set(self._point.name, fault)
        victim = self._victim = self._lane.start("worker", self._arms_path)
        if not story.startswith("expire"):
            self._driver = Driver(self._subject, self._client, self._run_id)
        if story == "held":
            self._subject.wait_for_effect()
            self._arms.set(self._point.name, fault)
        self._wait_until_reached()
        self._subject.release()
        if fault == "freeze" and self._point.locks:
            time.sleep(FREEZE_SECONDS)
            victim.resume()
        if fault != "cut":  # a worker that was cut off goes on by itself
            self._lane.other.resume()

    def _bring_to_the_worker(self) -> None:
        """The run waits for a worker, or for the sweep, and there is none."""
        story = self._point.story
        if story == "sweep":
            self._lose_a_worker()
        elif story.startswith("expire"):
            self._wait_for_expiry()
        else:
            self._lane.other.pause()
            self._run_id = self._subject.start(self._client, in_session=story == "session")

    def _lose_a_worker(self) -> None:
        """The run's worker is killed while its tool works; the next one sweeps."""
        lane = self._lane
        self._run_id = self._subject.start(self._client)
        with_driver = Driver(self._subject, self._client, self._run_id)
        self._subject.wait_for_effect()
        with_driver.close()
        lane.other.close()
        lane.other = lane.start_worker()
        lane.other.pause()

    def _wait_for_expiry(self) -> None:
        """The run is parked, and then there is no worker until it is too late."""
        self._run_id = self._subject.start(self._client)
        if self._cell.kind == "gated":
            self._client.settle(self._run_id)
        else:
            self._wait_for_callback_wait()
        self._lane.other.pause()

    def _wait_for_callback_wait(self) -> None:
        for frame in self._client.stream(self._run_id):
            if frame.type == "tool_call.progress":
                return

    def _wake_the_frozen(self) -> None:
        """It finds that the world has moved on, changes nothing, and works again."""
        assert self._victim is not None
        before = self._client.events(self._run_id)
        self._lane.other.pause()
        self._victim.resume()
        if self._point.process == "worker":
            model = f"{self._name}-probe"
            self._lane.peers.model.by_turn(model, text("here"))
            probe = self._client.start_run(model=f"openai:{model}")
            if self._client.settle(probe["id"], TERMINAL, END_SECONDS)["output"] != "here":
                self.outcome.problems.append("the worker that was frozen does not work")
        if self._client.events(self._run_id) != before:
            self.outcome.problems.append("the worker that was frozen changed the run")
        self._lane.other.resume()

    # -- an API process ---------------------------------------------------------------------------

    def _run_against_api(self) -> None:
        """The process that is asked is lost; the same is asked of another."""
        victim = self._victim = self._lane.start("api", self._arms_path)
        through = Client(victim.url, self._client.key)
        try:
            self._prepare_the_act()
            self._arms.set(self._point.name, self._cell.fault)
            first: list[Any] = []
            asking = threading.Thread(target=lambda: first.append(self._ask(through)), daemon=True)
            asking.start()
            self._wait_until_reached()
            if self._cell.fault == "freeze" and self._point.locks:
                time.sleep(FREEZE_SECONDS)
                victim.resume()
            if self._cell.fault == "cut":
                asking.join(END_SECONDS)
            again = self._ask(self._client)
            self._expect_success(again)
            self._subject.release()
            if self._cell.fault == "freeze":
                victim.resume()
            asking.join(END_SECONDS)
            self._note_first(first)
        finally:
            through.close()

    def _note_first(self, first: list[Any]) -> None:
        """The process that was lost answers nothing; otherwise what is true, or 503."""
        [answer] = first or [None]
        status = getattr(answer, "status_code", None) or getattr(answer, "status", None)
        if self._cell.fault != "kill" and status not in (200, 202, 503):
            self.outcome.problems.append(f"the first request was answered {answer!r}")

    def _prepare_the_act(self) -> None:
        match self._point.name.partition(".")[0]:
            case "accept":
                return
            case "cancel" | "notice":
                self._run_id = self._subject.start(self._client)
                if self._cell.kind == "gated":
                    self._client.settle(self._run_id)
                else:
                    self._subject.wait_for_effect()
            case "callback":
                self._run_id = self._subject.start(self._client)
                self._wait_for_callback_wait()
            case _:
                self._run_id = self._subject.start(self._client)
                self._client.settle(self._run_id)

    def _ask(self, client: Client) -> httpx2.Response | Exception | None:
        try:
            match self._point.name.partition(".")[0]:
                case "accept":
                    self._run_id = self._subject.start(client)
                    return httpx2.Response(202)
                case "cancel" | "notice":
                    path = f"/v1/runs/{self._run_id}/cancel"
                    return client.request("POST", path, {"mode": "immediate"})
                case _:
                    return self._subject.act(client, self._run_id)
        except Exception as error:
            return error

    def _expect_success(self, answer: httpx2.Response | Exception | None) -> None:
        if not isinstance(answer, httpx2.Response) or answer.status_code >= 300:
            shown = answer.text if isinstance(answer, httpx2.Response) else repr(answer)
            self.outcome.problems.append(f"the same asked again was answered {shown}")

    # -- both -------------------------------------------------------------------------------------

    def _wait_until_reached(self) -> None:
        victim = self._victim
        assert victim is not None
        process = victim.process
        assert isinstance(process, ForkedProcess)
        with suppress(TimeoutExpired):
            process.wait_until(lambda: bool(process.reports) or not victim.alive, REACH_SECONDS)
        reached = [report.get("reached") for report in process.reports]
        self.outcome.reached = reached == [self._point.name]
        if not self.outcome.reached:
            assert victim.alive, f"it ended before the point:\n{victim.output()[-3000:]}"
            raise NotReachedError
        if self._cell.fault == "kill":
            process.wait(STOP_SECONDS)
        elif self._cell.fault == "freeze":
            process.wait_stopped(STOP_SECONDS)

    def _stop_the_victim(self) -> None:
        """Whatever it went through, it ends when it is asked to."""
        assert self._victim is not None
        if self._cell.fault != "kill" and (code := self._victim.terminate()) != 0:
            self.outcome.problems.append(
                f"it ended with {code} when asked to stop:\n{self._victim.output()[-3000:]}"
            )
