"""Signed requests, by Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`."""

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from time import monotonic
from typing import Final

from standardwebhooks import Webhook, WebhookVerificationError

from runward.domain.json import JsonObject, compact
from runward.egress.client import Egress
from runward.egress.responses import EgressOutcome
from runward.tracing import write_trace
from runward.version import VERSION

SECRET_BYTES: Final = 32
MIN_SECRET_BYTES: Final = 16
"""Minimum size in bytes of a signing secret that a project stores itself."""
_PREFIX: Final = "whsec_"


def make_secret() -> str:
    return _PREFIX + base64.b64encode(os.urandom(SECRET_BYTES)).decode()


def is_secret(value: str) -> bool:
    """Return whether the value can sign requests: `whsec_`, and at least 16 bytes in base64."""
    if not value.startswith(_PREFIX):
        return False
    try:
        return len(base64.b64decode(value.removeprefix(_PREFIX), validate=True)) >= MIN_SECRET_BYTES
    except ValueError:
        return False


def end_of_overlap(former_seconds: float | None) -> float:
    """Return the time on `time.monotonic` at which a former secret stops signing, or infinity if
    there is none."""
    return inf if former_seconds is None else monotonic() + former_seconds


def valid_secrets(
    secrets: tuple[str, ...], overlap_ends: float, current: int = 1
) -> tuple[str, ...]:
    """Return the secrets that sign now. After the overlap, these are the first `current` secrets.
    Callers cache the tuple and call this for each use."""
    return secrets if monotonic() < overlap_ends else secrets[:current]


def signed_headers(
    secrets: Sequence[str], message_id: str, sent_at: datetime, body: bytes
) -> dict[str, str]:
    """Return the three headers. While a secret is being replaced, there are two signatures.
    `sent_at` is in UTC. Raises ValueError without a secret: no request is sent unsigned."""
    if not secrets:
        raise ValueError("there is no signing secret")
    text = body.decode()
    signatures = [Webhook(secret).sign(message_id, sent_at, text) for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(sent_at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def fixed_headers(message_id: str) -> dict[str, str]:
    """Return the headers that are the same for each attempt at a delivery."""
    return {
        "content-type": "application/json",
        "idempotency-key": message_id,
        "webhook-id": message_id,
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


def _now() -> datetime:
    return datetime.now(UTC)


class SignedPostClient:
    """Sends signed POST requests with the current trace context. Receivers compare `now`, the time
    of the signature, with their own clock. Nothing else here depends on a clock."""

    def __init__(self, egress: Egress, *, now: Callable[[], datetime] = _now) -> None:
        self._egress = egress
        self._now = now
        self._user_agent = f"runward/{VERSION}"

    async def send(
        self,
        url: str,
        body: JsonObject,
        *,
        message_id: str,
        secrets: Sequence[str],
        seconds: float,
        max_response_bytes: int,
        headers: Mapping[str, str] | None = None,
    ) -> EgressOutcome:
        """Make one attempt. `message_id` is the same for every attempt at the same delivery. Raises
        ValueError without a secret: no request is sent unsigned."""
        raw = compact(body).encode()
        sent = {
            **(headers or {}),
            **write_trace(),
            **signed_headers(secrets, message_id, self._now(), raw),
            **fixed_headers(message_id),
            "user-agent": self._user_agent,
        }
        return await self._egress.send(
            "POST", url, sent, raw, seconds=seconds, max_response_bytes=max_response_bytes
        )
