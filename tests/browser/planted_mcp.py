"""An MCP server over standard input and output that calls its tools what it likes."""

from mcp.server.mcpserver import MCPServer

from tests.browser.hostile import ONE, SHORT

SERVER = MCPServer("planted")


async def said(x: str) -> str:
    return ONE + x


for number, name in enumerate(one for one in SHORT if one):
    SERVER.add_tool(said, name=f"t{number} {name}", description=name)

if __name__ == "__main__":
    SERVER.run("stdio")
