"""A window whose server works on no run."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.window import window
from tests.support.models.chat_server import Answer, ModelServer
from tests.support.services.service import Service
from tests.support.serving import Hold

pytestmark = pytest.mark.timeout(240)
WORDS = "every word of it comes from another process"


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def test_what_a_model_says_elsewhere_is_written_here_too(
    database_url: str, model: ModelServer, browser: Browser
) -> None:
    middle, end = Hold(), Hold()
    model.script("slow", Answer(text=WORDS, pieces=8, hold=middle, hold_after=5, hold_end=end))
    with (
        Service("api", database_url, openai_base_url=model.base_url) as api,
        Service("worker", database_url, openai_base_url=model.base_url),
        api.client() as client,
        window(browser, api.url) as ada,
    ):
        run_id = client.start_run(model="openai:slow", input="Say it.")["id"]
        middle.arrived()
        ada.sign_in(api.key)
        ada.go(f"#/runs/{run_id}")
        written = ada.page.locator(".entry.message.written")
        expect(written).to_contain_text("every word")
        expect(written).not_to_contain_text("process")
        middle.release()
        expect(written).to_contain_text(WORDS)
        end.release()
        expect(ada.page.get_by_label("Outcome", exact=True)).to_contain_text("Completed")
        expect(written).to_have_count(0)
        expect(ada.page.locator(".entry.message")).to_contain_text(WORDS)
