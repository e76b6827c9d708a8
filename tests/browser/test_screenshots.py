"""The pictures of README and docs: a shop's agent that pays money back (see `pictures`)."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, expect

from tests.api.project import ALL_SCOPES, CheckedClient, Running
from tests.browser.pictures import picture
from tests.browser.window import Scheme, Window, window
from tests.support.models.chat_server import Answer, Call, ModelRequest
from tests.support.services.client import Json
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour

pytestmark = pytest.mark.timeout(180)

MODEL = "gpt-5.2"
URL = "https://api.lamplight.example/refunds"
ASKED = {
    "A-1042": "My lamp from order A-1042 arrived broken: the glass shade is in pieces. "
    "I would like my money back, please.",
    "A-1038": "Order A-1038 came two weeks late, after the wedding it was meant for. "
    "Please take it back.",
    "A-1017": "You charged the gift wrapping of order A-1017 twice.",
    "A-1021": "The bulb that came with A-1021 does not work.",
    "A-1025": "One of the three candles of A-1025 was missing.",
    "A-1030": "The plug of A-1030 is of the wrong kind, I had to buy an adapter.",
}
REFUNDS: dict[str, Json] = {
    "A-1042": {"order": "A-1042", "amount": 89.0, "reason": "damaged", "notify": True},
    "A-1038": {"order": "A-1038", "amount": 249.5, "reason": "late", "notify": True},
    "A-1017": {"order": "A-1017", "amount": 4.5, "reason": "other"},
    "A-1021": {"order": "A-1021", "amount": 12.0, "reason": "damaged"},
    "A-1025": {"order": "A-1025", "amount": 7.9, "reason": "other"},
    "A-1030": {"order": "A-1030", "amount": 9.0, "reason": "other"},
}
LAST = (
    "I am sorry about the broken shade. The 89.00 euros for order A-1042 are on their way back to "
    "you and arrive within three working days. You need not send the lamp back; please put the "
    "glass where nobody gets hurt. If you would like another one, it is in stock again."
)
UNTIL = "You need not send the lamp back;"
"""What of it is there in the pictures."""
REFUND: Json = {
    "name": "refund",
    "type": "webhook",
    "description": "Pays an amount of an order back to the customer. It cannot be undone.",
    "parameters": {
        "type": "object",
        "properties": {
            "order": {"type": "string", "description": "The order's number, such as A-1042."},
            "amount": {"type": "number", "minimum": 0, "description": "In euros."},
            "reason": {"type": "string", "enum": ["damaged", "late", "other"]},
            "notify": {"type": "boolean", "description": "Whether the customer gets a mail."},
        },
        "required": ["order", "amount", "reason"],
        "additionalProperties": False,
    },
    "strict": False,
    "approval": {"when": "args.amount > 50.0"},
}
LOOK_UP: Json = {
    "name": "lookup_order",
    "type": "webhook",
    "description": "What was ordered, by whom, and what became of it.",
    "parameters": {
        "type": "object",
        "properties": {"order": {"type": "string", "description": "The order's number."}},
        "required": ["order"],
        "additionalProperties": False,
    },
    "idempotent": True,
}
CLERK = {
    "name": "clerk",
    "description": "Answers the shop's customers.",
    "model": f"openai:{MODEL}",
    "instructions": "You answer customers. Look an order up before you pay anything back.",
    "tools": ["lookup_order", "refund"],
}


@dataclass(frozen=True, slots=True)
class Shop:
    running: Running
    client: CheckedClient
    """Of the program that starts its runs."""
    ada: str
    """The key of the person who decides."""
    hold: Hold
    """Where the last answer about A-1042 stops."""

    def run(self, order: str) -> Json:
        run = self.client.call("POST", "/v1/runs", {"agent": "clerk", "input": ASKED[order]})
        return self.client.settle(run["id"])

    def says(self, request: ModelRequest) -> Answer:
        order = next(one for one in ASKED if one in str(request.messages[1]["content"]))
        if request.turn == 0:
            look = Call(f"look-{order}", "lookup_order", json.dumps({"order": order}))
            return Answer(text="I look the order up first.", calls=(look,))
        if request.turn == 1:
            pay = Call(f"pay-{order}", "refund", json.dumps(REFUNDS[order]))
            return Answer(calls=(pay,))
        if order != "A-1042":
            return Answer(text=f"{REFUNDS[order]['amount']:.2f} euros go back to you.")
        return Answer(text=LAST, pieces=20, hold=self.hold, hold_after=13)


@contextmanager
def shop(running: Running) -> Generator[Shop]:
    """With small refunds already made, one of them in vain."""
    operator, tools = running.operator, running.tools
    made = operator.call("POST", "/v1/projects", {"name": "Lamplight"})
    keys = [
        operator.call(
            "POST",
            f"/v1/projects/{made['id']}/keys",
            {"name": name, "scopes": [*ALL_SCOPES]},
        )["key"]
        for name in ("Web shop", "Ada")
    ]
    order = {"order": "A-1042", "item": "Table lamp Aurora", "price": 89.0, "status": "delivered"}
    looked = tools.tool("lookup_order", Behaviour("return", order))
    paid = Behaviour("return", {"refund": "R-5501", "status": "paid"})
    closed = Behaviour("raise", status=500, message="The bank answers nothing just now.")
    refunded = tools.tool("refund", paid, paid, closed, paid)
    with CheckedClient(running.service.url, keys[0], running.contract) as client:
        one = Shop(running, client, keys[1], Hold())
        running.model.respond(MODEL, one.says)
        client.call("POST", "/v1/tools", LOOK_UP | {"url": looked})
        client.call("POST", "/v1/tools", REFUND | {"url": refunded})
        client.call("POST", "/v1/agents", CLERK)
        for number in ("A-1017", "A-1021", "A-1025", "A-1030"):
            one.run(number)
        try:
            yield one
        finally:
            one.hold.release()


@contextmanager
def seen(
    browser: Browser, shop: Shop, scheme: Scheme = "light", *, phone: bool = False, later: int = 0
) -> Generator[Window]:
    """By Ada, `later` minutes after now."""
    with window(browser, shop.running.service.url, scheme=scheme, phone=phone) as opened:
        if later:
            now = datetime.now(UTC)
            opened.page.clock.set_fixed_time(now + timedelta(minutes=later))
        opened.sign_in(shop.ada)
        yield opened


def test_the_pictures_show_what_the_console_shows(browser: Browser, running: Running) -> None:
    with shop(running) as one:
        run = one.run("A-1042")
        _decided(browser, one, run)
        _streamed(browser, one, run)
        one.client.call("PATCH", "/v1/tools/refund", {"url": URL})
        one.run("A-1042")
        one.run("A-1038")
        _inbox(browser, one)
        _tool(browser, one)


def _decided(browser: Browser, one: Shop, run: Json) -> None:
    with seen(browser, one) as opened:
        opened.go(f"#/runs/{run['id']}", "clerk")
        opened.page.get_by_role("button", name="Approve").click()
        one.hold.arrived()


def _streamed(browser: Browser, one: Shop, run: Json) -> None:
    schemes: tuple[Scheme, ...] = ("light", "dark")
    for scheme in schemes:
        with seen(browser, one, scheme) as opened:
            opened.go(f"#/runs/{run['id']}", "clerk")
            expect(opened.page.get_by_text(UNTIL)).to_be_visible()
            expect(opened.page.get_by_text("140 tokens")).to_be_visible()
            expect(opened.page.get_by_text("from Web shop")).to_be_visible()
            last = opened.page.locator(".entry.message").last
            picture(opened, "run" if scheme == "light" else "run-dark", to=last)
    one.hold.release()
    one.client.settle(run["id"])


def _inbox(browser: Browser, one: Shop) -> None:
    with seen(browser, one, later=4) as opened:
        cards = opened.page.get_by_role("article")
        expect(cards).to_have_count(2)
        expect(cards.nth(1)).to_contain_text("A-1038")
        picture(opened, "inbox")
        card = cards.first
        card.get_by_role("button", name="Edit arguments").click()
        card.get_by_label("amount").fill("79.00")
        expect(card.locator(".change")).to_be_visible()
        picture(opened, "edit", of=card)
    with seen(browser, one, phone=True, later=4) as opened:
        expect(opened.page.get_by_role("article")).to_have_count(2)
        expect(opened.page.get_by_role("article").nth(1)).to_contain_text("A-1038")
        picture(opened, "phone")


def _tool(browser: Browser, one: Shop) -> None:
    with seen(browser, one, later=4) as opened:
        opened.go("#/tools/refund", "refund")
        expect(opened.page.get_by_role("row")).to_have_count(8)
        expect(opened.page.get_by_role("link", name="Inbox 2 waiting")).to_be_visible()
        picture(opened, "tool", to=opened.page.get_by_role("table"))
