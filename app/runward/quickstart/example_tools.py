"""Serve the tools of `examples/tools` and register them in the project `default`, so that a first
run has tools to call.

A tool of the same name that a user registered is not changed. Of the tools registered here, only
the address is updated."""

import asyncio
import fcntl
import importlib.util
import os
import threading
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from runward.domain.json import parse
from runward.domain.registry.tools import ToolSpec
from runward.store import readiness
from runward.store.access import keys
from runward.store.access.keys import DEFAULT_PROJECT
from runward.store.access.vault import Vault
from runward.store.data_keys.key_ring import KeyRing
from runward.store.data_keys.secret_keys import open_providers
from runward.store.postgres.db import Tx, open_database
from runward.store.registry import tool_registry
from runward.store.registry.tool_registry import RegisteredTool
from runward.tools import signing

_INSTALLED: Final = Path(__file__).parents[1] / "_examples" / "tools"
_CHECKOUT: Final = Path(__file__).parents[3] / "examples" / "tools"
FOLDER: Final = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
"""The folder of the examples. The container image does not include it."""
TOOL_NAMES: Final = ("lookup_order", "refund")
METADATA_MARK: Final = "runward_example"
"""Marks, in a tool's metadata, a tool that was registered here."""


@asynccontextmanager
async def serve_example_tools(
    database_url: str, secret_keys: Sequence[str], data_dir: Path, *, prefer_port: int
) -> AsyncGenerator[str | None]:
    """Yield the address of the tool server. Yield None if users registered tools with all of these
    names, or if another process on the same data folder serves the tools. The previous port is
    tried first, because approved calls are sent to the address that the approver saw."""
    with _lock_folder(data_dir) as first:
        if not first:
            yield None
            return
        async with _serve(database_url, secret_keys, prefer_port) as address:
            yield address


@contextmanager
def _lock_folder(data_dir: Path) -> Generator[bool]:
    """Yield whether this process holds the lock, so that only one process serves the tools."""
    lock = os.open(data_dir / "examples.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        first = False
    else:
        first = True
    try:
        yield first
    finally:
        os.close(lock)


@asynccontextmanager
async def _serve(
    database_url: str, secret_keys: Sequence[str], prefer_port: int
) -> AsyncGenerator[str | None]:
    database = open_database(database_url, pool_size=1)
    secrets: dict[str, tuple[str, ...]] = {}
    server = None
    try:
        vault = await KeyRing(database, open_providers(secret_keys)).open()
        async with database.pool.begin() as tx:
            await readiness.prepare_database(tx, vault)
            await keys.ensure_default_project(tx)
            found = {
                name: await tool_registry.get_tool(tx, DEFAULT_PROJECT, name) for name in TOOL_NAMES
            }
            ours = [name for name, tool in found.items() if tool is None or _is_example(tool)]
            if ours:
                server = _listen(secrets, [*_list_ports(found.values()), prefer_port, 0])
                for name in ours:
                    await _register_tool(tx, vault, name, found[name], _format_url(server, name))
                secrets |= await _read_secrets(tx, vault, ours)
    finally:
        await database.close()
    if server is None:
        yield None
        return
    thread = threading.Thread(
        target=server.serve_forever, args=(0.05,), name="example-tools", daemon=True
    )
    thread.start()
    try:
        yield _format_url(server, "").rstrip("/")
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()


async def _register_tool(
    tx: Tx, vault: Vault, name: str, former: RegisteredTool | None, url: str
) -> None:
    if former is None:
        described = parse((FOLDER / f"{name}.json").read_text("utf-8"))
        assert isinstance(described, dict)
        spec = ToolSpec.model_validate({**described, "url": url, "metadata": {METADATA_MARK: True}})
        await tool_registry.add_tool(tx, vault, DEFAULT_PROJECT, spec, signing.make_secret())
    elif former.spec.url != url:
        spec = former.spec.model_copy(update={"url": url})
        await tool_registry.update_tool(tx, vault, DEFAULT_PROJECT, former, spec)


async def _read_secrets(
    tx: Tx, vault: Vault, names: Iterable[str]
) -> Mapping[str, tuple[str, ...]]:
    current = await tool_registry.read_current_versions(tx, DEFAULT_PROJECT, list(names))
    versions = await tool_registry.read_versions(tx, vault, DEFAULT_PROJECT, list(current.items()))
    return {version.spec.name: version.secrets for version in versions}


def _is_example(tool: RegisteredTool) -> bool:
    return tool.spec.metadata.get(METADATA_MARK) is True


def _list_ports(tools: Iterable[RegisteredTool | None]) -> list[int]:
    urls = [tool.spec.url for tool in tools if tool is not None and _is_example(tool)]
    return [port for url in urls if url and (port := urlsplit(url).port)]


def _listen(secrets: Mapping[str, Iterable[str]], ports: Iterable[int]) -> ThreadingHTTPServer:
    """Listen on the first free port of `ports`. Port 0 is always free."""
    make_server = _load_example().make_server
    for port in ports:
        try:
            return make_server(port, secrets)
        except (OSError, OverflowError):
            continue
    raise SystemExit(
        "No port is free for the example tools. To start without them, use `serve --no-examples`."
    )


def _load_example() -> Any:
    """Import the example, which is not part of this package."""
    path = FOLDER / "python" / "server.py"
    spec = importlib.util.spec_from_file_location("runward_example_tools", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _format_url(server: ThreadingHTTPServer, name: str) -> str:
    return f"http://127.0.0.1:{server.server_port}/{name}"
