"""Tools that other processes can import, for the tests."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from runward.domain.json import JsonObject
from runward.tools import (
    AgentRunError,
    BaseTool,
    Content,
    File,
    GuardContext,
    Image,
    Options,
    Reject,
    RuleContext,
    Text,
    ToolContext,
    ToolError,
    guardrail,
    hook,
    tool,
)


@tool(isolation="process")
def everything(ctx: ToolContext, x: int) -> Any:
    print("this is no answer")
    os.write(1, b"nor is this\n")
    ctx.progress(0.5, "half")
    ctx.state["count"] = ctx.state.get("count", 0) + x
    del ctx.state["old"]
    ctx.metadata["pid"] = os.getpid()
    ctx.transfer_to("billing")
    ctx.escalate()
    facts = [ctx.run_id[:4], ctx.call_id, ctx.idempotency_key[:5], ctx.attempt, ctx.agent]
    return [*facts, ctx.context, ctx.session_id, 0 < ctx.deadline() <= 30, ctx.secret("TOKEN")]


@tool(isolation="process")
async def asleep(ctx: ToolContext, x: int) -> int:
    await asyncio.sleep(0)
    return x


@tool(isolation="process")
def picture() -> Content:
    return Content(Text("Look."), Image(data=b"\x89PNG", media_type="image/png"))


@tool(isolation="process")
def spawn_and_hang(pids: str) -> None:
    """Does not end by itself, neither do its children, and it does not listen to reason."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(pids).write_text(f"{os.getpid()} {child.pid}", "utf-8")
    while True:
        time.sleep(60)


@tool(isolation="process")
def leave_daemon(pids: str) -> str:
    """Starts a process that keeps all open files, in a session of its own."""
    tool_pid, (heard, said) = os.getpid(), os.pipe()
    if os.fork() == 0:
        os.setsid()
        Path(pids).write_text(f"{tool_pid} {os.getpid()}", "utf-8")
        os.close(said)
        time.sleep(30)
        os._exit(0)
    os.close(said)
    os.read(heard, 1)
    return "done"


@tool(isolation="process")
def end_badly(how: str) -> str:
    if how == "exit":
        sys.exit(3)
    if how == "_exit":
        os._exit(3)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "tool error":
        raise ToolError("Not today.")
    if how == "cancelled":
        raise asyncio.CancelledError
    raise ValueError(how)


def explain(error: Exception) -> str:
    if isinstance(error, PermissionError):
        raise error
    return f"Try another order: {error}."


@tool(isolation="process", on_error=explain)
def refuse(reason: str) -> None:
    raise PermissionError(reason) if reason == "forbidden" else LookupError(reason)


@tool
def meter(ctx: ToolContext, tokens: int, fail: bool = False) -> str:  # noqa: FBT001
    """Uses two models itself."""
    ctx.add_usage("openai:gpt-4o", input_tokens=tokens, cached_tokens=1)
    ctx.add_usage("openai:gpt-4o", output_tokens=tokens, reasoning_tokens=2)
    ctx.add_usage("house:one", input_tokens=1, cost_usd=0.25)
    if fail:
        raise ToolError("The meter broke.")
    return "metered"


@tool(isolation="process")
def meter_apart(ctx: ToolContext, tokens: int, fail: bool = False) -> str:  # noqa: FBT001
    """The same in a process."""
    return str(meter.function(ctx, tokens, fail))


class Verdict(BaseModel):
    fair: bool


@tool
async def negotiate(ctx: ToolContext, price: int) -> list[Any]:
    """Asks two agents, one after the other."""
    ATTEMPTS.append((ctx.call_id, ctx.attempt, ctx.replaying))
    offer = await ctx.run_agent("buyer", f"Offer for {price}")
    verdict = await ctx.run_agent("judge", str(offer), output=Verdict, max_turns=2)
    ctx.state["offer"] = offer
    return [offer, verdict.fair]


@tool
async def compare(ctx: ToolContext, names: list[str]) -> list[Any]:
    """Asks several agents at the same time."""
    runs = (ctx.run_agent(name, "Your price?") for name in names)
    found = await asyncio.gather(*runs, return_exceptions=True)
    return [str(one) for one in found]


@tool
def relay(ctx: ToolContext, question: str) -> Any:
    """Asks two agents, without a coroutine."""
    return ctx.run_agent_sync("judge", ctx.run_agent_sync("buyer", question))


@tool
async def waver(ctx: ToolContext) -> Any:
    """Asks something else in each attempt."""
    return await ctx.run_agent("buyer", f"attempt {ctx.attempt}")


@tool(idempotent=True, timeout_seconds=60)
async def ask_and_hang(ctx: ToolContext, file: str) -> Any:
    """Hangs after the agents have answered, until the file exists at the begin of an attempt."""
    hangs = not Path(file).exists()
    answers = await asyncio.gather(*(ctx.run_agent("buyer", text) for text in ("one", "two")))
    ctx.add_usage("house:one", input_tokens=1_000_000)
    Path(file).write_text("answered", "utf-8")
    if hangs:
        await asyncio.sleep(60)
    return answers


@tool(isolation="process", idempotent=True)
async def ask_apart(ctx: ToolContext, question: str) -> Any:
    try:
        return await ctx.run_agent("buyer", question)
    except AgentRunError as error:
        return f"no: {error}"


@tool(isolation="process")
def environment() -> dict[str, str]:
    return dict(os.environ)


@tool(guardrails=[{"stage": "input", "type": "plugin", "name": "no_secrets"}])
def count(ctx: ToolContext, word: str) -> int:
    ctx.progress(0.5, word)
    ctx.state["count"] = ctx.state.get("count", 0) + 1
    return ctx.state["count"]


ATTEMPTS: list[tuple[str, int, bool]] = []
FOUL = "a\x00b\ud800"


def foul_content(ctx: ToolContext) -> Content:
    """Say in every way what cannot be stored."""
    ctx.progress(0.5, FOUL)
    ctx.metadata["foul"] = FOUL
    ctx.state["foul"] = FOUL
    return Content(Text(FOUL), File(data=b"x", media_type=FOUL, filename=FOUL))


@tool(idempotent=True)
def foul(ctx: ToolContext) -> Content:
    return foul_content(ctx)


@tool(idempotent=True, isolation="process")
def foul_apart(ctx: ToolContext) -> Content:
    return foul_content(ctx)


class Isolated(BaseTool):
    name = "isolated"
    parameters: JsonObject = {"type": "object", "properties": {"x": {}}}  # noqa: RUF012
    options: Options = {"isolation": "process"}  # noqa: RUF012

    async def run(self, ctx: ToolContext, arguments: JsonObject) -> Any:
        return [arguments, os.getpid() != int(str(ctx.context["pid"]))]


def is_large(ctx: RuleContext, arguments: JsonObject) -> bool:
    return int(str(arguments["amount"])) > 100


async def for_staff(ctx: RuleContext) -> bool:
    return ctx.context.get("staff") is True


@tool(approval=is_large, enabled=for_staff)
def pay(amount: int) -> int:
    return amount


@guardrail(name="no_secrets")
def no_secrets(ctx: GuardContext, payload: JsonObject) -> Reject | None:
    return Reject("No.") if "secret" in str(payload.get("arguments")) else None


@hook()
async def watch(ctx: GuardContext, payload: JsonObject) -> None:
    await asyncio.sleep(0)
