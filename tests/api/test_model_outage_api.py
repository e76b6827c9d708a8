"""Models that are down or silent: who waits for how long, and who goes on elsewhere."""

from tests.api.project import Project
from tests.support.models.chat_server import Answer, HttpError, text
from tests.support.services.client import Json
from tests.support.serving import Hold


def retried(project: Project, run: Json) -> list[str]:
    events = project.client.events(run["id"])
    return [event["data"]["code"] for event in events if event["type"] == "model.retried"]


def test_a_model_that_is_down_is_left_alone_where_there_is_another(project: Project) -> None:
    down = project.script(*[HttpError(503, retry_after="0")] * 8, name="down")
    up = project.script(*[text("from the other")] * 3, name="up")
    first, second = (project.run(model=[down, up]) for _ in range(2))
    assert retried(project, first) == ["model_unavailable"] * 4
    assert retried(project, second) == ["model_unavailable", "model_circuit_open"]
    assert len(project.asked("down")) == 5
    third = project.run(model=[down, up])
    assert [one["output"] for one in (first, second, third)] == ["from the other"] * 3
    assert retried(project, third) == ["model_circuit_open"]
    assert len(project.asked("down")) == 5


def test_another_model_of_the_project_is_asked_all_the_same(project: Project) -> None:
    down = project.script(*[HttpError(500, retry_after="0")] * 5, name="down")
    up = project.script(*[text("fine")] * 4, name="up")
    for _ in range(2):
        project.run(model=[down, up])
    run = project.run(model=up)
    assert (run["output"], retried(project, run)) == ("fine", [])


def test_a_model_that_says_nothing_for_too_long_is_asked_again(project: Project) -> None:
    hold = Hold()
    run = project.run(
        Answer("too late", hold=hold),
        text("at once"),
        model_settings={"first_token_timeout_seconds": 0.3},
    )
    hold.release()
    assert (run["status"], run["output"]) == ("completed", "at once")
    [told] = [
        event["data"]
        for event in project.client.events(run["id"])
        if event["type"] == "model.retried"
    ]
    assert (told["code"], told["message"]) == (
        "model_timeout",
        "The model sent no output for 0.3 seconds.",
    )


def test_a_model_that_has_begun_may_take_its_time(project: Project) -> None:
    hold = Hold()
    started = project.start(
        Answer("one two three", pieces=3, hold=hold, hold_after=3),
        model_settings={"first_token_timeout_seconds": 0.1, "timeout_seconds": 60},
    )
    hold.arrived()
    run = project.client.get_run(started["id"], wait=1)
    assert run["status"] == "in_progress"
    hold.release()
    assert project.settle(started)["output"] == "one two three"
    assert retried(project, started) == []


def test_the_whole_answer_has_its_time_too(project: Project) -> None:
    hold = Hold()
    run = project.run(
        Answer("one two three", pieces=3, hold=hold, hold_after=3),
        text("again"),
        model_settings={"timeout_seconds": 0.5},
    )
    hold.release()
    assert (run["output"], retried(project, run)) == ("again", ["model_timeout"])
