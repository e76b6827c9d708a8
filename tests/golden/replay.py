"""Replays a golden scenario over HTTP: its tools become webhooks, its script the answers of a
scripted model, its decisions POSTs. What happened comes back as data, nothing is judged here."""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, cast
from uuid import uuid4

from tests.support.models.chat_server import Answer, Call, ModelRequest, ModelServer
from tests.support.services.client import ApiError, Client, Json
from tests.support.tools.hits import Hit
from tests.support.tools.server import Behaviour, ToolServer

Scenario: TypeAlias = dict[str, Any]

PARAMETERS: dict[str, Json] = {
    "default": {"x": {"type": "string"}},
    "int": {"n": {"type": "integer"}},
    "none": {},
}
STRUCT: Json = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
DEFAULT_MESSAGES = {"raise": "boom", "raise_cancelled": "cancelled", "raise_timeout": "timed out"}
GUARDRAIL_ACTIONS = {"allow": "allow", "reject": "reject", "raise": "fail"}


@cache
def scenarios() -> list[Scenario]:
    return json.loads(Path(__file__).with_name("scenarios.json").read_text())["scenarios"]


def group(scenario: Scenario) -> str:
    return scenario["id"].partition("-")[0]


@dataclass(frozen=True, slots=True)
class Round:
    """From a start or a round of decisions until nothing moves any more. `sent`: ids of the calls
    that reached a tool, in order of arrival."""

    status: str
    pending: list[str]
    sent: list[str]


@dataclass(frozen=True, slots=True)
class Replayed:
    run: Json
    rounds: list[Round]
    hits: list[Hit]
    guardrails: list[str]
    peak: int
    requests: dict[str, list[ModelRequest]]
    items: list[Json]
    events: list[Json]
    refused: list[int]
    statuses: list[tuple[str, int]]


@dataclass(slots=True)
class Replay:
    """One scenario in a project of its own. `suffix` makes its model names unique."""

    scenario: Scenario
    operator: Client
    model: ModelServer
    tools: ToolServer
    suffix: str = field(default_factory=lambda: uuid4().hex[:8])
    registered: set[str] = field(default_factory=set[str])

    def play(self) -> Replayed:
        project = f"{self.scenario['id']} {self.suffix}"
        with self.operator.new_project(project) as client:
            return self._play(client)

    def _play(self, client: Client) -> Replayed:
        agent = self.scenario["agent"]
        main = self._prepare(client, "main", agent, self.scenario["script"])
        run = client.settle(client.start_run(**main, **self._limits())["id"])
        rounds, refused = [self._round(run, 0)], list[int]()
        for decisions in self.scenario.get("decisions", []):
            refused += self._decide(client, run, decisions)
            run = client.settle(run["id"])
            rounds.append(self._round(run, sum(len(each.sent) for each in rounds)))
        every = self.tools.all_hits()
        return Replayed(
            run=run,
            rounds=rounds,
            hits=self.tools.hits(),
            guardrails=[_guardrail(hit) for hit in every if hit.type == "guardrail"],
            peak=self.tools.peak,
            requests={
                name: self.model.requests(self._model(name))
                for name in self.scenario["expected"]["model_inputs"]
            },
            items=_items(client, run),
            events=client.events(run["id"]),
            refused=refused,
            statuses=client.statuses,
        )

    def _model(self, agent: str) -> str:
        return f"{agent}-{self.suffix}"

    def _round(self, run: Json, before: int) -> Round:
        sent = [hit.call_id for hit in self.tools.hits()[before:]]
        return Round(run["status"], [each["call_id"] for each in _approvals(run)], sent)

    def _decide(self, client: Client, run: Json, decisions: list[Json]) -> list[int]:
        """The HTTP statuses of those that were refused."""
        asked = {each["call_id"]: each["approval_id"] for each in _approvals(run)}
        refused: list[int] = []
        for decision in sorted(decisions, key=lambda each: each.get("always", False)):
            fields = {key: decision[key] for key in ("message",) if key in decision}
            if decision.get("always"):
                fields["remember"] = {"scope": "run"}
            try:
                client.decide(asked[decision["id"]], decision["decision"], **fields)
            except ApiError as error:
                refused.append(error.status)
        return refused

    def _prepare(self, client: Client, name: str, agent: Json, script: list[Any]) -> Json:
        """Registers what `agent` needs, scripts its model; the fields of a run or an agent."""
        self.model.script(self._model(name), *(_answer(entries) for entries in script))
        for tool in agent["tools"]:
            self._register(client, tool)
        for inner in agent.get("agent_tools", []):
            self._register_agent(client, inner)
            spec = {"name": inner["tool_name"], "type": "agent", "agent": inner["name"]}
            client.call("POST", "/v1/tools", spec)
        for inner in agent.get("handoffs", []):
            self._register_agent(client, inner)
        names = [tool["name"] for tool in agent["tools"]]
        names += [inner["tool_name"] for inner in agent.get("agent_tools", [])]
        fields: Json = {"model": f"openai:{self._model(name)}", "instructions": "", "tools": names}
        for key in ("tool_use_behavior", "tool_choice", "reset_tool_choice"):
            if key in agent:
                fields[key] = agent[key]
        if agent.get("handoffs"):
            fields["handoffs"] = [inner["name"] for inner in agent["handoffs"]]
        if agent.get("output") == "struct":
            fields |= {"output_schema": STRUCT, "output_retries": 0}
        return fields

    def _register_agent(self, client: Client, agent: Json) -> None:
        fields = self._prepare(client, agent["name"], agent, agent["script"])
        client.call("POST", "/v1/agents", {"name": agent["name"], **fields})

    def _register(self, client: Client, tool: Json) -> None:
        if tool["name"] in self.registered:  # two agents share it
            return
        self.registered.add(tool["name"])
        name, behaviour = tool["name"], dict(tool["behaviour"])
        behaviour.setdefault("message", DEFAULT_MESSAGES.get(behaviour["kind"], ""))
        meet = self.scenario["expected"]["peak_concurrency"]
        url = self.tools.tool(name, Behaviour(**behaviour, meet=meet if meet > 1 else 0))
        properties = PARAMETERS[tool.get("params", "default")]
        fields: Json = {
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            },
            "approval": _approval(tool.get("needs_approval", False)),
            "guardrails": list(self._guardrails(tool)),
        }
        fields |= {"enabled": tool["is_enabled"]} if "is_enabled" in tool else {}
        fields |= {"timeout_seconds": tool["timeout"]} if "timeout" in tool else {}
        if tool.get("failure") == "raise":
            fields["on_error"] = "fail_run"
        if tool.get("timeout_behavior") == "raise_exception":
            fields["on_timeout"] = "fail_run"
        if not fields["guardrails"]:
            del fields["guardrails"]
        registered = client.register_tool(name, url, **fields)
        self.tools.secrets(name, registered["secret"])

    def _guardrails(self, tool: Json) -> list[Json]:
        found: list[Json] = []
        for stage in ("input", "output"):
            verdict = tool.get(f"{stage}_guardrail")
            if verdict is None:
                continue
            answer = {"action": GUARDRAIL_ACTIONS[verdict]}
            if verdict != "allow":
                answer["message"] = f"blocked by {stage} guardrail"
            url = self.tools.tool(f"{stage}-{tool['name']}", Behaviour("return", value=answer))
            found.append({"stage": stage, "type": "webhook", "url": url})
            if stage == "input" and self.scenario.get("pre_approval_guardrails"):
                found.append({"stage": "pre_approval", "type": "webhook", "url": url})
        return found

    def _limits(self) -> Json:
        limits: Json = {}
        if "max_turns" in self.scenario:
            limits["max_turns"] = self.scenario["max_turns"]
        if "max_concurrency" in self.scenario:
            limits["max_parallel_tool_calls"] = self.scenario["max_concurrency"]
        fields: Json = {"limits": limits} if limits else {}
        if "max_turns_final" in self.scenario:
            fields["on_max_turns"] = {"output": self.scenario["max_turns_final"]}
        return fields


def _items(client: Client, run: Json) -> list[Json]:
    """Of the run, then those of its child runs."""
    page = client.call("GET", "/v1/runs", order="asc", parent_run_id=run["id"])
    items = client.items(run["id"])
    return items + [item for child in page["data"] for item in _items(client, child)]


def _approvals(run: Json) -> list[Json]:
    actions = cast(list[Json], run["required_actions"])
    return [action for action in actions if action["type"] == "approval"]


def _answer(entries: list[Json]) -> Answer:
    texts = [entry["text"] for entry in entries if "text" in entry]
    calls = tuple(Call(**entry["call"]) for entry in entries if "call" in entry)
    return Answer(text="".join(texts) if texts else None, calls=calls)


def _approval(needed: Any) -> Any:
    if isinstance(needed, dict):
        wanted = cast(Json, needed)["if_x"]
        return {"when": f"args.x == '{wanted}'"}
    return "always" if needed else "never"


def _guardrail(hit: Hit) -> str:
    stage = "out" if hit.body["stage"] == "output" else "in"
    return f"{stage}:{hit.tool}"
