"""The parts of a request besides the conversation: settings, tools, tool choice and output schema.

pydantic-ai knows which parts each model supports. Unsupported parts are dropped here and reported
as a `Loss`, because pydantic-ai would drop them without a report or reject the whole request.
"""

from dataclasses import dataclass, field
from typing import Any, Final, cast

from pydantic import JsonValue
from pydantic_ai import InstructionPart, ModelSettings, ToolDefinition
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.native_tools import AbstractNativeTool, CodeExecutionTool, WebSearchTool
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles.anthropic import ANTHROPIC_THINKING_BUDGET_MAP

from runward.domain.events.values import RunErrorCode
from runward.domain.registry.tools import HostedTool
from runward.domain.run.items import ToolCall
from runward.domain.run.response import Loss
from runward.llm.base import ModelError, ModelRequest
from runward.llm.providers.access import ProviderName
from runward.llm.providers.clients import GEMINI_EXTRA
from runward.llm.providers.tools import ToolDefinitions, enforce_schema, reduce_for_gemini
from runward.llm.strict_mode import UnenforceableError

EFFORTS: Final = frozenset({"minimal", "low", "medium", "high", "xhigh", "max"})
OUTPUT_NAME: Final = "output"
_NOT_TOLD: Final = "does not support this output schema; Runward still validates the output"
_RENAMED: Final = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_output_tokens": "max_tokens",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
_EXTRA: Final[dict[ProviderName, str]] = {
    "anthropic": "extra_body",
    "gemini": GEMINI_EXTRA,
    "bedrock": "bedrock_additional_model_requests_fields",
}
_SAMPLING: Final = ("temperature", "top_p")
_FIXED_SETTINGS: Final[dict[str, Any]] = {"framing_announcement": "never"}
"""Settings that keep pydantic-ai from adding its own text before the instructions."""
_CACHE_SETTINGS: Final[dict[ProviderName, dict[str, Any]]] = {
    "anthropic": {
        "anthropic_cache_tool_definitions": True,
        "anthropic_cache_instructions": True,
        "anthropic_cache_messages": True,
    },
    "gemini": {},
    "bedrock": {
        "bedrock_cache_tool_definitions": True,
        "bedrock_cache_instructions": True,
        "bedrock_cache_messages": True,
    },
}
"""The settings that cache prompts after the tools, after the instructions, and at the end of the
conversation. Gemini and some models at Bedrock cache prompts without a setting."""


@dataclass(slots=True)
class Plan:
    """The settings and parameters of a request. `one_call`: whether only the first call of the
    response is kept, because the provider has no setting for one call at a time. `own_limit`:
    whether Runward chose the maximum number of output tokens, and can lower it."""

    settings: dict[str, Any]
    parameters: ModelRequestParameters
    one_call: bool = False
    own_limit: bool = False
    losses: list[Loss] = field(default_factory=list[Loss])

    @property
    def model_settings(self) -> ModelSettings:
        return cast(ModelSettings, self.settings)


def plan_request(
    request: ModelRequest,
    model: Model,
    provider: ProviderName,
    definitions: ToolDefinitions,
    system_texts: list[str],
    *,
    strict: bool,
    max_output_tokens: int | None = None,
) -> Plan:
    """Return the plan for a request. `system_texts`: the system messages at the beginning of the
    conversation. `strict`: if False, no schema is sent as strict. `max_output_tokens`: the number
    of tokens for which there is space after the conversation, if the provider has reported it.
    Raises ModelError for unknown settings of a hosted tool."""
    texts = [text for text in (request.instructions, *system_texts) if text]
    parameters = ModelRequestParameters(
        instruction_parts=[InstructionPart(text) for text in texts] or None
    )
    plan = Plan({**_FIXED_SETTINGS, **_CACHE_SETTINGS[provider]}, parameters)
    maker = _PlanBuilder(request, model, provider, plan)
    maker.add_settings()
    maker.add_tools(definitions, strict=strict)
    maker.add_output()
    maker.settle()
    maker.add_limit(max_output_tokens)
    return plan


class _PlanBuilder:
    def __init__(
        self, request: ModelRequest, model: Model, provider: ProviderName, plan: Plan
    ) -> None:
        self._request = request
        self._model = model
        self._profile = cast(dict[str, Any], model.profile)
        self._provider: ProviderName = provider
        self._plan = plan
        self._name = f"{provider}:{request.model}"

    def add_settings(self) -> None:
        settings = self._plan.settings
        fixed = self._is("anthropic_disallows_sampling_settings") or self._is(
            "bedrock_disallows_sampling_settings"
        )
        for name, value in self._request.settings.items():
            if value is None:
                continue
            if name in _SAMPLING and fixed:
                self._lose(f"model_settings.{name}", "does not support this setting")
            elif name in _RENAMED:
                settings[_RENAMED[name]] = value
            else:
                self._add_setting(name, value)

    def _add_setting(self, name: str, value: JsonValue) -> None:
        settings = self._plan.settings
        match name, value:
            case "stop", _:
                settings["stop_sequences"] = [value] if isinstance(value, str) else value
            case "reasoning", {"effort": str(effort)}:
                self._add_effort(effort)
            case "extra_body", dict():
                settings[_EXTRA[self._provider]] = value
            case "user", _:
                settings["anthropic_metadata"] = {"user_id": value}
            case "metadata", _:
                settings["bedrock_request_metadata"] = value
            case "service_tier", _ if self._provider == "anthropic":
                settings["anthropic_service_tier"] = value
            case "service_tier", _:
                settings["bedrock_service_tier"] = {"type": value}
            case _:
                pass  # The adapter handles `stream` itself.

    def _add_effort(self, effort: str) -> None:
        what = "model_settings.reasoning"
        if not (self._is("supports_thinking") or self._is("thinking_always_enabled")):
            self._lose(what, "does not support reasoning")
        elif effort == "none":
            self._plan.settings["thinking"] = False
        elif effort in EFFORTS:
            self._plan.settings["thinking"] = effort
        else:
            self._lose(what, f"does not support the effort '{effort}'")

    def add_tools(self, definitions: ToolDefinitions, *, strict: bool) -> None:
        request, parameters = self._request, self._plan.parameters
        for spec in request.tools:
            if spec.hosted is not None:
                parameters.native_tools.append(_native_tool(spec.hosted, self._provider))
                continue
            definition, lost = definitions.definition(spec, self._provider, strict=strict)
            parameters.function_tools.append(definition)
            for loss in lost:
                self._lose(loss.part, loss.reason)
        if parameters.function_tools:
            self._add_choice()
        elif not parameters.native_tools and self._provider != "gemini":
            self._name_called_tools()

    def _name_called_tools(self) -> None:
        """Declare the tools of earlier calls. Providers require these declarations even if the
        model may make no new calls."""
        names = dict.fromkeys(i.name for i in self._request.items if isinstance(i, ToolCall))
        if names:
            self._plan.parameters.function_tools += [
                ToolDefinition(name=name, strict=False) for name in names
            ]
            self._plan.settings["tool_choice"] = "none"

    def _add_choice(self) -> None:
        choice, settings = self._request.tool_choice, self._plan.settings
        forced = choice == "required" or isinstance(choice, dict)
        if forced and not self._can_force():
            self._lose("tool_choice", "cannot be required to call a tool")
        elif choice != "auto":
            settings["tool_choice"] = [choice["name"]] if isinstance(choice, dict) else choice
            if forced and settings.get("thinking") and self._no_thought_before_calls():
                del settings["thinking"]
                self._lose("model_settings.reasoning", "does not reason if a tool call is required")
        if choice == "none" and self._provider == "bedrock" and not self._can_forbid():
            self._lose(
                "tool_choice", "cannot be prevented from calling a tool that it has already called"
            )
        if not self._request.parallel_tool_calls and choice != "none":
            if self._provider == "anthropic":
                settings["parallel_tool_calls"] = False
            else:
                self._plan.one_call = True

    def _can_force(self) -> bool:
        if self._provider == "bedrock" and not self._is("bedrock_supports_tool_choice"):
            return False
        return self._profile.get("supports_forced_tool_choice", True) is not False

    def _can_forbid(self) -> bool:
        if self._profile.get("bedrock_tool_choice_none_variant") == "anthropic":
            return True
        return not any(isinstance(item, ToolCall) for item in self._request.items)

    def _no_thought_before_calls(self) -> bool:
        """Return whether the model cannot reason if a call is required."""
        if not self._profile.get("supports_forced_tool_choice_with_thinking", True):
            return True
        variant = self._profile.get("bedrock_thinking_variant")
        return self._provider == "anthropic" or (
            self._provider == "bedrock" and variant not in ("xai", "openai_responses")
        )

    def add_output(self) -> None:
        schema, parameters = self._request.output_schema, self._plan.parameters
        if schema is None:
            return
        beside_tools = self._provider != "gemini" or self._is("google_supports_tool_combination")
        alone = not (parameters.function_tools or parameters.native_tools)
        if not (self._is("supports_json_schema_output") and (beside_tools or alone)):
            self._lose("output_schema", _NOT_TOLD)
            return
        if self._provider == "gemini":
            told, lost = reduce_for_gemini(schema)
            if lost:
                self._lose(
                    "output_schema",
                    f"does not support these keywords in the schema: {', '.join(lost)}",
                )
        else:
            try:
                told = enforce_schema(self._provider, schema)
            except UnenforceableError as error:
                self._lose("output_schema", f"cannot enforce the schema: {error}; it {_NOT_TOLD}")
                return
        parameters.output_mode = "native"
        parameters.output_object = OutputObjectDefinition(told, name=OUTPUT_NAME, strict=True)

    def settle(self) -> None:
        """Drop settings that exclude each other. While Claude reasons, it accepts only the
        temperature 1."""
        settings = self._plan.settings
        is_claude = self._provider == "anthropic" or (
            self._profile.get("bedrock_thinking_variant") == "anthropic"
        )
        if is_claude and settings.get("thinking") and settings.get("temperature", 1) != 1:
            del settings["temperature"]
            self._lose(
                "model_settings.temperature",
                "does not support a temperature together with reasoning",
            )

    def add_limit(self, room: int | None) -> None:
        """Set the limit of output tokens, even if it is the default. Otherwise pydantic-ai chooses
        a limit and always streams the response."""
        settings = self._plan.settings
        if "max_tokens" not in settings:
            most = default_max_tokens(self._model, self._provider, settings.get("thinking"))
            if most is not None:
                settings["max_tokens"] = most if room is None else min(most, room)
                self._plan.own_limit = room is None

    def _is(self, flag: str) -> bool:
        return self._profile.get(flag, False) is True

    def _lose(self, part: str, why: str) -> None:
        self._plan.losses.append(Loss(part, f"{self._name} {why}."))


def _native_tool(hosted: HostedTool, provider: ProviderName) -> AbstractNativeTool:
    names = {
        "web_search": ("user_location", "blocked_domains", "allowed_domains", "max_uses"),
    }.get(hosted.kind, ())
    known = names if provider == "anthropic" else ()
    if unknown := [*(hosted.settings.keys() - set(known)), *hosted.secrets]:
        text = (
            f"The tool {hosted.kind} of {provider} does not support these settings: "
            f"{', '.join(sorted(unknown))}."
        )
        raise ModelError(RunErrorCode.MODEL_REFUSED_REQUEST, text, transient=False)
    if hosted.kind == "web_search":
        return WebSearchTool(**cast(dict[str, Any], hosted.settings))
    return CodeExecutionTool()


_MAX_OUTPUT: Final = (
    ("claude-3-7-sonnet", 64_000),
    ("claude-3-5-", 8_192),
    ("claude-3-", 4_096),
    ("claude-4-opus", 32_000),
    ("claude-4-sonnet", 64_000),
    ("claude-opus-4", 32_000),
    ("claude-sonnet-4", 64_000),
)
"""Maximum numbers of output tokens of models that pydantic-ai does not know, by the beginning of
the name. https://platform.claude.com/docs/en/about-claude/models/overview"""
UNKNOWN_MODEL: Final = 16_384
"""Maximum number of output tokens of a model that is in neither table, for example a new model or a
model at a private endpoint."""
_AFTER_THOUGHT: Final = 4_096


def default_max_tokens(model: Model, provider: ProviderName, thinking: object) -> int | None:
    """Return the maximum number of output tokens to send if the request has none. Returns None for
    the provider's own default, which is its maximum. `thinking`: the effort. Some models get it as
    a budget within the limit."""
    known = model.profile.get("anthropic_max_output_tokens")
    if isinstance(known, int) or provider != "anthropic":
        return known if isinstance(known, int) else None
    for beginning, tokens in _MAX_OUTPUT:
        if model.model_name.startswith(beginning):
            return tokens
    budgets: dict[object, int] = {**ANTHROPIC_THINKING_BUDGET_MAP}
    return max(UNKNOWN_MODEL, budgets.get(thinking, 0) + _AFTER_THOUGHT)
