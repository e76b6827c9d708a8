"""The documentation says what the code does, where a machine can compare the two."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import AliasChoices, BaseModel

from runward.domain.events.kinds import STORED, TRANSIENT
from runward.domain.events.values import ApprovalStatus, CallReason
from runward.domain.registry.scopes import Scope
from runward.domain.registry.tools import RETRYABLE_STATUSES
from runward.domain.run import texts
from runward.domain.run.status import TERMINAL, RunStatus
from runward.llm.capabilities import capability_table
from runward.llm.providers.access import ProviderAccess, ProviderName
from runward.llm.providers.models import ProviderModel
from runward.settings import Settings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for folder in ("docs", "examples", "sdks")
    for page in (*ROOT.glob("*.md"), *(ROOT / folder).rglob("*.md"))
    if "node_modules" not in page.parts
)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|Users|work|root|tmp/w|mnt|workspace)/\S*")
SAMPLE_TEXTS = (
    texts.timed_out("NAME", 30, idempotent=False),
    texts.unknown_tool("NAME", ["A", "B"]),
    texts.unknown_tool("NAME", []),
    texts.tool_gone("NAME"),
    texts.search_first("NAME"),
    texts.cut_result("ID"),
    texts.no_result("ID"),
    texts.invalid_arguments("NAME", []).strip(),
    texts.edited("ARGUMENTS"),
    texts.repair([]).strip(),
    texts.handoff("NAME", "DESCRIPTION"),
    texts.handed_over("NAME"),
    texts.call_this_tool("NAME"),
    texts.malformed_call("PROBLEM"),
    texts.too_much_state(70_000, 65_536),
)


def read(page: Path) -> str:
    return page.read_text("utf-8")


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """The first table below `heading`: its first cell, without backticks, to the others."""
    lines = iter(read(DOCS / page).partition(f"\n{heading}\n")[2].splitlines())
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("|"):
            first, *others = (cell.strip() for cell in line.strip("|").split(" | "))
            found[first.strip("`")] = [cell.removesuffix(" |") for cell in others]
        elif found:
            break
    assert found, f"no table below {heading!r} in {page}"
    return dict(list(found.items())[2:])


def anchors(page: Path) -> set[str]:
    """As they are made from headings."""
    found: set[str] = set()
    for line in re.sub(r"^```.*?^```", "", read(page), flags=re.M | re.S).splitlines():
        if line.startswith("#"):
            words = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            found.add(words.replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere_and_nothing_names_a_machine(page: Path) -> None:
    text = read(page)
    for link in LINK.findall(text):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
    assert not MACHINE_PATH.search(text)


def test_every_page_can_be_found_from_the_readme() -> None:
    seen: set[Path] = set()
    left = [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        for link in LINK.findall(read(page)):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.is_file():
                left.append(target)
    assert set(DOCS.rglob("*.md")) <= seen


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = read(DOCS / "site" / "zensical.toml").partition("\nnav = ")[2].partition("\n[")[0]
    listed = re.findall(r'"([\w/-]+\.md)"', navigation)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_the_changelog_has_no_entries_that_a_merge_brought_back() -> None:
    changelog = read(ROOT / "CHANGELOG.md")
    joined = re.findall(r"^#+ .+\n(?!\n)", changelog, re.MULTILINE)
    titles = re.findall(r"^(?:- \*\*|### )(.+)", changelog, re.MULTILINE)
    twice = {
        name
        for name, count in Counter(title.partition("**")[0] for title in titles).items()
        if count > 1
    }
    assert not joined and not twice, "take the version of the main branch, and add your entry to it"


def documented(default: Any) -> str | None:
    """How a default is written; None: in words."""
    match default:
        case None:
            return None
        case ():
            return "none"
        case bool():
            return f"`{str(default).lower()}`"
        case BaseModel():
            return f"`{json.dumps(default.model_dump(exclude_none=True))}`"
        case timedelta():
            return f"`{default.total_seconds():g}`"
        case _:
            return f"`{default}`"


def settings() -> Iterator[tuple[str, Any]]:
    for name, field in Settings.model_fields.items():
        alias: Any = field.validation_alias
        if isinstance(alias, AliasChoices):
            alias = alias.choices[0]
        yield (alias or f"RUNWARD_{name.upper()}"), field.default


def test_every_setting_is_listed_with_its_unit_and_default() -> None:
    page = read(DOCS / "reference/configuration.md")
    headings = re.findall(r"^## .+(?=\n(?:\n[^#|].*(?:\n.+)*\n)?\n\| variable)", page, re.MULTILINE)
    tables = [rows("reference/configuration.md", heading) for heading in headings]
    listed = {name: cells for table in tables for name, cells in table.items()}
    assert sum(map(len, tables)) == len(listed)
    assert sorted(listed) == sorted(name for name, _ in settings())
    for name, default in settings():
        unit, shown, what = listed[name]
        assert unit, name
        assert what, name
        assert shown == (documented(default) or shown) != "", name


@pytest.mark.parametrize(
    ("heading", "types"), [("## Types", STORED), ("## Transient events", TRANSIENT)]
)
def test_every_event_type_is_listed_with_what_it_says(
    heading: str, types: Mapping[str, type[Any]]
) -> None:
    listed = rows("reference/events.md", heading)
    assert {name: cells[0] for name, cells in listed.items()} == {
        name: " ".join((kind.__doc__ or "").split()) for name, kind in types.items()
    }


def test_every_text_for_models_is_quoted() -> None:
    quoted = read(DOCS / "reference/model-texts.md")
    constants = [
        value
        for name, value in vars(texts).items()
        if name.isupper() and isinstance(value, str) and name != "UNKNOWN_OUTCOME"
    ]
    assert len(constants) > 10
    for text in (*constants, *SAMPLE_TEXTS):
        assert f"`{text}`" in quoted


def test_every_status_reason_and_scope_is_listed() -> None:
    runs = rows("explanation/concepts.md", "## Run statuses")
    assert list(runs) == [str(status) for status in RunStatus]
    assert {name for name, cells in runs.items() if cells[-1] == "yes"} == set(TERMINAL)
    assert set(rows("how-to/approvals.md", "## The inbox")) == set(ApprovalStatus)
    assert set(rows("reference/keys-and-scopes.md", "## Scopes")) == set(Scope)
    events = read(DOCS / "reference/events.md")
    assert all(f"`{reason}`" in events for reason in CallReason)
    listed = [
        row for row in rows("reference/webhook-requests.md", "## Retries") if row[0].isdigit()
    ]
    assert [int(status) for status in listed[0].split(", ")] == sorted(RETRYABLE_STATUSES)


def test_every_operation_is_listed_with_its_scopes() -> None:
    document = json.loads((ROOT / "openapi/openapi.json").read_text("utf-8"))
    scopes: dict[str, str] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            words = " or ".join(f"`{scope}`" for scope in operation.get("x-required-scopes", ()))
            scopes[f"{method.upper()} {path}"] = words or (
                "any" if operation["security"] else "none"
            )
    listed = rows("reference/keys-and-scopes.md", "## Operations")
    assert {operation: cells[0] for operation, cells in listed.items()} == scopes


def test_what_the_architecture_names_is_there() -> None:
    for path in re.findall(
        r"`((?:app|migrations|tests)/[\w/.]*)`", read(DOCS / "explanation/architecture.md")
    ):
        assert (ROOT / path).exists(), path


def test_the_table_of_what_providers_take_is_the_one_that_the_code_makes() -> None:
    assert capability_table() in read(DOCS / "reference/models.md"), (
        "run `python -m runward models` and put it in there"
    )


def test_what_each_provider_takes_is_what_its_adapter_says() -> None:
    table = rows("reference/models.md", "### Requests by provider")
    providers: tuple[ProviderName, ...] = ("anthropic", "gemini", "bedrock")
    for at, provider in enumerate(providers):
        can = ProviderModel(provider, ProviderAccess()).abilities
        settings = re.findall(r"`(\w+)`", table["further settings"][at])
        hosted = re.findall(r"`(\w+)`", table["[hosted tools](../how-to/hosted-tools.md)"][at])
        assert {*settings, "reasoning"} == can.settings, provider
        assert set(hosted) == can.hosted, provider


def test_the_path_of_one_run_is_drawn_as_long_as_it_is() -> None:
    page = (ROOT / "docs" / "explanation/architecture.md").read_text("utf-8")
    path = page.partition("## The path of one run")[2].partition("\n## ")[0]
    drawn = {file: int(count) for file, count in re.findall(r"^\| `(.+?)` \| (\d+) \|", path, re.M)}
    assert f"{len(drawn)} files" in path
    assert f"| all | {sum(drawn.values())} |" in path
    for file, count in drawn.items():
        lines = len((ROOT / "app" / "runward" / file).read_text("utf-8").splitlines())
        assert abs(lines - count) <= count / 10, (file, lines)
