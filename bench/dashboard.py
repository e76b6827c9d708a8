"""`python -m bench.dashboard`: draw the Grafana dashboard with real data in docs/images.

The data comes from a Prometheus server that scrapes an API process and two workers under a load of
two minutes. One of the workers is killed and started again. The Debian package `prometheus`
contains the server.
"""

import argparse
import asyncio
import json
import math
import random
import re
import time
from asyncio.subprocess import STDOUT, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
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
    "courier": "openai:small",
    "auditor": "openai-responses:large",
}
WEIGHTS: Final = (6, 3, 1, 0.3, 0.1, 0.5)
"""How often each of them is used."""
KILLED_AT, REPLACED_AT = 0.5, 0.6
"""When a worker is killed, and when another one replaces it, as shares of the load's duration."""
PRICES: Final = '{"openai:*": {"input": 1.25, "output": 10}}'
SCRAPE_SECONDS: Final = 1
UNREACHABLE: Final = "http://127.0.0.1:9/"
RATE_INTERVAL: Final = "15s"
POINTS: Final = 60
UNIT_WIDTH, UNIT_HEIGHT = WIDTH / 8, HEIGHT / 7
"""Size in pixels of a unit of Grafana's grid. Its width is 24 units."""
UNITS: Final = {
    "none": (1.0, ""),
    "s": (1.0, "seconds"),
    "currencyUSD": (1.0, "US dollars"),
    "percentunit": (100.0, "%"),
    "bytes": (2.0**-20, "MiB"),
}
"""By the unit of a panel: a factor, and the label of the axis."""
MAX_NAME: Final = 22
"""Maximum length of the name of a line in the legend."""
_FRAME: Final = (
    f'<rect x="6" y="6" width="{WIDTH - 12}" height="{HEIGHT - 12}" rx="8" fill="none"'
    ' stroke="#777" stroke-opacity=".3"/>'
)
_CONFIG: Final = """
global: {{scrape_interval: {seconds}s, evaluation_interval: {seconds}s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: runward
    static_configs:
      - {{targets: ["{api}"], labels: {{instance: api}}}}
      - {{targets: ["{first}"], labels: {{instance: worker-1}}}}
      - {{targets: ["{second}"], labels: {{instance: worker-2}}}}
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

    async def register(self, fake: str, silent: str) -> None:
        """Register tools, agents, webhook endpoints and a schedule. `silent`: an address that
        accepts connections and closes them. `archive` is unreachable, and the model of `auditor`
        returns no response that can be read."""
        urls = {
            "lookup": f"{fake}/tool",
            "report": f"{fake}/tool/20000",
            "refund": f"{fake}/tool",
            "archive": UNREACHABLE,
            "dispatch": silent,
        }
        for name, url in urls.items():
            spec = {"name": name, "type": "webhook", "url": url, "parameters": PARAMETERS}
            more = {
                "approval": "always" if name == "refund" else "never",
                "idempotent": name != "dispatch",
            }
            await self.post("/v1/tools", {**spec, **more, "description": name})
        for (agent, model), tool in zip(AGENTS.items(), (*urls, "lookup"), strict=True):
            await self.post("/v1/agents", {"name": agent, "model": model, "tools": [tool]})
        for url, events in ((f"{fake}/tool", ["run.completed"]), (UNREACHABLE, ["run.failed"])):
            await self.post("/v1/webhook_endpoints", {"url": url, "events": events})
        run = {"agent": "support", "input": prompt(0)}
        await self.post("/v1/schedules", {"name": "hello", "cron": "* * * * *", "run": run})

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
        silent = await asyncio.start_server(_close, "127.0.0.1", 0)
        await stack.enter_async_context(silent)
        api, *workers = (processes.free_port() for _ in range(3))
        env = environment(api, fake, KEY) | {
            "DATABASE_URL": await server.make_database("dashboard"),
            "RUNWARD_MODEL_PRICES": PRICES,
            "RUNWARD_WORKER_CONCURRENCY": "12",
            "RUNWARD_LEASE_SECONDS": "5",
        }
        async with processes.python("-m", "runward", "migrate", env=env, log=log) as migration:
            await migration.wait()
        url = f"http://127.0.0.1:{api}"
        start = partial(_start, stack, log)
        await start("api", env, url)
        _, killed = [await start("worker", *_of_worker(env, port)) for port in workers]
        session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"})
        client = Client(url, await stack.enter_async_context(session))
        host, port = silent.sockets[0].getsockname()
        await client.register(fake, f"http://{host}:{port}/")
        prometheus = await stack.enter_async_context(_scrape(folder, api, *workers))
        began = time.time()
        async with asyncio.TaskGroup() as group:
            group.create_task(_load(client, seconds))
            await asyncio.sleep(KILLED_AT * seconds)
            killed.kill()
            await asyncio.sleep((REPLACED_AT - KILLED_AT) * seconds)
            await start("worker", *_of_worker(env, workers[1]))
        ended = time.time()
        PICTURE.write_text(await _render(prometheus, began + 10, ended))
        print(f"Wrote {PICTURE}. Pending or firing alerts: {await prometheus.list_alerts()}")


async def _start(
    stack: AsyncExitStack, log: Path, command: str, env: Mapping[str, str], url: str
) -> Process:
    """Start a process of Runward, and wait until it is ready."""
    running = processes.python("-m", "runward", command, env=env, log=log)
    process = await stack.enter_async_context(running)
    await processes.answers(process, f"{url}/readyz", log)
    return process


def _of_worker(env: Mapping[str, str], port: int) -> tuple[Mapping[str, str], str]:
    """Return the variables and the address of a worker."""
    return {**env, "RUNWARD_WORKER_PORT": str(port)}, f"http://127.0.0.1:{port}"


async def _close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read the beginning of a request, and send no response."""
    await reader.read(1024)
    writer.close()


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
async def _scrape(folder: Path, api: int, first: int, second: int) -> AsyncGenerator[Prometheus]:
    """Start a Prometheus server."""
    port, config = processes.free_port(), folder / "prometheus.yml"
    rules = PROJECT / "deploy" / "prometheus" / "alerts.yml"
    targets = {"api": api, "first": first, "second": second}
    addresses = {name: f"127.0.0.1:{number}" for name, number in targets.items()}
    config.write_text(_CONFIG.format(seconds=SCRAPE_SECONDS, rules=rules, **addresses))
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
    """Return the dashboard as an SVG document, with the panels at their places."""
    drawn: list[str] = []
    width, height = 24 * UNIT_WIDTH, 0.0
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        if panel["type"] == "row":
            svg = _draw_heading(panel["title"])
        else:
            lines = [line async for line in _read_lines(prometheus, panel, began, ended)]
            svg = _draw_panel(panel, dict(lines), ended - began)
        grid = panel["gridPos"]
        x, y = grid["x"] * UNIT_WIDTH, grid["y"] * UNIT_HEIGHT
        wide, high = grid["w"] * UNIT_WIDTH, grid["h"] * UNIT_HEIGHT
        height = max(height, y + high)
        place = f' x="{x:.0f}" y="{y:.0f}" width="{wide:.0f}" height="{high:.0f}"'
        drawn.append(re.sub(r' width="\d+" height="\d+"', place, svg, count=1))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' width="{width / 2:.0f}" height="{height / 2:.0f}" role="img"'
        ' aria-label="Runward in Grafana">'
    )
    return "\n".join([head, *drawn, "</svg>"]) + "\n"


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
        return _draw_stat(
            panel["title"], f"{value:,.3g} {'s' if unit == 'seconds' else unit}".strip()
        )
    values = [value for points in lines.values() for _, value in points]
    x, y = make_axis("seconds", [0, seconds]), make_axis(unit, values or [0])
    shown = {
        name if len(name) <= MAX_NAME else f"…{name[1 - MAX_NAME :]}": points
        for name, points in lines.items()
    }
    return line_chart(panel["title"], x, y, shown).replace("</svg>", f"{_FRAME}</svg>")


def _draw_stat(title: str, text: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">{_FRAME}'
        f'<text class="title" x="48" y="80" style="font-size:28px">{escape(title)}</text>'
        f'<text x="48" y="220" style="font-size:88px">{escape(text)}</text></svg>'
    )


def _draw_heading(title: str) -> str:
    return (
        '<svg viewBox="0 0 2160 54" width="2160" height="54">'
        f'<text class="title" x="12" y="38" style="font-size:24px">{escape(title)}</text></svg>'
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.dashboard", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="duration of the load")
    uvloop.run(draw(parser.parse_args().seconds))
