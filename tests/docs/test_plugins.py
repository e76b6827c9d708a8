"""The plugins of all pages, loaded by one service that is started as docs/how-to/plugins.md
says."""

from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import Block, blocks
from tests.docs.conftest import Own
from tests.docs.story import Story
from tests.support.services.client import Client, Json

pytestmark = pytest.mark.timeout(180)

REFERENCE = "docs/reference/plugin-api.md"
ELSEWHERE = (
    REFERENCE,
    "docs/how-to/guardrails.md",
    "docs/how-to/hooks.md",
    "docs/how-to/executors.md",
    "docs/how-to/migrate-from-agents-sdk.md",
)


def test_plugins(own: Own, tmp_path: Path) -> None:
    _, *plugins, _ = python("docs/how-to/plugins.md")
    elsewhere = [
        block for page in ELSEWHERE for block in python(page) if "from runward.tools" in block.text
    ]
    for block in (*plugins, *elsewhere):
        (tmp_path / f"{module(block)}.py").write_text(block.text, "utf-8")
    named = ",".join(map(module, (*plugins, *elsewhere)))
    here = {"RUNWARD_PLUGINS=shop": f"RUNWARD_PLUGINS=shop,{named}"}
    env = own.env | {"PYTHONPATH": str(tmp_path)}
    with Story("docs/how-to/plugins.md", own.client, tmp_path, here, env) as page:
        page.save("shop.py")
        page.serve()
        converted = page.http()
        assert [call["output"] for call in own.client.tool_calls(converted["id"])] == [11.0]
        for block in plugins:
            assert page.take("python") == block
        calls_of_all_tools(own.client)
        guardrails_and_hooks(own.client)
        migrated_tool(own.client)
        page.python()
    with Story("docs/reference/plugin-api.md", own.client, tmp_path) as reference:
        for _ in python(REFERENCE):
            reference.elsewhere("test_plugins.py")


def python(page: str) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python"]


def module(block: Block) -> str:
    return f"{Path(block.page).stem}_{block.line}".replace("-", "_")


def run(client: Client, asked: str, *tools: str, **fields: Any) -> Json:
    """Of the offline model, as it is when it has settled."""
    body = {"model": "offline:rules", "tools": tools, "input": asked, **fields}
    return client.call("POST", "/v1/runs", body, wait=30)


def calls_of_all_tools(client: Client) -> None:
    patch = 'apply_patch(operation={"type": "delete_file", "path": "a"})'
    asked: list[tuple[str, Any]] = [
        ("convert(amount=10)", 11.0),
        ("plain(x=2)", 2),
        ("other(x=3)", 3),
        ("again(x=4)", 4),
        ('book(rooms=["red"])', {"booked": 1}),
        ("render(pages=2)", "page page "),
        ("pay(amount=50)", "paid 50.0"),
        ('stock(article="tea")', {"article": "tea", "count": 3}),
    ]
    names = [call.partition("(")[0] for call, _ in asked]
    ended = run(client, " ".join(call for call, _ in asked), *names, context={"staff": True})
    assert ended["status"] == "completed"
    made = {call["tool"]: call["output"] for call in client.tool_calls(ended["id"])}
    assert made == {call.partition("(")[0]: output for call, output in asked}
    drawn = run(client, 'draw(shape="square") draw(shape="circle")', "draw")
    square, circle = client.tool_calls(drawn["id"])
    assert (square["is_error"], square["output"]) == (True, "Only circles can be drawn.")
    assert circle["outcome"] == "completed"
    for large, tool in (("pay(amount=150)", "pay"), (patch, "apply_patch")):
        waits = run(client, large, tool, context={"staff": True})
        assert (waits["status"], waits["required_actions"][0]["tool"]) == ("requires_action", tool)


def migrated_tool(client: Client) -> None:
    large = run(client, 'refund_order(order="A-1018", amount=500)', "refund_order")
    assert large["status"] == "requires_action"
    small = run(client, 'refund_order(order="A-1018", amount=50)', "refund_order")
    [call] = client.tool_calls(small["id"])
    assert call["output"] == "Refunded 50.0 euros for order A-1018."


def guardrails_and_hooks(client: Client) -> None:
    amount: Json = {"type": "object", "properties": {"amount": {"type": "number"}}}
    client.register_tool("refund", "http://127.0.0.1:9/", parameters=amount)
    client.register_tool("slow_search", "http://127.0.0.1:9/")

    def guard(name: str) -> list[Json]:
        return [{"stage": "input", "type": "plugin", "name": name}]

    def hook(on: str, name: str) -> list[Json]:
        return [{"on": on, "type": "plugin", "name": name}]

    large = run(client, "refund(amount=1001)", "refund", guardrails=guard("no_large_refunds"))
    [call] = client.tool_calls(large["id"])
    assert call["output"] == "Refunds above 1000 go through the bank."
    card = run(client, "plain(x=4111)", "plain", guardrails=guard("shop.no_cards"))
    [call] = client.tool_calls(card["id"])
    assert call["output"] == "Card numbers must not be passed on."
    found = run(
        client, 'slow_search(x="a")', "slow_search", hooks=hook("before_tool", "shop.cached")
    )
    [call] = client.tool_calls(found["id"])
    assert call["output"] == {"cached": True}
    hooks = hook("before_model", "opening_hours")
    assert run(client, "Hello", hooks=hooks, context={"closed": True})["output"] == "We are closed."
