"""Schemathesis on the whole contract, against a running service: requests that fit openapi.json,
requests that do not, and chains of requests along its links."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.figures import record
from tests.contract.generated import run_schemathesis, table
from tests.support.service import Service
from tests.support.tool_server import Behaviour, ToolServer

EXAMPLES = int(os.environ.get("RUNWARD_EXAMPLES", "0"))
"""For each operation; 0: as many as a few seconds allow."""
LONG_SECONDS = int(os.environ.get("RUNWARD_EXAMPLES_SECONDS", "1200"))


@pytest.fixture
def service(database_url: str) -> Iterator[Service]:
    """One that has everything that paths name."""
    with (
        ToolServer() as tools,
        Service("serve", database_url) as service,
        service.client() as client,
    ):
        client.register_tool("pay", tools.tool("pay"), approval="always")
        client.register_tool("broken", tools.tool("broken", Behaviour("reset")), on_unknown="ask")
        parameters = {"type": "object", "properties": {"x": {"type": "string"}}}
        client.call(
            "POST", "/v1/tools", {"name": "ask", "type": "client", "parameters": parameters}
        )
        client.call("POST", "/v1/agents", {"name": "clerk", "model": "offline:rules"})
        client.call("PUT", "/v1/secrets/token", {"value": "kept"})
        yield service


@pytest.mark.timeout(LONG_SECONDS + 200)
@pytest.mark.parametrize(("phase", "seconds"), [("fuzzing", 8), ("stateful", 12)])
def test_every_answer_is_as_the_document_says(
    service: Service, tmp_path: Path, phase: str, seconds: int
) -> None:
    covered = run_schemathesis(
        service.url,
        service.key,
        tmp_path,
        phase,
        examples=EXAMPLES or 5,
        seconds=LONG_SECONDS if EXAMPLES else seconds,
    )
    print("\n".join(table(covered)))
    figures = {f"{phase}_cases": covered.cases, f"{phase}_operations": len(covered.operations)}
    if phase == "stateful":
        figures |= {"links": covered.declared, "links_covered": len(covered.links)}
        print("\n".join(sorted(covered.links)))
    record(**figures)
    assert not covered.failures, "\n".join(covered.failures)
    assert covered.cases > 0
    assert "Traceback" not in service.output()
