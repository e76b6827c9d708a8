"""The page for operators, on servers of its own: roles, backups, a restore, a migration, and a
failover by hand."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
BACKUP = "base-20261124-000000"
"""As the page names the base backup."""
SYNCHRONOUS = "ALTER SYSTEM SET synchronous_standby_names = '*'"
"""Applies to servers that are started with a copy of the configuration."""
IN_RECOVERY = "SELECT pg_is_in_recovery()"
AS_ACCOUNT = ("pg_basebackup", "pg_verifybackup", "pg_archivecleanup", "cp", "touch", "pg_ctl")


@dataclass
class Machine:
    """The servers of the page, and what its texts are here."""

    primary: PostgresServer
    restored: PostgresServer
    standby: PostgresServer
    replaced: dict[str, str]
    env: dict[str, str]


@pytest.fixture
def machine(own: Own) -> Iterator[Machine]:
    programs = postgres_15()
    with postgres(programs) as primary:
        folder = primary.folder.parent
        restored = PostgresServer(programs, folder)
        restored.data = folder / "restored"
        standby = PostgresServer(programs, folder / "standby")
        replaced = {
            "--owner postgres --group postgres": _ownership(),
            "/var/backups/runward": str(folder / "backups"),
            "/var/lib/postgresql/15": str(folder),
            BACKUP: BACKUP,
            MOMENT: MOMENT,
        }
        env = {
            "PATH": os.pathsep.join([str(programs), str(Path(sys.executable).parent), _PATH]),
            "ADMIN_URL": _url(primary, ACCOUNT, "postgres"),
            "OWNER_URL": _url(primary, "runward_owner"),
            "RESTORED_URL": _url(restored, "runward_app"),
            "STANDBY_URL": _url(standby, ACCOUNT, "postgres"),
            "RUNWARD_SECRET_KEY": own.env["RUNWARD_SECRET_KEY"],
        }
        try:
            yield Machine(primary, restored, standby, replaced, env)
        finally:
            restored.stop()
            standby.stop()


def test_operations(own: Own, machine: Machine, tmp_path: Path) -> None:
    """A run whose tool call is in flight at the restored moment does not repeat its effect. A copy
    of the restored server is a standby until it is promoted."""
    texts, log = machine.replaced, machine.restored.folder / "restored.log"
    with (
        environment() as here,
        Story("docs/how-to/operations.md", own.client, tmp_path, texts, machine.env) as page,
    ):
        page.run("\n".join(_functions(machine.restored)))
        for _ in ("path", "roles", "migration", "row-level security", "without it"):
            shown = page.sh()
        assert "Row-level security is disabled." in shown
        page.run('DATABASE_URL="$OWNER_URL" python -m runward row-level-security enable')
        page.sh()
        page.not_run()
        machine.primary.stop()
        machine.primary.start()
        machine.primary.execute(SYNCHRONOUS)
        texts[BACKUP] = Path(page.variable("backup")).name
        page.sh()
        texts[MOMENT], open_run, later_run = _work(here, machine.primary)
        assert "last_archived_time" in page.sh()
        page.not_run()
        page.not_run()
        machine.primary.stop()
        page.sh()
        try:
            page.sh()
        except AssertionError as error:
            error.add_note(log.read_text("utf-8") if log.exists() else "The server has no log.")
            raise
        assert [line.split(",")[0] for line in page.sh().splitlines()[1:]] == [open_run]
        machine.restored.execute("CREATE TABLE a_commit ()")
        machine.restored.execute(SYNCHRONOUS)
        machine.standby.copy_from(machine.restored)
        machine.standby.start()
        _continue(here, machine.restored, open_run, later_run)
        page.run(f"OWNER_URL={_url(machine.restored, 'runward_owner')}")
        page.sh()
        page.not_run()
        assert machine.standby.execute(IN_RECOVERY) == "t"
        machine.restored.stop()
        page.sh()
        assert machine.standby.execute(IN_RECOVERY) == "f"
        machine.standby.execute("DROP TABLE a_commit")


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
