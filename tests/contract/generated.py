"""Run Schemathesis against a service, as a separate program, and count what it covered."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.services.client import Client, Json
from tests.support.services.forks import inherited_environment
from tests.support.services.service import ROOT

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
    "use_after_free",
)
"""Without `positive_data_acceptance`: a schema cannot say which cursors and names exist. Without
`ensure_resource_availability`: a repeated `Idempotency-Key` gets the first answer, although the
resource may be deleted since."""
REFUSED = [400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 422, 424, 429]
CONFIG = """
hooks = {hooks}
headers = {{ Authorization = {authorization} }}
continue-on-failure = true
warnings = false
request-timeout = 30
max-stream-events = 50

[checks.negative_data_rejection]
expected-statuses = {refused}

[phases.stateful]
max-steps = 12
inference = {{ algorithms = [] }}
"""


@dataclass
class Covered:
    """`links`: those whose ids a request used; `declared`: how many the document has. `accepted`:
    how many answers were 2xx."""

    cases: int = 0
    accepted: int = 0
    declared: int = 0
    links: set[str] = field(default_factory=set[str])
    operations: set[str] = field(default_factory=set[str])
    failures: list[str] = field(default_factory=list[str])


def run_schemathesis(
    client: Client, folder: Path, phase: str, *, cases: int, examples: int, seconds: int
) -> Covered:
    """Stop after `cases` requests (0: no limit), after `examples` for each operation, or after
    `seconds`, without the start."""
    report = folder / f"{phase}.ndjson"
    config = folder / "schemathesis.toml"
    config.write_text(
        CONFIG.format(
            hooks=json.dumps(str(Path(__file__).with_name("hooks.py"))),
            authorization=json.dumps(f"Bearer {client.key}"),
            refused=REFUSED,
        )
    )
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "--no-color"]
    command += ["run", str(ROOT / "openapi/openapi.json"), "--url", client.url, "--phases", phase]
    command += ["--checks", ",".join(CHECKS), "-n", str(examples), "--max-time", str(seconds)]
    command += ["--generation-database", "none", "--no-shrink", "--suppress-health-check", "all"]
    command += ["--report", "ndjson", "--report-ndjson-path", str(report)]
    env = inherited_environment()
    oldest = client.call("GET", "/v1/keys", order="asc", limit=1)["data"][0]
    env |= {"KEPT_KEY": oldest["id"], "CASES": str(cases)}
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=seconds + 120,
        check=False,
    )
    covered = covered_by(report)
    if covered.failures or done.returncode not in {0, 1, 130}:
        covered.failures.append(done.stdout[-20_000:] + done.stderr[-2000:])
    return covered


def covered_by(report: Path) -> Covered:
    covered = Covered()
    for line in report.read_text().splitlines():
        [(kind, event)] = json.loads(line).items()
        if kind == "LoadingFinished":
            covered.declared = event["statistic"]["transitions"]["total"]
        # For some random values, the generator itself finds no array. Other tests check schemas.
        if kind.endswith("Error") and event.get("value", {}).get("type") != "InvalidSchema":
            covered.failures.append(line[:2000])
        if kind == "ScenarioFinished":
            checks = event["recorder"].get("checks", {}).values()
            failed = [one for each in checks for one in each if one["status"] == "failure"]
            covered.failures += [json.dumps(one)[:2000] for one in failed]
            for case in event["recorder"].get("cases", {}).values():
                _count(covered, case)
            sent = event["recorder"].get("interactions", {}).values()
            covered.accepted += sum(map(_is_accepted, sent))
    return covered


def _count(covered: Covered, case: Json) -> None:
    value: Json = case["value"]
    covered.cases += 1
    covered.operations.add(f"{value['method']} {value['path']}")
    transition: Any = case.get("transition")
    if transition and case["is_transition_applied"]:
        covered.links.add(transition["id"])


def _is_accepted(interaction: Json) -> bool:
    response: Json | None = interaction.get("response")
    return response is not None and response["status_code"] < 300


def table(covered: Covered) -> Iterator[str]:
    yield f"{covered.cases} cases, {covered.accepted} answers of 2xx"
    yield f"{len(covered.operations)} operations"
    yield f"{len(covered.links)} of {covered.declared} links"
