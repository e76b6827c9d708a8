"""The commands of what is registered: agents, sessions, tools, MCP servers, secrets."""

import re
import sys
from pathlib import Path

import pytest

from tests.e2e.command_line import CommandLine, in_a_terminal
from tests.support.mcp.oauth_server import AuthServer, ProtectedServer
from tests.support.mcp.server import McpServer
from tests.support.services.client import Client

pytestmark = pytest.mark.timeout(180)

NOWHERE = "http://127.0.0.1:9/gone"
EMPTY = '{"type": "object", "additionalProperties": false}'


def names(runward: CommandLine, group: str) -> list[str]:
    return [one["name"] for one in runward.json(group, "list")]


def test_a_secret_comes_from_standard_input_or_a_prompt_and_is_never_shown(
    runward: CommandLine,
) -> None:
    made = runward("secrets", "put", "CRM_TOKEN", typed="very-secret\n")
    assert (made.code, made.out) == (0, "CRM_TOKEN has version 1.\n")
    again = {"Value: ": "hidden", "confirmation: ": "hidden"}
    code, shown = in_a_terminal(runward, "secrets", "put", "CRM_TOKEN", typed=again)
    assert code == 0, shown
    assert "CRM_TOKEN has version 2." in shown
    assert "hidden" not in shown
    listed = runward("secrets", "list").out
    assert re.search(r"^CRM_TOKEN +2 ", listed, re.M)
    assert runward("secrets", "put", "EMPTY", typed="").code == 2
    assert runward("secrets", "put", "CRM_TOKEN", "on-the-command-line").code == 2

    assert runward("secrets", "delete", "CRM_TOKEN", typed="n\n").code == 1
    assert names(runward, "secrets") == ["CRM_TOKEN"]
    gone = runward.json("secrets", "delete", "CRM_TOKEN", "--yes")
    assert gone == {"name": "CRM_TOKEN", "deleted": True}
    assert names(runward, "secrets") == []
    assert runward("secrets", "delete", "CRM_TOKEN", "--yes").code == 1


def test_a_secret_s_value_loses_one_line_feed_alone(
    client: Client, runward: CommandLine, tmp_path: Path
) -> None:
    """Of two line feeds one is left, which no header may have; of one none."""
    with McpServer() as server:
        (tmp_path / "box.yaml").write_text(
            f"name: box\nurl: {server.url}\nheaders: {{X-Token: {{secret: TOKEN}}}}\n"
        )
        assert runward("secrets", "put", "TOKEN", typed="plain\n\n").code == 0
        assert runward("mcp", "register", "-f", "box.yaml").code == 4
        assert runward("secrets", "put", "TOKEN", typed="plain\n").code == 0
        assert runward("mcp", "register", "-f", "box.yaml").code == 0


def test_an_mcp_server_is_registered_refreshed_and_deleted(runward: CommandLine) -> None:
    with McpServer() as server:
        made = runward("mcp", "register", "box", "--to", server.url, "--prefix", "my")
        assert made.code == 0, made.err
        assert re.search(r"^box has \d+ tools\.$", made.out, re.M)
        assert "  my_echo\n" in made.out
        assert runward.json("mcp", "refresh", "box")["name"] == "box"
    assert runward("mcp", "refresh", "box").code == 4
    listed = runward("mcp", "list").out
    assert re.search(rf"^box +{server.url} ", listed, re.M)
    assert "my_echo" in runward("mcp", "show", "box").out
    assert "my_echo" in names(runward, "tools")
    asked = runward("mcp", "delete", "box", typed="y\n")
    assert "The tools of the server are deleted too." in asked.err
    assert names(runward, "tools") == []
    assert "There are no MCP servers." in runward("mcp", "list").err


def test_a_tool_is_changed_and_deleted(runward: CommandLine) -> None:
    made = runward("tools", "register", "ship", "--to", NOWHERE, "--parameters", EMPTY)
    assert made.code == 0, made.err
    changed = runward("tools", "update", "ship", "--approval", "always", "--description", "Ship.")
    assert changed.out == "ship has version 2.\n"
    tool = runward.json("tools", "show", "ship")
    assert (tool["approval"], tool["description"], tool["url"]) == ("always", "Ship.", NOWHERE)
    assert runward("tools", "update", "ship").code == 2
    assert runward("tools", "delete", "ship", typed="").code == 1
    assert runward("tools", "delete", "ship", "--yes").out == "ship was deleted.\n"
    assert names(runward, "tools") == []


def test_a_name_never_becomes_another_path(client: Client, runward: CommandLine) -> None:
    client.register_tool("keep", NOWHERE)
    for name in ("../tools/keep", "keep?x=1", "keep#x", "keep/"):
        assert runward("tools", "delete", name, "--yes").code in {1, 4}, name
    assert runward("tools", "delete", "", "--yes").code == 2
    assert names(runward, "tools") == ["keep"]


def test_a_session_is_begun_talked_in_shown_and_deleted(
    client: Client, runward: CommandLine
) -> None:
    made = runward("sessions", "create", "--name", "Order A-1017", "--on-conflict", "reject")
    session = made.out.strip()
    start = ["runs", "start", "hello there", "-m", "offline:rules"]
    assert runward(*start, "--session", session, "--watch").code == 0
    assert re.search(rf"^{session} +Order A-1017 +reject ", runward("sessions", "list").out, re.M)
    shown = runward("sessions", "show", session).out
    assert re.search(r"^user +hello there$", shown, re.M)
    assert re.search(r"^assistant  .*hello there", shown, re.M)
    items = runward.json("sessions", "show", session, "--items", "1")["items"]
    assert [item["role"] for item in items] == ["assistant"]
    assert runward("sessions", "delete", session, "--yes").code == 0
    assert runward("sessions", "show", session).code == 1


def test_a_schedule_is_created_paused_resumed_and_deleted(runward: CommandLine) -> None:
    every_day = ["--cron", "0 7 * * *", "--time-zone", "Asia/Tokyo", "-m", "offline:rules"]
    made = runward("schedules", "create", "Report", "Report.", *every_day)
    assert made.code == 0, made.err
    schedule = made.out.strip()
    listed = rf"^{schedule} +Report +0 7 \* \* \* +Asia/Tokyo +active +in "
    assert re.search(listed, runward("schedules", "list").out, re.M)
    assert runward("schedules", "pause", schedule).out == f"{schedule} was paused.\n"
    assert runward.json("schedules", "show", schedule)["next_at"] is None
    assert runward("schedules", "resume", schedule).out == f"{schedule} was resumed.\n"
    shown = runward.json("schedules", "show", schedule)
    assert shown["next_at"].endswith("T22:00:00Z")
    assert shown["run"] == {"model": "offline:rules", "input": "Report."}
    to_eight = ("--cron", "0 8 * * *", "--time-zone", "Europe/Paris", "--overlap", "queue")
    assert runward("schedules", "update", schedule, *to_eight).out == f"{schedule} was updated.\n"
    shown = runward.json("schedules", "show", schedule)
    timing = ("Report", "0 8 * * *", "Europe/Paris", "queue")
    assert tuple(shown[one] for one in ("name", "cron", "time_zone", "overlap")) == timing
    assert runward("schedules", "update", schedule, "--at", "tomorrow").code == 4
    wrong = runward("schedules", "create", "Report", "Report.", "--cron", "0 7", "-m", "a:b")
    assert wrong.code == 4
    assert "cron: must have five fields" in wrong.err
    assert runward("schedules", "delete", schedule, "--yes").code == 0
    assert "There are no schedules." in runward("schedules", "list").err


def test_agents_are_shown_by_version_and_deleted(client: Client, runward: CommandLine) -> None:
    client.call("POST", "/v1/agents", {"name": "desk", "model": "offline:rules"})
    client.call("PATCH", "/v1/agents/desk", {"instructions": "Be brief."})
    assert runward.json("agents", "show", "desk")["instructions"] == "Be brief."
    assert runward.json("agents", "show", "desk", "--version", "1")["instructions"] == ""
    assert re.search(r"^desk +2 +offline:rules", runward("agents", "list").out, re.M)
    assert runward("agents", "delete", "desk", "--yes").out == "desk was deleted.\n"
    assert names(runward, "agents") == []


def test_apply_deletes_what_the_file_does_not_name_if_it_is_told_to(
    client: Client, runward: CommandLine, tmp_path: Path
) -> None:
    for name in ("desk", "old", "older"):
        client.call("POST", "/v1/agents", {"name": name, "model": "offline:rules"})
    (tmp_path / "agents.yaml").write_text("agents: [{name: desk, model: 'offline:rules'}]\n")
    apply = ("agents", "apply", "-f", "agents.yaml")
    assert runward(*apply, "--check").code == 0
    planned = runward(*apply, "--prune", "--check")
    assert planned.code == 2
    assert planned.out.splitlines() == [
        "= desk: unchanged",
        "- old: delete",
        "- older: delete",
        "0 to create, 0 to update, 2 to delete, 1 unchanged.",
    ]
    assert runward(*apply, "--prune", typed="n\n").code == 1
    assert names(runward, "agents") == ["desk", "old", "older"]
    applied = runward.json(*apply, "--prune", "--yes")
    assert [(one["name"], one["action"]) for one in applied["plan"]] == [
        ("desk", "unchanged"),
        ("old", "delete"),
        ("older", "delete"),
    ]
    assert applied["agents"] == [
        {"name": "old", "deleted": True},
        {"name": "older", "deleted": True},
    ]
    assert names(runward, "agents") == ["desk"]


def test_a_person_logs_in_to_an_mcp_server_and_out_again(
    runward: CommandLine, tmp_path: Path
) -> None:
    """The browser is a program that opens the page and prints nothing."""
    browser = f"{sys.executable} {Path(__file__).with_name('opening.py')} %s"
    with AuthServer() as auth, ProtectedServer(auth) as server:
        made = runward("mcp", "register", "box", "--to", server.url, "--login")
        assert (made.code, made.out) == (
            0,
            "To log in to box, run: runward mcp login box\n",
        )
        done = runward("mcp", "login", "box", BROWSER=browser)
        assert (done.code, done.out) == (0, "box has 1 tools.\n  box_whoami\n")
        assert f"Log in on this page:\n\n  {auth.url}/authorize?" in done.err
        assert " logged in " in runward("mcp", "list").out

        assert "Logged out of box." in runward("mcp", "logout", "box").out
        assert " required " in runward("mcp", "list").out
        auth.issuer = "https://evil.example"
        failed = runward("mcp", "login", "box", BROWSER=browser)
        assert failed.code == 1
        assert "The login failed: The response of the authorization server has" in failed.err
        assert "To try again, run: runward mcp login box" in failed.err


def test_a_login_that_is_not_possible_says_what_to_change(runward: CommandLine) -> None:
    with McpServer() as server:
        assert runward("mcp", "register", "open", "--to", server.url).code == 0
    refused = runward("mcp", "login", "open")
    assert refused.code == 2
    assert '"grant_type": "authorization_code"' in refused.err
    assert runward("mcp", "login", "nobody").code == 1


def test_a_budget_is_created_updated_and_deleted(runward: CommandLine) -> None:
    made = runward("budgets", "create", "20", "--on-limit", "ask")
    assert made.code == 0, made.err
    budget = made.out.strip()
    assert re.search(
        rf"^{budget} +all runs +\$20 per day +\$0.00 ", runward("budgets", "list").out, re.M
    )
    changed = runward("budgets", "update", budget, "--limit", "50")
    assert changed.out == f"{budget} was updated.\n"
    shown = runward.json("budgets", "show", budget)
    assert (shown["limit_usd"], shown["on_limit"]) == (50, "ask")
    assert runward("budgets", "create", "0").code == 4
    assert runward("budgets", "delete", budget, "--yes").code == 0
    assert "There are no budgets." in runward("budgets", "list").err


def test_a_webhook_endpoint_is_created_tested_and_deleted(runward: CommandLine) -> None:
    made = runward.json("webhooks", "create", NOWHERE, "--event", "run.completed")
    endpoint = made["id"]
    assert made["secret"].startswith("whsec_")
    rotated = runward("webhooks", "rotate-secret", endpoint).out
    assert re.fullmatch(r"signing secret: whsec_\S+\n", rotated)
    assert made["secret"] not in rotated
    assert runward.json("webhooks", "update", endpoint, "--include-output")["include"] == ["output"]
    assert re.search(
        rf"^{endpoint} +{NOWHERE} +run.completed +enabled", runward("webhooks", "list").out, re.M
    )
    assert "secret" not in runward.json("webhooks", "show", endpoint)
    assert "(disabled)" in runward("webhooks", "update", endpoint, "--disable").out
    changed = runward.json("webhooks", "update", endpoint, "--enable", "--event", "run.failed")
    assert (changed["enabled"], changed["events"]) == (True, ["run.failed"])
    delivery = runward("webhooks", "test", endpoint).out.strip()
    assert [one["id"] for one in runward.json("webhooks", "deliveries", endpoint)] == [delivery]
    assert [one["id"] for one in runward.json("webhooks", "deliveries")] == [delivery]
    again = runward("webhooks", "redeliver", delivery)
    assert again.code == 0, again.err
    assert runward("webhooks", "delete", endpoint, "--yes").code == 0
    assert "There are no webhook endpoints." in runward("webhooks", "list").err
