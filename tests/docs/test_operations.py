"""The page for operators, on a server of its own: roles, a backup, and a restore to a moment."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import make_url

from runward.store.postgres.embedded_home import ensure_service_account
from tests.docs.conftest import Own
from tests.docs.story import Story
from tests.environments.processes import Environment, Process, environment
from tests.environments.servers import ACCOUNT, DRIVER, PostgresServer, postgres, postgres_15
from tests.support.models.chat_server import Call, calls, text
from tests.support.services.client import Client
from tests.support.tools.server import Behaviour

pytestmark = pytest.mark.timeout(180)
MOMENT = "2026-11-24 03:00:00+00"
"""As the page writes the moment to which it restores."""
AS_ACCOUNT = ("pg_basebackup", "cp", "touch", "pg_ctl")


def test_operations(own: Own, tmp_path: Path) -> None:
    """A run whose tool call is in flight at the restored moment does not repeat its effect."""
    programs = postgres_15()
    with postgres(programs) as server, environment() as here:
        folder = server.folder.parent
        restored = PostgresServer(programs, folder)
        restored.data = folder / "restored"
        replaced = {
            "--owner postgres --group postgres": _ownership(),
            "/var/backups/runward": str(folder / "backups"),
            "/var/lib/postgresql/15": str(folder),
        }
        env = {
            "PATH": os.pathsep.join([str(programs), str(Path(sys.executable).parent), _PATH]),
            "ADMIN_URL": _url(server, ACCOUNT, "postgres"),
            "OWNER_URL": _url(server, "runward_owner"),
            "RESTORED_URL": _url(restored, "runward_app"),
            "RUNWARD_SECRET_KEY": own.env["RUNWARD_SECRET_KEY"],
        }
        try:
            with Story("docs/how-to/operations.md", own.client, tmp_path, replaced, env) as page:
                page.run("\n".join(_functions(restored)))
                page.sh()
                page.sh()
                page.sh()
                page.sh()
                server.stop()
                server.start()
                page.sh()
                replaced[MOMENT], open_run, later_run = _work(here, server)
                page.sh()
                page.sh()
                listed = page.sh()
            assert f"{UUID(open_run.removeprefix('run_'))}" in listed
            _continue(here, restored, open_run, later_run)
        except AssertionError as error:
            log = folder / "restored.log"
            error.add_note(log.read_text("utf-8") if log.exists() else "The server has no log.")
            raise
        finally:
            restored.stop()


def _work(here: Environment, server: PostgresServer) -> tuple[str, str, str]:
    """Return a moment at which a tool call is in flight, its run, and a run that starts later."""
    here.model.by_turn("clerk", calls(Call("c1", "pay", '{"x":"1"}')), text("done"))
    with _client(here, server) as client:
        url = here.tools.tool("pay", Behaviour(hold="paying"))
        client.register_tool("pay", url, idempotent=False)
        run = client.start_run(model="openai:clerk", tools=["pay"])["id"]
        here.tools.hold("paying").arrived(1)
        moment = server.execute("SELECT clock_timestamp()")
        here.tools.hold("paying").release()
        assert client.settle(run)["status"] == "completed"
        later = client.start_run(model="offline:rules")["id"]
        assert client.settle(later)["status"] == "completed"
    for service in here.services:
        service.close()
    last = server.execute("SELECT pg_walfile_name(pg_switch_wal())")
    server.until(f"SELECT last_archived_wal >= '{last}' FROM pg_stat_archiver", "t")
    server.stop()
    return moment, run, later


def _continue(here: Environment, restored: PostgresServer, run: str, later: str) -> None:
    with _client(here, restored) as client:
        assert client.settle(run)["status"] == "completed"
        types = [event["type"] for event in client.events(run)]
        assert "tool_call.outcome_unknown" in types
        assert client.request("GET", f"/v1/runs/{later}").status_code == 404
    assert len(here.tools.hits("pay")) == 1


def _client(here: Environment, server: PostgresServer) -> Client:
    """Of an API that connects, as a worker does, with the role that cannot change the schema."""
    process = Process(_url(server, "runward_app", driver=DRIVER))
    api = here.start("api", process)
    here.start("worker", process)
    return api.client()


_PATH = os.environ["PATH"]


def _ownership() -> str:
    account = ensure_service_account()
    return "" if account is None else f"--owner {account.pw_uid} --group {account.pw_gid}"


def _functions(restored: PostgresServer) -> Iterator[str]:
    """The commands that a reader executes as the account of PostgreSQL. The restored server gets a
    port of its own."""
    account = ensure_service_account()
    ids = "" if account is None else f"--reuid={account.pw_uid} --regid={account.pw_gid}"
    prefix = f"setpriv {ids} --clear-groups " if ids else ""
    options = f"-c port={restored.port} -c max_connections=200 -c unix_socket_directories="
    for name in AS_ACCOUNT:
        more = f" --options '{options}'" if name == "pg_ctl" else ""
        yield f'{name}() {{ command {prefix}{name} "$@"{more}; }}'


def _url(
    server: PostgresServer, role: str, database: str = "runward", driver: str = "postgresql"
) -> str:
    url = make_url(server.url).set(drivername=driver, username=role, database=database)
    return url.render_as_string(hide_password=False)
