"""Diffs of one file in the V4A format, which OpenAI's models write for its `apply_patch` tool.

A new file is lines that begin with +. A change is sections: `@@ anchor` lines say behind which line
to look (several narrow it down, a bare `@@` only separates), then lines that begin with a space
(context), - or +. The context and the removed lines together must be found in the file: as they
are, or else without their trailing spaces, or else without their leading ones too. A section that
ends with `*** End of File` is looked for at the end first.

The reference is `agents/apply_diff.py` of the Python package openai-agents (MIT). Different here:
untouched lines keep their own line endings; each line of a new file ends, the last one too; an
anchor that is not in the file is passed over only if the section fits in one place alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

END_OF_FILE = "*** End of File"
END_OF_PATCH = "*** End Patch"
LOOSER: Sequence[Callable[[str], str]] = (lambda line: line, str.rstrip, str.strip)


class DiffError(ValueError):
    """An error whose message is for the model that wrote the diff."""


@dataclass(slots=True)
class Section:
    """One section of a diff. `lines` are pairs of sign and text. If `at_end` is true, the end of
    the file is searched first."""

    anchors: list[str] = field(default_factory=list[str])
    lines: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def changes_nothing(self) -> bool:
        return all(sign == " " for sign, _ in self.lines)


def created(diff: str) -> str:
    """Return the text of a new file. Raises DiffError."""
    lines = _lines(diff)
    for number, line in enumerate(lines, 1):
        if not line.startswith("+"):
            raise DiffError(f"Line {number} of the diff must begin with +, as in every new file.")
    return "".join(f"{line[1:]}\n" for line in lines)


def updated(text: str, diff: str) -> str:
    """Return the changed text. Raises DiffError."""
    whole = _split(text)
    plain = [line.rstrip("\n").removesuffix("\r") for line in whole]
    ending = "\r\n" if whole and whole[0].endswith("\r\n") else "\n"
    result: list[str] = []
    done = cursor = 0
    for section in _sections(_lines(diff)):
        at = _place(plain, section, cursor)
        result += whole[done:at]
        for sign, text_of_line in section.lines:
            if sign == "+":
                result.append(text_of_line + ending)
            elif sign == " ":
                result.append(whole[at])
            at += sign != "+"
        done = cursor = at
    result += whole[done:]
    return "".join([_ended(line, ending) for line in result[:-1]] + result[-1:])


def _split(text: str) -> list[str]:
    """With their endings; only \\n ends a line, so that no other character is lost."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _ended(line: str, ending: str) -> str:
    return line if line.endswith("\n") else line + ending


def _lines(diff: str) -> list[str]:
    lines = [line.removesuffix("\r") for line in diff.split("\n")]
    if lines[-1] == "":
        lines.pop()
    if lines and lines[-1] == END_OF_PATCH:
        lines.pop()
    if not lines:
        raise DiffError("The diff is empty.")
    return lines


def _sections(lines: list[str]) -> list[Section]:
    found = _read(lines)
    if found[-1] == Section():
        found.pop()
    if not found or any(section.changes_nothing for section in found):
        raise DiffError("A section of the diff changes nothing: it has no line with + or -.")
    return found


def _read(lines: list[str]) -> list[Section]:
    found = [Section()]
    for number, line in enumerate(lines, 1):
        if line == "@@" or line.startswith("@@ "):
            if found[-1].lines:
                found.append(Section())
            if line[3:].strip():
                found[-1].anchors.append(line[3:])
        elif line == END_OF_FILE and found[-1].lines:
            found[-1].at_end = True
            found.append(Section())
        elif line == "" or line[0] in " +-":
            found[-1].lines.append((line[:1] or " ", line[1:]))
        else:
            raise DiffError(f"Line {number} of the diff must begin with a space, +, - or @@.")
    return found


def _place(plain: list[str], section: Section, cursor: int) -> int:
    """Return the index at which the section's lines begin. Raises DiffError."""
    start, missing = _behind_anchors(plain, section.anchors, cursor)
    if not section.old:
        if missing is not None:
            raise DiffError(f"The file has no line {missing!r} to insert behind.")
        return len(plain) if section.at_end else start
    places = _found(plain, section, start)
    if not places and section.lines[-1] == (" ", ""):
        section.lines.pop()  # what is behind the last line's end, taken for a line of its own
        section.at_end = True
        places = _found(plain, section, start)
    if not places:
        shown = "\n".join(section.old)
        raise DiffError(f"These lines are not in the file from line {start + 1} on:\n{shown}")
    if missing is not None and len(places) > 1:
        raise DiffError(
            f"The file has no line {missing!r}, and without it the section fits in "
            f"{len(places)} places."
        )
    return places[0]


def _behind_anchors(plain: list[str], anchors: list[str], cursor: int) -> tuple[int, str | None]:
    """Where to look from, and the last anchor that is nowhere. What stands before the first
    anchor's section already is where we are."""
    missing = None
    for number, anchor in enumerate(anchors):
        for looser in (LOOSER[0], LOOSER[-1]):
            same = [at for at, line in enumerate(plain) if looser(line) == looser(anchor)]
            if number == 0 and same and same[0] < cursor:
                break
            if later := [at for at in same if at >= cursor]:
                cursor = later[0] + 1
                break
        else:
            missing = anchor
    return cursor, missing


def _found(plain: list[str], section: Section, start: int) -> list[int]:
    """Return all matches from `start` on, by the first comparison that finds any."""
    old = section.old
    last = len(plain) - len(old)
    starts = [max(start, last), start] if section.at_end else [start]
    for first in starts:
        for looser in LOOSER:
            wanted, have = [looser(line) for line in old], [looser(line) for line in plain]
            places = [at for at in range(first, last + 1) if have[at : at + len(old)] == wanted]
            if places:
                return places
    return []
