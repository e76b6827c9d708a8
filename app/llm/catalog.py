"""Which models there are: `vendor:model` to the Model that speaks to it, and the vendor's name
for it, verbatim."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from app.llm.base import Abilities, Model
from app.llm.offline import Offline
from app.llm.openai_chat import OpenAIChat
from app.llm.openai_responses import OpenAIResponses
from app.llm.settings import check_settings
from app.llm.vendors import VendorModel, is_installed, missing_extra
from app.llm.vendors_access import Access, VendorName

OFFLINE_MODELS: Final = frozenset({"rules"})
VENDORS: Final = (
    "Models are written vendor:model. There are openai:NAME (any server that speaks Chat "
    "Completions), openai-responses:NAME (any server that speaks the Responses API), "
    "anthropic:NAME, gemini:NAME, bedrock:NAME and offline:rules (a rule-based stand-in that "
    "needs no key)."
)
KEYS: Final[Mapping[str, str]] = {
    "anthropic": "ANTHROPIC_API_KEY is missing",
    "gemini": "GEMINI_API_KEY (or GOOGLE_API_KEY) is missing",
    "bedrock": "AWS_BEARER_TOKEN_BEDROCK (or AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY) "
    "is missing",
}


class UnknownModelError(ValueError):
    """The text is for the caller: it says what there is instead."""


class ModelCatalog:
    """One Model per vendor, shared by all runs; nothing is opened before it is used.
    With a base URL, `openai:` and `openai-responses:` also work without a key."""

    def __init__(
        self,
        *,
        openai_api_key: str | None,
        openai_base_url: str | None,
        vendors: Mapping[VendorName, Access] | None = None,
    ) -> None:
        self._offline = Offline()
        self._openai: dict[str, OpenAIChat | OpenAIResponses] = {}
        if openai_api_key or openai_base_url:
            self._openai = {
                "openai": OpenAIChat(openai_api_key, openai_base_url),
                "openai-responses": OpenAIResponses(openai_api_key, openai_base_url),
            }
        self._vendors: dict[str, VendorModel] = {
            name: VendorModel(name, access) for name, access in (vendors or {}).items()
        }

    def resolve(self, model: str) -> tuple[Model, str]:
        """Raises UnknownModelError."""
        vendor, colon, name = model.partition(":")
        if not colon or not name:
            raise UnknownModelError(f"'{model}' does not name a model. {VENDORS}")
        match vendor:
            case "offline" if name in OFFLINE_MODELS:
                return self._offline, name
            case _ if vendor in self._openai:
                return self._openai[vendor], name
            case "openai" | "openai-responses":
                raise UnknownModelError(
                    f"'{model}' cannot be reached: OPENAI_API_KEY is missing in the service's "
                    "environment (or OPENAI_BASE_URL, for a server that needs no key). "
                    "'offline:rules' works without."
                )
            case _ if vendor in KEYS:
                return self._of_vendor(model, vendor), name
            case _:
                raise UnknownModelError(f"There is no model '{model}'. {VENDORS}")

    def _of_vendor(self, model: str, vendor: str) -> VendorModel:
        if vendor not in self._vendors:
            raise UnknownModelError(
                f"'{model}' cannot be reached: {KEYS[vendor]} in the service's environment. "
                "'offline:rules' works without."
            )
        if not is_installed():
            raise UnknownModelError(f"'{model}' cannot be reached: {missing_extra(vendor)}")
        return self._vendors[vendor]

    @property
    def vendors(self) -> list[str]:
        """Those that models can be asked of here."""
        return [*self.abilities()]

    def abilities(self) -> dict[str, Abilities]:
        """By vendor."""
        others = sorted(self._vendors) if is_installed() else []
        return {
            "offline": self._offline.abilities,
            **{vendor: model.abilities for vendor, model in self._openai.items()},
            **{vendor: self._vendors[vendor].abilities for vendor in others},
        }

    def known(self, model: str) -> None:
        """For the moment when an agent or a run is made. Raises UnknownModelError."""
        self.resolve(model)

    def check_settings(self, model: str, settings: Mapping[str, JsonValue]) -> list[str]:
        """What is wrong with `model_settings` for this model, one line each. The offline model
        takes what the others take, and needs none of it. Raises UnknownModelError."""
        self.resolve(model)
        return check_settings(settings)

    async def open(self) -> None:
        """Optional, at the start of a process: saves the first call the import of an SDK."""
        for model in self._openai.values():
            await model.open()
        if is_installed():
            for one in self._vendors.values():
                await one.open()

    async def aclose(self) -> None:
        for model in self._openai.values():
            await model.aclose()
        for one in self._vendors.values():
            await one.aclose()
