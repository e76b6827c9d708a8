"""Hosts that are network namespaces on one bridge. Their network can be cut, their power too."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE
from contextlib import suppress
from pathlib import Path
from typing import Final

PREFIX: Final = f"rwd{os.getpid()}"
"""Of the names of all devices and namespaces, so that two drills do not share any."""
SUBNET: Final = "10.77.0"
HERE: Final = f"{SUBNET}.1"
"""The address of this machine on the bridge."""
GONE_SECONDS: Final = 10.0


class Network:
    """`hosts`: the last byte of the address of each host."""

    def __init__(self, hosts: dict[str, int]) -> None:
        self._hosts = hosts
        self._bridges: list[str] = []
        self._made: list[str] = []
        """The hosts that `open` has made. Nothing else is ever ended or removed."""

    def address(self, host: str) -> str:
        return f"{SUBNET}.{self._hosts[host]}"

    async def open(self) -> None:
        if taken := await run("ip", "-4", "route", "show", f"{SUBNET}.0/24"):
            raise SystemExit(
                f"Another network uses the addresses of the drill: {taken.strip()}\nIf a drill was "
                "killed, end the processes of its hosts (ip netns list, ip netns pids HOST), and "
                "remove the hosts (ip netns del HOST) and the bridge (ip link del DEVICE)."
            )
        await run("ip", "link", "add", PREFIX, "type", "bridge")
        self._bridges.append(PREFIX)
        await run("ip", "addr", "add", f"{HERE}/24", "dev", PREFIX)
        await run("ip", "link", "set", PREFIX, "up")
        for host in self._hosts:
            space, link = _space(host), self._link(host)
            await run("ip", "netns", "add", space)
            self._made.append(host)
            peer = ("type", "veth", "peer", "name", "eth0", "netns", space)
            await run("ip", "link", "add", link, *peer)
            await run("ip", "link", "set", link, "master", PREFIX, "up")
            await run("ip", "-n", space, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            await run("ip", "-n", space, "link", "set", "eth0", "up")
            await run("ip", "-n", space, "link", "set", "lo", "up")

    async def close(self) -> None:
        """End the processes of the hosts that were made, and remove these hosts and the bridge."""
        while self._made:
            host = self._made.pop()
            await self._end_processes(host)
            # Its sockets can keep a namespace for minutes, and its link with it.
            if Path(f"/sys/class/net/{self._link(host)}").exists():
                await run("ip", "link", "del", self._link(host))
            await run("ip", "netns", "del", _space(host))
        while self._bridges:
            await run("ip", "link", "del", self._bridges.pop())

    async def start(self, host: str, *command: str, output: Path, cwd: Path | None = None) -> None:
        """Start a program on a host. It ends with `power_off`."""
        with output.open("ab") as log:
            await asyncio.create_subprocess_exec(
                *self.on(host), *command, stdout=log, stderr=log, start_new_session=True, cwd=cwd
            )

    def on(self, host: str) -> tuple[str, ...]:
        """The beginning of a command that runs on a host. `ip` becomes that command itself."""
        return ("ip", "netns", "exec", _space(host))

    async def power_off(self, host: str) -> None:
        """SIGKILL to all processes of a host. Returns when they are gone."""
        assert host in self._made
        await self._end_processes(host)

    async def _end_processes(self, host: str) -> None:
        async with asyncio.timeout(GONE_SECONDS):
            while pids := (await run("ip", "netns", "pids", _space(host))).split():
                for pid in pids:
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                await asyncio.sleep(0.05)

    async def cut(self, host: str) -> None:
        """Drop all packets to and from a host. No connection is told."""
        await run("ip", "link", "set", self._link(host), "nomaster")

    async def mend(self, host: str) -> None:
        await run("ip", "link", "set", self._link(host), "master", PREFIX)

    def _link(self, host: str) -> str:
        """A short name: Linux allows 15 characters."""
        return f"{PREFIX}-{self._hosts[host]}"


async def run(*command: str) -> str:
    """Return what a program prints. Raises RuntimeError if it fails."""
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    printed, said = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {said.decode().strip()}")
    return printed.decode()


def _space(host: str) -> str:
    return f"{PREFIX}-{host}"
