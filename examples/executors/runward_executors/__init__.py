"""Executors of tools that models know by kind. pyproject.toml's entry point names this module."""

from runward_executors.apply_patch import apply_patch
from runward_executors.computer import computer
from runward_executors.shell import shell

TOOLS = [shell, apply_patch, computer]
