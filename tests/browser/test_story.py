"""The whole story, in two windows of two people: one starts a run and watches it being written, a
call waits for a decision and both see it, one changes its arguments and approves, the other sees
it go; and then the server is killed under the run, and nothing is missed."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.window import Window, window
from tests.support.models.chat_server import Answer, Call, ModelServer, text
from tests.support.services.client import Client, Json
from tests.support.services.service import Service
from tests.support.serving import Hold
from tests.support.tools.server import ToolServer

pytestmark = pytest.mark.timeout(240)

LEASE_SECONDS = 2
ALL = ["runs:read", "runs:write", "tools:write", "approvals:decide"]
REFUND = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "amount": {"type": "number", "minimum": 0}},
    "required": ["order", "amount"],
    "additionalProperties": False,
}
ASKED = Call("c1", "refund", '{"order": "A-1042", "amount": 89.0}')
SAYS = "I look at the order and then pay the money back."
UNHEARD = "This answer breaks"
DONE = "Done: 79 euros go back to you."


class Story:
    """A service of the test's own, with a project, a gated tool and two people."""

    def __init__(self, service: Service, tools: ToolServer, within: ExitStack) -> None:
        self.service = service
        self.tools = tools
        self._within = within
        operator = within.enter_context(service.client())
        self._project: Json = operator.call("POST", "/v1/projects", {"name": "story"})
        self._operator = operator
        self.client: Client = within.enter_context(service.client(self.key("setup", ALL)["key"]))
        made = self.client.register_tool(
            "refund", tools.tool("refund"), approval="always", parameters=REFUND
        )
        tools.secrets("refund", made["secret"])

    def key(self, name: str, scopes: list[str]) -> Json:
        body = {"name": name, "scopes": scopes}
        return self._operator.call("POST", f"/v1/projects/{self._project['id']}/keys", body)

    def window(self, browser: Browser, key: Json, at: str) -> Window:
        opened = self._within.enter_context(window(browser, self.service.url))
        opened.sign_in(key["key"])
        opened.go(at)
        return opened


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def story(database_url: str, model: ModelServer) -> Iterator[Story]:
    with ExitStack() as within:
        tools = within.enter_context(ToolServer())
        service = within.enter_context(
            Service(
                "serve",
                database_url,
                openai_base_url=model.base_url,
                lease_seconds=LEASE_SECONDS,
            )
        )
        yield Story(service, tools, within)


def rows(window: Window) -> list[tuple[int, str]]:
    """The raw events as they are shown: number and type."""
    shown: list[list[str]] = window.page.locator(".raw-list > details").evaluate_all(
        "rows => rows.map((row) => [row.dataset.sequence, row.querySelector('code').textContent])"
    )
    return [(int(sequence), type_) for sequence, type_ in shown]


def start_in_the_form(window: Window) -> str:
    """The run's id."""
    page = window.page
    page.get_by_label("Model", exact=True).fill("openai:clerk")
    page.get_by_role("checkbox", name="refund").check()
    page.get_by_label("Input", exact=True).fill("My lamp came broken. I want my money back.")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="openai:clerk", level=1)).to_be_visible()
    return page.url.rpartition("/")[2]


def test_from_the_start_through_a_decision_and_a_crash_to_the_end(
    story: Story, model: ModelServer, browser: Browser
) -> None:
    middle, last_word, crash = Hold(), Hold(), Hold()
    model.script(
        "clerk",
        Answer(text=SAYS, calls=(ASKED,), pieces=6, hold=middle, hold_after=4, hold_end=last_word),
        Answer(text=f"{UNHEARD} off in the", pieces=4, hold=crash, hold_after=4),
        text(DONE),
    )
    ada = story.window(browser, story.key("Ada", ALL), "#/start")
    ben = story.window(browser, story.key("Ben", ["runs:read", "approvals:decide"]), "#/inbox")
    for one in (ada, ben):
        one.allow("net::ERR_")  # while there is no server
    expect(ben.page.get_by_text("No calls are waiting for you")).to_be_visible()

    run_id = start_in_the_form(ada)
    written = ada.page.locator(".entry.message")
    middle.arrived()
    expect(written).to_contain_text("I look at the order")
    expect(written).not_to_contain_text("money back")
    middle.release()
    last_word.arrived()
    expect(written).to_contain_text(SAYS)
    expect(ada.page.locator(".entry.call")).to_contain_text('{"order": "A-1042"')
    last_word.release()

    decide_with_other_arguments(ada, ben)
    [hit] = story.tools.wait_for("refund")
    assert json.dumps(hit.arguments) == '{"order": "A-1042", "amount": 79}'

    crash.arrived()
    expect(ada.page.locator(".entry.message.written")).to_contain_text(UNHEARD)
    story.service.kill()
    expect(ada.page.get_by_text("Reconnecting")).to_be_visible()
    story.service.start_again()
    expect(ada.page.locator(".outcome")).to_contain_text("Completed")
    expect(ada.page.get_by_text("Reconnecting")).to_have_count(0)
    expect(ada.page.get_by_text(UNHEARD)).to_have_count(0)
    expect(ada.page.locator(".entry.message").last).to_contain_text(DONE)
    events = [(event["sequence"], event["type"]) for event in story.client.events(run_id)]
    assert [sequence for sequence, _ in events] == list(range(1, len(events) + 1))
    assert rows(ada) == events
    assert len(story.tools.hits("refund")) == 1


def decide_with_other_arguments(ada: Window, ben: Window) -> None:
    """In Ada's window, while Ben looks at his inbox."""
    asked: Locator = ben.page.get_by_role("article").filter(has_text="refund")
    expect(asked).to_contain_text("89.0")
    expect(ben.page).to_have_title("(1) Inbox · Runward")
    expect(ada.page.get_by_text("Waiting for a decision", exact=True)).to_be_visible()
    ada.page.get_by_role("button", name="Edit arguments").click()
    ada.page.get_by_label("amount").fill("79")
    ada.page.get_by_role("button", name="Approve with changes").click()
    expect(asked).to_have_count(0)
    expect(ben.page).to_have_title("Inbox · Runward")
    told = ben.page.locator(".note").filter(has_text="refund")
    expect(told).to_contain_text("was approved with edited arguments by Ada")
    decided = ada.page.locator(".entry.call .decision")
    expect(decided).to_contain_text("Approved with edited arguments by Ada")
    expect(decided).to_contain_text("89.0")
    expect(decided).to_contain_text("79")
