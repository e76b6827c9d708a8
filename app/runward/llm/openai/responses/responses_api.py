"""Models that OpenAI or a compatible server provides through the Responses API.
`openai.types.responses` contains the types.

OpenAI stores nothing unless the settings contain `store`. Each request sends the complete
conversation, with the model's encrypted reasoning, and no response continues another one.
"""

from dataclasses import replace
from typing import Final

from runward.domain.run.response import ModelResponse
from runward.egress.pool import OpenConnection
from runward.llm.base import Abilities, ModelError, ModelRequest, OnDelta
from runward.llm.openai.client import OpenAIModel
from runward.llm.openai.request_parts import strictness_losses
from runward.llm.openai.responses.request import request_body
from runward.llm.openai.responses.response import ResponseMerge
from runward.llm.openai.responses.tools import PROVIDER, DeclaredTools, function_tool

ABILITIES: Final = Abilities(
    PROVIDER,
    frozenset(
        {
            "max_output_tokens",
            "metadata",
            "prompt_cache_key",
            "reasoning",
            "reasoning.summary",
            "safety_identifier",
            "service_tier",
            "store",
            "temperature",
            "top_p",
            "user",
            "verbosity",
        }
    ),
    hosted=frozenset(
        {"web_search", "file_search", "code_interpreter", "image_generation", "mcp", "shell"}
    ),
    executors=frozenset({"shell", "apply_patch", "computer"}),
)
NO_ENCRYPTION_ERROR: Final = "Encrypted content is not supported"
"""OpenAI's error if a request asks a model without reasoning for encrypted reasoning."""
MAX_PLAIN_MODELS: Final = 256
"""Maximum number of cached names of models that returned this error."""


class OpenAIResponses(OpenAIModel):
    abilities = ABILITIES
    path = "responses"
    function_tool = staticmethod(function_tool)

    def __init__(
        self,
        api_key: str | None,
        base_url: str | None = None,
        connect: OpenConnection | None = None,
    ) -> None:
        super().__init__(api_key, base_url, connect)
        self._unsealed: set[str] = set()

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        try:
            return await self._ask(request, on_delta)
        except ModelError as error:
            if NO_ENCRYPTION_ERROR not in error.message or request.model in self._unsealed:
                raise
        if len(self._unsealed) >= MAX_PLAIN_MODELS:
            self._unsealed.clear()
        self._unsealed.add(request.model)
        return await self._ask(request, on_delta)

    async def _ask(self, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        offered = DeclaredTools(request.tools, self._functions, request.model)
        body = request_body(request, offered, encrypted=request.model not in self._unsealed)
        merge = ResponseMerge(on_delta, offered)
        answer = await self.send(body, merge, seconds=request.timeout_seconds)
        called = replace(request, tools=offered.functions())
        return replace(answer, losses=strictness_losses(called, self._functions))
