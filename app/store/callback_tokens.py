"""Callback tokens: they name the call and prove that this instance made them. Nothing is stored.

base64url of project, run and call (16 bytes each) and a MAC of 16 bytes: 86 characters.
"""

import base64
import binascii
import hmac
from dataclasses import dataclass
from uuid import UUID

from app.domain.ids import ProjectId, RunId
from app.store.vault import Vault


@dataclass(frozen=True, slots=True)
class CallRef:
    project_id: ProjectId
    run_id: RunId
    call: UUID


def make(vault: Vault, ref: CallRef) -> str:
    what = ref.project_id.bytes + ref.run_id.bytes + ref.call.bytes
    return base64.urlsafe_b64encode(what + vault.callback_mac(what)).decode().rstrip("=")


def read(vault: Vault, token: str) -> CallRef | None:
    """None: not one of ours."""
    try:
        raw = base64.b64decode(token + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    what, mac = raw[:48], raw[48:]
    if len(raw) != 64 or not hmac.compare_digest(mac, vault.callback_mac(what)):
        return None
    project, run, call = (UUID(bytes=what[at : at + 16]) for at in (0, 16, 32))
    return CallRef(ProjectId(project), RunId(run), call)
