"""Callback tokens: they name the call and prove that this instance made them. Nothing is stored.

base64url of project, run and call (16 bytes each), the attempt (3 bytes) and a MAC of 16 bytes: 90
characters.
"""

import base64
import binascii
import hmac
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from runward.domain.ids import ProjectId, RunId
from runward.store.access.vault import Vault

_ATTEMPT_BYTES: Final = 3


@dataclass(frozen=True, slots=True)
class CallRef:
    project_id: ProjectId
    run_id: RunId
    call: UUID
    attempt: int
    """The attempt that the tool was given the token with."""


def make_token(vault: Vault, ref: CallRef) -> str:
    attempt = ref.attempt.to_bytes(_ATTEMPT_BYTES, "big")
    what = ref.project_id.bytes + ref.run_id.bytes + ref.call.bytes + attempt
    return base64.urlsafe_b64encode(what + vault.make_callback_mac(what)).decode().rstrip("=")


def read_token(vault: Vault, token: str) -> CallRef | None:
    """None: not one of ours."""
    try:
        raw = base64.b64decode(token + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    what, mac = raw[:-16], raw[-16:]
    if len(what) != 48 + _ATTEMPT_BYTES or not hmac.compare_digest(
        mac, vault.make_callback_mac(what)
    ):
        return None
    project, run, call = (UUID(bytes=what[at : at + 16]) for at in (0, 16, 32))
    return CallRef(ProjectId(project), RunId(run), call, int.from_bytes(what[48:], "big"))
