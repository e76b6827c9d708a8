"""Results that are given later."""

from runward_client import types
from runward_client._async.transport import AsyncTransport
from runward_client._requests import MAX_RETRIES, TIMEOUT_SECONDS


class AsyncCallbackClient:
    """Gives the result of a call to which the tool answered LATER. Needs no API key. `url` is
    `call.request["callback"]["url"]`."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def complete(
        self, output: types.JsonValue, envelope: types.ToolEnvelope | None = None
    ) -> None:
        """Give the result, any JSON. `envelope`: the other fields, for a tool that returns
        envelopes."""
        await self._post({"status": "completed", **(envelope or {}), "output": output})

    async def fail(self, message: str) -> None:
        """End the call with an error that the model reads."""
        await self._post({"status": "failed", "message": message})

    async def progress(self, progress: float, message: str | None = None) -> None:
        """Report progress, between 0 and 1, to the readers of the run's events."""
        await self._post({"status": "progress", "progress": progress, "message": message})

    async def ask(self, requests: types.JsonValue, state: types.JsonValue = None) -> None:
        """Ask the client that started the run. The tool is called again with the answer: the
        request's `input` has `responses`, and `state` as it is given here."""
        await self._post({"status": "input_required", "requests": requests, "state": state})

    async def _post(self, body: types.Callback) -> None:
        transport = AsyncTransport(self._url, {}, TIMEOUT_SECONDS, MAX_RETRIES, None)
        try:
            await transport.post("", body)
        finally:
            await transport.close()
