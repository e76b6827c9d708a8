"""Signed requests, by Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from runward.domain.json import JsonObject, compact
from runward.egress.client import Egress
from runward.egress.responses import EgressOutcome
from runward.tools.signing import signed_headers


def _now() -> datetime:
    return datetime.now(UTC)


def _product() -> str:
    try:
        return f"runward/{version('runward')}"
    except PackageNotFoundError:  # run from a checkout
        return "runward"


class SignedPostClient:
    """Sends signed POST requests. Receivers compare `now`, the time of the signature, with their
    own clock. Nothing else here depends on a clock."""

    def __init__(self, egress: Egress, *, now: Callable[[], datetime] = _now) -> None:
        self._egress = egress
        self._now = now
        self._user_agent = _product()

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
            **signed_headers(secrets, message_id, self._now(), raw),
            "idempotency-key": message_id,
            "content-type": "application/json",
            "user-agent": self._user_agent,
        }
        return await self._egress.send(
            "POST", url, sent, raw, seconds=seconds, max_response_bytes=max_response_bytes
        )
