"""Signatures of [Standard Webhooks](https://www.standardwebhooks.com)."""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from typing import Final

from runward_client.errors import RunwardError

TOLERANCE_SECONDS: Final = 300
MAX_SIGNATURES: Final = 16


class SignatureError(RunwardError):
    """The request is not signed with one of the secrets, or not signed recently."""


def verify_signature(
    headers: Mapping[str, str],
    body: bytes,
    secret: str | Sequence[str],
    *,
    tolerance: float = TOLERANCE_SECONDS,
) -> None:
    """Check the signature of a request, or raise SignatureError.

    The names of `headers` are in lower case. `secret` is a signing secret, `whsec_…`, or several,
    of which one must match. `tolerance` is how many seconds the timestamp may be off.
    """
    keys = read_secrets(secret)
    message_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message_id or not (sent_at.isascii() and sent_at.isdigit() and len(sent_at) <= 12):
        raise SignatureError("The request is not signed.")
    if abs(time.time() - int(sent_at)) > tolerance:
        raise SignatureError("The timestamp is too old or too new.")
    signed = f"{message_id}.{sent_at}.".encode() + body
    expected = [make_signature(key, signed) for key in keys]
    given = headers.get("webhook-signature", "").encode().split(b" ")[:MAX_SIGNATURES]
    if not any(hmac.compare_digest(one, right) for one in given for right in expected):
        raise SignatureError("The signature is not valid.")


def make_signature(key: bytes, signed: bytes) -> bytes:
    return b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256))


def read_secrets(secret: str | Sequence[str]) -> list[bytes]:
    """Return the keys of signing secrets. Raises RunwardError if there is none, or one is not
    valid."""
    texts = [secret] if isinstance(secret, str) else secret
    try:
        keys = [base64.b64decode(text.removeprefix("whsec_"), validate=True) for text in texts]
    except (binascii.Error, ValueError):
        keys = []
    if not keys or not all(keys):
        raise RunwardError("A signing secret is missing or not valid. It begins with whsec_.")
    return keys
