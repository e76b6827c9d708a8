"""Check whether a run ended as required: by the expectation of the cell, and by every promise that
the independent checker knows.
"""

from tests.checker import Evidence, Reader, Violation, broken
from tests.crash.cells import Cell, expected
from tests.crash.subject import PAID, Subject
from tests.support.services.client import Client, Json

UNKNOWN = "may or may not have taken effect"
LATE_RULES = ("nothing_is_sent_after_its_end", "attempts_and_fences_rise")
"""What a request breaks that was authorized before the freeze and arrives after it. The guarantees
say so: it has the older fence. Its effects are counted all the same."""


def judge(cell: Cell, subject: Subject, client: Client, run: Json) -> list[str]:
    wanted = expected(cell)
    problems = [
        f"{one.rule}: {one.where}: {one.what}"
        for one in violations(subject, client, run)
        if not (wanted.late and one.rule in LATE_RULES)
    ]
    if subject.effects() not in wanted.hits:
        problems.append(f"{subject.effects()} effects, expected {wanted.hits}")
    if subject.notices() > 1:
        problems.append(f"{subject.notices()} notices")
    if (outcome := outcome_of(subject, client, run)) != wanted.outcome:
        problems.append(f"the outcome is {outcome}, expected {wanted.outcome}")
    if len(runs := client.call("GET", "/v1/runs", limit=50)["data"]) != 1:
        mine = [one["id"] for one in runs if one.get("parent_run_id") is None]
        if len(mine) > 1 + (cell.fault == "freeze" and cell.point.process == "worker"):
            problems.append(f"{len(mine)} runs of one request")
    problems += subject.peers.model.violations
    return problems


def outcome_of(subject: Subject, client: Client, run: Json) -> str:
    if run["status"] != "completed":
        return str(run["status"])
    [call] = client.tool_calls(run["id"])
    if call["outcome"] == "completed":
        told = PAID in subject.result()
        return "paid" if told else f"completed, and the model was told {subject.result()!r}"
    if call["outcome"] == "outcome_unknown":
        told = UNKNOWN in subject.result()
        return "unknown" if told else f"unknown, and the model was told {subject.result()!r}"
    return str(call["outcome"])


def violations(subject: Subject, client: Client, run: Json) -> list[Violation]:
    """What the checker finds."""
    run_id = run["id"]
    stream = [frame.data for frame in client.stream(run_id)]
    idempotent = {subject.tool} if subject.kind == "idempotent" else set[str]()
    return broken(
        Evidence(
            runs={run_id: client.get_run(run_id)},
            logs={run_id: client.events(run_id)},
            hits=subject.calls(),
            readers=[Reader(run_id, "stream", stream)],
            statuses=client.statuses,
            idempotent=frozenset(idempotent),
            outage=True,
        )
    )
