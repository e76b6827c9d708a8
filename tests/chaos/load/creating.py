"""The ways in which clients create a run."""

import asyncio
import re
from typing import Final

from tests.chaos.load.api import Answer, Api, Client
from tests.chaos.load.plan import Json, Plan
from tests.chaos.load.registry import Project

_RESPONSE_ID: Final = re.compile(r"resp_([0-9a-f]{32})")
ABANDONED_AFTER_SECONDS: Final = (0.0, 0.01, 0.05)
RACERS: Final = 3


class Creation:
    """Creates the run of one plan. `run_id` returns `None` if it is not known whether there is one:
    only without an Idempotency-Key."""

    def __init__(self, api: Api, plan: Plan, project: Project) -> None:
        self._api = api
        self._plan = plan
        self._client = Client(f"client-{plan.number}", project.key, plan.id)
        self.key = None if plan.creation == "unkeyed" else f"key-{plan.id}"
        self.refusal: Answer | None = None

    async def run_id(self) -> str | None:
        body = self._body(await self._session())
        if self._plan.kind == "responses":
            return await self._response(body)
        match self._plan.creation:
            case "post":
                answer = await self._insist("/v1/runs", body)
            case "wait":
                answer = await self._insist("/v1/runs?wait=2", body)
            case "stream":
                return await self._streamed(body)
            case "abandon" | "half":
                await self._abandon("/v1/runs", body)
                answer = await self._insist("/v1/runs", body)
            case "race":
                answer = await self._race(body)
            case "unkeyed":
                answer = await self._api.send("POST", "/v1/runs", body, client=self._client)
        return self._id_of(answer)

    def _id_of(self, answer: Answer) -> str | None:
        if answer.accepted:
            return str(answer.body["id"])
        self.refusal = answer
        return None

    async def _insist(self, path: str, body: Json) -> Answer:
        return await self._api.insist("POST", path, body, key=self.key, client=self._client)

    async def _session(self) -> str | None:
        """Return the id of the session. Every run of the session creates it under the same key."""
        name = self._plan.session
        if name is None:
            return None
        answer = await self._api.insist(
            "POST", "/v1/sessions", {"name": name}, key=f"key-{name}", client=self._client
        )
        return str(answer.body["id"])

    def _body(self, session_id: str | None) -> Json:
        said = f"{self._plan.id}: {self._plan.kind}"
        if self._plan.kind == "responses":
            return {"model": self._plan.start["agent"], "input": said}
        body = {"input": said, "metadata": {"plan": self._plan.id}, **self._plan.start}
        return body if session_id is None else body | {"session_id": session_id}

    async def _abandon(self, path: str, body: Json) -> None:
        half = self._plan.creation == "half"
        await self._api.abandon(path, body, half=half, key=self.key, client=self._client)
        delay = ABANDONED_AFTER_SECONDS[self._plan.number % len(ABANDONED_AFTER_SECONDS)]
        await asyncio.sleep(delay)

    async def _race(self, body: Json) -> Answer:
        """Send the same key and body at once through all APIs, and the key with another body.
        Return the answer of one that was accepted."""
        other = body | {"metadata": {"plan": self._plan.id, "other": True}}
        bodies = [*[body] * RACERS, other]
        race = f"{self._plan.id}-key"
        self._api.counts["races for an idempotency key"] += 1
        answers = await asyncio.gather(
            *(
                self._api.send(
                    "POST",
                    "/v1/runs",
                    one,
                    key=self.key,
                    race=race,
                    api=number,
                    client=self._client,
                )
                for number, one in enumerate(bodies)
            )
        )
        for answer in answers:
            if answer.accepted:
                return answer
        answer = await self._insist("/v1/runs", body)
        return answer if answer.accepted else await self._insist("/v1/runs", other)

    async def _streamed(self, body: Json) -> str | None:
        """Read the stream that answers the POST up to its first event, and leave it."""
        stream = self._api.stream(
            "/v1/runs", "", 0, method="POST", body=body, key=self.key, client=self._client
        )
        found = None
        try:
            async for _, _, data in stream:
                found = str(data["run_id"])
                break
        finally:
            await stream.aclose()
        return found or self._id_of(await self._insist("/v1/runs", body))

    async def _response(self, body: Json) -> str | None:
        """POST /v1/responses: held, streamed, or given up and sent again for the background."""
        if self._plan.creation == "stream":
            body |= {"stream": True}
        if self._plan.creation == "abandon":
            body |= {"background": True}
            await self._abandon("/v1/responses", body)
        answer = await self._insist("/v1/responses", body)
        found = _RESPONSE_ID.search(str(answer.body))
        if answer.accepted and found is None:  # an API that stops ends a stream before its start
            answer = await self._insist("/v1/responses", body)
            found = _RESPONSE_ID.search(str(answer.body))
        if answer.accepted and found is not None:
            return f"run_{found[1]}"
        self.refusal = answer
        return None
