"""The boto3 client of Bedrock. boto3 has no types, so this module disables some of pyright's
rules."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from botocore.session import Session
from botocore.tokens import FrozenAuthToken

from runward.llm.providers.access import ProviderAccess

__all__ = ["MAX_CONNECTIONS", "BotoCoreError", "bedrock_client"]

DEFAULT_REGION: Final = "us-east-1"
MAX_CONNECTIONS: Final = 256
"""Maximum number of connections. Each open response uses one connection, and one thread of the
process while it is read."""


def bedrock_client(access: ProviderAccess, *, agent: str, connect: float, read: float) -> Any:
    """Return an open client. `connect` and `read`: timeouts in seconds. A bearer token takes
    precedence over a pair of keys. boto3 sends it only over HTTPS."""
    config: dict[str, Any] = {
        "connect_timeout": connect,
        "read_timeout": read,
        "retries": {"total_max_attempts": 1},
        "max_pool_connections": MAX_CONNECTIONS,
        "user_agent": agent,
    }
    region = access.region or DEFAULT_REGION
    if access.aws is not None and not access.key:
        session = boto3.Session(
            aws_access_key_id=access.aws.key_id,
            aws_secret_access_key=access.aws.secret,
            aws_session_token=access.aws.session_token,
            region_name=region,
        )
        config["signature_version"] = "v4"
    else:
        session = boto3.Session(botocore_session=_Bearer(access.key or ""), region_name=region)
        config["signature_version"] = "bearer"
    return session.client("bedrock-runtime", config=Config(**config), endpoint_url=access.base_url)


class _Bearer(Session):
    """A session that uses one bearer token and ignores the environment."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def get_auth_token(self, **_: Any) -> FrozenAuthToken:
        return FrozenAuthToken(self._token)

    def get_credentials(self) -> None:
        return None
