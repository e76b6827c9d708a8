"""The values of webhook tools' headers, sealed one by one in the tool's stored specification."""

import base64
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from runward.domain.errors import OperatorError
from runward.domain.registry.tools import HeaderValue, Sealed, ToolSpec
from runward.store.access.vault import Vault

_COLUMN: Final = "tool_versions.headers"


class SecretKeyNeededError(OperatorError):
    """A migration has values to encrypt, and was given no key."""

    def __init__(self) -> None:
        super().__init__(
            "The database holds header values that must be encrypted. Set RUNWARD_SECRET_KEY to "
            "the key that its processes use, and run `runward migrate` again."
        )


def seal_headers(vault: Vault, project_id: UUID, spec: ToolSpec) -> ToolSpec:
    """`spec` as it is stored. References and values that are sealed already stay as they are."""

    def seal(name: str, value: HeaderValue) -> HeaderValue:
        if not isinstance(value, str):
            return value
        box = vault.seal(value, column=_COLUMN, project_id=project_id, row=f"{spec.name}/{name}")
        return Sealed(sealed=base64.b64encode(box).decode())

    return _replace_headers(spec, {name: seal(name, value) for name, value in spec.headers.items()})


def open_headers(vault: Vault, project_id: UUID, spec: ToolSpec) -> ToolSpec:
    """`spec` with readable values, for a call. Raises SecretUnreadableError."""

    def read(name: str, value: HeaderValue) -> HeaderValue:
        if not isinstance(value, Sealed):
            return value
        row = f"{spec.name}/{name}"
        box = base64.b64decode(value.sealed)
        return vault.open(box, column=_COLUMN, project_id=project_id, row=row)

    return _replace_headers(spec, {name: read(name, value) for name, value in spec.headers.items()})


def _replace_headers(spec: ToolSpec, headers: Mapping[str, HeaderValue]) -> ToolSpec:
    return spec.model_copy(update={"headers": headers}) if headers else spec
