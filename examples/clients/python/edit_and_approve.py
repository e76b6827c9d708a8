"""Register a tool, start a run, follow its events, approve a call with other arguments, run the
tool here, and read the result: with the client that `make clients` generates from openapi.json.

    RUNWARD_URL=http://127.0.0.1:8080 RUNWARD_KEY=rw_… python edit_and_approve.py
"""

import os
import sys
from collections.abc import Iterator
from typing import TypeVar

import httpx
from generated_client import AuthenticatedClient
from generated_client.api.approvals import decide_approval
from generated_client.api.runs import get_run, list_events, start_run, submit_tool_result
from generated_client.api.tools import register_tool
from generated_client.models import (
    ApprovalAction,
    ApprovalMode,
    EditDecision,
    EventList,
    JsonObject,
    Problem,
    RegisteredToolType,
    RegisterTool,
    Run,
    RunCompletedEvent,
    RunWaitingEvent,
    StartRun,
    SubmitToolResult,
    ToolResultAction,
)

Kind = TypeVar("Kind")

MODEL = os.environ.get("MODEL", "offline:rules")
LAST = {"run.completed", "run.failed", "run.cancelled", "run.incomplete", "run.expired"}
REFUND = RegisterTool(
    name="refund_here",
    description="Refunds an amount for an order.",
    type_=RegisteredToolType.CLIENT,
    approval=ApprovalMode.ALWAYS,
    parameters=JsonObject.from_dict(
        {
            "type": "object",
            "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
            "required": ["order", "amount"],
        }
    ),
)


def expect(answer: object, kind: type[Kind]) -> Kind:
    """Return the response if it is not an error."""
    if isinstance(answer, Problem):
        sys.exit(f"{answer.status} {answer.code}: {answer.detail} ({answer.request_id})")
    assert isinstance(answer, kind), answer
    return answer


def follow(client: AuthenticatedClient, run_id: str) -> Iterator[object]:
    """Yield every event once and in order, until the last. Each request waits for new events."""
    after = 0
    while True:
        answer = list_events.sync(run_id, client=client, after=str(after), wait=20)
        for event in expect(answer, EventList).data:
            after = event.sequence
            print(f"{event.sequence:3} {event.type_}")
            yield event
            if event.type_ in LAST:
                return


def act(client: AuthenticatedClient, run_id: str) -> None:
    """Perform the action that the run requires."""
    for action in expect(get_run.sync(run_id, client=client), Run).required_actions:
        match action:
            case ApprovalAction(arguments=arguments):
                less = JsonObject.from_dict({**arguments.to_dict(), "amount": 50})
                decision = EditDecision(decision="edit", arguments=less, digest=action.digest)
                decide_approval.sync(action.approval_id, client=client, body=decision)
            case ToolResultAction(arguments=arguments):
                result = SubmitToolResult(output={"refunded": arguments["amount"]})
                submit_tool_result.sync(run_id, action.call_id, client=client, body=result)
            case _:
                sys.exit(f"nobody here can settle {action.call_id}")


def main() -> None:
    url, key = os.environ["RUNWARD_URL"], os.environ["RUNWARD_KEY"]
    with AuthenticatedClient(base_url=url, token=key, timeout=httpx.Timeout(40)) as client:
        made = register_tool.sync(client=client, body=REFUND)
        if not (isinstance(made, Problem) and made.code == "already_exists"):
            expect(made, object)
        asked = 'refund_here(order="A-1017", amount=500)'
        body = StartRun(model=MODEL, input_=asked, tools=["refund_here"])
        run = expect(start_run.sync(client=client, body=body), Run)
        for event in follow(client, run.id):
            match event:
                case RunWaitingEvent():
                    act(client, run.id)
                case RunCompletedEvent(data=data):
                    print(data.output)
                case _:
                    pass


if __name__ == "__main__":
    main()
