"""All scripted servers of models at one address: no two protocols share a path."""

from typing import Any

from aiohttp import web

from tests.support.models.chat_server import ModelServer
from tests.support.models.providers.anthropic_server import AnthropicServer
from tests.support.models.providers.bedrock_server import BedrockServer
from tests.support.models.providers.gemini_server import GeminiServer
from tests.support.models.responses_server import ResponsesServer
from tests.support.models.scripted import ScriptedServer
from tests.support.serving import MAX_BODY_BYTES, Server


class AllProviders(Server):
    def __init__(self) -> None:
        super().__init__()
        self.chat = ModelServer()
        self.responses = ResponsesServer()
        self.anthropic = AnthropicServer()
        self.gemini = GeminiServer()
        self.bedrock = BedrockServer()
        self.violations: list[str] = []
        for one in self._all:
            one.violations = self.violations

    @property
    def _all(self) -> tuple[ScriptedServer[Any, Any], ...]:
        return self.chat, self.responses, self.anthropic, self.gemini, self.bedrock

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        for one in self._all:
            one.route(app.router)
        return app

    @property
    def openai_base_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def env(self) -> dict[str, str]:
        """What a service needs to reach the others."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "sk-ant-test",
            "GEMINI_BASE_URL": self.url,
            "GEMINI_API_KEY": "gemini-test",
            "BEDROCK_BASE_URL": self.url,
            "AWS_ACCESS_KEY_ID": "AKIATEST",  # boto3 sends a bearer token over HTTPS only
            "AWS_SECRET_ACCESS_KEY": "bedrock-test",
            "AWS_REGION": "us-east-1",
        }
