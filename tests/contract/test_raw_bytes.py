"""Requests as bytes on a socket. Each is answered with a problem, or the connection is closed where
HTTP allows no response. No response is a 5xx, and the next connection works.
"""

import json
import re
import socket
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from tests.api.project import Project, Running
from tests.contract.figures import record
from tests.contract.raw_cases import Raw, cases

SECONDS = 20.0
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
NEXT = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def exchange(url: str, sent: bytes, *, half: bool = False) -> bytes:
    """All that comes until the server closes. Raises TimeoutError if it does not."""
    address = urlsplit(url)
    received = b""
    with socket.create_connection((str(address.hostname), address.port or 0), SECONDS) as line:
        with suppress(ConnectionError):  # closed while this was still sending
            line.sendall(sent)
            if half:
                line.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while piece := line.recv(65_536):
                received += piece
    return received


def encoded(text: str) -> bytes:
    """Each character as the byte of its number, where it has one."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def judged(case: Raw, received: bytes) -> str | None:
    """What is wrong with the answer; None: nothing."""
    if not received:
        return None if case.silent else "no answer"
    statuses = [int(one) for one in STATUS.findall(received)]
    if len(statuses) != case.answers or not case.statuses.issuperset(statuses):
        return f"{statuses}, not {sorted(case.statuses)}"
    head, _, body = received.partition(b"\r\n\r\n")
    if statuses[0] < 400:
        return None
    if b"content-type: application/problem+json" not in head.lower():
        return "no problem"
    problem = json.loads(body)
    named = f"x-request-id: {problem['request_id']}".encode()
    return None if problem["status"] == statuses[0] and named in head.lower() else f"{problem}"


@pytest.mark.timeout(180)
def test_what_no_client_sends_is_refused_and_the_next_request_works(
    running: Running, project: Project
) -> None:
    run = project.run(model="offline:rules", input="hi")
    wrong: list[str] = []
    table = list(cases())
    for case in table:
        text = case.data.replace("{key}", project.client.key).replace("{run}", run["id"])
        received = exchange(running.service.url, encoded(text), half=case.half)
        if problem := judged(case, received):
            wrong.append(f"{case.name}: {problem}")
        if not exchange(running.service.url, NEXT).startswith(b"HTTP/1.1 200"):
            wrong.append(f"{case.name}: the next request got no answer")
    record(raw_bytes_cases=len(table))
    assert not wrong, "\n".join(wrong)
    assert len({case.name for case in table}) == len(table)
    assert "Traceback" not in running.service.output()
