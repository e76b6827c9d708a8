"""The output of `serve`: its slow steps, and the addresses and commands for a first run."""

import json
import shlex
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from runward.settings import Settings

FIRST_INPUT = (
    'lookup_order(order="A-1017") refund(order="A-1017", amount=50) '
    'refund(order="A-1018", amount=500)'
)
"The offline model makes exactly these calls. The last call requires approval."


def configured_providers(settings: Settings) -> tuple[str, ...]:
    """Return the names of the providers that are configured. A model's name begins with one of
    them."""
    openai = settings.openai_api_key or settings.openai_base_url
    aws_key = settings.aws_access_key_id and settings.aws_secret_access_key
    given = {
        "openai": openai,
        "openai-responses": openai,
        "anthropic": settings.anthropic_api_key or settings.anthropic_base_url,
        "gemini": settings.gemini_api_key or settings.gemini_base_url,
        "bedrock": settings.aws_bearer_token_bedrock or aws_key,
    }
    return tuple(name for name, value in given.items() if value)


@dataclass(frozen=True, slots=True)
class Banner:
    """The text that `serve` prints. `address` has no slash at the end. The other fields are set
    only with the embedded database, because the keys of a server are not printed."""

    address: str
    api_key: str | None = None
    data_dir: Path | None = None
    tools_url: str | None = None
    loopback_allowed: bool = False
    providers: tuple[str, ...] = ()
    """The configured providers."""

    def format(self) -> str:
        facts = list(self._list_facts())
        width = max(len(name) for name, _ in facts)
        lines = ["", "Runward is ready.", ""]
        lines += [f"  {name:{width}}  {value}" for name, value in facts]
        lines += ["", "Press Ctrl-C to stop.", ""]
        if self.tools_url is not None:
            lines += self._format_first_run()
        return "\n".join(lines) + "\n"

    def _list_facts(self) -> Iterator[tuple[str, str]]:
        yield "API", self.address
        offered = "" if self.api_key is None else f"#key={self.api_key}"
        yield "Console", f"{self.address}/{offered}"
        yield "API docs", f"{self.address}/docs"
        if self.api_key is not None:
            yield "Key", self.api_key
        if self.data_dir is not None:
            yield "Data", f"{self.data_dir}   (embedded PostgreSQL, for development on one machine)"
        if self.tools_url is not None:
            yield "Tools", f"lookup_order and refund (example tools at {self.tools_url})"
        models = "offline:rules   (a rule-based model that needs no key)"
        yield "Models", ", ".join([models, *(f"{name}:NAME" for name in self.providers)])
        if self.loopback_allowed:
            yield (
                "Targets",
                "public addresses and addresses of this machine (default with the "
                "embedded database);",
            )
            yield "", "set RUNWARD_ALLOW_PRIVATE_TARGETS to change this"

    def _format_first_run(self) -> list[str]:
        return [
            "Start a first run. Paste this line into another terminal:",
            "",
            self.format_first_command(),
            "",
            "One refund is above 100, so the run waits for your approval. Decide in the console,",
            f"{self.address}/#/inbox, or as README.md shows. To stream the events of a run:",
            "",
            f"curl -N {shlex.quote(f'{self.address}/v1/runs/RUN_ID/events')} "
            f"-H {shlex.quote(self._authorization)} -H 'Accept: text/event-stream'",
            "",
        ]

    def format_first_command(self) -> str:
        """Return a shell command that starts the first run."""
        body = {
            "model": "offline:rules",
            "tools": ["lookup_order", "refund"],
            "input": FIRST_INPUT,
        }
        return (
            f"curl -sS {shlex.quote(f'{self.address}/v1/runs?wait=10')} "
            f"-H {shlex.quote(self._authorization)} -H 'Content-Type: application/json' "
            f"-d {shlex.quote(json.dumps(body))}"
        )

    @property
    def _authorization(self) -> str:
        return f"Authorization: Bearer {self.api_key}"


class ProgressPrinter:
    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._begun: float | None = None

    def start_step(self, text: str) -> None:
        """Start the step that `text` names, and end the step before it."""
        self._end_step()
        self._begun = time.monotonic()
        self._write(f"{text} … ")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._end_step()
        elif self._begun is not None:
            self._write("\n")

    def _end_step(self) -> None:
        if self._begun is not None:
            self._write(f"{time.monotonic() - self._begun:.1f} s\n")
            self._begun = None

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # standard output is closed
            self._out.write(text)
            self._out.flush()
