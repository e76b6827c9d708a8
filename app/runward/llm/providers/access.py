"""Providers that are reached through pydantic-ai, and their credentials."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

ProviderName: TypeAlias = Literal["anthropic", "gemini", "bedrock"]


@dataclass(frozen=True, slots=True)
class AwsKey:
    """A pair of AWS keys, used instead of a bearer token."""

    key_id: str
    secret: str
    session_token: str | None = None


@dataclass(frozen=True, slots=True)
class ProviderAccess:
    """The address and credentials of a provider. `key`: the API key. For Bedrock, it is a bearer
    token, or None if there is an `aws` key. `base_url`: None for the provider's own URL. `region`:
    the AWS region of Bedrock."""

    key: str | None = None
    base_url: str | None = None
    region: str | None = None
    aws: AwsKey | None = None

    @property
    def secret(self) -> str:
        return self.key or (self.aws.secret if self.aws else "")
