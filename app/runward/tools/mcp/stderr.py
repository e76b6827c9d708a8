"""The standard error of an MCP server that is started by a command. It is copied to the service's
own, and the last line is kept for error messages."""

import asyncio
import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

from runward.domain.json import clean_text

MAX_LINE: Final = 300
"""Characters of the last line."""
_READ_BYTES: Final = 65_536
_LINE_BYTES: Final = 4096
"""Bytes of a line's beginning. The end alone could be a credential without its name."""
_HIDDEN: Final = "…"
_CREDENTIALS: Final = re.compile(
    r"""(?ix)
    (?P<name> (?<![\w-])
        (?= [\w-]*?
            (?: api[_-]?key | token | secret | passw(?:or)?d | authorization | credential ) )
        [\w-]++ ["']? \s*+ [=:] \s*+ ) (?: (?:bearer|basic) \s+ )? [^\s,;]+
    | (?P<scheme> \b (?:bearer|basic) \s+ ) \S+
    | (?P<user> :// ) [^\s/@]+ @
    | \b (?: sk | pk | rw | ghp | gho | github_pat | glpat | xox[a-z] | eyJ ) [-_.]? [\w.-]{16,}
    """
)


class StandardError:
    """The standard error of one process."""

    def __init__(self) -> None:
        self._line = self._rest = b""

    @property
    def last_line(self) -> str:
        """The last line that is not empty, without credentials. Empty if there is none."""
        last = (self._rest if self._rest.strip() else self._line).decode(errors="replace")
        printable = "".join(c if c.isprintable() else " " for c in clean_text(last))
        return without_credentials(" ".join(printable.split()))[:MAX_LINE]

    @contextmanager
    def open_file(self) -> Generator[TextIO]:
        """Yield the file that the process writes to. Everything written is read when the block
        ends."""
        loop = asyncio.get_running_loop()
        source, target = os.pipe()
        os.set_blocking(source, False)
        loop.add_reader(source, self._read, source)
        try:
            with os.fdopen(target, "w") as file:
                yield file
        finally:
            loop.remove_reader(source)
            self._read(source)
            os.close(source)

    def _read(self, source: int) -> None:
        try:
            data = os.read(source, _READ_BYTES)
        except BlockingIOError:
            return
        *lines, rest = (self._rest + data).split(b"\n")
        self._line = next((one for one in reversed(lines) if one.strip()), self._line)[:_LINE_BYTES]
        self._rest = rest[:_LINE_BYTES]
        with suppress(OSError, ValueError):  # the service's own may be closed
            sys.stderr.write(data.decode(errors="replace"))
            sys.stderr.flush()


def without_credentials(text: str) -> str:
    """Return the text without anything that looks like a key, a token or a password."""
    return _CREDENTIALS.sub(
        lambda found: f"{found['name'] or found['scheme'] or found['user'] or ''}{_HIDDEN}", text
    )
