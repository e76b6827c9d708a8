# Generated from _async by sdks/python/scripts/generate.py. Do not edit.
"""Results that are given later."""

from runward_client import types
from runward_client._sync.transport import Transport
from runward_client._requests import MAX_RETRIES, TIMEOUT_SECONDS


class CallbackClient:
    """Gives the result of a call to which the tool answered LATER. Needs no API key. `url` is
    `call.request["callback"]["url"]`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def complete(
        self, output: types.JsonValue, envelope: types.ToolEnvelope | None = None
    ) -> None:
        """Give the result, any JSON. `envelope`: the other fields, for a tool that returns
        envelopes."""
        self._post({"status": "completed", **(envelope or {}), "output": output})

    def fail(self, message: str) -> None:
        """End the call with an error that the model reads."""
        self._post({"status": "failed", "message": message})

    def progress(self, progress: float, message: str | None = None) -> None:
        """Report progress, between 0 and 1, to the readers of the run's events."""
        self._post({"status": "progress", "progress": progress, "message": message})

    def ask(self, requests: types.JsonValue, state: types.JsonValue = None) -> None:
        """Ask the client that started the run. The tool is called again with the answer: the
        request's `input` has `responses`, and `state` as it is given here."""
        self._post({"status": "input_required", "requests": requests, "state": state})

    def _post(self, body: types.Callback) -> None:
        transport = Transport(self._url, {}, TIMEOUT_SECONDS, MAX_RETRIES, None)
        try:
            transport.post("", body)
        finally:
            transport.close()
