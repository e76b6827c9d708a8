"""`python -m bench.dashboard`: draw the Grafana dashboard with real data in docs/images.

The data comes from a Prometheus server that scrapes `runward serve` under a load of two minutes.
The Debian package `prometheus` contains the server.
"""

import argparse
import asyncio
import json
import math
import random
import re
import time
from asyncio.subprocess import STDOUT
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp
import uvloop

from bench import postgres, processes
from bench.chart import HEIGHT, WIDTH, line_chart, make_axis
from bench.processes import PROJECT
from bench.service import environment, fake_model
from bench.work import PARAMETERS, prompt

DASHBOARD: Final = PROJECT / "deploy" / "grafana" / "runward.json"
PICTURE: Final = PROJECT / "docs" / "images" / "dashboard.svg"
KEY: Final = "dashboard-" + "0" * 32
AGENTS: Final = {
    "support": "openai:small",
    "analyst": "openai:large",
    "billing": "openai:small",
    "archivist": "openai:small",
    "auditor": "openai-responses:large",
}
WEIGHTS: Final = (6, 3, 1, 0.3, 0.5)
"""How often each of them is used."""
PRICES: Final = '{"openai:*": {"input": 1.25, "output": 10}}'
SCRAPE_SECONDS: Final = 1
RATE_INTERVAL: Final = "15s"
POINTS: Final = 60
COLUMNS: Final = 3
UNITS: Final = {
    "none": (1.0, ""),
    "s": (1.0, "seconds"),
    "currencyUSD": (1.0, "US dollars"),
    "percentunit": (100.0, "%"),
    "bytes": (2.0**-20, "MiB"),
}
"""By the unit of a panel: a factor, and the label of the axis."""
_CONFIG: Final = """
global: {{scrape_interval: {seconds}s, evaluation_interval: {seconds}s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: runward
    static_configs: [{{targets: ["{target}"]}}]
"""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus server."""

    url: str
    session: aiohttp.ClientSession

    async def query(self, expression: str, began: float, ended: float) -> list[Any]:
        """Return the series of a query in a period of Unix times."""
        step = max(1, round((ended - began) / POINTS))
        asked = {"query": expression, "start": began, "end": ended, "step": step}
        async with self.session.get(f"{self.url}/api/v1/query_range", params=asked) as response:
            response.raise_for_status()
            return (await response.json())["data"]["result"]

    async def list_alerts(self) -> list[str]:
        async with self.session.get(f"{self.url}/api/v1/alerts") as response:
            return [one["labels"]["alertname"] for one in (await response.json())["data"]["alerts"]]


@dataclass(frozen=True, slots=True)
class Client:
    """Sends requests to the service."""

    url: str
    session: aiohttp.ClientSession

    async def post(self, path: str, body: Any) -> Any:
        async with self.session.post(self.url + path, json=body) as response:
            response.raise_for_status()
            return await response.json()

    async def register(self, fake: str) -> None:
        """Register tools and agents. `archive` is unreachable, and the model of `auditor` returns
        no response that can be read."""
        urls = {
            "lookup": f"{fake}/tool",
            "report": f"{fake}/tool/20000",
            "refund": f"{fake}/tool",
            "archive": "http://127.0.0.1:9/",
        }
        for name, url in urls.items():
            spec = {"name": name, "type": "webhook", "url": url, "parameters": PARAMETERS}
            more = {"approval": "always" if name == "refund" else "never", "idempotent": True}
            await self.post("/v1/tools", {**spec, **more, "description": name})
        for (agent, model), tool in zip(AGENTS.items(), (*urls, "lookup"), strict=True):
            await self.post("/v1/agents", {"name": agent, "model": model, "tools": [tool]})

    async def start(self, agent: str, number: int, words: str) -> None:
        body = {"agent": agent, "input": f"{prompt(number)} {words}"}
        await self.post("/v1/runs", body)

    async def approve_all(self) -> None:
        async with self.session.get(f"{self.url}/v1/approvals?status=pending&limit=50") as response:
            pending = (await response.json())["data"]
        for one in pending:
            await self.post(f"/v1/approvals/{one['id']}/decision", {"decision": "approve"})


async def draw(seconds: float) -> None:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="runward-dashboard-")))
        folder.chmod(0o755)  # the embedded PostgreSQL runs as another user than root
        log = folder / "log"
        server = await stack.enter_async_context(postgres.running(folder / "data"))
        fake, _ = await stack.enter_async_context(fake_model(log))
        port = processes.free_port()
        env = environment(port, fake, KEY) | {
            "DATABASE_URL": await server.make_database("dashboard"),
            "RUNWARD_MODEL_PRICES": PRICES,
            "RUNWARD_WORKER_CONCURRENCY": "24",
        }
        serve = processes.python("-m", "runward", "serve", env=env, log=log)
        process = await stack.enter_async_context(serve)
        url = f"http://127.0.0.1:{port}"
        await processes.answers(process, f"{url}/readyz", log)
        session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"})
        client = Client(url, await stack.enter_async_context(session))
        await client.register(fake)
        prometheus = await stack.enter_async_context(_scrape(folder, f"127.0.0.1:{port}"))
        began = time.time()
        await _load(client, seconds)
        ended = time.time()
        PICTURE.write_text(await _render(prometheus, began + 10, ended))
        print(f"Wrote {PICTURE}. Pending or firing alerts: {await prometheus.list_alerts()}")


async def _load(client: Client, seconds: float) -> None:
    """Start runs at a rate that rises and falls, and decide approvals from time to time."""
    loop = asyncio.get_running_loop()
    began, number, numbers = loop.time(), 0, random.Random(7)
    async with asyncio.TaskGroup() as group:
        while (elapsed := loop.time() - began) < seconds:
            rate = 6 + 5 * math.sin(elapsed / seconds * 3 * math.tau)
            [agent] = numbers.choices([*AGENTS], WEIGHTS)
            latency = round(200 + 600 * numbers.random())
            words = f"[[words={round(40 + 200 * numbers.random())} latency={latency} pause=10]]"
            group.create_task(client.start(agent, number, words))
            number += 1
            if number % 100 == 0:
                group.create_task(client.approve_all())
            await asyncio.sleep(1 / rate)


@asynccontextmanager
async def _scrape(folder: Path, target: str) -> AsyncGenerator[Prometheus]:
    """Start a Prometheus server."""
    port, config = processes.free_port(), folder / "prometheus.yml"
    rules = PROJECT / "deploy" / "prometheus" / "alerts.yml"
    config.write_text(_CONFIG.format(seconds=SCRAPE_SECONDS, rules=rules, target=target))
    url, log = f"http://127.0.0.1:{port}", folder / "prometheus.log"
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            "prometheus",
            *(f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"),
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=output,
            stderr=STDOUT,
        )
    try:
        await processes.answers(process, f"{url}/-/ready", log)
        async with aiohttp.ClientSession() as session:
            yield Prometheus(url, session)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _render(prometheus: Prometheus, began: float, ended: float) -> str:
    """Return the panels of the dashboard as an SVG document."""
    panels = [one for one in json.loads(DASHBOARD.read_text())["panels"] if one["type"] != "row"]
    drawn: list[tuple[str, str]] = []
    for panel in panels:
        lines = [line async for line in _read_lines(prometheus, panel, began, ended)]
        drawn.append((panel["type"], _draw_panel(panel, dict(lines), ended - began)))
    return "\n".join(_arrange(drawn)) + "\n"


async def _read_lines(
    prometheus: Prometheus, panel: Any, began: float, ended: float
) -> AsyncGenerator[tuple[str, list[tuple[float, float]]]]:
    """Yield the name and the points of each line of a panel."""
    factor, _ = UNITS[panel["fieldConfig"]["defaults"]["unit"]]
    for target in panel["targets"]:
        expression = target["expr"].replace("$__rate_interval", RATE_INTERVAL)
        for series in await prometheus.query(expression, began, ended):
            name = target["legendFormat"]
            for label, value in series["metric"].items():
                name = name.replace(f"{{{{{label}}}}}", value)
            values = [(at - began, float(value) * factor) for at, value in series["values"]]
            yield name, [(at, value) for at, value in values if math.isfinite(value)]


def _draw_panel(panel: Any, lines: dict[str, list[tuple[float, float]]], seconds: float) -> str:
    _, unit = UNITS[panel["fieldConfig"]["defaults"]["unit"]]
    if panel["type"] == "stat":
        value = next((points[-1][1] for points in lines.values() if points), math.nan)
        return _draw_stat(panel["title"], f"{value:,.3g} {unit}".strip())
    values = [value for points in lines.values() for _, value in points]
    x, y = make_axis("seconds", [0, seconds]), make_axis(unit, values or [0])
    return line_chart(panel["title"], x, y, lines)


def _draw_stat(title: str, text: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT // 2}" width="{WIDTH}" height="{HEIGHT // 2}">'
        f'<text class="title" x="64" y="40" style="font-size:26px">{escape(title)}</text>'
        f'<text x="64" y="120" style="font-size:64px">{escape(text)}</text></svg>'
    )


def _arrange(panels: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the document. Twice as many stats as charts are in a row."""
    width, stat_rows = (
        WIDTH * COLUMNS,
        math.ceil(sum(kind == "stat" for kind, _ in panels) / (2 * COLUMNS)),
    )
    charts = math.ceil(sum(kind != "stat" for kind, _ in panels) / COLUMNS)
    stat_height = HEIGHT // 4
    height = stat_rows * stat_height + charts * HEIGHT
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width // 2}" height="{height // 2}" role="img" aria-label="Runward in Grafana">'
    )
    placed = {"stat": 0, "timeseries": 0}
    for kind, svg in panels:
        at = placed[kind]
        placed[kind] += 1
        if kind == "stat":
            per_row, wide, high, top = 2 * COLUMNS, WIDTH // 2, stat_height, 0
        else:
            per_row, wide, high, top = COLUMNS, WIDTH, HEIGHT, stat_rows * stat_height
        x, y = at % per_row * wide, top + at // per_row * high
        yield re.sub(
            r' width="\d+" height="\d+"',
            f' x="{x}" y="{y}" width="{wide}" height="{high}"',
            svg,
            count=1,
        )
    yield "</svg>"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.dashboard", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="duration of the load")
    uvloop.run(draw(parser.parse_args().seconds))
