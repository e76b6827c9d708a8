"""A plugin for tests: tools that speak to the run that they are called in."""

from runward.tools import ToolContext, tool


@tool
def hand_to(ctx: ToolContext, agent: str) -> str:
    """Give the run to another agent.

    Args:
        agent: To whom.
    """
    ctx.transfer_to(agent)
    return f"given to {agent}"


@tool
def good_enough(ctx: ToolContext, word: str) -> str:
    """Say that this is good enough.

    Args:
        word: What is.
    """
    ctx.escalate()
    return word


@tool
def write_down(ctx: ToolContext, key: str, value: str | None = None) -> str:
    """Write something down for whoever comes next.

    Args:
        key: Under which key.
        value: What; nothing removes the key.
    """
    if value is None:
        del ctx.state[key]
    else:
        ctx.state[key] = value
    return "written"


@tool
def look_up(ctx: ToolContext, key: str) -> str:
    """What was written down under a key.

    Args:
        key: Under which key.
    """
    return str(ctx.state.get(key, "nothing"))
