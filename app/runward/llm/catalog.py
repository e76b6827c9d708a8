"""The catalog of models. It resolves `provider:model` to a Model and to the provider's name of the
model."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeAlias
from weakref import WeakSet

from runward.egress.pool import OpenConnection
from runward.llm.base import Abilities, Model
from runward.llm.offline.model import OfflineModel
from runward.llm.openai.chat.chat_completions import OpenAIChat
from runward.llm.openai.responses.responses_api import OpenAIResponses
from runward.llm.providers.access import ProviderAccess, ProviderName
from runward.llm.providers.models import ProviderModel, is_installed, missing_extra_message
from runward.llm.sdk_clients import is_valid_key

OFFLINE_MODELS: Final = frozenset({"rules"})
MODEL_NAME_HELP: Final = (
    "Write a model as provider:model: openai:NAME (any server with the Chat "
    "Completions API), openai-responses:NAME (any server with the Responses API), "
    "anthropic:NAME, gemini:NAME, bedrock:NAME or offline:rules (a rule-based "
    "model that needs no key)."
)
PROJECT_SECRET_NAMES: Final = frozenset(
    {
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "AWS_BEARER_TOKEN_BEDROCK",
    }
)
"""Names of project secrets that replace the deployment's access to providers."""
MAX_PROJECT_MODELS: Final = 256
"""Maximum number of cached sets of models for projects with API keys in their secrets. Projects
with equal secrets share one set."""
INVALID_KEY: Final = (
    "contains characters that are not allowed in an API key, such as a line break or a letter "
    "outside ASCII"
)
_MISSING: Final = "missing in the service's environment and in the project's secrets"
_OPENAI_MISSING: Final = (
    f"OPENAI_API_KEY is {_MISSING} (or OPENAI_BASE_URL, for a server that needs no key)"
)
_MISSING_KEYS: Final[Mapping[str, str]] = {
    "openai": _OPENAI_MISSING,
    "openai-responses": _OPENAI_MISSING,
    "anthropic": f"ANTHROPIC_API_KEY is {_MISSING}",
    "gemini": f"GEMINI_API_KEY (or GOOGLE_API_KEY) is {_MISSING}",
    "bedrock": "AWS_BEARER_TOKEN_BEDROCK (or AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY) "
    "is missing in the service's environment",
}
_KEY_NAMES: Final[Mapping[ProviderName, str]] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "bedrock": "AWS_BEARER_TOKEN_BEDROCK",
}

_PROJECT_KEYS: Final = PROJECT_SECRET_NAMES - {"OPENAI_BASE_URL"}

ReachableModel: TypeAlias = OpenAIChat | OpenAIResponses | ProviderModel


class ModelNotInCatalogError(ValueError):
    """Raised if a name is not in the catalog. The message is for the caller and lists the
    alternatives."""


class Models:
    """The models that one set of credentials can use. For each provider: a model, or the reason why
    there is none."""

    def __init__(self, by_provider: Mapping[str, ReachableModel | str]) -> None:
        self._offline = OfflineModel()
        self.by_provider = by_provider

    def resolve(self, model: str) -> tuple[Model, str]:
        """Return the model and the provider's name of the model. Raises ModelNotInCatalogError."""
        provider, colon, name = model.partition(":")
        if not colon or not name:
            raise ModelNotInCatalogError(f"'{model}' is not a model name. {MODEL_NAME_HELP}")
        if provider == "offline" and name in OFFLINE_MODELS:
            return self._offline, name
        match self.by_provider.get(provider):
            case None:
                raise ModelNotInCatalogError(
                    f"The model '{model}' does not exist. {MODEL_NAME_HELP}"
                )
            case str(why_not):
                raise ModelNotInCatalogError(
                    f"The model '{model}' is not available: {why_not}. The model "
                    "'offline:rules' needs no key."
                )
            case reached:
                return reached, name

    def abilities(self) -> dict[str, Abilities]:
        """Return the abilities of each provider that can be reached."""
        return {"offline": self._offline.abilities} | {
            provider: one.abilities for provider, one in self.reachable.items()
        }

    @property
    def reachable(self) -> dict[str, ReachableModel]:
        return {v: one for v, one in self.by_provider.items() if not isinstance(one, str)}


class ModelCatalog:
    """The models of all providers. There is one Model for each provider and set of credentials,
    which all runs share. Connections are opened at first use.

    With a base URL, `openai:` and `openai-responses:` also work without a key. `connect`
    connects to addresses that projects choose.
    """

    def __init__(
        self,
        *,
        openai_api_key: str | None,
        openai_base_url: str | None,
        providers: Mapping[ProviderName, ProviderAccess] | None = None,
        connect: OpenConnection | None = None,
    ) -> None:
        self._openai_base_url = openai_base_url
        self._providers = dict(providers or {})
        self._connect = connect
        by_provider: dict[str, ReachableModel | str] = dict(_MISSING_KEYS)
        if openai_api_key or openai_base_url:
            by_provider |= _openai_models(openai_api_key, openai_base_url)
        by_provider |= {
            provider: _provider(provider, access) for provider, access in self._providers.items()
        }
        self.environment = Models(by_provider)
        """The models that the service's environment variables configure."""
        self._own: OrderedDict[frozenset[tuple[str, str]], Models] = OrderedDict()
        self._opened: WeakSet[ReachableModel] = WeakSet(self.environment.reachable.values())

    def for_project(self, secrets: Mapping[str, str], refusal: str | None = None) -> Models:
        """Return the models of a project that has these secrets. `refusal` is the reason why its
        OPENAI_BASE_URL must not be called. A project's address never receives the operator's
        key."""
        if not secrets:
            return self.environment
        key = frozenset({**secrets, "refused": refusal or ""}.items())
        models = self._own.get(key)
        if models is None:
            models = self._own[key] = self._build(secrets, refusal)
            while len(self._own) > MAX_PROJECT_MODELS:
                # The clients of these models close with their last user.
                self._own.popitem(last=False)
        self._own.move_to_end(key)
        return models

    async def aclose(self) -> None:
        for one in [*self._opened]:
            await one.aclose()

    def _build(self, own: Mapping[str, str], refused_url: str | None) -> Models:
        by_provider = {**self.environment.by_provider, **self._project_models(own, refused_url)}
        known = self.environment.reachable.values()
        models = Models(by_provider)
        self._opened.update(one for one in models.reachable.values() if one not in known)
        return models

    def _project_models(
        self, own: Mapping[str, str], refused_url: str | None
    ) -> dict[str, ReachableModel | str]:
        """Return the models that the project's secrets replace. An invalid key affects only the
        models of its own provider."""
        found: dict[str, ReachableModel | str] = {}
        invalid = {
            name: f"the project's {name} {INVALID_KEY}. Set the secret again"
            for name in own
            if is_invalid_key(name, own[name])
        }
        url = own.get("OPENAI_BASE_URL")
        wrong = refused_url or invalid.get("OPENAI_API_KEY")
        if wrong is not None:
            found |= dict.fromkeys(("openai", "openai-responses"), wrong)
        elif url is not None:
            found |= _openai_models(own.get("OPENAI_API_KEY"), url, self._connect)
        elif "OPENAI_API_KEY" in own:
            found |= _openai_models(own["OPENAI_API_KEY"], self._openai_base_url)
        for provider, name in _KEY_NAMES.items():
            if name in invalid:
                found[provider] = invalid[name]
            elif name in own:
                former = self._providers.get(provider, ProviderAccess())
                found[provider] = _provider(provider, replace(former, key=own[name], aws=None))
        return found


def is_invalid_key(name: str, value: str) -> bool:
    """Return whether a project's secret is a provider's API key that cannot be sent in a header."""
    return name in _PROJECT_KEYS and not is_valid_key(value)


def _openai_models(
    key: str | None, url: str | None, connect: OpenConnection | None = None
) -> dict[str, ReachableModel]:
    return {
        "openai": OpenAIChat(key, url, connect),
        "openai-responses": OpenAIResponses(key, url, connect),
    }


def _provider(provider: ProviderName, access: ProviderAccess) -> ReachableModel | str:
    return ProviderModel(provider, access) if is_installed() else missing_extra_message(provider)
