"""Check tools that a project defines."""

from collections.abc import Mapping

from runward.api.registry.guards import TOOL_STAGES, check_guards
from runward.domain.errors import FieldError
from runward.domain.ids import ProjectId
from runward.domain.registry.provider_tools import add_setting
from runward.domain.registry.tools import CelRule, HostedTool, ToolSpec
from runward.domain.schema.validator import check_schema
from runward.egress.addresses import TargetError
from runward.services import Registry
from runward.tools.webhook.headers import check_headers, resolve_headers, secret_references


async def find_tool_errors(
    registry: Registry, project_id: ProjectId, spec: ToolSpec
) -> list[FieldError]:
    """Return the errors of a tool's schemas, rules, headers and target."""
    errors: list[FieldError] = list(check_schema(spec.parameters, strict=spec.strict))
    if spec.output_schema is not None:
        errors += check_schema(
            spec.output_schema, strict=False, at="output_schema", object_root=False
        )
    for field, rule in (("approval.when", spec.approval), ("enabled.when", spec.enabled)):
        if isinstance(rule, CelRule):
            problem = await registry.find_rule_problem(project_id, rule.when)
            if problem is not None:
                errors.append(FieldError(field, problem))
    errors += await check_guards(registry, spec.guardrails, stages=TOOL_STAGES)
    errors += await _check_target(registry, project_id, spec)
    return errors


async def _check_target(
    registry: Registry, project_id: ProjectId, spec: ToolSpec
) -> list[FieldError]:
    if errors := _check_misplaced(spec):
        return errors
    match spec.type:
        case "webhook":
            return await _check_webhook(registry, project_id, spec)
        case "hosted":
            return _check_hosted(spec)
        case "agent":
            return _check_agent(spec)
        case "client":
            return [*_check_no_agent(spec), *_check_absent(spec, "url", "headers")]
        case _:
            return []


def _check_misplaced(spec: ToolSpec) -> list[FieldError]:
    """Check that the tool has no fields of other types of tools."""
    misplaced = {
        "hosted": (spec.hosted is not None, ("hosted",)),
        "implements": (spec.implements is not None, ("webhook", "plugin")),
        "response": (spec.response != "output", ("webhook",)),
    }
    return [
        FieldError(
            name, f"must be omitted, because it applies only to tools of type {' or '.join(types)}"
        )
        for name, (given, types) in misplaced.items()
        if given and spec.type not in types
    ] + _check_screen(spec)


def _check_screen(spec: ToolSpec) -> list[FieldError]:
    if spec.settings is None or spec.implements == "computer":
        return []
    text = "must be omitted, because it applies only to tools that implement `computer`"
    return [FieldError("settings", text)]


async def _check_webhook(
    registry: Registry, project_id: ProjectId, spec: ToolSpec
) -> list[FieldError]:
    errors = [*await _check_header_values(registry, project_id, spec), *_check_no_agent(spec)]
    if spec.url is None:
        return [*errors, FieldError("url", "is required for a tool of type webhook")]
    try:
        await registry.check_target(spec.url)
    except TargetError as error:
        errors.append(FieldError("url", str(error)))
    return errors


def find_missing_secrets(
    references: Mapping[str, str], secrets: Mapping[str, str]
) -> list[FieldError]:
    """Return an error for each reference to a secret that does not exist. `references`: names of
    secrets by their paths in the request."""
    return [
        FieldError(
            path,
            f"names the secret '{name}', which does not exist; create it with PUT "
            f"/v1/secrets/{name}",
        )
        for path, name in references.items()
        if name not in secrets
    ]


async def _check_header_values(
    registry: Registry, project_id: ProjectId, spec: ToolSpec
) -> list[FieldError]:
    """Check the values of new headers. Stored values were already checked."""
    references = secret_references(spec.headers)
    secrets = await registry.read_secrets(project_id, set(references.values()))
    missing = find_missing_secrets(references, secrets)
    return missing or check_headers(resolve_headers(spec.headers, secrets))


def _check_no_agent(spec: ToolSpec) -> list[FieldError]:
    return (
        [FieldError("agent", "must be omitted, because it applies only to tools of type agent")]
        if spec.agent is not None
        else []
    )


def _check_hosted(spec: ToolSpec) -> list[FieldError]:
    """Check that a hosted tool has no settings that only Runward could apply."""
    errors = [*_check_no_agent(spec), *_check_absent(spec, "url", "headers")]
    if spec.hosted is None:
        return [*errors, FieldError("hosted", "is required for a tool of type hosted")]
    message = "cannot be applied to a tool that the model's provider runs"
    errors += [
        FieldError(name, message) for name in ("guardrails", "output_schema") if getattr(spec, name)
    ]
    twice = sorted(spec.hosted.settings.keys() & spec.hosted.secrets.keys())
    errors += [
        FieldError(f"hosted.secrets.{name}", "must not also be in `hosted.settings`")
        for name in twice
    ]
    errors += _check_settings(spec.hosted)
    if spec.hosted.kind != "mcp" and spec.approval != "never":
        errors.append(
            FieldError("approval", f"{message}; only a hosted tool of kind mcp supports approvals")
        )
    return errors


def _check_settings(hosted: HostedTool) -> list[FieldError]:
    """Check that each secret belongs to a setting, and that a hosted shell runs on the provider's
    machines."""
    errors: list[FieldError] = []
    for path in hosted.secrets:
        try:
            add_setting(hosted.settings, path, "")
        except LookupError:
            text = "selects an entry of an array that `hosted.settings` does not have"
            errors.append(FieldError(f"hosted.secrets.{path}", text))
    environment = hosted.settings.get("environment")
    local = isinstance(environment, dict) and environment.get("type") == "local"
    if hosted.kind == "shell" and local:
        text = (
            "must not be local, because the provider runs the commands; for a shell on your own "
            "machines, register a webhook tool with `implements` instead"
        )
        errors.append(FieldError("hosted.settings.environment.type", text))
    return errors


def _check_agent(spec: ToolSpec) -> list[FieldError]:
    """Check a tool of type `agent`. A run checks at its start whether the agent exists."""
    errors: list[FieldError] = []
    if spec.agent is None:
        errors.append(FieldError("agent", "is required for a tool of type agent"))
    return [*errors, *_check_absent(spec, "url", "headers")]


def _check_absent(spec: ToolSpec, *fields: str) -> list[FieldError]:
    """Check that fields of webhook tools are absent."""
    message = f"must be omitted for a tool of type {spec.type}"
    return [FieldError(name, message) for name in fields if getattr(spec, name)]
