"""Tools with `isolation="process"`: a process for each call, dead when the call is over."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runward.domain.json import JsonObject
from runward.domain.run.outcomes import Done, Failed, FailureKind
from runward.tools import PluginError, tool
from runward.tools.environment import INHERITED_VARIABLES
from runward.tools.plugin.loader import collect
from runward.tools.plugin.registry import PluginHost
from runward.tools.testing import run_tool
from tests.unit import plugin_samples as samples
from tests.unit.test_plugins import invocation

pytestmark = pytest.mark.processes


def is_alive(pid: int) -> bool:
    """Not as a zombie that its parent has not looked at yet."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


async def dead(pids: list[int]) -> bool:
    """Within two seconds."""
    for _ in range(200):
        if not any(map(is_alive, pids)):
            return True
        await asyncio.sleep(0.01)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return False


async def pids_in(file: Path) -> list[int]:
    while not file.exists() or len(file.read_text("utf-8").split()) < 2:
        await asyncio.sleep(0.01)
    return [int(pid) for pid in file.read_text("utf-8").split()]


async def test_a_process_is_told_and_tells_the_same_as_a_thread() -> None:
    result = await run_tool(
        samples.everything,
        {"x": 2},
        context={"user": "ä"},
        state={"count": 1, "old": 1},
        secrets={"TOKEN": "s3cret"},
        handoffs=["billing"],
        session_id="s1",
    )
    assert result.error is None
    facts = ["run_", "call_1", "call_", 1, "assistant", {"user": "ä"}, "s1", True, "s3cret"]
    assert result.output == facts
    assert result.state == {"count": 3, "old": None}
    assert result.metadata is not None
    assert result.metadata["pid"] != os.getpid()
    assert (result.transfer_to, result.escalated) == ("billing", True)
    assert result.progress == ((0.5, "half"),)


async def test_coroutines_objects_and_parts_work_too() -> None:
    assert (await run_tool(samples.asleep, {"x": 3})).output == 3
    shown = await run_tool(samples.Isolated, {"x": 1}, context={"pid": os.getpid()})
    assert shown.output == [{"x": 1}, True]
    picture = await run_tool(samples.picture, {})
    assert picture.output == "Look."
    assert picture.parts == (
        {"type": "text", "text": "Look."},
        {"type": "image", "data": "iVBORw==", "media_type": "image/png"},
    )


async def test_a_timeout_ends_the_process_and_its_children(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    running = asyncio.create_task(
        run_tool(samples.spawn_and_hang, {"pids": str(file)}, timeout_seconds=3)
    )
    pids = await pids_in(file)
    assert all(map(is_alive, pids))
    result = await running
    assert result.timed_out
    assert await dead(pids)


async def test_cancelling_a_call_ends_its_process(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    running = asyncio.create_task(run_tool(samples.spawn_and_hang, {"pids": str(file)}))
    pids = await pids_in(file)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await dead(pids)


SERVICE = """
import asyncio, sys
from runward.tools.testing import run_tool
from tests.unit.plugin_samples import spawn_and_hang
asyncio.run(run_tool(spawn_and_hang, {"pids": sys.argv[1]}))
"""


async def test_a_service_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    service = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SERVICE,
        str(file),
        env=os.environ | {"PYTHONPATH": os.path.abspath("app")},
    )
    tool_pid, child_pid = await pids_in(file)
    service.kill()
    await service.wait()
    assert await dead([tool_pid, child_pid])


ENDS: dict[str, tuple[FailureKind, str, str | None]] = {
    "exit": (FailureKind.ERROR, "SystemExit: 3", None),
    "raise": (FailureKind.ERROR, "ValueError: raise", None),
    "tool error": (FailureKind.ERROR, "ToolError: Not today.", "Not today."),
    "cancelled": (FailureKind.ERROR, "CancelledError", None),
    "_exit": (FailureKind.UNKNOWN, "ended with exit code 3 before it returned a result", None),
    "kill": (FailureKind.UNKNOWN, "ended with exit code -9 before it returned a result", None),
}


@pytest.mark.parametrize("how", ENDS)
async def test_a_process_that_ends_badly_is_a_failure(how: str) -> None:
    why, detail, message = ENDS[how]
    host = PluginHost(collect([samples.end_badly]))
    found = await host.invoke(invocation(host, "end_badly", arguments={"how": how}))
    assert isinstance(found, Failed)
    assert (found.reason, found.message) == (why, message)
    assert detail in found.detail


async def test_the_process_explains_its_own_error() -> None:
    host = PluginHost(collect([samples.refuse]))
    call = invocation(host, "refuse", arguments={"reason": "sold out"})
    assert await host.invoke(call) == Failed(
        FailureKind.ERROR, "LookupError: sold out", message="Try another order: sold out."
    )
    call = invocation(host, "refuse", arguments={"reason": "forbidden"})
    fails = Failed(FailureKind.ERROR, "PermissionError: forbidden", fails_run=True)
    assert await host.invoke(call) == fails


async def test_a_call_does_not_wait_for_a_daemon_that_it_left(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    host = PluginHost(collect([samples.leave_daemon]))
    call = invocation(host, "leave_daemon", arguments={"pids": str(file)}, seconds=30.0)
    running = asyncio.create_task(host.invoke(call))
    _, daemon = await pids_in(file)
    try:
        async with asyncio.timeout(10):
            found = await running
    finally:
        os.kill(daemon, signal.SIGKILL)
    assert found == Done("done")


async def test_arguments_are_checked_in_the_process_too() -> None:
    host = PluginHost(collect([samples.asleep]))
    found = await host.invoke(invocation(host, "asleep", arguments={"x": "a"}))
    assert isinstance(found, Failed)
    assert found.message is not None
    assert "arguments.x" in found.message


async def test_the_process_inherits_only_what_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("RUNWARD_SECRET_KEY", "DATABASE_URL", "OPENAI_API_KEY", "AWS_SESSION_TOKEN", "MINE")
    for name in secrets:
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("TZ", "Europe/Rome")
    output: Any = (await run_tool(samples.environment, {})).output
    assert output["TZ"] == "Europe/Rome"
    assert "canary" not in output.values()
    assert set(output) <= INHERITED_VARIABLES | {
        "PYTHONPATH",
        "LC_CTYPE",
    }  # Python itself sets the last


async def test_no_more_processes_run_than_are_allowed() -> None:
    host = PluginHost(collect([samples.asleep]), threads=1)

    def call(x: int) -> Any:
        arguments: JsonObject = {"x": x}
        return host.invoke(invocation(host, "asleep", arguments=arguments, seconds=30.0))

    assert await asyncio.gather(*(call(n) for n in range(3))) == [Done(n) for n in range(3)]


async def test_closing_the_host_ends_what_runs(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    host = PluginHost(collect([samples.spawn_and_hang]))
    call = invocation(host, "spawn_and_hang", arguments={"pids": str(file)}, seconds=30.0)
    running = asyncio.create_task(host.invoke(call))
    pids = await pids_in(file)
    host.close()
    assert await dead(pids)
    found = await running
    assert isinstance(found, Failed)
    assert found.reason is FailureKind.UNKNOWN


def test_a_function_that_no_process_can_import_is_refused() -> None:
    def inner() -> None: ...

    with pytest.raises(
        PluginError, match="isolation='process' requires a function or class at the"
    ):
        collect([tool(inner, isolation="process")])
