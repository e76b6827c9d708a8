"""docs/how-to/troubleshooting.md names only messages, codes and log events that exist."""

import re
from functools import cache

from tests.error_reference import ROOT, read_http_errors, read_source

PAGE = ROOT / "docs/how-to/troubleshooting.md"


@cache
def read_code() -> str:
    """Return the source of Runward. Literals that continue on the next line are joined."""
    sources = (ROOT / "app/runward").rglob("*.py")
    text = "\n".join(path.read_text("utf-8") for path in sorted(sources))
    return re.sub(r"""["'] *\n? *f?["']""", "", text)


def test_the_messages_are_those_of_the_code() -> None:
    table = (
        PAGE.read_text("utf-8").partition("## A process does not start")[2].partition("\n## ")[0]
    )
    messages = re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)
    assert len(messages) > 8
    assert [one for one in messages if one not in read_code()] == []


def test_the_codes_and_log_events_are_those_of_the_code() -> None:
    source = read_source()
    known = {*read_http_errors(), *source["run"], *source["call"]}
    names = set(re.findall(r"`([a-z]+(?:[_.][a-z]+)+)`", PAGE.read_text("utf-8")))
    assert len(names) > 20
    assert [name for name in names - known if name not in read_code()] == []
