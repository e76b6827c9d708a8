"""Hostile peers: tools, models, MCP servers, addresses, rules and schemas that attack Runward."""
