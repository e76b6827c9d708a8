"""The commands for a running service. They use only the public API."""
