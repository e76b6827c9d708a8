"""Models that OpenAI or a compatible server provides through the Chat Completions API."""

from dataclasses import replace
from typing import Final

from runward.domain.run.response import ModelResponse
from runward.llm.base import Abilities, ModelError, ModelRequest, OnDelta
from runward.llm.openai.chat.reasoning import CONTENT, DETAILS, expects_reasoning
from runward.llm.openai.chat.request import function_tool, request_body
from runward.llm.openai.chat.response import ChatMerge
from runward.llm.openai.client import OpenAIModel, TransportFactory
from runward.llm.openai.request_parts import strictness_losses
from runward.llm.settings import all_settings

ABILITIES: Final = Abilities("openai", all_settings(), result_media=False)
MAX_MODELS: Final = 256
"""Maximum number of cached names of models that rejected a request because of its reasoning."""


class OpenAIChat(OpenAIModel):
    abilities = ABILITIES
    path = "chat/completions"
    function_tool = staticmethod(function_tool)

    def __init__(
        self,
        api_key: str | None,
        base_url: str | None = None,
        checked_transport: TransportFactory | None = None,
    ) -> None:
        super().__init__(api_key, base_url, checked_transport)
        self._reasoning: dict[str, bool] = {}  # Whether a model expects its reasoning back.

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        """Send the request. If the server rejects it because reasoning is missing or is not
        accepted, send it once more with or without reasoning."""
        known = self._reasoning.get(request.model)
        try:
            return await self._ask(request, on_delta, reasoning=known)
        except ModelError as error:
            rejected = DETAILS in error.message or CONTENT in error.message
            if error.status not in (400, 422) or not rejected:
                raise
            sent = expects_reasoning(request.items) if known is None else known
            reasoning = not sent and DETAILS not in error.message
        answer = await self._ask(request, on_delta, reasoning=reasoning)
        if len(self._reasoning) >= MAX_MODELS:
            self._reasoning.clear()
        self._reasoning[request.model] = reasoning
        return answer

    async def _ask(
        self, request: ModelRequest, on_delta: OnDelta, *, reasoning: bool | None
    ) -> ModelResponse:
        stream = request.settings.get("stream") is not False
        body = request_body(request, self._functions, stream=stream, reasoning=reasoning)
        answer = await self.send(body, ChatMerge(on_delta), seconds=request.timeout_seconds)
        return replace(answer, losses=strictness_losses(request, self._functions))
