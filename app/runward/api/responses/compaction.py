"""A sealed conversation. Only this deployment can open it, and only for the same project."""

import base64
import zlib
from collections.abc import Sequence
from functools import partial
from typing import Final, cast

from pydantic import JsonValue
from pydantic_core import from_json

from runward.api.responses.conversation import Unsealer, parameter_error
from runward.api.responses.sealed_reasoning import open_reasoning
from runward.domain.ids import ProjectId
from runward.domain.json import JsonObject, compact
from runward.domain.run.items import Item, item_from_json, item_to_json
from runward.store.access.vault import SecretUnreadableError, Vault

MAX_ITEM_BYTES: Final = 4_194_304
"""Maximum size in bytes of the items of one conversation, as JSON."""
_RESERVED_BYTES: Final = 4096
"""Bytes of a request that are reserved for everything except the sealed conversation."""
_COLUMN: Final = "responses.compaction"
_UNKNOWN: Final = "was not created by Runward for this project, or was altered"


def seal(vault: Vault, project_id: ProjectId, items: Sequence[Item], max_body_bytes: int) -> str:
    """Seal a conversation. `max_body_bytes`: the maximum size of a request, which must be able to
    contain the result. Raises InvalidRequestError if the items exceed MAX_ITEM_BYTES, or the result
    is too large."""
    text = compact([item_to_json(item) for item in items])
    if len(text.encode()) > MAX_ITEM_BYTES:
        raise parameter_error(
            "input", f"must have at most {MAX_ITEM_BYTES} bytes, which is the limit for compaction"
        )
    packed = base64.b64encode(zlib.compress(text.encode())).decode()
    sealed = vault.seal(packed, column=_COLUMN, project_id=project_id, row="")
    encoded = base64.b64encode(sealed).decode()
    if len(encoded) + _RESERVED_BYTES > max_body_bytes:
        size = f"{len(encoded)} bytes after compaction, and the limit is {max_body_bytes} bytes"
        raise parameter_error("input", f"has {size}")
    return encoded


def make_unsealer(vault: Vault, project_id: ProjectId) -> Unsealer:
    """Return the functions that open the encrypted content of one request. All compacted items
    together may have MAX_ITEM_BYTES, because a few sealed bytes can contain much text, and a client
    can send them many times."""
    left = MAX_ITEM_BYTES

    def unseal(sealed: str) -> Sequence[Item]:
        nonlocal left
        try:
            raw = base64.b64decode(sealed, validate=True)
            packed = vault.open(raw, column=_COLUMN, project_id=project_id, row="")
        except (SecretUnreadableError, ValueError):
            raise parameter_error("input", f"contains encrypted_content that {_UNKNOWN}") from None
        text = zlib.decompress(base64.b64decode(packed))
        left -= len(text)
        if left < 0:
            raise parameter_error(
                "input", f"has compaction items that exceed {MAX_ITEM_BYTES} bytes in total"
            )
        found = cast("list[JsonValue]", from_json(text))
        return [item_from_json(cast("JsonObject", one)) for one in found]

    return Unsealer(unseal, partial(open_reasoning, vault, project_id))
