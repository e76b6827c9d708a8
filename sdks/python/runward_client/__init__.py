"""Clients of Runward: `Runward`, which blocks, and `AsyncRunward`. Tools are in
`runward_client.tools`, the types of requests and responses in `runward_client.types`."""

from runward_client import types
from runward_client._async.client import AsyncRunward
from runward_client._async.runs import AsyncRun
from runward_client._sync.client import Runward
from runward_client._sync.runs import Run
from runward_client.errors import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    ConflictError,
    InternalServerError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    RunwardError,
    UnprocessableEntityError,
)

__all__ = [
    "APIConnectionError",
    "APIError",
    "APITimeoutError",
    "AsyncRun",
    "AsyncRunward",
    "AuthenticationError",
    "BadRequestError",
    "ConflictError",
    "InternalServerError",
    "NotFoundError",
    "PermissionDeniedError",
    "RateLimitError",
    "Run",
    "Runward",
    "RunwardError",
    "UnprocessableEntityError",
    "types",
]
