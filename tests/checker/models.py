"""The promises about model requests and about what they cost."""

from collections import Counter, defaultdict
from typing import Any, TypeAlias

from tests.checker.history import Event, Evidence, Found, Json, time_of

Tokens: TypeAlias = tuple[int, int]  # input, output
Key: TypeAlias = tuple[str, str]  # plan, model


def no_committed_turn_is_asked_again(evidence: Evidence) -> Found:
    """G5: no model request for a turn that its run has committed. One that was on its way at the
    commit, or in a process that was frozen, may arrive after it."""
    runs = _runs_of_models(evidence)
    least: dict[Key, int] = {}
    for request in evidence.models:
        key = (request.plan, request.model)
        least[key] = min(request.turn, least.get(key, request.turn))
    for request in evidence.models:
        key = (request.plan, request.model)
        if len(runs.get(key, [])) != 1:
            continue  # of several runs nobody can say which one asked
        turn = request.turn - least[key] + 1  # the runs before it in its session do not count
        commit = _commits(evidence.logs.get(runs[key][0], [])).get(turn)
        if commit is None or request.at - commit <= evidence.lag_seconds:
            continue
        if not evidence.was_frozen(commit, request.at):
            late = request.at - commit
            yield runs[key][0], f"turn {turn} was asked again {late:.2f} s after its commit"


def _runs_of_models(evidence: Evidence) -> dict[Key, list[str]]:
    runs: dict[Key, list[str]] = defaultdict(list)
    for run_id, row in evidence.run_rows.items():
        plan = evidence.plan_of.get(run_id)
        for model in _models_of(row["config"]) if plan else ():
            runs[plan or "", model].append(run_id)
    return runs


def _models_of(config: Json) -> list[str]:
    names: Any = config.get("models") or config.get("model") or []
    names = [names] if isinstance(names, str) else names
    return [str(name).partition(":")[2] for name in names]


def _commits(log: list[Event]) -> dict[int, float]:
    """When each turn was committed."""
    found: dict[int, float] = {}
    for event in log:
        if event["type"] == "usage.updated" and "call_id" not in event["data"]:
            found.setdefault(event["data"]["turn"], time_of(event))
    return found


def usage_adds_up(evidence: Evidence) -> Found:
    """A run counts no response that no model gave, and none twice; its row has the sum of its
    events."""
    counted: dict[str, Counter[Tokens]] = defaultdict(Counter)
    for run_id, row in evidence.run_rows.items():
        own, total = _counted(evidence, run_id)
        if total != _total(row):
            yield run_id, f"its events count {total}, its row {_total(row)}"
        if run_id in evidence.plan_of and evidence.models:
            counted[evidence.plan_of[run_id]] += own
    given = _given(evidence)
    for plan, own in counted.items():
        for tokens, count in (own - given[plan]).items():
            if tokens != (0, 0):
                yield plan, f"{tokens} was counted {count} times more often than given"


def _given(evidence: Evidence) -> dict[str, Counter[Tokens]]:
    """The usage of the responses that the models gave, by plan."""
    given: dict[str, Counter[Tokens]] = defaultdict(Counter)
    for request in evidence.models:
        if request.usage is not None and request.answered:
            tokens = (request.usage["input_tokens"], request.usage["output_tokens"])
            given[request.plan][tokens] += 1
    return given


def every_turn_is_counted(evidence: Evidence) -> Found:
    """A committed response is in the usage of its run."""
    for run_id, row in evidence.run_rows.items():
        log = evidence.logs.get(run_id, [])
        turns = {
            event["data"]["turn"]
            for event in log
            if event["type"] in ("message.completed", "tool_call.created")
        }
        counted = {
            event["data"]["turn"]
            for event in log
            if event["type"] == "usage.updated" and "call_id" not in event["data"]
        }
        if turns - counted:
            yield run_id, f"turns {sorted(turns - counted)} have no usage"
        elif counted and row["config"].get("kind", "llm") == "llm" and evidence.models:
            own, _ = _counted(evidence, run_id)
            if own[0, 0] and evidence.plan_of.get(run_id):
                yield run_id, f"{own[0, 0]} responses were counted as nothing"


def a_child_counts_for_its_parent(evidence: Evidence) -> Found:
    """The usage of a child run is added to that of its parent once. A call can start several child
    runs, one after the other."""
    for run_id, log in evidence.logs.items():
        before = (0, 0)
        started: dict[str, list[str]] = {}
        for event in log:
            data = event["data"]
            if event["type"] == "tool_call.progress" and data.get("status") == "child_started":
                started.setdefault(data["call_id"], []).append(data["run_id"])
            if event["type"] != "usage.updated":
                continue
            after = _tokens(event)
            call_id = None if "model" in data else data.get("call_id")  # or a tool reported it
            added = (after[0] - before[0], after[1] - before[1])
            before = after
            if call_id is None:
                continue
            if not (waiting := started.get(call_id)):
                yield run_id, f"the usage of {call_id} was added too often"
                continue
            child = evidence.run_rows.get(waiting.pop(0))
            if child is not None and added != (child["input_tokens"], child["output_tokens"]):
                yield run_id, f"added {added} for {call_id}, the child has {_total(child)}"


def _counted(evidence: Evidence, run_id: str) -> tuple[Counter[Tokens], Tokens]:
    """What each model response added, and the total."""
    own: Counter[Tokens] = Counter()
    before = (0, 0)
    for event in evidence.logs.get(run_id, []):
        if event["type"] == "usage.updated":
            after = _tokens(event)
            if "call_id" not in event["data"]:
                own[after[0] - before[0], after[1] - before[1]] += 1
            before = after
    return own, before


def _tokens(event: Event) -> Tokens:
    return event["data"]["input_tokens"], event["data"]["output_tokens"]


def _total(row: dict[str, int]) -> Tokens:
    return row["input_tokens"], row["output_tokens"]
