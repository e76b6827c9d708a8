"""A screen for models, with the interface of OpenAI's `computer` tool."""

import asyncio
from typing import Any

from runward.tools import Image, ToolContext, ToolError, tool
from runward_executors.screen import Screens

MAX_ACTIONS = 50
WAIT_SECONDS = 2.0
KEYS = {
    "alt": "Alt",
    "arrowdown": "ArrowDown",
    "arrowleft": "ArrowLeft",
    "arrowright": "ArrowRight",
    "arrowup": "ArrowUp",
    "backspace": "Backspace",
    "capslock": "CapsLock",
    "cmd": "Meta",
    "ctrl": "Control",
    "delete": "Delete",
    "end": "End",
    "enter": "Enter",
    "esc": "Escape",
    "home": "Home",
    "insert": "Insert",
    "option": "Alt",
    "pagedown": "PageDown",
    "pageup": "PageUp",
    "return": "Enter",
    "shift": "Shift",
    "space": " ",
    "super": "Meta",
    "tab": "Tab",
    "win": "Meta",
}
"""Names that models use, in small letters, and Playwright's."""
BUTTONS = {"left": "left", "right": "right", "wheel": "middle"}

SCREENS = Screens()


@tool(
    implements="computer",
    timeout_seconds=120,
    concurrency={"limit": 1, "group": "screen"},
)
async def computer(
    ctx: ToolContext,
    actions: list[dict[str, Any]],
    pending_safety_checks: list[dict[str, Any]] | None = None,
) -> Image:
    """Use a web browser: a page of 1024 by 768 pixels, without an address bar. Answers with a
    picture of it after the actions."""
    if len(actions) > MAX_ACTIONS:
        raise ToolError(f"At most {MAX_ACTIONS} actions at once, not {len(actions)}.")
    key = ctx.session_id or ctx.run_id
    page = await SCREENS.page(key)
    for number, action in enumerate(actions):
        ctx.progress(number / len(actions), str(action["type"]))
        try:
            await act(page, action)
        except (KeyError, TypeError, ValueError) as error:
            raise ToolError(f"Action {number} cannot be done as it is: {error!r}.") from error
        page = await SCREENS.page(key)
    return Image(data=await SCREENS.picture(key), media_type="image/png")


async def act(page: Any, action: dict[str, Any]) -> None:
    """Perform one action. Raises KeyError, TypeError or ValueError if it is invalid."""
    match action["type"]:
        case "screenshot":
            return
        case "wait":
            await asyncio.sleep(WAIT_SECONDS)
        case "type":
            await page.keyboard.type(action["text"])
        case "keypress":
            await press(page, action["keys"])
        case "click" if action.get("button") in ("back", "forward"):
            await (page.go_back() if action["button"] == "back" else page.go_forward())
        case kind:
            keys = [name_of(key) for key in action.get("keys") or ()]
            for key in keys:
                await page.keyboard.down(key)
            await point(page.mouse, kind, action)
            for key in reversed(keys):
                await page.keyboard.up(key)


async def point(mouse: Any, kind: str, action: dict[str, Any]) -> None:
    """Perform a mouse action."""
    if kind == "drag":
        (first, *others) = [(place["x"], place["y"]) for place in action["path"]]
        await mouse.move(*first)
        await mouse.down()
        for place in others:
            await mouse.move(*place)
        await mouse.up()
        return
    if kind not in ("click", "double_click", "move", "scroll"):
        raise ValueError(f"there is no action {kind!r}")
    place = (action["x"], action["y"])
    await mouse.move(*place)
    if kind == "scroll":
        await mouse.wheel(action["scroll_x"], action["scroll_y"])
    elif kind != "move":
        button = BUTTONS[action.get("button") or "left"]
        await mouse.click(*place, button=button, click_count=1 if kind == "click" else 2)


async def press(page: Any, keys: list[str]) -> None:
    """Press all keys together, such as Control and A."""
    names = [name_of(key) for key in keys]
    for name in names:
        await page.keyboard.down(name)
    for name in reversed(names):
        await page.keyboard.up(name)


def name_of(key: str) -> str:
    return KEYS.get(key.lower(), key)
