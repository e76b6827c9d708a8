"""Amazon's binary event streams, as far as a server of them goes.

A message is its length and that of its headers (4 bytes each, big-endian), their CRC32, the
headers, the payload and the CRC32 of it all. Source: the documentation of Amazon Transcribe,
"Event stream encoding"; botocore.eventstream reads it.
"""

import json
import struct
from typing import Any
from zlib import crc32

TEXT = 7
"""The type of a header whose value is text."""


def event(kind: str, payload: dict[str, Any]) -> bytes:
    headers = {
        ":event-type": kind,
        ":content-type": "application/json",
        ":message-type": "event",
    }
    return encoded(headers, json.dumps(payload).encode())


def encoded(headers: dict[str, str], payload: bytes) -> bytes:
    written = b"".join(
        struct.pack("!B", len(name))
        + name.encode()
        + struct.pack("!BH", TEXT, len(value.encode()))
        + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", 16 + len(written) + len(payload), len(written))
    message = prelude + struct.pack("!I", crc32(prelude)) + written + payload
    return message + struct.pack("!I", crc32(message))
