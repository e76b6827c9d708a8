"""The list of runs in the console: live, filtered, searched, and shared by its address."""

import re

from playwright.sync_api import Page, Route, expect

from tests.api.project import Project, call
from tests.browser.conftest import Opens
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json


def done(project: Project, name: str, answer: str) -> Json:
    return project.settle(project.start(model=project.script(text(answer), name=name)))


def shown(page: Page, *runs: Json) -> None:
    """Exactly these, in this order."""
    expect(page.locator("tbody th")).to_have_text([f"run_…{run['id'][-8:]}" for run in runs])


def test_new_runs_and_new_statuses_appear_by_themselves(project: Project, opens: Opens) -> None:
    project.tool("pay", approval="always")
    first = done(project, "first", "one")
    page = opens(at="#/runs").page
    shown(page, first)
    waiting = project.run(calls(call(1, "pay")), text("Paid."), tools=["pay"])
    shown(page, waiting, first)
    row = page.get_by_role("row").filter(has_text=waiting["id"][-8:])
    expect(row).to_contain_text("Waiting")
    expect(row).to_contain_text("test")
    project.client.decide_call(waiting["id"], "c1", "approve")
    expect(row).to_contain_text("Completed")


def test_filters_and_search_stand_in_the_address(project: Project, opens: Opens) -> None:
    project.tool("pay", approval="always")
    clerk = {"name": "clerk", "model": project.script(text("Hello."), name="clerk")}
    project.client.call("POST", "/v1/agents", clerk)
    by_clerk = project.settle(
        project.client.call("POST", "/v1/runs", {"agent": "clerk", "input": "Order A-1017"})
    )
    other = done(project, "other", "About the needle.")
    waiting = project.run(calls(call(1, "pay")), tools=["pay"])
    window = opens(at="#/runs")
    page = window.page
    shown(page, waiting, other, by_clerk)

    page.get_by_label("Status").select_option("Open")
    shown(page, waiting)
    page.get_by_label("Status").select_option("Any status")
    page.get_by_label("Find").fill("NEEDLE")
    shown(page, other)
    expect(page.get_by_text("One run.")).to_be_visible()
    page.get_by_label("Find").fill("a-1017")
    shown(page, by_clerk)
    page.get_by_label("Agent").select_option("clerk")
    expect(page).to_have_url(re.compile(r"#/runs\?q=a-1017&agent=clerk$"))
    with_link = opens(at=page.url.partition("/#")[2].join(("#", ""))).page
    shown(with_link, by_clerk)
    expect(with_link.get_by_label("Agent")).to_have_value("clerk")
    page.get_by_label("Find").fill("nowhere")
    expect(page.get_by_text("No runs match.")).to_be_visible()
    shown(page)
    page.get_by_label("Agent").select_option("Any agent")
    page.get_by_label("Find").fill(waiting["id"][:30])
    shown(page, waiting)


def test_the_shown_runs_stay_while_others_are_looked_for(project: Project, opens: Opens) -> None:
    first = done(project, "first", "one")
    page = opens(at="#/runs").page
    shown(page, first)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/v1/runs?*", hold)
    with page.expect_request(re.compile("status=failed")):
        page.get_by_label("Status").select_option("Failed")
    page.evaluate("dispatchEvent(new Event('resize'))")
    shown(page, first)
    for route in held:
        route.continue_()
    page.unroute("**/v1/runs?*")
    expect(page.get_by_text("No runs match.")).to_be_visible()


def test_older_runs_are_loaded_when_asked_for(project: Project, opens: Opens) -> None:
    model = project.respond(lambda _: text("ok"), name="many")
    runs = [project.start(model=model) for _ in range(53)]
    for run in runs:
        project.settle(run)
    page = opens(at="#/runs").page
    expect(page.locator("tbody tr:not(.spacer)").first).to_be_visible()
    expect(page.get_by_text("The newest 50 runs.")).to_be_visible()
    page.get_by_role("button", name="Show older entries").click()
    expect(page.get_by_text("53 runs.")).to_be_visible()
    new = done(project, "new", "new")
    expect(page.get_by_text("54 runs.")).to_be_visible()
    page.evaluate("scrollTo(0, 0)")
    expect(page.get_by_role("link", name=new["id"][-8:])).to_be_visible()


def test_a_selection_outlives_what_changes_beside_it(project: Project, opens: Opens) -> None:
    project.tool("pay", approval="always")
    first = done(project, "first", "needle")
    waiting = project.run(calls(call(1, "pay")), text("Paid."), tools=["pay"])
    page = opens(at="#/runs").page
    shown(page, waiting, first)
    selected = "getSelection().toString()"
    page.evaluate(
        "getSelection().selectAllChildren([...document.querySelectorAll('.what div')]"
        ".find((one) => one.textContent === 'needle'))"
    )
    assert page.evaluate(selected) == "needle"
    project.client.decide_call(waiting["id"], "c1", "approve")
    changed = page.get_by_role("row").filter(has_text=waiting["id"][-8:])
    expect(changed).to_contain_text("Completed")
    newest = done(project, "newest", "third")
    shown(page, newest, waiting, first)
    assert page.evaluate(selected) == "needle"


def test_the_runs_of_a_session_are_listed_by_its_address(project: Project, opens: Opens) -> None:
    session = project.client.call("POST", "/v1/sessions", {})["id"]
    model = project.script(text("one"), name="in-session")
    inside = project.settle(project.start(model=model, session_id=session))
    outside = done(project, "outside", "two")
    window = opens(at=f"#/runs?session_id={session}")
    shown(window.page, inside)
    window.page.get_by_role("button", name="Show all runs").click()
    shown(window.page, outside, inside)
    window.go(f"#/runs/{inside['id']}")
    window.page.get_by_role("link", name=f"sess_…{session[-8:]}").click()
    shown(window.page, inside)
