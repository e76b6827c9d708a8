"""The agent as a graph of LangGraph: a node for the model, and a node for the tool.

Both `bench/rivals/langgraph.py` and Aegra run this graph. Aegra imports the variables `plain` and
`careful`, and adds its own checkpointer.
"""

# pyright: basic, reportMissingImports=false

import os
from typing import Any

import aiohttp
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from bench.rivals.program import API_KEY, Http
from bench.work import INSTRUCTIONS

FAKE = os.environ["BENCH_FAKE"]
_sessions: list[Http] = []


@tool
async def lookup(query: str) -> str:
    """Look a fact up."""
    if not _sessions:  # an aiohttp session needs a running event loop
        connector = aiohttp.TCPConnector(limit=0)
        _sessions.append(Http(aiohttp.ClientSession(connector=connector), FAKE))
    return await _sessions[0].call_tool(query)


model = ChatOpenAI(model="fake", base_url=f"{FAKE}/v1", api_key=API_KEY).bind_tools([lookup])


async def ask_model(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await model.ainvoke([("system", INSTRUCTIONS), *state["messages"]])]}


async def require_approval(state: MessagesState) -> dict[str, Any]:
    if interrupt("Run the tool call?") is not True:
        raise ValueError("The tool call was rejected.")
    return {}


def next_node(state: MessagesState) -> str:
    return "tools" if state["messages"][-1].tool_calls else END


def build(*, approval: bool) -> StateGraph:
    graph = StateGraph(MessagesState)
    graph.add_node("model", ask_model)
    graph.add_node("call_tools", ToolNode([lookup]))
    graph.add_edge(START, "model")
    graph.add_edge("call_tools", "model")
    first = "call_tools"
    if approval:
        graph.add_node("approval", require_approval)
        graph.add_edge("approval", "call_tools")
        first = "approval"
    graph.add_conditional_edges("model", next_node, {"tools": first, END: END})
    return graph


plain = build(approval=False).compile()
careful = build(approval=True).compile()
