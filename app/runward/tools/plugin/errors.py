"""The errors of plugins."""


class PluginError(Exception):
    """A plugin cannot be used. The message names the module and the function."""


class ToolError(Exception):
    """An error for the model: raise it in a tool, and the model reads its text. For any other
    exception, the model learns only that the tool failed."""


class ToolContextError(Exception):
    """A tool asked its context for something that does not exist, or gave it an invalid value."""
