"""The pages that begin with TypeScript in an empty folder, followed by their commands alone."""

from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.docs.story import Story
from tests.e2e.conftest import Processes
from tests.support.models.chat_server import Call, ModelServer, calls, text
from tests.support.programs import NODE_BINARIES
from tests.support.sdks import EXAMPLE, compile_typescript, run_program
from tests.support.services.client import Client
from tests.support.services.service import ROOT, Service, free_port

pytestmark = pytest.mark.timeout(180)

STOP = "pid=$(cat server.pid); kill $pid; while kill -0 $pid 2>/dev/null; do :; done"


def begin_server(page: Story) -> None:
    """Run the next block until it listens. `STOP` ends it, as Ctrl-C does."""
    command = page.take("sh").text.strip()
    page.begin(f"trap - EXIT; {command} & echo $! >server.pid; wait", "Listening")


def variables(service: Service, model: ModelServer) -> dict[str, str]:
    """Return the variables with which the reader's Runward takes the place of `service`."""
    return {
        "DATABASE_URL": service.database_url,
        "RUNWARD_PORT": service.url.rpartition(":")[2],
        "RUNWARD_BOOTSTRAP_KEY": service.key,
        "RUNWARD_SECRET_KEY": service.secret_key,
        "RUNWARD_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
        "OPENAI_BASE_URL": model.base_url,
    }


def test_the_tutorial(
    start: Processes, model: ModelServer, typescript: Path, tmp_path: Path
) -> None:
    [package] = typescript.glob("*.tgz")
    asked = calls(Call("c1", "issue_credit", '{"customer":"C-42","amount":80}'))
    model.by_turn("gpt-5.2", asked, text("Customer C-42 has a credit."))
    service = start("serve")
    client = start.client(service)
    env = variables(service, model) | {"RUNWARD_ACCESS_LOG": "false"}
    here = {
        "npm install @runward/client": f"npm install --offline --no-audit --no-fund {package}",
        "npm install --save-dev typescript @types/node": f"ln -s {EXAMPLE}/@types node_modules/",
        "npx tsc": str(NODE_BINARIES / "tsc"),
        "sk-…": "sk-test",
        "9300": f"{free_port()}",
    }

    def check(amount: int, status: str) -> None:
        run = client.call("GET", "/v1/runs")["data"][0]
        [call] = client.tool_calls(run["id"])
        assert call["output"] == {"customer": "C-42", "credit": amount}
        [approval] = client.approvals(status=None, run_id=run["id"])
        assert approval["status"] == status

    with Story("docs/tutorials/typescript-approval.md", client, tmp_path, here, env) as page:
        page.run(f"cd {tmp_path}")
        page.sh()
        for _ in range(6):
            page.save_named()
        page.sh()
        page.sh()
        begin_server(page)
        assert "requires_action" in page.sh()
        page.run(STOP)
        service.kill()
        page.run(f"cd {ROOT}")
        page.serve()
        page.run(f"cd {tmp_path}")
        begin_server(page)
        decided = page.sh()
        assert "{ customer: 'C-42', amount: 80 }" in decided
        lines = page.sh().splitlines(keepends=True)
        assert "".join(line for line in lines if "Call call_" not in line) == page.take("text").text
        assert "a credit of 50 for C-42" in "".join([decided, *lines])
        check(50, "edited")

        assert "requires_action" in page.sh()
        [approval] = client.approvals()
        client.decide(approval["id"], "approve")
        assert page.sh().endswith("completed Customer C-42 has a credit.\n")
        check(80, "approved")


def test_the_program_of_the_readme(client: Client, typescript: Path, tmp_path: Path) -> None:
    [program] = [block.text for block in blocks("README.md") if block.language == "ts"]
    (tmp_path / "node_modules").symlink_to(typescript / "node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    file = tmp_path / "refund.ts"
    file.write_text(program.replace("9001", f"{free_port()}"), "utf-8")
    compile_typescript(file)
    run_program(
        *("env", f"RUNWARD_URL={client.url}", f"RUNWARD_KEY={client.key}", "node", "refund.js"),
        cwd=tmp_path,
    )
    [run] = client.call("GET", "/v1/runs")["data"]
    assert run["status"] == "completed"
    [call] = client.tool_calls(run["id"])
    assert call["output"] == {"order": "A-1018", "refunded": 400}
