"""Signatures of outgoing webhooks, by Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`."""

import base64
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import inf
from time import monotonic
from typing import Final

from standardwebhooks import Webhook, WebhookVerificationError

SECRET_BYTES: Final = 32
_PREFIX: Final = "whsec_"


def make_secret() -> str:
    return _PREFIX + base64.b64encode(os.urandom(SECRET_BYTES)).decode()


def end_of_overlap(former_seconds: float | None) -> float:
    """Return the time on `time.monotonic` at which a former secret stops signing, or infinity if
    there is none."""
    return inf if former_seconds is None else monotonic() + former_seconds


def valid_secrets(secrets: tuple[str, ...], overlap_ends: float) -> tuple[str, ...]:
    """Return the secrets that sign now. Callers cache the tuple and call this for each use."""
    return secrets if monotonic() < overlap_ends else secrets[:1]


def signed_headers(
    secrets: Sequence[str], message_id: str, sent_at: datetime, body: bytes
) -> dict[str, str]:
    """Return the three headers. While a secret is being replaced, there are two signatures.
    `sent_at` is in UTC. Raises ValueError without a secret: no request is sent unsigned."""
    if not secrets:
        raise ValueError("there is no secret to sign with")
    text = body.decode()
    signatures = [Webhook(secret).sign(message_id, sent_at, text) for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(sent_at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def verify(secrets: Sequence[str], headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether one of `secrets` signed `body` in the last five minutes."""
    for secret in secrets:
        try:
            Webhook(secret).verify(body, dict(headers), json_parse=False)
        except (WebhookVerificationError, ValueError):
            continue
        return True
    return False
