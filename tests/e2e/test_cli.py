"""The command line against a real Runward: what it prints, what it does, how it ends."""

import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from runward.cli.approvals import send_decision
from runward.cli.connection import JsonBody, connect
from tests.e2e.command_line import CommandLine, editor
from tests.e2e.conftest import Golden
from tests.e2e.tcp_relay import TcpRelay
from tests.support.models.chat_server import Answer
from tests.support.services.client import Client
from tests.support.serving import Hold
from tests.support.tools.server import ToolServer

pytestmark = pytest.mark.timeout(180)

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202egpj.exe\u200b\x9b31m"


@dataclass(frozen=True, slots=True)
class OneTool:
    """A test's own, on the server of all."""

    server: ToolServer
    key: str

    @property
    def url(self) -> str:
        return self.server.url_of(self.key)

    def arguments(self) -> list[JsonBody]:
        """Of its calls."""
        return [hit.body["arguments"] for hit in self.server.hits(self.key)]


@pytest.fixture(scope="module")
def tool_server() -> Iterator[ToolServer]:
    with ToolServer() as server:
        yield server


@pytest.fixture
def tool(tool_server: ToolServer) -> OneTool:
    made = OneTool(tool_server, f"pay-{uuid4().hex}")
    tool_server.tool(made.key)
    return made


def asked(client: Client, tool: OneTool, *, x: str = "1") -> tuple[str, str]:
    """A run that waits for a decision about `pay(x=…)`: its id and the approval's."""
    client.register_tool("pay", tool.url, approval="always")
    said = f"pay(x={json.dumps(x)})"
    run = client.start_run(model="offline:rules", tools=["pay"], input=said, wait=20)
    assert run["status"] == "requires_action"
    return run["id"], run["required_actions"][0]["approval_id"]


def test_a_run_is_started_edited_by_a_person_and_watched_to_its_end(
    client: Client, runward: CommandLine, tool: OneTool, tmp_path: Path
) -> None:
    client.register_tool("pay", tool.url, approval="always")
    started = runward(
        "runs", "start", 'pay(x="9")', "-m", "offline:rules", "--tool", "pay", "--until-idle"
    )
    assert started.code == 0, started.err
    assert '→ pay {"x": "9"}' in started.out
    assert "● waiting for approval of pay" in started.out
    [run_id] = set(re.findall(r"run_[0-9a-f]{32}", started.out))
    [approval_id] = set(re.findall(r"apr_[0-9a-f]{32}", started.out))
    assert approval_id in runward("approvals", "list").out

    decided = runward(
        "approvals",
        "decide",
        typed="e\ny\ny\n",
        EDITOR=editor(tmp_path, "{broken", {"x": "5"}),
    )
    assert decided.code == 0, decided.err
    assert "The text is not valid JSON" in decided.err
    assert json.loads((tmp_path / "given-0").read_text()) == {"x": "9"}
    assert '-  "x": "9"\n+  "x": "5"\n' in decided.out
    for shown in (approval_id, run_id, 'pay(x="9")', tool.url):
        assert shown in decided.out
    assert f"{approval_id} edited" in decided.out
    assert tool.arguments() in ([], [{"x": "5"}])

    watched = runward("runs", "watch", run_id)
    assert watched.code == 0, watched.err
    assert watched.out.splitlines()[-1] == "● completed"
    assert tool.arguments() == [{"x": "5"}]
    shown = runward("runs", "show", run_id).out
    assert re.search(r"^status +completed$", shown, re.M)
    assert re.search(r'^call_1 +pay +completed +\{"x": "5"\}', shown, re.M)
    assert runward.json("runs", "show", run_id)["tool_calls"][0]["outcome"] == "completed"
    assert [run["id"] for run in runward.json("runs", "list", "--status", "completed")] == [run_id]
    assert "There are no pending approvals" in runward("approvals", "decide").err


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (["-d", "approve"], "approved"),
        (["-d", "reject", "-m", "too much"], "rejected"),
        (["-d", "edit", "--arguments", '{"x": "2"}'], "edited"),
        (["-d", "respond", "--output", '{"paid": false}'], "responded"),
    ],
)
def test_a_program_decides_with_options(
    client: Client, runward: CommandLine, tool: OneTool, options: list[str], status: str
) -> None:
    run_id, approval_id = asked(client, tool)
    [decided] = runward.json("approvals", "decide", approval_id, *options)
    assert decided["status"] == status
    assert client.settle(run_id)["status"] == "completed"
    other = "approve" if status == "rejected" else "reject"
    again = runward("approvals", "decide", approval_id, "-d", other)
    assert again.code == 4
    assert "already" in again.err


def test_a_person_decides_about_all_that_waits_one_after_the_other(
    client: Client, runward: CommandLine, tool: OneTool
) -> None:
    client.register_tool("pay", tool.url, approval="always")
    said = 'pay(x="1") pay(x="2") pay(x="3")'
    run = client.start_run(model="offline:rules", tools=["pay"], input=said, wait=20)
    done = runward("approvals", "decide", typed="r\ntoo much\ns\npaid by hand\na\n")
    assert done.code == 0, done.err
    ended = client.settle(run["id"])
    assert ended["status"] == "completed"
    assert tool.arguments() == [{"x": "3"}]
    decided = client.approvals(status=None, run_id=run["id"])
    assert {one["status"]: one["arguments"]["x"] for one in decided} == {
        "rejected": "1",
        "responded": "2",
        "approved": "3",
    }
    assert {one["message"] for one in decided} == {"too much", None}
    assert "paid by hand" in ended["output"]


def test_a_decision_is_bound_to_the_arguments_that_were_shown(
    client: Client, runward: CommandLine, tool: OneTool
) -> None:
    _, approval_id = asked(client, tool)
    approval = client.call("GET", f"/v1/approvals/{approval_id}")
    with connect(runward.url, runward.key) as service:
        sent: list[bytes] = []

        def keep(request: httpx2.Request) -> None:
            sent.append(request.content)

        service.http.event_hooks = {"request": [keep]}
        send_decision(service, approval, {"decision": "approve"})
    assert json.loads(sent[0])["digest"] == approval["digest"]


def test_a_run_s_further_fields_come_from_options_and_a_file(
    client: Client, runward: CommandLine, tmp_path: Path
) -> None:
    session = client.call("POST", "/v1/sessions", {})["id"]
    (tmp_path / "run.yaml").write_text("metadata: {team: shop}\nlimits: {max_tool_calls: 3}\n")
    (tmp_path / "context.json").write_text('{"user": 7}')
    words = ["runs", "start", "-", "-m", "offline:rules", "-f", "run.yaml", "--max-turns", "2"]
    words += ["--context", "@context.json", "--session", session, "--idempotency-key", "once"]
    run = runward.json(*words, typed="hello")
    assert runward.json(*words, typed="hello")["id"] == run["id"]
    assert (run["metadata"], run["context"]) == ({"team": "shop"}, {"user": 7})
    assert run["session_id"] == session
    assert "hello" in client.settle(run["id"])["output"]


def test_child_runs_are_watched_too(client: Client, runward: CommandLine) -> None:
    for name in ("north", "south"):
        client.call("POST", "/v1/agents", {"name": name, "model": "offline:rules"})
    run = client.start_run(kind="parallel", agents=["north", "south"], input="hello")
    watched = runward("runs", "watch", run["id"], "--children", "--json")
    assert watched.code == 0, watched.err
    events = [json.loads(line) for line in watched.out.splitlines()]
    assert len({event["run_id"] for event in events}) == 3
    told = runward("runs", "watch", run["id"], "--children").out.splitlines()
    assert told[-1] == "● completed"
    assert sum(line.endswith("] ● completed") for line in told) == 2


def test_a_person_may_decide_later(client: Client, runward: CommandLine, tool: OneTool) -> None:
    _, approval_id = asked(client, tool)
    done = runward("approvals", "decide", approval_id, typed="x\nn\n")
    assert done.code == 0
    assert "(a)pprove" in done.err
    assert client.call("GET", f"/v1/approvals/{approval_id}")["status"] == "pending"


def test_an_edit_that_changes_nothing_decides_nothing(
    client: Client, runward: CommandLine, tool: OneTool, tmp_path: Path
) -> None:
    _, approval_id = asked(client, tool)
    done = runward(
        "approvals", "decide", approval_id, typed="e\nn\n", EDITOR=editor(tmp_path, {"x": "1"})
    )
    assert "The arguments were not changed." in done.err
    assert client.call("GET", f"/v1/approvals/{approval_id}")["status"] == "pending"


def test_a_watcher_whose_connection_breaks_misses_nothing_and_repeats_nothing(
    golden: Golden, client: Client, tmp_path: Path
) -> None:
    hold = Hold()
    words = "one two three four five six"
    golden.model.script("cut-off", Answer(text=words, pieces=6, hold=hold, hold_after=4))
    run = client.start_run(model="openai:cut-off")
    with TcpRelay(client.url) as relay:
        runward = CommandLine(tmp_path, relay.url, client.key)
        told, events = (
            runward.begin("runs", "watch", run["id"], *options) for options in ([], ["--json"])
        )
        try:
            assert told.stdout is not None and events.stdout is not None
            hold.arrived()
            piece = ""
            while "on" not in piece:  # of the first word: it has got live text
                piece += told.stdout.read(1)
            lines = [events.stdout.readline()]
            while json.loads(lines[-1])["type"] != "message.delta":
                lines.append(events.stdout.readline())
            former = relay.cut()
            assert former >= 2
            while (again := json.loads(events.stdout.readline()))["type"] != "message.delta":
                lines.append(json.dumps(again))
            assert again["data"]["offset"] == 0
            relay.wait_for(2 * former)
            hold.release()
            shown, rest = told.stdout.read(), events.stdout.read()
            assert (told.wait(60), events.wait(60)) == (0, 0), shown
        finally:
            for process in (told, events):
                process.kill()
                process.communicate()
    assert f"\n  {words}\n" in piece + shown
    assert (piece + shown).splitlines()[-1] == "● completed"
    found = [json.loads(line) for line in [*lines, *rest.splitlines()]]
    numbers = [event["sequence"] for event in found if "sequence" in event]
    assert numbers == list(range(1, len(numbers) + 1))
    assert found[-1]["type"] == "run.completed"


def test_what_strangers_wrote_never_reaches_the_terminal_s_controls(
    client: Client, runward: CommandLine, tool: OneTool
) -> None:
    run_id, approval_id = asked(client, tool, x=HOSTILE)
    shown = [
        runward("approvals", "list"),
        runward("approvals", "decide", approval_id, typed="n\n"),
        runward("runs", "show", run_id),
        runward("runs", "calls", run_id),
        runward("runs", "list"),
        runward("runs", "watch", run_id, "--until-idle"),
        runward("runs", "show", run_id, "--json"),
    ]
    for done in shown:
        assert done.code == 0, done.err
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202e]", done.out + done.err)
    assert "\\u001b[2J" in shown[1].out


def test_how_commands_end(client: Client, runward: CommandLine, tmp_path: Path) -> None:
    missing = runward("runs", "show", f"run_{'0' * 32}")
    assert (missing.code, missing.out) == (1, "")
    assert "run_not_found" in missing.err

    failed = runward("runs", "start", "x", "-m", "openai:unscripted", "--watch")
    assert failed.code == 1
    assert "● failed" in failed.out

    assert runward("runs", "strat").code == 2
    assert runward("runs", "start", "x", "--context", "[1]").code == 2

    nobody = CommandLine(tmp_path, "http://127.0.0.1:9", "rw_x")("runs", "list")
    assert nobody.code == 3
    assert "RUNWARD_URL" in nobody.err

    down = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none", "RUNWARD_SECRET_KEY": "x" * 32}
    lost = CommandLine(tmp_path).run_fork("keys", "list", "--on-database", **down)
    assert lost.code == 3
    assert "refuses connections" in lost.err

    wrong = CommandLine(tmp_path, client.url, "rw_wrong")("runs", "list")
    assert wrong.code == 4
    assert "RUNWARD_KEY" in wrong.err
    refused = runward("runs", "start", "x", "-m", "nobody:knows")
    assert refused.code == 4
    invalid = runward("runs", "start", "x", "-m", "offline:rules", "--tool", "no tool")
    assert (invalid.code, "tools" in invalid.err) == (4, True)


def test_the_key_that_is_kept_here_is_sent_to_this_machine_alone(
    client: Client, tmp_path: Path
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "api-key").write_text(client.key + "\n")
    kept = {"RUNWARD_DATA_DIR": str(tmp_path / "kept")}
    assert CommandLine(tmp_path, client.url)("runs", "list", **kept).code == 0
    elsewhere = CommandLine(tmp_path, "http://runward.example:8080")("runs", "list", **kept)
    assert elsewhere.code == 2
    assert "No API key is set for http://runward.example:8080" in elsewhere.err


def test_a_run_is_cancelled_and_that_is_a_failure_to_who_watches(
    client: Client, runward: CommandLine, tool: OneTool
) -> None:
    run_id, _ = asked(client, tool)
    assert runward("runs", "cancel", run_id).out == f"{run_id} cancelled\n"
    watched = runward("runs", "watch", run_id, "--after", "1")
    assert watched.code == 1
    assert watched.out.splitlines()[-1] == "● cancelled"


def test_the_content_of_a_run_is_erased(
    client: Client, runward: CommandLine, tool: OneTool
) -> None:
    run_id, _ = asked(client, tool)
    assert runward("runs", "delete", run_id, "--yes").out == f"{run_id} was deleted.\n"
    shown = runward("runs", "show", run_id)
    assert (shown.code, "cancelled" in shown.out, "erased" in shown.out) == (0, True, True)
    assert runward.json("runs", "show", run_id)["tool_calls"] == []


def test_a_watcher_is_interrupted_and_the_run_is_not(
    client: Client, runward: CommandLine, tool: OneTool
) -> None:
    run_id, _ = asked(client, tool)
    process = runward.begin("runs", "watch", run_id)
    try:
        assert process.stdout is not None and process.stderr is not None
        while "waiting" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.communicate()
    assert client.get_run(run_id)["status"] == "requires_action"


def test_tools_are_registered_shown_and_tried(
    runward: CommandLine, tool: OneTool, tmp_path: Path
) -> None:
    (tmp_path / "ship.yaml").write_text(
        "name: ship\n"
        "description: Ship an order.\n"
        f"url: {tool.url}\n"
        "parameters: {type: object, properties: {x: {type: string}}, required: [x],"
        " additionalProperties: false}\n"
    )
    made = runward("tools", "register", "-f", "ship.yaml", "--approval", "args.x == '9'")
    assert made.code == 0, made.err
    assert re.search(r"^secret  whsec_\S+$", made.out, re.M)
    assert runward.json("tools", "show", "ship")["approval"] == {"when": "args.x == '9'"}
    assert "Ship an order." in runward("tools", "show", "ship").out
    assert [tool["name"] for tool in runward.json("tools", "list")] == ["ship"]
    assert runward("tools", "register", "-f", "ship.yaml").code == 4
    tried = runward("tools", "test", "ship", '{"x": "1"}')
    assert tried.code == 0, tried.err
    assert re.search(r"^outcome  completed$", tried.out, re.M)

    gone = runward(
        "tools",
        "register",
        "gone",
        *("--to", "http://127.0.0.1:9/gone"),
        *("--parameters", '{"type": "object", "additionalProperties": false}'),
    )
    assert gone.code == 0, gone.err
    assert runward.json("tools", "test", "gone", code=1)["outcome"] == "failed"


def test_keys_are_made_listed_and_revoked(client: Client, runward: CommandLine) -> None:
    made = runward("keys", "create", "bot", "--scope", "runs:read", "--expires-in-days", "2")
    secret = made.out.strip()
    with Client(client.url, secret) as bot:
        assert bot.call("GET", "/v1/runs")["data"] == []
    [key] = [one for one in runward.json("keys", "list") if one["name"] == "bot"]
    assert key["scopes"] == ["runs:read"]
    assert key["expires_at"] is not None
    assert key["id"] in made.err
    assert runward("keys", "revoke", key["id"]).code == 0
    assert re.search(rf"^{key['id']} +revoked +bot", runward("keys", "list").out, re.M)
    assert runward("keys", "create", "bot").code == 2


def test_the_workers_are_listed(golden: Golden, tmp_path: Path) -> None:
    service = golden.started[0]
    runward = CommandLine(tmp_path, service.url, service.key)
    [worker] = runward.json("workers")
    columns = rf"^{worker['id']} +{worker['version']} +{worker['host']} +\d+ of 256 +\d"
    assert re.search(columns, runward("workers").out, re.M)


def test_the_retention_is_shown(golden: Golden, tmp_path: Path) -> None:
    service = golden.started[0]
    runward = CommandLine(tmp_path, service.url, service.key)
    kept = {one["data_class"]: one["days"] for one in runward.json("retention")}
    forever = dict.fromkeys(("runs", "events", "tool_call_content", "audit"))
    assert kept == {**forever, "deliveries": 30}
    assert re.search(r"^deliveries +30 \(default\) +forever$", runward("retention").out, re.M)
    found = runward.json("retention", "--dry-run")
    assert {one["data_class"]: one["rows"] for one in found} == dict.fromkeys(kept, 0)
    assert re.search(r"^runs +0", runward("retention", "--dry-run").out, re.M)


def test_the_audit_log_is_exported_and_verified(golden: Golden, tmp_path: Path) -> None:
    service = golden.started[0]
    runward = CommandLine(tmp_path, service.url, service.key)
    assert runward("keys", "create", "größer\u202e", "--scope", "runs:read").code == 0
    file, offline = tmp_path / "audit.jsonl", CommandLine(tmp_path)
    exported = runward("audit", "export")
    assert exported.out.isascii()
    entries = [json.loads(line) for line in exported.out.splitlines()]
    assert entries[-1]["after"]["name"] == "größer\u202e"
    assert runward("audit", "export", "--output", str(file)).code == 0
    assert file.read_text() == exported.out
    head = runward.json("audit", "head")
    assert (head["number"], head["hash"]) == (len(entries), entries[-1]["hash"])
    assert runward("audit", "head").out == f"{head['hash']}\n"
    verified = offline("audit", "verify", str(file), "--head", head["hash"])
    assert verified.code == 0
    assert f"The last hash is {head['hash']}." in verified.out.splitlines()
    rest = runward("audit", "export", "--after", str(head["number"] - 1)).out
    assert [json.loads(rest)] == entries[-1:]
    file.write_text(exported.out.replace('"name":"ci"', '"name":"cj"').replace("runs:read", "x"))
    broken = offline("audit", "verify", str(file))
    assert (broken.code, broken.err.startswith("Line ")) == (1, True)
    assert runward("audit", "export", "--output", str(tmp_path / "no/file")).code == 2


def test_the_first_key_is_made_on_the_database(golden: Golden, tmp_path: Path) -> None:
    service = golden.started[0]
    env = {"DATABASE_URL": service.database_url, "RUNWARD_SECRET_KEY": service.secret_key}
    runward = CommandLine(tmp_path)
    made = runward.run_fork("keys", "create", "first", "--on-database", **env)
    assert made.code == 0, made.err
    [key_id] = re.findall(r"key_[0-9a-f]{32}", made.err)
    secret = made.out.strip()
    assert CommandLine(tmp_path, service.url, secret)("runs", "list").code == 0
    listed = runward.run_fork("keys", "list", "--on-database", **env).out
    assert re.search(rf"^{key_id} +active +first", listed, re.M)
    found = json.loads(runward.run_fork("keys", "list", "--on-database", "--json", **env).out)
    assert found[0]["id"] == key_id
    assert found[0] in CommandLine(tmp_path, service.url, secret).json("keys", "list")
    assert runward.run_fork("keys", "revoke", key_id, "--on-database", **env).code == 0


def test_what_is_said_of_runward_itself_is_said_to_programs_too(
    golden: Golden, tmp_path: Path
) -> None:
    runward = CommandLine(tmp_path)
    migrated = runward.run_fork("migrate", "--json", DATABASE_URL=golden.started[0].database_url)
    assert json.loads(migrated.out) == {"up_to_date": True}
    providers = runward.json("models")
    assert (providers["openai"]["images"], providers["openai"]["setting reasoning.summary"]) == (
        "yes",
        "-",
    )
    assert re.fullmatch(r"runward \d+\.\d+\.\d+\n", runward("--version").out)
    assert json.loads(runward("openapi").out)["info"]["title"] == "Runward"


def test_colours_are_for_terminals_and_not_with_no_color(runward: CommandLine) -> None:
    runward("runs", "start", "hello", "-m", "offline:rules", "--watch")
    shown = {}
    for name, env in (("plain", {"NO_COLOR": "1"}), ("coloured", {})):
        ours, theirs = pty.openpty()
        done = subprocess.run(
            runward.command("runs", "list"),
            cwd=runward.folder,
            env=runward.environment(TERM="xterm-256color", COLUMNS="200", **env),
            stdin=theirs,
            stdout=theirs,
            check=True,
        )
        assert done.returncode == 0
        os.close(theirs)
        shown[name] = os.read(ours, 100_000).decode()
        os.close(ours)
    assert "\x1b[32mcompleted" in shown["coloured"]
    assert "\x1b[32m" not in shown["plain"]
    assert "\x1b" not in runward("runs", "list").out


def test_shells_complete_commands_and_what_runward_has(
    client: Client, runward: CommandLine, tool: OneTool, tmp_path: Path
) -> None:
    """As a shell asks."""

    def completed(command: CommandLine, line: str) -> list[str]:
        position = str(line.count(" "))
        asked = {"_RUNWARD_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": position}
        done = command(**asked)
        assert done.err == ""
        return done.out.split()

    _, approval_id = asked(client, tool)
    assert completed(runward, "runward approvals ") == ["list", "decide"]
    assert completed(runward, "runward approvals decide ") == [approval_id]
    assert completed(runward, "runward tools show p") == ["pay"]
    assert completed(runward, "runward tools show x") == []
    nobody = CommandLine(tmp_path, "http://127.0.0.1:9", "rw_x")
    assert completed(nobody, "runward tools show p") == []
