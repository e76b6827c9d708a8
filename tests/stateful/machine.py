"""The steps of a story about one project of the real service. Hypothesis generates the story, and
shortens it if a promise does not hold. Each rule prints one line.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import httpx2
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.checker import Evidence, Reader, broken
from tests.stateful.expectation import TOOLS, Policy, Run, Tool, approve, begin
from tests.stateful.world import World
from tests.support.services.client import TERMINAL, Client, Json
from tests.support.tools.server import Behaviour

SETTLE_SECONDS = 20.0
ANY: Json = {"type": "object"}
TOOL = st.sampled_from(TOOLS)
WEBHOOK = st.sampled_from(("gate", "look", "later"))
HELD: tuple[Tool, ...] = ("later", "look", "gate")
RUN = st.integers(0, 4)
"""Which run a rule is about: that number, counted around."""
DECISION = st.sampled_from(("approve", "edit", "reject", "respond"))
ENDING = st.sampled_from(("reject", "respond"))
OUTCOMES = {"reject": "rejected", "respond": "completed"}


class Story(RuleBasedStateMachine):
    """Settles after each step, so that the same steps are the same story."""

    world: World
    with_faults = True

    def __init__(self) -> None:
        super().__init__()
        self.project, self.client = self.world.new_project()
        self.runs: list[Run] = []
        self.policies: dict[Tool, Policy] = {}
        self.frozen: int | None = None
        self.faults = self.changes = 0
        self.steps = 0

    # -- the beginning and the end ----------------------------------------------------------------

    @initialize()
    def register(self) -> None:
        for name in TOOLS:
            self.policies[name] = Policy(gated=name == "gate")
            self._register(name)

    def teardown(self) -> None:
        """Check the whole story. After a step that failed nothing else is checked, so that its
        error is the one that is told."""
        try:
            self._thaw()
            if sys.exc_info()[0] is None:
                for run in self.runs:
                    self._settle(run)
                self._check_promises()
        finally:
            self.client.close()
            for worker in self.world.workers:
                worker.resume()

    # -- rules ------------------------------------------------------------------------------------

    @rule(tool=TOOL, x=st.sampled_from("12"))
    def submit(self, tool: Tool, x: str) -> None:
        if self.policies[tool].deleted:
            self._expect(self._post_run(len(self.runs), tool, x), 404, 422)
            return self._say(f"A client starts a run with the deleted tool {tool}: refused")
        run = self._submitted(tool, x)
        begin(run, self.policies[tool])
        self._say(f"A client starts run {run.number}, whose model calls {tool}(x={x!r})", run)
        return self._settle(run)

    @rule(x=st.sampled_from("12"))
    def submit_gated(self, x: str) -> None:
        """More often than chance would: most stories are about approvals."""
        self.submit("gate", x)

    @precondition(lambda self: bool(self.runs))
    @rule(which=RUN, same=st.booleans())
    def replay(self, which: int, same: bool) -> None:  # noqa: FBT001
        run = self._run(which)
        answer = self._post_run(run.number, run.tool, run.x if same else "another")
        body = "the same body" if same else "another body"
        self._say(f"The client sends run {run.number} again, with its key and {body}:"
                  f" {self._shown(answer)}")  # fmt: skip
        if same:
            self._expect(answer, 202)
            assert answer.json()["id"] == run.id, "a replay made another run"
        else:
            self._expect(answer, 422)
        self._settle(run)

    @precondition(lambda self: self._any_decided())
    @rule(which=RUN, decision=DECISION)
    def decide_again(self, which: int, decision: str) -> None:
        """The same again is answered like the first time."""
        decided = [run for run in self.runs if run.closed]
        run = decided[which % len(decided)]
        body = self._decision(decision)
        answer = self._send_decision(run, body)
        self._say(f"Ann decides once more about run {run.number}: {decision}:"
                  f" {self._shown(answer)}")  # fmt: skip
        self._expect(answer, 200 if run.decided == body else 409)
        self._settle(run)

    @precondition(lambda self: self._any("approval"))
    @rule(which=RUN, decision=DECISION)
    def decide(self, which: int, decision: str) -> None:
        run = self._waiting(which, "approval")
        body = self._decision(decision)
        answer = self._send_decision(run, body)
        self._say(f"Ann decides about run {run.number}: {decision}: {self._shown(answer)}")
        self._expect(answer, 200)
        self._decided(run, decision, body)
        self._settle(run)

    @precondition(lambda self: self._any("approval"))
    @rule(which=RUN, first=ENDING, second=ENDING)
    def decide_at_once(self, which: int, first: str, second: str) -> None:
        """Whichever wins, what may follow is the same, so that the story can be shortened."""
        run = self._waiting(which, "approval")
        bodies = [self._decision(first), self._decision(second)]
        line = Barrier(2, timeout=SETTLE_SECONDS)

        def send(body: Json) -> httpx2.Response:
            line.wait()
            return self._send_decision(run, body)

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(send, bodies))
        self._say(f"Ann and Bob decide about run {run.number} at once: {first}, {second}:"
                  f" {', '.join(map(self._shown, answers))}")  # fmt: skip
        counted = [answer.status_code for answer in answers]
        if first == second:
            assert counted == [200, 200], "the same decision twice was refused"
        else:
            assert sorted(counted) == [200, 409], "not exactly one decision won"
        won = counted.index(200)
        self._decided(run, (first, second)[won], bodies[won])
        self._settle(run)

    @precondition(lambda self: self._any("approval"))
    @rule(which=RUN)
    def expire(self, which: int) -> None:
        """And somebody decides before the sweep has seen it."""
        run = self._waiting(which, "approval")
        self.world.expire_approval(run.id)
        answer = self._send_decision(run, {"decision": "approve"})
        self._say(f"The approval of run {run.number} expires; Ann approves too late:"
                  f" {self._shown(answer)}")  # fmt: skip
        self._expect(answer, 409)
        run.end("rejected", 0)
        run.closed, run.decided = True, None
        self._settle(run)

    @precondition(lambda self: bool(self.runs))
    @rule(which=RUN)
    def cancel(self, which: int) -> None:
        run = self._run(which)
        answer = self.client.request("POST", f"/v1/runs/{run.id}/cancel", {"mode": "immediate"})
        self._say(f"The client cancels run {run.number}: {self._shown(answer)}")
        if run.phase != "over":
            self._expect(answer, 200)
            run.closed = run.closed or run.phase == "approval"
            run.end("cancelled", status="cancelled")
        else:
            self._expect(answer, 200 if run.status == "cancelled" else 409)
        self._settle(run)

    @precondition(lambda self: self._called_back() != [])
    @rule(which=RUN, again=st.sampled_from(("the same", "another")))
    def call_back_twice(self, which: int, again: str) -> None:
        found = self._called_back()
        run = found[which % len(found)]
        said = {"status": "completed", "output": f"result {run.number}"}
        first = self._call_back(run, said)
        second = self._call_back(run, said if again == "the same" else {**said, "output": "other"})
        self._say(f"The tool of run {run.number} calls back, and again with {again} result:"
                  f" {self._shown(first)}, {self._shown(second)}")  # fmt: skip
        if run.phase == "callback" or run.answered == said:
            self._expect(first, 200)
            self._expect(second, 200 if again == "the same" else 409)
        else:  # it has ended otherwise
            self._expect(first, 410)
            self._expect(second, 410)
        if run.phase == "callback":
            run.end("completed")
            run.answered = said
        self._settle(run)

    @precondition(lambda self: self._any("client"))
    @rule(which=RUN)
    def give_result(self, which: int) -> None:
        run = self._waiting(which, "client")
        path = f"/v1/runs/{run.id}/tool_calls/c1/result"
        answers = [self.client.request("POST", path, {"output": said}) for said in ("a", "a", "b")]
        self._say(f"The client gives its result of run {run.number}, the same again, and another:"
                  f" {', '.join(map(self._shown, answers))}")  # fmt: skip
        for answer, status in zip(answers, (200, 200, 409), strict=True):
            self._expect(answer, status)
        run.end("completed")
        self._settle(run)

    @precondition(lambda self: self._may_change())
    @rule(tool=TOOL, gated=st.booleans())
    def change_policy(self, tool: Tool, gated: bool) -> None:  # noqa: FBT001
        self.changes += 1
        if self.policies[tool].deleted:
            self._register(tool)
            self.policies[tool] = Policy(tool == "gate", version=self.policies[tool].version + 1)
            return self._say(f"The operator registers {tool} again")
        policy = "always" if gated else "never"
        answer = self.client.request("PATCH", f"/v1/tools/{tool}", {"approval": policy})
        self._expect(answer, 200)
        if self.policies[tool].gated != gated:
            self.policies[tool].gated = gated
            self.policies[tool].version += 1
        return self._say(f"The operator sets the approval rule of {tool} to {policy}")

    @precondition(lambda self: self._may_change())
    @rule(tool=TOOL)
    def delete_tool(self, tool: Tool) -> None:
        self.changes += 1
        if self.policies[tool].deleted:
            return
        self._expect(self.client.request("DELETE", f"/v1/tools/{tool}"), 204)
        self.policies[tool].deleted = True
        self.policies[tool].version += 1
        self._say(f"The operator deletes {tool}")

    @precondition(lambda self: self._may_change())
    @rule(tool=WEBHOOK)
    def rotate_secret(self, tool: Tool) -> None:
        """From now on the tool takes the new one alone."""
        self.changes += 1
        if self.policies[tool].deleted:
            return
        made = self.client.call("POST", f"/v1/tools/{tool}/rotate_secret")
        self.world.tools.secrets(f"{self.project}.{tool}", made["secret"])
        self._say(f"The operator rotates the secret of {tool}")

    @precondition(lambda self: self._may_fail(2) and self.frozen is None)
    @rule(worker=st.sampled_from((0, 1)))
    def freeze(self, worker: int) -> None:
        self.world.workers[worker].pause()
        self.frozen = worker
        self.faults += 1
        self._say(f"Worker {worker} freezes")

    @precondition(lambda self: self.frozen is not None)
    @rule()
    def thaw(self) -> None:
        self._say(f"Worker {self.frozen} wakes up")
        self._thaw()

    @precondition(lambda self: self._may_fail(2))
    @rule(tool=st.sampled_from(HELD), crash=st.booleans())
    def lose_the_worker_of(self, tool: Tool, crash: bool) -> None:  # noqa: FBT001
        """While its tool works, which answers afterwards. A tool that waits for a decision first is
        replaced by another."""
        at_once: list[Tool] = [one for one in (tool, *HELD) if self._is_called_at_once(one)]
        if not at_once:
            return
        tool = at_once[0]
        self.faults += 1
        self._thaw()
        idle, busy = self.world.workers
        idle.pause()
        number = len(self.runs)
        hold = self.world.tools.hold(f"{self.project}.{number}")
        self._behave(tool, hold=f"{self.project}.{number}")
        run = self._submitted(tool, "1")
        hold.arrived()
        if crash:
            self.world.replace_worker(1)
        else:
            busy.pause()
            self.frozen = 1
        self._behave(tool)
        hold.release()
        idle.resume()
        run.end(*(("completed", 2) if tool == "look" else ("outcome_unknown", 1)))
        self._say(f"The worker of run {run.number} {'crashes' if crash else 'freezes'} while"
                  f" {tool} works", run)  # fmt: skip
        self._settle(run)

    @precondition(lambda self: self._may_fail(1) and self.steps > 4)
    @rule()
    def restart_postgres(self) -> None:
        self.faults += 2
        self._thaw()
        self.world.restart_postgres()
        self._say("PostgreSQL crashes and starts again")

    # -- what the rules are made of ---------------------------------------------------------------

    def _say(self, line: str, run: Run | None = None) -> None:
        self.steps += 1
        self.world.steps += 1
        where = "" if run is None else f" -> {run.status or run.phase}"
        note(f"    {self.steps}. {line}{where}")

    def _shown(self, answer: httpx2.Response) -> str:
        problem = answer.json().get("code", "") if answer.status_code >= 400 else ""
        return f"{answer.status_code} {problem}".strip()

    def _expect(self, answer: httpx2.Response, *statuses: int) -> None:
        wanted = " or ".join(map(str, statuses))
        assert answer.status_code in statuses, f"{wanted} was due, not {self._shown(answer)}"

    def _register(self, name: Tool) -> None:
        if name == "mine":
            tool = {"name": name, "type": "client", "parameters": ANY, "strict": False}
            self.client.call("POST", "/v1/tools", tool)
            return
        url = self._behave(name)
        approval = "always" if name == "gate" else "never"
        fields: Json = {"idempotent": name == "look", "approval": approval}
        made = self.client.register_tool(name, url, timeout_seconds=600, **fields)
        self.world.tools.secrets(f"{self.project}.{name}", made["secret"])

    def _behave(self, name: Tool, hold: str | None = None) -> str:
        """Its next hit waits, if so wished; those that follow do not."""
        kind = "later" if name == "later" else "echo"
        first = Behaviour(kind, hold=hold)
        key = f"{self.project}.{name}"
        before = [Behaviour(kind)] * len(self.world.tools.hits(key))
        return self.world.tools.tool(key, *before, first, Behaviour(kind))

    def _run(self, which: int) -> Run:
        return self.runs[which % len(self.runs)]

    def _is_called_at_once(self, tool: Tool) -> bool:
        return not (self.policies[tool].deleted or self.policies[tool].gated)

    def _may_change(self) -> bool:
        """Changes of tools without runs around them tell nothing."""
        return bool(self.runs) and self.changes < 3

    def _may_fail(self, most: int) -> bool:
        return self.with_faults and self.faults < most

    def _any(self, phase: str) -> bool:
        return any(run.phase == phase for run in self.runs)

    def _any_decided(self) -> bool:
        return any(run.closed for run in self.runs)

    def _waiting(self, which: int, phase: str) -> Run:
        found = [run for run in self.runs if run.phase == phase]
        return found[which % len(found)]

    def _called_back(self) -> list[Run]:
        """Those whose tool may call back, or might try."""
        accepted = [run for run in self.runs if run.tool == "later" and run.hits == (1,)]
        return [run for run in accepted if run.outcome != "outcome_unknown"]

    def _submitted(self, tool: Tool, x: str) -> Run:
        answer = self._post_run(len(self.runs), tool, x)
        self._expect(answer, 202)
        run = Run(len(self.runs), answer.json()["id"], tool, x, "over",
                  self.policies[tool].version)  # fmt: skip
        self.runs.append(run)
        self.world.runs += 1
        return run

    def _post_run(self, number: int, tool: Tool, x: str) -> httpx2.Response:
        body = {
            "model": "openai:story",
            "instructions": "",
            "input": json.dumps({"tool": tool, "x": x}),
            "tools": [tool],
        }
        headers = {"Idempotency-Key": f"{self.project}-{number}"}
        return self.client.request("POST", "/v1/runs", body, headers=headers)

    def _decision(self, decision: str) -> Json:
        match decision:
            case "edit":
                return {"decision": decision, "arguments": {"x": "edited"}}
            case "respond":
                return {"decision": decision, "output": "Ann did it"}
            case _:
                return {"decision": decision}

    def _send_decision(self, run: Run, body: Json) -> httpx2.Response:
        """About its newest approval."""
        found = self.client.approvals(status=None, run_id=run.id)
        newest = max(found, key=lambda one: one["id"])
        return self.client.request("POST", f"/v1/approvals/{newest['id']}/decision", body)

    def _decided(self, run: Run, decision: str, body: Json) -> None:
        run.closed, run.decided = True, body
        if decision in OUTCOMES:
            run.end(OUTCOMES[decision], 0)
            return
        if decision == "edit":
            run.sent = "edited"
        approve(run, self.policies[run.tool])

    def _call_back(self, run: Run, said: Json) -> httpx2.Response:
        [hit] = [hit for hit in self.world.hits(self.project) if hit.run_id == run.id]
        path = httpx2.URL(hit.body["callback"]["url"]).path
        return self.client.request("POST", path, said)

    def _thaw(self) -> None:
        if self.frozen is not None:
            self.world.workers[self.frozen].resume()
            self.frozen = None

    # -- what must hold ---------------------------------------------------------------------------

    def _settle(self, run: Run) -> None:
        """It comes to where it must be, and nothing but that has happened."""
        if run.phase == "callback":
            got = self._wait_for_callback_wait(run)
        else:
            wanted = TERMINAL | run.expected_statuses
            got = self.client.settle(run.id, wanted, SETTLE_SECONDS)
            shown = f"run {run.number} is {got['status']}, not {sorted(run.expected_statuses)}"
            assert got["status"] in run.expected_statuses, shown
        hits = [hit for hit in self.world.hits(self.project) if hit.run_id == run.id]
        assert len(hits) in run.hits, f"run {run.number}: {len(hits)} hits, not {run.hits}"
        for hit in hits:
            assert hit.arguments == {"x": run.sent}, (
                f"{run.tool} got {hit.arguments}, not {run.sent}"
            )
        if run.outcome is not None:
            [call] = self.client.tool_calls(run.id)
            shown = f"the call of run {run.number} is {call['outcome']}, not {run.outcome}"
            assert call["outcome"] == run.outcome, shown

    def _wait_for_callback_wait(self, run: Run) -> Json:
        for frame in self.client.stream(run.id):
            if frame.type == "tool_call.progress":
                break
            assert frame.type not in TERMINAL, frame
        return self.client.get_run(run.id)

    def _check_promises(self) -> None:
        """By the independent checker, over all runs of the example."""
        self.client.statuses[:] = [
            (request, status) for request, status in self.client.statuses if status != 503
        ]
        found = broken(self._evidence(self.client))
        assert found == [], "\n".join(f"{one.rule}: {one.where}: {one.what}" for one in found)
        assert self.world.model.violations == []
        assert all(worker.alive for worker in self.world.workers), "a worker ended by itself"
        listed = self.client.call("GET", "/v1/runs", limit=200)["data"]
        assert {one["id"] for one in listed} == {run.id for run in self.runs}, "there are more runs"

    def _evidence(self, client: Client) -> Evidence:
        ids = [run.id for run in self.runs]
        ended = [run.id for run in self.runs if run.phase == "over"]
        streams: dict[str, list[Any]] = {
            run_id: [frame.data for frame in client.stream(run_id)] for run_id in ended
        }
        return Evidence(
            runs={run_id: client.get_run(run_id) for run_id in ids},
            logs={run_id: client.events(run_id) for run_id in ids},
            hits=self.world.hits(self.project),
            readers=[Reader(run_id, "stream", data) for run_id, data in streams.items()],
            statuses=client.statuses,
            idempotent=frozenset({"look"}),
            may_be_unfinished=True,
        )
