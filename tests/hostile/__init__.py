"""Hostile peers: tools, models, MCP servers, addresses, rules and schemas that mean harm."""
