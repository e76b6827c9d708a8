"""The pages about tools, and about what is asked before and after them."""

import json
from pathlib import Path
from typing import Any

import pytest

from runward.domain.run.envelopes import parse_envelope
from tests.api.project import Project, of_type
from tests.docs.likeness import differences
from tests.docs.story import Story
from tests.e2e.own_machine import needs
from tests.support.models.responses_items import Text, hosted_shell
from tests.support.models.responses_server import answer
from tests.support.services.client import Json
from tests.support.services.service import free_port
from tests.support.tools.hits import Hit
from tests.support.tools.server import Behaviour

pytestmark = pytest.mark.timeout(180)

REFUND: Json = {
    "parameters": {
        "type": "object",
        "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
        "required": ["order", "amount"],
    }
}
ASK: Json = {"model": "offline:rules", "input": 'refund(order="A-1017", amount=50)'}
PLACEHOLDERS = {"webhook-timestamp": "…", "webhook-signature": "v1,…="}
"""Headers that are different each time."""


def test_webhooks(project: Project, tmp_path: Path) -> None:
    needs("node", "nodejs")
    project.client.call("PUT", "/v1/secrets/SHOP_TOKEN", {"value": "t0ken"})
    later = Behaviour("later")
    project.tool("slow_refund", later, **REFUND)
    ask = {**ASK, "input": f"slow_{ASK['input']}"}
    waiting = project.start(**ask, tools=["slow_refund"])
    [sent] = project.wait_for_hits("slow_refund")
    callback = {"CALLBACK_URL": sent.body["callback"]["url"]}
    here = {"refund.mjs": str(tmp_path / "refund.mjs"), "9100": f"{free_port()}"}
    with Story("docs/how-to/webhooks.md", project.client, tmp_path, here, callback) as page:
        page.save("refund.mjs")
        page.serve(until="Listening on")
        assert page.curl()["secret"].startswith("whsec_")
        assert page.http()["type"] == "webhook"
        page.shows(page.http() | {"seconds": 0.012})
        run = page.curl()
        assert run["status"] == "completed"
        [call] = project.client.tool_calls(run["id"])
        assert call["output"] == {"refunded": 50, "order": "A-1017"}
        assert page.http()["response"] == "envelope"
        assert parse_envelope(json.loads(page.take("json").text)).transfer_to == "clerk"
        page.sh()
        assert project.end(waiting)["status"] == "completed"
        secret = {"secret": "SHOP_TOKEN", "prefix": "Bearer "}
        assert page.http()["headers"] == {"Authorization": secret}


def test_inline_tools(project: Project, tmp_path: Path) -> None:
    url = {"http://127.0.0.1:9100/": project.tools.tool(project.tool_key("refund"))}
    with Story("docs/how-to/inline-tools.md", project.client, tmp_path, url) as page:
        run = page.http()
        [action] = run["required_actions"]
        assert action["tool"] == "refund"
        assert page.http()["tools"][0]["type"] == "client"
        assert page.http()["required_actions"][0]["tool"] == "crm_find"
        project.tools.secrets(project.tool_key("refund"), page.http()["secret"])
    approve = {"decision": "approve"}
    project.client.call("POST", f"/v1/approvals/{action['approval_id']}/decision", approve)
    assert project.settle(run)["status"] == "completed"
    assert project.hits("refund")[0].verified


def test_webhook_requests(project: Project, tmp_path: Path) -> None:
    project.tool("refund", Behaviour("later"), **REFUND)
    waiting = project.start(**ASK, tools=["refund"])
    [sent] = project.wait_for_hits("refund")
    with Story("docs/reference/webhook-requests.md", project.client, tmp_path) as page:
        shows_request(page, sent)
        project.until(waiting, "tool_call.progress")
        project.client.cancel(waiting["id"])
        page.shows(first(project, "tool_call.cancelled", "refund").body)


def shows_request(page: Story, sent: Hit) -> None:
    """The page's next block is that request: its headers and its body."""
    lines, _, body = page.take("http").text.partition("\n\n")
    start, *headers = lines.splitlines()
    assert start == "POST /refund HTTP/1.1"
    shown = dict(line.split(": ", 1) for line in headers) | PLACEHOLDERS
    real = {name: sent.headers[name] for name in shown}
    assert not list(differences(shown, real))
    body = body.replace("http://127.0.0.1:8080", sent.body["callback"]["url"].split("/v1/")[0])
    assert not list(differences(json.loads(body), in_good_time(sent)))


def in_good_time(sent: Hit) -> Json:
    """Its body, as if no time had passed before it was sent."""
    assert 0 < sent.body["deadline_ms"] <= 30_000
    return sent.body | {"deadline_ms": 30_000}


def first(project: Project, type_: str, key: str) -> Hit:
    """The first request of that type, as soon as it has arrived."""

    def found(hits: list[Hit]) -> list[Hit]:
        return [hit for hit in hits if (hit.type, hit.key) == (type_, project.tool_key(key))]

    return found(project.tools.until(lambda hits: bool(found(hits))))[0]


def test_long_running(project: Project, tmp_path: Path) -> None:
    flight: Any = {"type": "object", "properties": {"flight": {"type": "string"}}}
    later, done = Behaviour("later"), Behaviour("return", value="booked")
    project.tool("book", later, later, done, parameters=flight, retry={"max_attempts": 1})
    asked: Json = {"model": "offline:rules", "tools": ["book"], "input": 'book(flight="R 7")'}
    with Story("docs/how-to/long-running.md", project.client, tmp_path) as page:
        run = project.start(**asked)
        page.run(f"CALLBACK_URL={project.wait_for_hits('book')[0].body['callback']['url']}")
        page.sh()
        [call] = project.client.tool_calls(project.end(run)["id"])
        assert call["output"] == {"seat": "12C"}
        run = project.start(**asked)
        page.remember(run["id"])
        page.run(f"CALLBACK_URL={project.wait_for_hits('book', 2)[1].body['callback']['url']}")
        page.sh()
        page.sh()
        [asks] = project.settle(run)["required_actions"]
        page.shows(asks)
        page.http()
        again = project.wait_for_hits("book", 3)[2]
        page.shows(in_good_time(again) | {"fence": 2})  # it may have been claimed more often
    assert project.end(run)["status"] == "completed"


def test_rules(project: Project, tmp_path: Path) -> None:
    url = {"https://shop.example.com/refund": project.tools.tool(project.tool_key("refund"))}
    with Story("docs/reference/rules.md", project.client, tmp_path, url) as page:
        page.http()
    free = project.run(**ASK, tools=["refund"], context={"shop": "eu"})
    assert free["status"] == "completed"
    assert [hit.arguments["amount"] for hit in project.hits("refund")] == [50]


def test_guardrails(project: Project, tmp_path: Path) -> None:
    project.tool("refund", Behaviour("return", value={"refund": "R-1"}), **REFUND)
    port = f"{free_port()}"
    here = {"9100": port, "https://guards.example.com/refunds": told(project, {"action": "allow"})}
    with Story("docs/how-to/guardrails.md", project.client, tmp_path, here) as page:
        assert len(page.http()["guardrails"]) == 1
        page.serve(until="Listening on")
        large: Json = {**ASK, "tools": ["refund"], "input": 'refund(order="A-1", amount=5000)'}
        run = project.settle(project.client.call("POST", "/v1/runs", large))
        [rejected] = of_type(project.client.events(run["id"]), "tool_call.rejected")
        assert rejected["output"] == "Refunds above 1000 go through the bank."
        page.elsewhere("test_plugins.py")


def test_hooks(project: Project, tmp_path: Path) -> None:
    with Story("docs/how-to/hooks.md", project.client, tmp_path) as page:
        assert [hook["on"] for hook in page.http()["hooks"]] == ["after_tool"]
        changes_calls(project, json.loads(page.take("json").text))
        page.elsewhere("test_plugins.py")
        page.elsewhere("test_plugins.py")


def changes_calls(project: Project, answer: Json) -> None:
    """Two calls of a model become the three calls of the answer."""
    project.client.call("PUT", "/v1/policy", {})
    order: Json = {"type": "object", "properties": {"order": {"type": "string"}}}
    project.tool("lookup_order", parameters=order)
    project.tool("notify", parameters=order)
    project.tool("refund", **REFUND)
    hook = {"on": "after_model", "type": "webhook", "url": told(project, answer, {})}
    asked = 'lookup_order(order="A-1017") refund(order="A-1017", amount=500)'
    tools = ["lookup_order", "notify", "refund"]
    run = project.client.call(
        "POST",
        "/v1/runs",
        {"model": "offline:rules", "input": asked, "tools": tools, "hooks": [hook]},
    )
    assert project.settle(run)["status"] == "completed"
    made = [(one["tool"], one["arguments"]) for one in project.client.tool_calls(run["id"])]
    assert made == [
        ("lookup_order", {"order": "A-1017"}),
        ("refund", {"order": "A-1017", "amount": 50}),
        ("notify", {"order": "A-1017"}),
    ]


def test_guardrail_and_hook_requests(project: Project, tmp_path: Path) -> None:
    project.tool("refund", Behaviour("return", value={"refund": "R-1"}), **REFUND)
    guard = {"stage": "output", "type": "webhook", "url": told(project, {"action": "allow"})}
    agent = {"name": "clerk", "model": "offline:rules", "tools": ["refund"], "guardrails": [guard]}
    project.client.call("POST", "/v1/agents", agent)
    asked: Json = {"agent": "clerk", "input": ASK["input"], "context": {"tier": "gold"}}
    project.settle(project.client.call("POST", "/v1/runs", asked))
    request_to_guardrail = first(project, "guardrail", "told").body

    card = {"card": "4111 1111 1111 1111"}
    order: Json = {"type": "object", "properties": {"order": {"type": "string"}}}
    made = project.tool("lookup_order", Behaviour("return", value=card), parameters=order)
    for timeout in (5, 6):
        made = project.client.call("PATCH", "/v1/tools/lookup_order", {"timeout_seconds": timeout})
    assert made["version"] == 3
    hook = {"on": "after_tool", "type": "webhook", "url": told(project, {})}
    changes = {"tools": ["lookup_order"], "guardrails": [], "hooks": [hook]}
    project.client.call("PATCH", "/v1/agents/clerk", changes)
    asked = {"agent": "clerk", "input": 'lookup_order(order="A-1017")'}
    project.settle(project.client.call("POST", "/v1/runs", asked))

    with Story("docs/reference/guardrail-requests.md", project.client, tmp_path) as page:
        page.shows(request_to_guardrail)
        page.shows(first(project, "hook", "told").body)


def told(project: Project, *answers: Json) -> str:
    """Return the address of a guardrail or hook that gives these answers."""
    behaviours = [Behaviour("return", value=one) for one in answers]
    return project.tools.tool(project.tool_key("told"), *behaviours)


def test_hosted_tools(project: Project, tmp_path: Path) -> None:
    assert project.running.providers is not None
    command = "curl -s https://shop.example.com/orders | wc -l"
    project.running.providers.responses.script(
        project.model_name(), answer(*hosted_shell(command, "12\n"), Text("12 orders."))
    )
    project.client.call("PUT", "/v1/secrets/SHOP_KEY", {"value": "sk-0123456789"})
    here = {"gpt-5.2": project.model_name()}
    with Story("docs/how-to/hosted-tools.md", project.client, tmp_path, here) as page:
        assert page.http()["hosted"]["kind"] == "web_search"
        assert page.http()["hosted"]["kind"] == "shell"
        run = page.http()
        assert run["output"] == "12 orders."
        items = project.client.items(run["id"])
        page.shows(next(one for one in items if one["type"] == "hosted_call"))
        assert page.http()["approval"] == {"when": "args.name != 'find_customer'"}
        assert page.http()["hosted"]["secrets"] == {"authorization": "CRM_TOKEN"}


def test_executors(project: Project, tmp_path: Path) -> None:
    here = {
        f"https://tools.example.com/{kind}": project.tools.url_of(project.tool_key(kind))
        for kind in ("shell", "computer")
    }
    with Story("docs/how-to/executors.md", project.client, tmp_path, here) as page:
        assert page.http()["approval"] == "always"
        page.elsewhere("test_plugins.py")
        printed = page.json()
        project.tools.tool(project.tool_key("shell"), Behaviour("return", value=printed))
        asked = 'shell(commands=["pytest"])'
        run = project.run(model="offline:rules", tools=["shell"], input=asked)
        project.client.decide(run["required_actions"][0]["approval_id"], "approve")
        project.end(run)
        [call] = project.client.tool_calls(run["id"])
        assert (call["outcome"], call["output"]) == ("completed", printed)
        assert "1280 by 800 pixels" in page.http()["description"]
