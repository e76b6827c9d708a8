"""The TypeScript SDK in a page of the service's own origin, and in a page of another one."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.api.project import Project, call
from tests.browser.window import window
from tests.support.models.chat_server import calls, text
from tests.support.programs import node_program
from tests.support.sdks import SDKS, run_program

pytestmark = pytest.mark.timeout(180)

ServeApp: TypeAlias = Callable[[Page, str], None]

OTHER_ORIGIN: Final = "http://app.example"
REFUND: Final = """async ([apiKey, model]) => {
  const { Runward } = await import("/app/index.js");
  const client = new Runward({ apiKey, baseUrl: location.origin });
  const run = await client.runs.start({ model, tools: ["pay"], input: "Pay a little." });
  const types = [];
  for await (const event of run.events()) {
    if ("sequence" in event) types.push(event.type);
    if (event.type !== "tool_call.approval_requested") continue;
    const { approval_id, digest } = event.data;
    await client.approvals.decide(approval_id, { decision: "approve", digest });
  }
  await run.wait();
  return [run.id, run.output, types];
}"""
RETRIEVE: Final = """async ([apiKey, baseUrl, id]) => {
  const { Runward } = await import("/app/index.js");
  const client = new Runward({ apiKey, baseUrl, maxRetries: 0 });
  return client.runs.retrieve(id).then((run) => run.status, (error) => error.name);
}"""


@pytest.fixture(scope="module")
def serve_app(tmp_path_factory: pytest.TempPathFactory) -> ServeApp:
    """`serve_app(page, origin)` opens an empty page of this origin, which has the SDK in `/app`."""
    folder = tmp_path_factory.mktemp("sdk")
    run_program(node_program("tsc"), "--outDir", str(folder), cwd=SDKS / "typescript")
    (folder / "index.html").write_text("<!doctype html><title>App</title>", "utf-8")

    def serve(page: Page, origin: str) -> None:
        def answer(route: Route) -> None:
            route.fulfill(path=folder / Path(route.request.url).name)

        page.route(f"{origin}/app/*", answer)
        page.goto(f"{origin}/app/index.html")

    return serve


def test_a_page_of_the_same_origin_uses_the_sdk(
    browser: Browser, project: Project, serve_app: ServeApp
) -> None:
    project.tool("pay", approval="always")
    model = project.script(calls(call(1, "pay")), text("Paid."))
    with window(browser, project.running.service.url) as opened:
        serve_app(opened.page, opened.url)
        id_, output, types = opened.page.evaluate(REFUND, [project.client.key, model])
    assert output == "Paid."
    assert types == [event["type"] for event in project.client.events(id_)]


def test_a_page_of_another_origin_cannot_call_the_api(
    browser: Browser, project: Project, serve_app: ServeApp
) -> None:
    run = project.run(text("Done."))
    url = project.running.service.url

    def retrieve_from(origin: str) -> str:
        with browser.new_context() as context:
            page = context.new_page()
            serve_app(page, origin)
            return page.evaluate(RETRIEVE, [project.client.key, url, run["id"]])

    assert retrieve_from(url) == "completed"
    assert retrieve_from(OTHER_ORIGIN) == "APIConnectionError"
