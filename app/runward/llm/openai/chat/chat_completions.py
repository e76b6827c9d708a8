"""Models that OpenAI or a compatible server provides through the Chat Completions API."""

from dataclasses import replace
from typing import Final

from runward.domain.run.response import ModelResponse
from runward.llm.base import Abilities, ModelRequest, OnDelta
from runward.llm.openai.chat.request import function_tool, request_body
from runward.llm.openai.chat.response import ChatMerge
from runward.llm.openai.client import OpenAIModel
from runward.llm.openai.request_parts import strictness_losses
from runward.llm.settings import all_settings

ABILITIES: Final = Abilities("openai", all_settings(), result_media=False)


class OpenAIChat(OpenAIModel):
    abilities = ABILITIES
    path = "chat/completions"
    function_tool = staticmethod(function_tool)

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        stream = request.settings.get("stream") is not False
        body = request_body(request, self._functions, stream=stream)
        answer = await self.send(body, ChatMerge(on_delta), seconds=request.timeout_seconds)
        return replace(answer, losses=strictness_losses(request, self._functions))
