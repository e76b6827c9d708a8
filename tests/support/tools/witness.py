"""Whether a tool call's start was committed before the call was sent: asked at the moment of the
hit, by a reader of the public API, so that no clock takes part."""

import httpx2

from tests.support.services.client import NO_TLS, PAGE, Json
from tests.support.tools.hits import Hit
from tests.support.tools.server import Witness

TIMEOUT_SECONDS = 20.0


def started_witness(url: str, key: str) -> Witness:
    """For `ToolServer.witness`; `key` must be of the project whose runs call the tools."""

    async def witness(hit: Hit) -> bool:
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(
            timeout=TIMEOUT_SECONDS, trust_env=False, verify=NO_TLS
        ) as http:
            answer = await http.get(
                f"{url}/v1/runs/{hit.run_id}/events", params={"limit": PAGE}, headers=headers
            )
        answer.raise_for_status()
        events: list[Json] = answer.json()["data"]
        wanted = ("tool_call.started", hit.call_id, hit.attempt)
        return wanted in [
            (event["type"], event["data"].get("call_id"), event["data"].get("attempt"))
            for event in events
        ]

    return witness
