"""The address that `make run` prints offers a key."""

from playwright.sync_api import Browser, expect

from tests.api.project import SCOPES, Project
from tests.browser.conftest import Opens
from tests.browser.window import window


def test_an_offered_key_is_filled_in_and_taken_out_of_the_address(
    browser: Browser, project: Project
) -> None:
    url = project.running.service.url
    key = project.new_key(*SCOPES, name="Ada")["key"]
    with window(browser, url) as offered:
        page = offered.page
        page.goto(f"{url}/#key={key}")
        button = page.get_by_role("button", name="Sign in")
        expect(button).to_be_focused()
        assert page.url == f"{url}/"
        page.reload()
        expect(page.get_by_label("API key")).to_have_value("")

        page.goto("about:blank")  # else it would only go to another part of the same page
        page.goto(f"{url}/#key={key}")
        expect(button).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Inbox", level=1)).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("API key")).to_have_value("")


def test_who_is_signed_in_stays_so_whatever_key_an_address_offers(
    project: Project, opens: Opens
) -> None:
    window = opens(name="Ada")
    other = project.new_key(*SCOPES, name="Eve")["key"]
    window.page.goto("about:blank")
    window.page.goto(f"{window.url}/#key={other}")
    expect(window.page.get_by_text("Ada", exact=True)).to_be_visible()
    assert window.page.url == f"{window.url}/"
