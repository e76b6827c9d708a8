"""Inline tools ready for use: with readable headers, compiled schemas and signing secrets."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from runward.domain.ids import ProjectId
from runward.domain.registry.tools import InlineToolSpec
from runward.domain.run.tools import UNREGISTERED, compile_inline_tool, compute_definition_digest
from runward.loop.project_cache import PolicyCache, ProjectPolicy
from runward.loop.toolbox import SignedTool, ToolSet
from runward.store.access.vault import Vault
from runward.store.postgres.db import retry_on_outage
from runward.store.registry import tool_registry
from runward.tools import signing


@dataclass(frozen=True, slots=True)
class InlineTools:
    """Prepares the tools that runs and agents define. `secrets` reads the values of stored secrets
    by name, and omits secrets that do not exist."""

    vault: Vault
    policies: PolicyCache
    secrets: Callable[[ProjectId, Collection[str]], Awaitable[Mapping[str, str]]]

    async def sign(
        self, project_id: ProjectId, specs: Sequence[InlineToolSpec], known: ToolSet
    ) -> ToolSet:
        """Return the tools with their signing secrets. `known`: tools that were compiled before.
        Raises SecretUnreadableError."""
        if not specs:
            return ToolSet({})
        policy = await retry_on_outage(lambda: self.policies.of(project_id))
        names = {one.signing_secret.secret for one in specs if one.signing_secret is not None}
        secrets: Mapping[str, str] = await self.secrets(project_id, names) if names else {}
        signed = [self._sign(project_id, spec, known, policy, secrets) for spec in specs]
        return ToolSet({(one.tool.name, UNREGISTERED): one for one in signed})

    def _sign(
        self,
        project_id: ProjectId,
        spec: InlineToolSpec,
        known: ToolSet,
        policy: ProjectPolicy,
        secrets: Mapping[str, str],
    ) -> SignedTool:
        definition = compute_definition_digest(spec)
        former = known.find_version(spec.name, UNREGISTERED)
        if former is not None and former.tool.definition == definition:
            tool = former.tool
        else:
            readable = tool_registry.open_headers(self.vault, project_id, spec)
            tool = compile_inline_tool(readable, definition)
        reference = spec.signing_secret
        if reference is None:
            return SignedTool(tool, policy.all_secrets, policy.overlap_ends, policy.current_secrets)
        value = reference.resolve(secrets) if reference.secret in secrets else ""
        return SignedTool(tool, (value,) if signing.is_secret(value) else ())
