"""Models that OpenAI or a compatible server provides through the Chat Completions API."""

from dataclasses import replace
from typing import Final

from runward.domain.run.response import ModelResponse
from runward.egress.pool import OpenConnection
from runward.llm.base import Abilities, ModelError, ModelRequest, OnDelta
from runward.llm.openai.chat.dialect import DEFAULT, Dialect
from runward.llm.openai.chat.request import function_tool, request_body
from runward.llm.openai.chat.response import ChatMerge
from runward.llm.openai.client import OpenAIModel
from runward.llm.openai.request_parts import strictness_losses
from runward.llm.settings import all_settings

ABILITIES: Final = Abilities("openai", all_settings(), result_media=False)
MAX_MODELS: Final = 256
"""Maximum number of models whose dialects are cached."""
MAX_CORRECTIONS: Final = 2
"""Maximum number of corrections in one turn. There are two differences to correct."""


class OpenAIChat(OpenAIModel):
    abilities = ABILITIES
    path = "chat/completions"
    function_tool = staticmethod(function_tool)

    def __init__(
        self,
        api_key: str | None,
        base_url: str | None = None,
        connect: OpenConnection | None = None,
    ) -> None:
        super().__init__(api_key, base_url, connect)
        self._dialects: dict[str, Dialect] = {}

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        """Send the request. If the error shows that the server requires a different request, send
        the corrected request."""
        dialect = self._dialects.get(request.model, DEFAULT)
        for _ in range(MAX_CORRECTIONS):
            try:
                return await self._ask(request, on_delta, dialect)
            except ModelError as error:
                corrected = dialect.corrected(error, request.items)
                if corrected is None:
                    raise
            dialect = corrected
            if len(self._dialects) >= MAX_MODELS:
                self._dialects.clear()
            self._dialects[request.model] = dialect
        return await self._ask(request, on_delta, dialect)

    async def _ask(
        self, request: ModelRequest, on_delta: OnDelta, dialect: Dialect
    ) -> ModelResponse:
        stream = request.settings.get("stream") is not False
        body = request_body(request, self._functions, stream=stream, dialect=dialect)
        answer = await self.send(body, ChatMerge(on_delta), seconds=request.timeout_seconds)
        return replace(answer, losses=strictness_losses(request, self._functions))
