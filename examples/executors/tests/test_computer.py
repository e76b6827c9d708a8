"""Tests with a real browser on a local page, which records the actions on it. They need the package
playwright and a Chromium."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from runward_executors import computer
from runward_executors.computer import SCREENS
from runward_executors.screen import Where

from runward.tools import ToolError
from runward.tools.plugin.tool import make_tool
from runward.tools.testing import ToolResult, run_tool

PAGE = """<!doctype html><body style="margin:0;height:5000px">
<input id=i style="position:fixed;left:0;top:0;width:200px;height:50px">
<a id=a href="/second" style="position:fixed;left:0;top:100px;width:200px;height:50px">on</a>
<a href="OTHER" style="position:fixed;left:0;top:200px;width:200px;height:50px">out</a>
<script>
const tell = (what) => navigator.sendBeacon("/told", what);
i.onchange = () => tell("typed " + i.value);
document.ondblclick = (e) => tell("double " + e.clientX + " " + e.shiftKey);
onscroll = () => tell("scrolled");
document.onmousemove = (e) => e.buttons && tell("dragged to " + e.clientX);
</script>"""


class Site(ThreadingHTTPServer):
    """A page under test. `told` are the page's reports. `wait_for` waits for one of them."""

    daemon_threads = True

    def __init__(self, address: str = "127.0.0.1", other: str = "") -> None:
        super().__init__((address, 0), Handler)
        self.page = PAGE.replace("OTHER", other).encode()
        self.told: list[str] = []
        self.changed = threading.Condition()
        self.url = f"http://{address}:{self.server_port}"

    def note(self, what: str) -> None:
        with self.changed:
            self.told.append(what)
            self.changed.notify_all()

    def wait_for(self, what: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: what in self.told, 20), (what, self.told)


class Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.note(f"GET {self.path}")
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.server.page if self.path == "/" else b"<p>second")

    def do_POST(self) -> None:
        self.server.note(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    threading.Thread(target=site.serve_forever, daemon=True).start()
    yield site
    site.shutdown()
    site.server_close()


@pytest.fixture
def other() -> Iterator[Site]:
    """Return another host, which is the target of a link."""
    with serving(Site("127.0.0.2")) as site:
        yield site


@pytest.fixture
def site(other: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    pytest.importorskip("playwright")
    with serving(Site(other=f"{other.url}/out")) as site:
        monkeypatch.setenv("EXECUTORS_START_URL", site.url)
        yield site


def do(*batches: list[dict[str, Any]]) -> list[ToolResult]:
    """Return the results of the calls of one conversation."""

    async def each() -> list[ToolResult]:
        try:
            return [
                await run_tool(computer, {"actions": actions}, session_id="ses_1")
                for actions in batches
            ]
        finally:
            await SCREENS.close()

    return asyncio.run(each())


def at(kind: str, x: int, y: int, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "x": x, "y": y, **fields}


def test_a_person_is_asked_unless_a_project_says_otherwise() -> None:
    assert make_tool(computer).spec.approval == "always"


def test_what_a_model_does_happens_on_the_page_and_it_gets_a_picture(site: Site) -> None:
    results = do(
        [{"type": "screenshot"}],
        [
            at("click", 50, 20, button="left"),
            {"type": "type", "text": "hello"},
            {"type": "keypress", "keys": ["CTRL", "A"]},
            {"type": "type", "text": "world"},
            {"type": "keypress", "keys": ["ENTER"]},
        ],
        [
            at("double_click", 300, 300, keys=["SHIFT"]),
            at("scroll", 300, 300, scroll_x=0, scroll_y=400),
            {"type": "drag", "path": [{"x": 400, "y": 400}, {"x": 450, "y": 400}]},
            at("move", 10, 10),
        ],
        [at("click", 50, 120, button="left"), {"type": "wait"}],
        [{"type": "click", "button": "back", "x": 0, "y": 0}],
    )
    assert [result.error for result in results] == [None] * 5
    for result in results:
        [part] = result.parts
        assert (part["type"], part["media_type"]) == ("image", "image/png")
        assert str(part["data"]).startswith("iVBORw0KGgo")
    assert results[0].parts != results[1].parts
    for what in (
        "typed world",
        "double 300 true",
        "scrolled",
        "dragged to 450",
        "GET /second",
    ):
        site.wait_for(what)


def test_no_other_host_is_reached_unless_it_is_named(
    site: Site, other: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    clicked = at("click", 50, 220, button="left")
    before, after = do([{"type": "screenshot"}], [clicked, {"type": "wait"}])
    assert (before.error, after.error) == (None, None)
    assert before.parts != after.parts  # Chromium shows its own error page for an unknown host
    assert other.told == []
    monkeypatch.setenv("EXECUTORS_HOSTS", "127.0.0.2")
    assert do([clicked])[0].error is None
    other.wait_for("GET /out")


def test_a_picture_is_taken_while_chromium_replaces_the_page(site: Site) -> None:
    out, back = at("click", 50, 220, button="left"), at("click", 0, 0, button="back")
    results = do(*[[action] for _ in range(10) for action in (out, back)])
    assert [result.error for result in results] == [None] * 20


def test_what_is_no_action_is_told_to_the_model(site: Site) -> None:
    wrong = [
        {"type": "shout"},
        {"type": "click", "button": "left"},
        at("click", 1, 1, button="fourth"),
    ]
    results = do(*[[action] for action in wrong])
    for action, result in zip(wrong, results, strict=True):
        assert "Action 0 cannot be done" in str(result.message), action


@pytest.mark.parametrize("url", ["", "file:///etc/passwd", "about:blank"])
def test_the_operator_says_where_it_starts(url: str) -> None:
    with pytest.raises(ToolError, match="EXECUTORS_START_URL"):
        Where.read({"EXECUTORS_START_URL": url})
