"""Run the clients of all runs of the load, many at once, and count the results."""

import asyncio
import json
import time
from collections import Counter
from pathlib import Path
from typing import Final

from tests.chaos.load.api import Answer, Api, Client
from tests.chaos.load.creating import Creation
from tests.chaos.load.following import Following
from tests.chaos.load.plan import IDEMPOTENT, Json, Plan, plan_of
from tests.chaos.load.registry import Project, register
from tests.checker import evidence
from tests.checker.evidence import Log

PROGRESS_SECONDS: Final = 5.0
SHOWN: Final = 20
"""Unexpected answers in the summary."""
UNANSWERED: Final = "no answer, no key"
"""Nobody can know whether there is a run, and a client must not send the request again."""


class Load:
    """`at_once`: how many runs are in flight."""

    def __init__(self, folder: Path, apis: list[str], *, seed: int, at_once: int) -> None:
        self._folder = folder
        self._api = Api(folder, apis)
        self._plans = Log(folder, "runs.jsonl")
        self._seed = seed
        self._at_once = at_once
        self._projects: list[Project] = []
        self._ended: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._problems: list[str] = []

    async def close(self) -> None:
        await self._api.close()

    async def register(self, servers: Json, operator_key: str) -> None:
        self._projects = await register(self._api, self._folder, servers, operator_key, self._seed)

    async def drive(self, runs: int, *, bound_seconds: float) -> None:
        """Drive plans 0 … `runs`-1, each to its end or for `bound_seconds`."""
        began, numbers = time.monotonic(), iter(range(runs))

        async def drive_next() -> None:
            for number in numbers:
                await self._drive_one(plan_of(self._seed, number), bound_seconds)

        async with asyncio.TaskGroup() as tasks:
            progress = tasks.create_task(self._show_progress(runs))
            drivers = [tasks.create_task(drive_next()) for _ in range(self._at_once)]
            await asyncio.wait(drivers)
            progress.cancel()
        self._summarize(time.monotonic() - began)

    async def _drive_one(self, plan: Plan, bound_seconds: float) -> None:
        try:
            async with asyncio.timeout(bound_seconds):
                outcome = await self._carry(plan)
        except TimeoutError:
            outcome = "not driven to its end"
        except Exception as error:  # of one run: the others go on, and the summary shows it
            outcome = "the client failed"
            self._problems.append(f"{plan.id} ({plan.kind}): {error!r}")
        self._kinds[plan.kind] += 1
        self._ended[outcome] += 1
        if outcome not in (*plan.expects["statuses"], UNANSWERED):
            self._problems.append(f"{plan.id} ({plan.kind}): {outcome}")

    async def _carry(self, plan: Plan) -> str:
        project = self._projects[plan.project]
        creation = Creation(self._api, plan, project)
        self._plans.write(_line(plan, project.name, creation.key))
        run_id = await creation.run_id()
        if run_id is None:
            refused = creation.refusal or Answer(None)
            lost = refused.status in (None, 503)
            return UNANSWERED if lost else f"refused: {refused.status} {refused.code}"
        run = await Following(self._api, plan, project, run_id).follow()
        if plan.continue_turns is not None and run["status"] == "incomplete":
            run = await self._continue(plan, project, run)
        if run["status"] == "failed":
            return f"failed: {run['error']['code']}"
        if run["status"] == "completed" and run["output"] != plan.expects.get(
            "output", run["output"]
        ):
            self._problems.append(f"{plan.id} ({plan.kind}): output {run['output']!r}")
        return str(run["status"])

    async def _continue(self, plan: Plan, project: Project, run: Json) -> Json:
        body: Json = {"max_turns": plan.continue_turns}
        body |= {"input": f"{plan.id}: go on"} if plan.continue_input else {}
        answer = await self._api.insist(
            "POST",
            f"/v1/runs/{run['id']}/continue",
            body,
            client=Client(f"client-{plan.number}", project.key, plan.id),
            key=f"{plan.id}-continue",
        )
        if not answer.accepted:
            raise RuntimeError(f"continue: {answer.status} {answer.body}")
        return await Following(self._api, plan, project, str(answer.body["id"])).follow()

    async def _show_progress(self, runs: int) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            ended = sum(self._kinds.values())
            print(f"{time.monotonic() - began:5.0f} s  {ended} of {runs} runs", flush=True)

    def _summarize(self, seconds: float) -> None:
        unexpected = self._api.unexpected
        summary = {
            "runs": sum(self._kinds.values()),
            "seconds": round(seconds, 1),
            "kinds": dict(sorted(self._kinds.items())),
            "ended": dict(sorted(self._ended.items())),
            "clients": dict(sorted(self._api.counts.items())),
            "answers": dict(sorted(self._api.statuses.items())),
            "model_behaviors": self._behaviors("models.jsonl"),
            "tool_behaviors": self._behaviors("tools.jsonl"),
            "unexpected_answers": [*unexpected[:SHOWN], f"{len(unexpected)} in all"],
            "problems": self._problems,
        }
        text = json.dumps(summary, indent=2)
        (self._folder / "load.summary.json").write_text(text + "\n")
        print(text, flush=True)

    def _behaviors(self, name: str) -> dict[str, int]:
        """Count the behaviors of the servers, whose requests have one line on arrival."""
        found: Counter[str] = Counter()
        for line in evidence.read_lines(self._folder / name):
            if "behavior" in line and "ended_at" not in line:
                found[line["behavior"]] += 1
        return dict(sorted(found.items()))


def _line(plan: Plan, project: str, key: str | None) -> evidence.Plan:
    tools = {
        call.tool: {"idempotent": call.tool in IDEMPOTENT, "behaviors": call.behaviors}
        for call in plan.calls.values()
    }
    return evidence.Plan(
        plan=plan.id,
        kind=plan.kind,
        project=project,
        idempotency_key=key,
        agent=plan.start.get("agent"),
        tools=tools,
        expects=plan.expects,
    )
