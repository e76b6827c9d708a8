"""PostgreSQL with automatic failover: etcd, Patroni and haproxy of Debian, each on its hosts."""

# pyright: basic, reportMissingTypeStubs=false
# asyncpg has no types.

import asyncio
import json
import os
import pwd
import shutil
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp
import asyncpg

from tests.drill.network import SUBNET, Network

NODES: Final = ("db1", "db2", "db3")
PROXY: Final = "proxy"
POSTGRES: Final = Path("/usr/lib/postgresql/15/bin")
PROGRAMS: Final = {
    "patroni": "patroni",
    "etcd": "etcd-server",
    "haproxy": "haproxy",
    "ip": "iproute2",
    "setpriv": "util-linux",
    str(POSTGRES / "postgres"): "postgresql-15",
}
"""The Debian package of each program."""
TTL_SECONDS: Final = 20
"""Patroni's lease of the primary, and its smallest. Another node takes over within this time."""
DCS: Final[dict[str, Any]] = {
    "ttl": TTL_SECONDS,
    "loop_wait": 2,
    "retry_timeout": 5,
    "maximum_lag_on_failover": 1 << 20,
    "synchronous_mode": True,
    "postgresql": {
        "use_pg_rewind": True,
        "parameters": {"max_connections": 200, "wal_log_hints": "on", "wal_keep_size": "256MB"},
    },
}
READY_SECONDS: Final = 90.0
ASK_SECONDS: Final = 2.0
COMMITS: Final = 200
ASKING: Final = aiohttp.ClientTimeout(total=ASK_SECONDS)
RUNNING: Final = ("running", "streaming")
PROBE: Final = "INSERT INTO probe VALUES (now())"


class Cluster:
    """`synchronous`: whether a commit waits for a standby."""

    def __init__(self, network: Network, folder: Path, output: Path, *, synchronous: bool) -> None:
        self._network = network
        self._folder = folder
        self._output = output
        self._synchronous = synchronous
        self._nobody = pwd.getpwnam("postgres")

    async def open(self) -> None:
        """Returns when the primary has a standby and clients can write through the proxy."""
        for node in NODES:
            home = self._folder / node
            home.mkdir()
            os.chown(home, self._nobody.pw_uid, self._nobody.pw_gid)
        await asyncio.gather(*(self._start_etcd(node, state="new") for node in NODES))
        await asyncio.gather(*(self._start_patroni(node) for node in NODES))
        configuration = self._folder / "haproxy.cfg"
        configuration.write_text(self._haproxy())
        await self._network.start(
            PROXY, "haproxy", "-db", "-f", str(configuration), output=self._output / "haproxy.log"
        )
        await self._execute(READY_SECONDS, "CREATE TABLE IF NOT EXISTS probe (at timestamptz)")
        await self.healthy()
        await self._execute(READY_SECONDS, "CREATE ROLE runward LOGIN")
        await self._execute(READY_SECONDS, "CREATE DATABASE runward OWNER runward")

    def url(self, name: str) -> str:
        """Of the primary, through the proxy."""
        address = self._network.address(PROXY)
        return f"postgresql://runward@{address}:5432/runward?application_name={name}"

    async def primary(self) -> str:
        """The node that accepts writes. Raises OSError or TimeoutError if there is none."""
        address = await self._execute(ASK_SECONDS, "SELECT host(inet_server_addr())")
        return next(node for node in NODES if self._network.address(node) == address)

    async def write(self) -> None:
        """Wait until a client can write."""
        await self._execute(READY_SECONDS, PROBE)

    async def time_commits(self) -> tuple[float, float]:
        """Return the median milliseconds of a commit on the primary and on its standby, and of one
        on the primary alone."""
        address = self._network.address(PROXY)
        connection = await asyncpg.connect(f"postgresql://postgres@{address}:5432/postgres")
        times: dict[str, list[float]] = {"on": [], "local": []}
        for _ in range(COMMITS):
            for setting, seconds in times.items():
                await connection.execute(f"SET synchronous_commit = {setting}")
                began = time.perf_counter()
                await connection.execute(PROBE)
                seconds.append(time.perf_counter() - began)
        await connection.close()
        return median(times["on"]) * 1000, median(times["local"]) * 1000

    async def healthy(self) -> None:
        """Wait until all nodes run, and one of them may take over. Patroni names the synchronous
        standby in etcd some seconds after PostgreSQL does, and only that node may take over."""
        standby = "sync_standby" if self._synchronous else "replica"
        async with asyncio.timeout(READY_SECONDS), aiohttp.ClientSession(timeout=ASKING) as http:
            while True:
                with suppress(aiohttp.ClientError, TimeoutError):
                    url = f"http://{self._network.address(await self.primary())}:8008/cluster"
                    async with http.get(url) as answer:
                        members = (await answer.json())["members"]
                    roles = [one["role"] for one in members if one["state"] in RUNNING]
                    if len(roles) == len(NODES) and {"leader", standby} <= set(roles):
                        return
                await asyncio.sleep(0.5)

    async def power_on(self, node: str) -> None:
        """Start a host again after its power was off."""
        await self._start_etcd(node, state="existing")
        await self._start_patroni(node)

    async def _execute(self, seconds: float, statement: str) -> Any:
        """Run one statement as the superuser, again and again until it succeeds."""
        address = self._network.address(PROXY)
        url = f"postgresql://postgres@{address}:5432/postgres?application_name=drill"
        async with asyncio.timeout(seconds):
            while True:
                with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
                    connection = await asyncpg.connect(url, timeout=1)
                    try:
                        return await connection.fetchval(statement, timeout=ASK_SECONDS)
                    finally:
                        connection.terminate()
                await asyncio.sleep(0.1)

    async def _start_etcd(self, node: str, *, state: str) -> None:
        here = f"http://{self._network.address(node)}"
        peers = (f"{one}=http://{self._network.address(one)}:2380" for one in NODES)
        options = {
            "name": node,
            "data-dir": str(self._folder / node / "etcd"),
            "listen-client-urls": f"{here}:2379",
            "advertise-client-urls": f"{here}:2379",
            "listen-peer-urls": f"{here}:2380",
            "initial-advertise-peer-urls": f"{here}:2380",
            "initial-cluster": ",".join(peers),
            "initial-cluster-state": state,
            # Without it, a node that comes back starts an election, and the primary steps down.
            "pre-vote": "true",
            "heartbeat-interval": "250",
            "election-timeout": "2500",
            "logger": "zap",
        }
        arguments = (f"--{name}={value}" for name, value in options.items())
        output = self._output / f"{node}-etcd.log"
        await self._network.start(node, *self._unprivileged(), "etcd", *arguments, output=output)

    async def _start_patroni(self, node: str) -> None:
        configuration = self._folder / node / "patroni.yml"
        configuration.write_text(json.dumps(self._patroni(node)))
        await self._network.start(
            node,
            *self._unprivileged(),
            *("patroni", str(configuration)),
            output=self._output / f"{node}-patroni.log",
            cwd=self._folder / node,
        )

    def _unprivileged(self) -> tuple[str, ...]:
        ids = (f"--reuid={self._nobody.pw_uid}", f"--regid={self._nobody.pw_gid}")
        return ("setpriv", *ids, "--clear-groups")

    def _patroni(self, node: str) -> dict[str, Any]:
        """The configuration; each JSON text is YAML too. Nobody else is on this network, so that
        PostgreSQL trusts it."""
        address, home = self._network.address(node), self._folder / node
        trusted = f"{SUBNET}.0/24 trust"
        return {
            "scope": "runward",
            "name": node,
            "restapi": {"listen": f"{address}:8008", "connect_address": f"{address}:8008"},
            "etcd3": {"hosts": [f"{self._network.address(one)}:2379" for one in NODES]},
            "bootstrap": {
                "dcs": DCS | {"synchronous_mode": self._synchronous},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums"],
            },
            "postgresql": {
                "listen": f"{address}:5432",
                "connect_address": f"{address}:5432",
                "data_dir": str(home / "data"),
                "bin_dir": str(POSTGRES),
                "pgpass": str(home / "pgpass"),
                "authentication": {
                    "superuser": {"username": "postgres"},
                    "replication": {"username": "replicator"},
                },
                "parameters": {"unix_socket_directories": str(home)},
                "pg_hba": [
                    "local all all trust",
                    f"host all all {trusted}",
                    f"host replication all {trusted}",
                ],
            },
        }

    def _haproxy(self) -> str:
        servers = "".join(
            f"  server {node} {self._network.address(node)}:5432 check port 8008\n"
            for node in NODES
        )
        return f"""\
defaults
  mode tcp
  timeout connect 2s
  timeout check 2s
  timeout client 1h
  timeout server 1h
listen postgresql
  bind {self._network.address(PROXY)}:5432
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
{servers}"""


def missing() -> list[str]:
    """The Debian packages that this machine does not have."""
    return [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
