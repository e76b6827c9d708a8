"""A client that follows one run to its end and takes the actions that the run requires."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from tests.chaos.load.api import Answer, Api, Client
from tests.chaos.load.plan import Json, Plan
from tests.chaos.load.registry import Project

TERMINAL: Final = frozenset(
    {"run.completed", "run.failed", "run.cancelled", "run.incomplete", "run.expired"}
)
PAGE: Final = 1000
RECONNECT_SECONDS: Final = 0.1
LOOK_SECONDS: Final = 3.0
"""How often a run that is silent is asked what it waits for."""


class Following:
    """Reads the run's stream to its last event, with the disconnects of the plan, then everything
    by polling. Decisions and results are sent meanwhile."""

    def __init__(self, api: Api, plan: Plan, project: Project, run_id: str) -> None:
        self._api = api
        self._plan = plan
        self._run_id = run_id
        self._path = f"/v1/runs/{run_id}"
        self._client = Client(f"client-{plan.number}", project.key, plan.id)
        self._begun: set[str] = set()
        self._resolved = 0
        self._tasks: asyncio.TaskGroup
        self.run: Json = {}

    @property
    def _cancel_race(self) -> str:
        return f"{self._plan.id}-cancel"

    async def follow(self) -> Json:
        """Return the run at its end."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            looking = tasks.create_task(self._look_now_and_then())
            async with aclosing(self._events()) as events:
                async for kind, data in events:
                    self._react(kind, data)
            looking.cancel()
        await self._poll()
        self.run = (await self._insist("GET", self._path)).body
        return self.run

    async def _insist(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        return await self._api.insist(method, path, body, client=self._client, **more)

    async def _events(self) -> AsyncGenerator[tuple[str, Json]]:
        """Yield the stored events of the run, each once, over as many connections as it takes."""
        after, leave_after = 0, list(self._plan.disconnects)
        while True:
            frames = 0
            stream = self._api.stream(
                f"{self._path}/events", self._run_id, after, client=self._client
            )
            async with aclosing(stream) as connection:
                async for sequence, kind, data in connection:
                    frames += 1
                    if sequence is not None:
                        after = sequence
                        yield kind, data
                        if kind in TERMINAL:
                            return
                    if leave_after and frames >= leave_after[0]:
                        leave_after.pop(0)
                        self._api.counts["streams closed by the client"] += 1
                        break
            await asyncio.sleep(RECONNECT_SECONDS)

    def _react(self, kind: str, event: Json) -> None:
        data: Json = event["data"]
        plan = self._plan
        if plan.cancel is not None and kind == plan.cancel.when:
            self._once("cancel", self._cancel())
        if plan.input_after == kind:
            self._once("input", self._send_input())
        if kind == "tool_call.approval_requested":
            self._decide(data["approval_id"], data["arguments"])
        elif kind == "tool_call.progress" and data["status"] == "awaiting_result":
            self._once(f"result-{data['call_id']}", self._give_result(data["call_id"]))
        elif kind == "tool_call.outcome_unknown" and data.get("awaiting_resolution"):
            self._once(f"resolve-{data['call_id']}", self._resolve(data["call_id"]))
        elif kind == "run.waiting":
            self._tasks.create_task(self._look())

    def _once(self, name: str, act: Any) -> None:
        if name in self._begun:
            act.close()
            return
        self._begun.add(name)
        self._tasks.create_task(act)

    async def _look_now_and_then(self) -> None:
        """What a run waits for is in the run too: for child runs, and where an event was missed."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._look()

    async def _look(self) -> None:
        hold = "?wait=1" if self._plan.creation == "wait" else ""
        answer = await self._insist("GET", f"{self._path}{hold}")
        for action in answer.body["required_actions"] if answer.accepted else ():
            match action["type"]:
                case "approval":
                    self._decide(action["approval_id"], action["arguments"])
                case "tool_result":
                    call_id = action["call_id"]
                    self._once(f"result-{call_id}", self._give_result(call_id))
                case "resolve":
                    self._once(f"resolve-{action['call_id']}", self._resolve(action["call_id"]))
                case _:
                    pass

    # -- what a run asks for ----------------------------------------------------------------

    def _decide(self, approval_id: str, arguments: Json) -> None:
        if self._plan.decisions:
            self._once(f"decide-{approval_id}", self._send_decisions(approval_id, arguments))

    async def _send_decisions(self, approval_id: str, arguments: Json) -> None:
        """Send the decisions at once, each through another API. A decision that was not answered is
        sent again: the same decision again has no effect."""
        path = f"/v1/approvals/{approval_id}/decision"
        bodies = [_with_arguments(one, arguments) for one in self._plan.decisions]
        if len(bodies) == 1:
            race = None if self._plan.cancel is None else self._cancel_race
            await self._insist("POST", path, bodies[0], race=race)
            return
        self._api.counts["races for a decision"] += 1
        race = f"{self._plan.id}-{approval_id}"
        answers = await asyncio.gather(
            *(
                self._api.send("POST", path, body, race=race, api=number, client=self._client)
                for number, body in enumerate(bodies)
            )
        )
        if not any(answer.status in (200, 409) for answer in answers):
            await self._insist("POST", path, bodies[0])

    async def _give_result(self, call_id: str) -> None:
        """Give a client tool's result twice at once, then another one."""
        path = f"{self._path}/tool_calls/{call_id}/result"
        race = f"{self._plan.id}-{call_id}"
        body = {"output": {"read": call_id}}
        self._api.counts["races for a result"] += 1
        await asyncio.gather(
            *(
                self._api.send("POST", path, body, race=race, api=number, client=self._client)
                for number in range(2)
            )
        )
        await self._insist("POST", path, body)
        await self._insist("POST", path, {"output": "another result"})

    async def _resolve(self, call_id: str) -> None:
        """Resolve a call, each time that it waits for it: a retry can be lost with its worker."""
        path = f"{self._path}/tool_calls/{call_id}/resolve"
        body = self._plan.resolution or {"resolution": "failed", "message": "nobody knows"}
        self._resolved += 1
        key = f"{self._plan.id}-resolve-{call_id}-{self._resolved}"
        await self._insist("POST", path, body, key=key)
        self._begun.discard(f"resolve-{call_id}")

    async def _cancel(self) -> None:
        assert self._plan.cancel is not None
        await asyncio.sleep(self._plan.cancel.delay)
        self._api.counts[f"cancels ({self._plan.cancel.mode})"] += 1
        if self._plan.decisions:
            self._api.counts["races of a cancel with a decision"] += 1
        body = {"mode": self._plan.cancel.mode}
        await self._insist("POST", f"{self._path}/cancel", body, race=self._cancel_race)

    async def _send_input(self) -> None:
        """Send another message to the open run. It may have ended: 409."""
        body = {"input": f"{self._plan.id}: and one more thing"}
        self._api.counts["messages to a running run"] += 1
        await self._insist("POST", f"{self._path}/input", body, key=f"{self._plan.id}-input")

    # -- after the end -----------------------------------------------------------------------

    async def _poll(self) -> None:
        """Read the whole log by polling."""
        after = 0
        while True:
            path = f"{self._path}/events?after={after}&limit={PAGE}"
            page = (await self._insist("GET", path)).body
            if not page["has_more"]:
                return
            after = page["data"][-1]["sequence"]


def _with_arguments(decision: Json, arguments: Json) -> Json:
    """Complete an edit: the same call for a smaller amount."""
    if decision["decision"] != "edit":
        return decision
    return decision | {"arguments": json.loads(json.dumps(arguments)) | {"amount": 400}}
