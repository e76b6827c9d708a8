"""What /mcp refuses in words of JSON-RPC 2.0: the client is at fault, not the call."""

from typing import Final

INVALID_PARAMS: Final = -32_602


class McpRequestError(Exception):
    """Becomes the error of the response."""

    def __init__(self, message: str, code: int = INVALID_PARAMS) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
