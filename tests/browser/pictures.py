"""Pictures of the console in docs/images/, and beside each what it says to a screen reader.

A test takes them anew from a real run and compares what they say, and the styles that they were
made with: so none of them goes stale unseen. With RUNWARD_RECORD=1 in its environment (`make
screenshots`) it writes them instead, for somebody to look at and commit.
"""

import base64
import os
import re
import time
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Locator

from tests.browser.window import Window

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "docs" / "images"
STYLES: Final = ROOT / "app" / "runward" / "console" / "static" / "console.css"
SHARPNESS: Final = 2
"""Pixels of the picture for one of the page."""
MARGIN: Final = 12
SETTLING_SECONDS: Final = 5.0
MAX_BYTES: Final = 150_000
QUALITIES: Final = (90, 80, 70, 60, 50)
CHANGING: Final = (
    (re.compile(r"\b(run|apr|key|sess|call|tool)_(…?)[0-9a-f]{6,}"), r"\1_…"),
    (re.compile(r"sha256:? ?[0-9a-f]{8,}…?"), "sha256:…"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|min|h|days)\b"), "1 s"),
    (re.compile(r"\b1 s( 1 s)+\b"), "1 s"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "12:00:00"),
    (re.compile(r"\b\d{1,2} \w{3,4} \d{4}\b"), "2 Nov 2026"),
    (re.compile(r"just now|less than a minute"), "1 s ago"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:9000"),
    (re.compile(r"\n *- listitem: (In the queue|Pause)[^\n]*"), ""),
)
"""What is another one each time."""


def picture(
    window: Window, name: str, *, of: Locator | None = None, to: Locator | None = None
) -> None:
    """`of`: no more than this part of the page; `to`: from its top to the end of this part; else
    what the window shows."""
    said = _said(window)
    text = FOLDER / f"{name}.txt"
    if os.environ.get("RUNWARD_RECORD"):
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.webp").write_bytes(_taken(window, of, to))
        text.write_text(said, "utf-8")
    else:
        stale = f"docs/images/{name}.webp is not what the console shows now: make screenshots"
        assert (FOLDER / f"{name}.webp").stat().st_size <= MAX_BYTES
        recorded = text.read_text("utf-8")
        end = time.monotonic() + SETTLING_SECONDS
        while said != recorded and time.monotonic() < end:
            said = _said(window)  # parts of the page, such as counts, arrive after the rest
        assert said == recorded, stale


def _said(window: Window) -> str:
    said = window.page.locator("body").aria_snapshot()
    for pattern, steady in CHANGING:
        said = pattern.sub(steady, said)
    styles = sha256(STYLES.read_bytes()).hexdigest()
    return f"console.css sha256 {styles}\n\n{said}\n"


def _box(of: Locator) -> Any:
    box = of.bounding_box()
    assert box is not None
    return box


def _taken(window: Window, of: Locator | None, to: Locator | None) -> bytes:
    """As WebP, of the best quality that is small enough."""
    size = window.page.viewport_size
    assert size is not None
    clip: dict[str, Any] = {"x": 0, "y": 0, **size}
    if to is not None:
        clip["height"] = _box(to)["y"] + _box(to)["height"] + MARGIN
    elif of is not None:
        box = _box(of)
        clip = {side: box[side] - MARGIN for side in ("x", "y")}
        clip |= {side: box[side] + 2 * MARGIN for side in ("width", "height")}
    asked: dict[str, Any] = {"format": "webp", "captureBeyondViewport": True}
    asked["clip"] = {**clip, "scale": SHARPNESS}
    session: Any = window.page.context.new_cdp_session(window.page)
    taken = b""
    for quality in QUALITIES:
        answer = session.send("Page.captureScreenshot", asked | {"quality": quality})
        taken = base64.b64decode(answer["data"])
        if len(taken) <= MAX_BYTES:
            break
    session.detach()
    assert len(taken) <= MAX_BYTES
    return taken
