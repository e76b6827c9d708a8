"""Tests of the chaos program: its failure when it proves too little, and its relay."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.faults import PER_THOUSAND, plan
from tests.chaos.figures import (
    MODEL_FAULTS,
    RACES,
    TOOL_FAULTS,
    WINDOWS,
    Figures,
    count_faults,
    floors,
)
from tests.chaos.levels import level_of
from tests.chaos.processes import Process
from tests.chaos.relay import Relay
from tests.checker.evidence import Fault, Folder, Log, ToolEnd, ToolHit

RUNS = 1000
SUMMARY: dict[str, Any] = {
    "model_behaviors": dict.fromkeys(MODEL_FAULTS, RUNS),
    "tool_behaviors": dict.fromkeys(TOOL_FAULTS, RUNS),
}


def test_the_seed_alone_makes_the_plan_of_faults() -> None:
    assert plan(7, RUNS) == plan(7, RUNS)
    assert plan(7, RUNS) != plan(8, RUNS)
    assert {(one.kind, one.detail) for one in plan(7, RUNS)} == set(PER_THOUSAND)
    assert len(plan(7, 10 * RUNS)) == 10 * len(plan(7, RUNS))
    assert [one.due for one in plan(7, RUNS)] == sorted(one.due for one in plan(7, RUNS))


def test_each_floor_that_is_not_reached_is_named() -> None:
    figures: Figures = dict.fromkeys(
        [*(f"{kind} ({one})" if one else kind for kind, one in PER_THOUSAND), *WINDOWS, *RACES],
        float(RUNS),
    ) | {"runs (plain)": RUNS}
    assert [one for one in floors(RUNS, figures, SUMMARY) if not one.reached] == []
    for name in figures:
        missed = [one for one in floors(RUNS, figures | {name: 0}, SUMMARY) if not one.reached]
        assert [one.name for one in missed] == [name]
    for part, counted in SUMMARY.items():
        for name in counted:
            summary = SUMMARY | {part: counted | {name: 0}}
            missed = [one for one in floors(RUNS, figures, summary) if not one.reached]
            assert [one.name for one in missed] == [f"{part.removesuffix('_behaviors')}: {name}"]


@pytest.mark.parametrize(
    ("fault", "window"),
    [
        (Fault(100.0, "kill", "worker-1", detail="worker"), (1, 1, 0, 0, 0)),
        (Fault(100.0, "kill", "api-1", detail="api"), (0, 0, 0, 0, 0)),
        (Fault(98.0, "kill", "worker-1", detail="worker"), (0, 0, 0, 0, 0)),
        (Fault(103.5, "kill", "worker-1", detail="worker"), (0, 0, 0, 0, 0)),
        (Fault(100.0, "freeze", "worker-1", 104.0, "worker"), (0, 0, 1, 0, 0)),
        (Fault(100.0, "restart_postgres", "postgres", 101.0), (0, 0, 0, 0, 1)),
    ],
)
def test_a_fault_counts_in_a_window_only_if_it_hit_it(
    tmp_path: Path, fault: Fault, window: tuple[int, ...]
) -> None:
    """A call was in flight from 99 to 100.2, and its run was taken over at 103."""
    with Log(tmp_path, "faults.jsonl") as faults, Log(tmp_path, "tools.jsonl") as tools:
        faults.write(fault)
        tools.write(ToolHit(1, 99.0, "pay", {}, {}, 1))
        tools.write(ToolEnd(1, 100.2, "abandoned"))
    (tmp_path / "tables").mkdir()
    times = ("run.started", 39), ("run.resumed", 43)
    (tmp_path / "tables" / "run_events.jsonl").write_text(
        "".join(
            json.dumps(
                {"run_id": "1", "seq": at, "type": type_, "created_at": f"1970-01-01T00:01:{at}Z"}
            )
            + "\n"
            for type_, at in times
        )
    )
    assert tuple(count_faults(Folder(tmp_path))[1].values()) == window


def test_a_process_that_has_just_ended_is_not_sampled(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    subject = Process("worker-1", "worker", {}, tmp_path / "log", pid=process.pid)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert level_of(subject, Counter()) is None
    process.wait()


async def test_a_relay_loses_answers_before_it_cuts_or_freezes(tmp_path: Path) -> None:
    path, heard = str(tmp_path / "socket"), bytearray()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(100):
                heard.extend(data)
                writer.write(data)
        writer.close()

    server = await asyncio.start_unix_server(echo, path)
    relay = Relay(path)
    port = await relay.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"1")
    assert await reader.read(1) == b"1"

    freezing = asyncio.create_task(relay.freeze(0.3, new_ones=True))
    await asyncio.sleep(0)  # it has begun
    writer.write(b"2")
    waiting = asyncio.create_task(ask(port, b"3"))
    assert await reader.read(1) == b""  # the end comes with the thaw, and no answer before it
    assert await freezing == 1
    assert heard == b"12"
    assert await waiting == b"3"

    cutting = asyncio.create_task(relay.cut(0.2))
    await asyncio.sleep(0)
    with pytest.raises(ConnectionResetError):
        await ask(port, b"4")
    await cutting
    assert await ask(port, b"5") == b"5"
    writer.close()
    await relay.close()
    server.close()
    for _ in range(5):  # callbacks of the transports
        await asyncio.sleep(0)


async def ask(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        answer = await reader.read(1)
        if not answer:
            raise ConnectionResetError
        return answer
    finally:
        writer.close()
