"""Schemathesis runs the whole contract against a running service: valid requests, invalid requests,
and chains of requests along the links of openapi.json.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.figures import record
from tests.contract.generated import run_schemathesis, table
from tests.support.services.service import Service
from tests.support.tools.server import Behaviour, ToolServer

EXAMPLES = int(os.environ.get("RUNWARD_EXAMPLES", "0"))
"""For each operation, within LONG_SECONDS for each phase; 0: only CASES requests."""
LONG_SECONDS = 120
CASES = 250
MIN_CASES, MIN_ACCEPTED_SHARE, MIN_LINKS = 200, 1 / 6, 8
"""Below these, a run proves nothing."""


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


@pytest.mark.timeout(2 * (LONG_SECONDS + 120))
def test_every_answer_is_as_the_document_says(service: Service, tmp_path: Path) -> None:
    for phase in ("fuzzing", "stateful"):
        with service.client() as client:
            covered = run_schemathesis(
                client,
                tmp_path,
                phase,
                cases=0 if EXAMPLES else CASES,
                examples=EXAMPLES or 10,
                seconds=LONG_SECONDS,
            )
        print(phase, *table(covered), sep="\n")
        figures = {f"{phase}_cases": covered.cases, f"{phase}_accepted": covered.accepted}
        figures[f"{phase}_operations"] = len(covered.operations)
        if phase == "stateful":
            figures |= {"links": covered.declared, "links_covered": len(covered.links)}
        record(**figures)
        assert not covered.failures, "\n".join(covered.failures)
        assert covered.cases >= MIN_CASES
        assert covered.accepted >= covered.cases * MIN_ACCEPTED_SHARE
        assert phase == "fuzzing" or len(covered.links) >= MIN_LINKS
    assert "Traceback" not in service.output()
