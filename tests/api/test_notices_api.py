"""A tool whose call was sent and whose answer nobody waits for any more is told so, once."""

from typing import Any

import pytest

from tests.api.project import PATIENCE_SECONDS, Project, call, result_of
from tests.api.test_children_api import agent, asks
from tests.api.test_tools_api import accepted_for_later
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.tools.hits import Hit
from tests.support.tools.server import Behaviour


def notices(project: Project, name: str) -> list[Hit]:
    return [hit for hit in project.tools.all_hits() if is_notice(hit, project, name)]


def is_notice(hit: Hit, project: Project, name: str) -> bool:
    return hit.key == project.tool_key(name) and hit.type == "tool_call.cancelled"


def told(project: Project, name: str) -> Hit:
    """The one notice, as soon as it has come."""
    [notice] = all_told(project, name, 1)
    return notice


def all_told(project: Project, name: str, count: int) -> list[Hit]:
    def came(hits: list[Hit]) -> bool:
        return sum(is_notice(hit, project, name) for hit in hits) >= count

    project.tools.until(came, PATIENCE_SECONDS)
    return notices(project, name)


def is_the_calls_own(notice: Hit, hit: Hit, reason: str) -> bool:
    """All that it says is of the call, and its id is not the call's own."""
    about = ("run_id", "call_id", "tool", "tool_version", "agent", "attempt", "fence")
    expected = {name: hit.body[name] for name in about}
    assert notice.body == {"type": "tool_call.cancelled", "reason": reason, **expected}
    assert notice.webhook_id == f"{hit.webhook_id}_cancelled"
    return notice.verified is True


def test_a_cancel_tells_a_tool_that_would_have_called_back(project: Project) -> None:
    run, hit = accepted_for_later(project)
    project.client.cancel(run["id"])
    assert is_the_calls_own(told(project, "work"), hit, "run_cancelled")
    project.client.cancel(run["id"])
    later, other = again(project)
    project.client.cancel(later["id"])
    assert [one.run_id for one in all_told(project, "work", 2)] == [hit.run_id, other.run_id]


def again(project: Project) -> tuple[Json, Hit]:
    """Another run whose call waits for its callback."""
    model = project.script(calls(call(1, "work")), name="again")
    run = project.accepted(model=model, tools=["work"])
    return run, project.hits("work")[-1]


def test_a_cancel_tells_a_tool_that_is_working(project: Project) -> None:
    hold = project.tools.hold(f"busy-{project.suffix}")
    project.tool("work", Behaviour(hold=f"busy-{project.suffix}"))
    run = project.start(calls(call(1, "work")), tools=["work"])
    [hit] = project.wait_for_hits("work")
    assert project.client.cancel(run["id"])["status"] == "cancelled"
    assert is_the_calls_own(told(project, "work"), hit, "run_cancelled")
    hold.release()


@pytest.mark.parametrize("behaviour", [Behaviour("later"), Behaviour(sleep=5)])
def test_a_timeout_tells_the_tool(project: Project, behaviour: Behaviour) -> None:
    project.tool("work", behaviour, timeout_seconds=0.5)
    run = project.start(calls(call(1, "work")), text("ok"), tools=["work"])
    [hit] = project.wait_for_hits("work")
    assert project.end(run)["output"] == "ok"
    assert is_the_calls_own(told(project, "work"), hit, "timed_out")


def test_a_run_that_fails_tells_the_tools_that_still_work(project: Project) -> None:
    project.tool("work", Behaviour("later"))
    project.tool("break", Behaviour("raise"), on_error="fail_run")
    both = calls(call(1, "work"), call(2, "break"))
    run = project.run(both, tools=["work", "break"])
    assert run["status"] == "failed"
    [hit] = project.hits("work")
    assert is_the_calls_own(told(project, "work"), hit, "run_ended")
    assert notices(project, "break") == []


def test_a_deadline_tells_the_tool(project: Project) -> None:
    project.tool("work", Behaviour("later"), timeout_seconds=60)
    limits = {"deadline_seconds": 2}
    run = project.start(calls(call(1, "work")), text("ok"), tools=["work"], limits=limits)
    [hit] = project.wait_for_hits("work")
    project.end(run)
    notice = told(project, "work")
    assert is_the_calls_own(notice, hit, notice.body["reason"])
    assert notice.body["reason"] in ("run_ended", "timed_out")


def test_the_tools_of_child_runs_are_told_too(project: Project) -> None:
    project.tool("work", Behaviour("later"))
    agent(project, "clerk", calls(call(1, "work")), tools=["work"])
    run = project.start(calls(asks("clerk")), tools=["ask_clerk"])
    [hit] = project.wait_for_hits("work")
    [child] = project.client.call("GET", "/v1/runs", parent_run_id=run["id"])["data"]
    project.until(child, "tool_call.progress")
    project.client.cancel(run["id"])
    assert is_the_calls_own(told(project, "work"), hit, "run_cancelled")


def test_nobody_is_told_of_a_call_that_was_not_sent_or_has_its_result(project: Project) -> None:
    """The notice of the call that is told comes last, so the others would have come by then."""
    project.tool("gated", approval="always")
    project.tool("look")
    project.tool("work", Behaviour("later"))
    three = calls(call(1, "gated"), call(2, "look"), call(3, "work"))
    run = project.run(three, tools=["gated", "look", "work"])
    project.client.cancel(run["id"])
    told(project, "work")
    assert notices(project, "gated") == notices(project, "look") == []


def test_a_tool_that_does_not_listen_delays_nothing(project: Project) -> None:
    project.tool("work", Behaviour("later"))
    run = project.accepted(calls(call(1, "work")), tools=["work"])
    body: dict[str, Any] = {"url": "http://127.0.0.1:9/"}
    project.client.call("PATCH", "/v1/tools/work", body)
    assert project.client.cancel(run["id"])["status"] == "cancelled"
    other = project.run(model=project.script(text("hello"), name="other"))
    assert other["output"] == "hello"


def test_a_call_with_a_result_in_time_is_told_nothing(project: Project) -> None:
    project.tool("work", Behaviour("return", value=1))
    run = project.run(calls(call(1, "work")), text("ok"), tools=["work"])
    assert result_of(project.asked(), "c1") == "1"
    assert run["status"] == "completed"
    assert notices(project, "work") == []
