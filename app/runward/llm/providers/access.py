"""Which vendors are spoken to through pydantic-ai, and with what."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

ProviderName: TypeAlias = Literal["anthropic", "gemini", "bedrock"]


@dataclass(frozen=True, slots=True)
class AwsKey:
    """Instead of a bearer token."""

    key_id: str
    secret: str
    session_token: str | None = None


@dataclass(frozen=True, slots=True)
class ProviderAccess:
    """How a vendor is reached. `key`: the API key; at Bedrock a bearer token, or none where there
    is an `aws` key. `base_url` None: the vendor's own. `region`: of Bedrock."""

    key: str | None = None
    base_url: str | None = None
    region: str | None = None
    aws: AwsKey | None = None

    @property
    def secret(self) -> str:
        return self.key or (self.aws.secret if self.aws else "")
