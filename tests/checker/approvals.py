"""The promises about approvals."""

import json
from collections import Counter, defaultdict

from tests.checker.evidence import Exchange
from tests.checker.history import Evidence, Found, Json, part_of

STATUS_AFTER = {
    "approve": "approved",
    "edit": "edited",
    "reject": "rejected",
    "respond": "responded",
}


def an_approval_is_decided_once(evidence: Evidence) -> Found:
    """G7: one event for each approval. A decision that was remembered decides calls that have no
    approval of their own."""
    for run_id, log in evidence.logs.items():
        decided = Counter(
            str(event["data"]["approval_id"])
            for event in log
            if event["type"] == "tool_call.approval_decided" and "approval_id" in event["data"]
        )
        for approval_id, count in decided.items():
            if count > 1:
                yield f"{run_id} {approval_id}", f"was decided {count} times"


def one_decision_wins(evidence: Evidence) -> Found:
    """G7: of any number of different decisions one gets 200."""
    for approval_id, decisions in _decisions(evidence).items():
        won = {_kept(each) for each in decisions if each.status == 200}
        if len(won) > 1:
            yield approval_id, f"answered 200 to different decisions: {sorted(won)}"


def a_refused_decision_names_the_winner(evidence: Evidence) -> Found:
    """G7: the 409 shows the decision that won."""
    rows = {row["id"]: row for row in evidence.rows("approvals")}
    for approval_id, decisions in _decisions(evidence).items():
        for each in decisions:
            decided = each.status == 409 and each.answer.get("code") == "approval_already_decided"
            named, row = part_of(each.answer, "approval"), rows.get(approval_id)
            if not decided or row is None:
                continue
            if named.get("id") != approval_id or named.get("decision") != row["decision"]:
                yield approval_id, f"409 names {named}, decided was {row['decision']}"


def a_decision_that_was_confirmed_is_kept(evidence: Evidence) -> Found:
    """G7: the decision that got 200 is in the approval's row."""
    rows = {row["id"]: row for row in evidence.rows("approvals")}
    for approval_id, decisions in _decisions(evidence).items():
        for each in decisions if evidence.has_tables else []:
            row, wanted = rows.get(approval_id), STATUS_AFTER.get(str(each.body.get("decision")))
            if each.status == 200 and (row is None or row["status"] != wanted):
                yield approval_id, f"{wanted} was confirmed, it is {row and row['status']}"


def _decisions(evidence: Evidence) -> dict[str, list[Exchange]]:
    found: dict[str, list[Exchange]] = defaultdict(list)
    for each in evidence.exchanges:
        parts = each.path.split("?")[0].split("/")
        decides = parts[1:3] == ["v1", "approvals"] and parts[4:] == ["decision"]
        if decides and each.body:
            found[parts[3]].append(each)
    return found


def _kept(decision: Exchange) -> str:
    body: Json = {key: value for key, value in decision.body.items() if key != "digest"}
    return json.dumps(body, sort_keys=True)
