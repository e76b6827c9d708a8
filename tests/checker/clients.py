"""The promises about the answers that clients get."""

from collections import Counter, defaultdict

from tests.checker.evidence import Exchange, Fault
from tests.checker.faults import Windows
from tests.checker.history import Evidence, Found, part_of

RECOVERY_SECONDS = 3.0
"""After the database is back, until the last 503."""
UNAVAILABLE = frozenset(
    {"restart_postgres", "end_backend", "freeze_relay", "cut_relay", "freeze", "terminate"}
)
CREATES = ("/v1/runs", "/v1/responses")


def nothing_is_a_server_error(evidence: Evidence) -> Found:
    """G15: no 5xx, except 503 from a process that the database is away from, or that stops."""
    for request, status in evidence.statuses:
        if status >= 500 and not (status == 503 and evidence.outage):
            yield request, f"answered {status}"
    away: dict[str, Windows] = {}
    for each in evidence.exchanges:
        status, api = each.status or 0, each.client.partition("@")[2]
        if status < 500:
            continue
        if api not in away:
            away[api] = Windows(_faults_of(evidence, api), after=RECOVERY_SECONDS)
        if status != 503 or not away[api].touches(each.at, each.ended_at):
            where = f"{each.method} {each.path}"
            yield where, f"answered {status} to {each.client} at {each.at:.3f}"


def _faults_of(evidence: Evidence, api: str) -> list[Fault]:
    """The faults that take the database away from an API, or stop it. `api`: its number."""
    return [
        fault
        for fault in evidence.faults
        if fault.kind in UNAVAILABLE and fault.target in ("postgres", f"api-{api}")
    ]


def a_key_makes_one_run(evidence: Evidence) -> Found:
    """G2: one Idempotency-Key and body make one run; another body under the key gets 422."""
    for key, exchanges in _by_key(evidence).items():
        done = [each for each in exchanges if each.status is not None and each.status < 300]
        runs = {run_id for each in done if (run_id := run_id_of(each)) is not None}
        if len(runs) > 1:
            yield key, f"made the runs {sorted(runs)}"
        bodies = {str(each.request) for each in done}
        if len(bodies) > 1:
            yield key, f"was accepted for {len(bodies)} different bodies"
    made = Counter(
        evidence.plan_of[run_id]
        for run_id, row in evidence.run_rows.items()
        if run_id in evidence.plan_of
        and row["parent_run_id"] is None
        and row["continued_from"] is None
    )
    for plan, (keys, unkeyed) in _requests_of_plans(evidence).items():
        if made[plan] > len(keys) + unkeyed:
            yield plan, f"has {made[plan]} runs, of {len(keys)} keys and {unkeyed} requests"


def a_result_that_was_accepted_counts(evidence: Evidence) -> Found:
    """A client's result that got a 2xx is the result of its call."""
    for each in evidence.exchanges:
        parts = each.path.split("?")[0].split("/")
        if parts[4:5] != ["tool_calls"] or parts[6:] != ["result"] or not _accepted(each):
            continue
        row = evidence.calls.get((parts[3], parts[5]))
        output = part_of(row or {}, "result").get("output")
        if evidence.has_tables and output != each.body.get("output"):
            yield f"{parts[3]} {parts[5]}", f"{each.body} was accepted, its output is {output}"


def a_message_that_was_accepted_is_kept(evidence: Evidence) -> Found:
    """A message to a run that got a 2xx is in the log of the run."""
    accepted: dict[str, set[str]] = defaultdict(set)
    for each in evidence.exchanges:
        parts = each.path.split("?")[0].split("/")
        if parts[4:] == ["input"] and _accepted(each):
            accepted[parts[3]].add(each.idempotency_key or f"at {each.at}")
    for run_id, keys in accepted.items():
        log = evidence.logs.get(run_id, [])
        count = sum(event["type"] == "input.received" for event in log)
        if count != len(keys):
            yield run_id, f"{len(keys)} messages were accepted, its log has {count}"


def _accepted(exchange: Exchange) -> bool:
    status = exchange.status or 0
    return exchange.method == "POST" and 200 <= status < 300


def _by_key(evidence: Evidence) -> dict[str, list[Exchange]]:
    found: dict[str, list[Exchange]] = defaultdict(list)
    for each in evidence.exchanges:
        if each.idempotency_key is not None and each.method == "POST":
            plan = evidence.plans.get(each.plan or "")
            path = each.path.split("?")[0]
            found[f"{plan.project if plan else ''} {path} {each.idempotency_key}"].append(each)
    return found


def _requests_of_plans(evidence: Evidence) -> dict[str, tuple[set[str], int]]:
    """Of each plan the keys of the requests that may have made a run, and how many had none."""
    keys: dict[str, set[str]] = defaultdict(set)
    unkeyed: Counter[str] = Counter()
    for each in evidence.exchanges:
        refused = each.status is not None and 400 <= each.status < 500
        if each.plan is None or each.method != "POST" or refused:
            continue
        if each.path.split("?")[0] not in CREATES:
            continue
        if each.idempotency_key is not None:
            keys[each.plan].add(each.idempotency_key)
        else:
            unkeyed[each.plan] += 1
    return {plan: (keys[plan], unkeyed[plan]) for plan in keys.keys() | unkeyed.keys()}


def run_id_of(exchange: Exchange) -> str | None:
    """The run that a request created, or asked for."""
    shown = str(exchange.answer.get("id", ""))
    if shown.startswith("resp_"):
        return "run_" + shown.split("_")[1]
    return shown if shown.startswith("run_") else None
