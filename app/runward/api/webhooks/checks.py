"""Checks of the addresses of webhooks."""

from runward.domain.errors import FieldError, InvalidRequestError
from runward.egress.addresses import TargetError
from runward.services import Registry


async def ensure_webhook_target(registry: Registry, url: str, path: str = "url") -> None:
    """Check that Runward may send notifications to the URL. It may use DNS, so do not call it in a
    transaction. Raises InvalidRequestError."""
    try:
        await registry.check_target(url)
    except TargetError as error:
        raise InvalidRequestError(errors=[FieldError(path, str(error))]) from None
