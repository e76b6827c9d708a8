"""A page as a story: its blocks are taken from top to bottom, and each is run or compared.

    with Story("docs/how-to/agents.md", project.client, tmp_path) as page:
        page.http()                              # its requests are sent
        [action] = page.http()["required_actions"]
        page.shows(action)                       # the page's JSON is what was answered

What is left at the end fails. In a page `…` stands for what the reader has: `rw_…` is the key, and
`run_…`, `apr_…` and so on are the last ones that were answered.
"""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qsl

import pytest

from tests.docs.blocks import ROOT, Block, blocks
from tests.docs.likeness import differences
from tests.docs.not_run import reason
from tests.docs.shell import Shell, answers
from tests.support.services.client import ApiError, Client, frames
from tests.support.services.forks import inherited_environment

READY: Final = "Runward is ready."
SETTING: Final = "getting-started.md#address-and-key"
HERE: Final = "http://127.0.0.1:8080"
GIVEN: Final = re.compile(r"\b([a-z]+_|sha256:)[0-9a-f]{32,64}\b")
ELIDED: Final = re.compile(r"\b([a-z]+_|sha256:)…")
MORE: Final = '{"…": "…"}'
REQUEST: Final = re.compile(r"^(GET|POST|PUT|PATCH|DELETE) (/\S*)$", re.MULTILINE)


class Story:
    """`instead`: texts of the page, by what they are here. `env`: what the reader's terminal has
    besides PATH and the like, and RUNWARD_URL and RUNWARD_KEY where the page links to their
    setting. `folder` is for files."""

    def __init__(
        self,
        page: str,
        client: Client,
        folder: Path,
        instead: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.page = page
        self._client = client
        self._folder = folder
        self._left = list(blocks(page))
        self._at: Block | None = None
        self._instead = instead or {}
        whole = "".join(block.text for block in self._left)
        assert all(text in whole for text in self._instead), self._instead
        self._env = inherited_environment() | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            **self._stated(),
            "PYTHONUNBUFFERED": "1",
            **(env or {}),
        }
        self._seen: dict[str, str] = {}
        self._names: dict[str, Any] = {"__name__": page}
        self._shell: Shell | None = None
        self._open = ExitStack()

    def _stated(self) -> dict[str, str]:
        """Return the address and the key if the page says how a reader sets them. Any other page
        begins with neither, as a newcomer's terminal does."""
        if SETTING not in (ROOT / self.page).read_text("utf-8"):
            return {}
        return {"RUNWARD_URL": self._client.url, "RUNWARD_KEY": self._client.key}

    # -- what a block is ----------------------------------------------------------------------

    def take(self, *languages: str) -> Block:
        """The next one, which is in one of `languages`."""
        assert self._left, f"{self.page} has no block left"
        block = self._at = self._left.pop(0)
        assert block.language in languages, f"{block} is in {block.language!r}, not {languages}"
        return block

    def not_run(self) -> str:
        """It is one of `NOT_RUN`. Its text."""
        block = self.take("sh", "text", "python")
        assert reason(block), f"{block} is not run, and tests/docs/not_run.py does not say why"
        return block.text

    def elsewhere(self, test: str) -> None:
        """It is run by another test, a file of this folder, which names the page."""
        block = self.take("bash", "go", "js", "php", "python", "ruby", "ts")
        source = (Path(__file__).parent / test).read_text("utf-8")
        assert f'"{self.page}"' in source, f"{block} is not run by {test}"

    def sh(self) -> str:
        """Runs it in the page's shell. What it printed."""
        shown = self._bash.run(self._written("sh", "bash"))
        self.remember(shown)
        return shown

    def run(self, command: str) -> str:
        """Runs something of the test's in the page's shell. What it printed."""
        return self._bash.run(command)

    def begin(self, command: str, until: str) -> str:
        """Begin something of the test's in the page's shell, and go on when it has printed a line
        with `until`. What it printed before that."""
        return self._bash.begin(command, until)

    def variable(self, name: str) -> str:
        """Runs it, too. What the variable is then."""
        self.sh()
        return self.run(f'printf %s "${name}"')

    def serve(self, until: str = READY) -> str:
        """Begins it, in the page's shell, and goes on when it has printed a line with `until`. What
        it printed before that."""
        return self._bash.begin(self._written("sh", "bash"), until)

    def curl(self) -> Any:
        """The same as `sh`; the last JSON that it printed."""
        return answers(self.sh())[-1]

    def http(self) -> Any:
        """Sends its requests, one after the other. The last one's answer."""
        block = self.take("http")
        first, *pieces = REQUEST.split(block.text)
        assert not first.strip(), block
        answer: Any = None
        for request in zip(pieces[0::3], pieces[1::3], pieces[2::3], strict=True):
            method, path, body = (self._filled(piece, block) for piece in request)
            path, _, query = path.partition("?")
            sent = json.loads(body) if body.strip() else None
            answer = self._client.call(method, path, sent, **dict(parse_qsl(query)))
            self.remember(json.dumps(answer))
        return answer

    def json(self) -> Any:
        """The value that it is."""
        return json.loads(self._written("json"))

    def shows(self, real: Any) -> None:
        """It is JSON, and `real` is that but for ids, times and what `…` stands for."""
        block = self.take("json")
        wrong = list(differences(json.loads(self._here(block.text)), real))
        assert not wrong, f"{block}: " + "\n".join(wrong)

    def refused(self) -> Any:
        """Sends its one request, which is refused. The problem."""
        with pytest.raises(ApiError) as refusal:
            self.http()
        return refusal.value.problem

    def streamed(self, lines: Sequence[str]) -> None:
        """It is what a stream begins with, and its events are among those of `lines`. Comments are
        not looked for."""
        block = self.take("sse")
        start, *shown = self._here(block.text).strip().split("\n\n")
        assert lines[0] == start, block
        real = {frame.type: frame for frame in reversed(list(frames(lines)))}
        for frame in frames([*"\n\n".join(shown).replace("{…}", MORE).splitlines(), ""]):
            other = real[frame.type]
            assert frame.id == other.id, block
            wrong = list(differences(frame.data, other.data))
            assert not wrong, f"{block}: " + "\n".join(wrong)

    def python(self) -> dict[str, Any]:
        """Runs it, where those before it have run. The names that there are then."""
        block = self.take("python")
        source = "\n" * block.line + self._filled(block.text, block)
        exec(compile(source, self.page, "exec"), self._names)
        return self._names

    def program(self, until: str = "") -> str:
        """Runs it as a program to its end, or until it has printed a line with `until`. What it
        printed before that."""
        command = f"{sys.executable} {self.save('program.py')}"
        return self._bash.begin(command, until) if until else self._bash.run(command)

    def save(self, name: str) -> Path:
        """Writes it into a file of the page's folder."""
        file = self._folder / name
        file.write_text(self._written("python", "js", "ts"), "utf-8")
        return file

    def save_named(self) -> Path:
        """Write it into the file that a comment in its first line names."""
        return self.save(self._left[0].text.split()[1])

    def remember(self, answered: str) -> None:
        """The ids in it are the last ones of their kinds."""
        for found in GIVEN.finditer(answered):
            self._seen[found[1]] = found[0]

    # -- what it takes ------------------------------------------------------------------------

    @property
    def _bash(self) -> Shell:
        if self._shell is None:
            self._shell = self._open.enter_context(Shell(self._env, self._folder))
        return self._shell

    def _here(self, text: str) -> str:
        for shown, here in self._instead.items():
            text = text.replace(shown, here)
        text = text.replace(HERE, self._client.url).replace("rw_…", self._client.key)
        return text.replace(".venv/bin/python", sys.executable)

    def _written(self, *languages: str) -> str:
        """The next block, as a reader would type it."""
        block = self.take(*languages)
        return self._filled(block.text, block)

    def _filled(self, text: str, block: Block) -> str:
        def last(found: re.Match[str]) -> str:
            assert found[1] in self._seen, f"{block}: no {found[0]} was answered before"
            return self._seen[found[1]]

        return ELIDED.sub(last, self._here(text))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()
        if error is not None:
            error.add_note(f"at the block {self._at}")
        else:
            assert not self._left, f"not run: {', '.join(map(str, self._left))}"
