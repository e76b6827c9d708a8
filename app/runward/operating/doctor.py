"""`runward doctor`: look at a set-up as its processes would find it, and say what to do."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Final

import httpx2
import typer
from pydantic import ValidationError
from rich.text import Text

from runward.cli.connection import address, kept_key
from runward.cli.escaping import visible_line
from runward.cli.exits import Exit
from runward.cli.printing import STYLES, console, print_json
from runward.operating.database_findings import of_database
from runward.operating.environment import problems_of
from runward.operating.findings import Finding, of_settings
from runward.settings import Settings, unknown_variables

API_SECONDS: Final = 5.0
UNAUTHORIZED: Final = 401


def examine(url: str | None, key: str | None, *, as_json: bool) -> None:
    """Prints each finding when it is there; ends with 1 if one of them failed."""
    findings: list[Finding] = []

    def found(finding: Finding) -> None:
        findings.append(finding)
        if not as_json:
            _show(finding)

    problems = unknown_variables(os.environ)
    try:
        settings = Settings()  # pyright: ignore[reportCallIssue]  # from the environment
    except ValidationError as error:
        settings = None
        problems += [line.strip() for line in problems_of(error)]
    if problems or settings is None:
        what_next = "Correct them: docs/deploying.md lists all."
        found(Finding("settings", "fail", "; ".join(problems), what_next))
    else:
        found(Finding("settings", "ok", "the environment is valid"))
        asyncio.run(_examine(settings, found))
        found(_api(url, key))
    failed = sum(one.status == "fail" for one in findings)
    warned = sum(one.status == "warn" for one in findings)
    if as_json:
        print_json({"ok": failed == 0, "findings": [asdict(one) for one in findings]})
    else:
        console().print(Text(f"\n{_count(failed, 'failure')}, {_count(warned, 'warning')}."))
    if failed:
        raise typer.Exit(int(Exit.FAILED))


async def _examine(settings: Settings, found: Callable[[Finding], None]) -> None:
    for finding in of_settings(settings):
        found(finding)
    async for finding in of_database(settings):
        found(finding)


def _api(url: str | None, key: str | None) -> Finding:
    """Whether it answers, and knows the key, if there is one."""
    where, local = address(url)
    key = key or (kept_key() if local else None)
    try:
        with httpx2.Client(base_url=where, timeout=API_SECONDS, trust_env=not local) as http:
            ready = http.get("/readyz")
            headers = {"Authorization": f"Bearer {key}"}
            known = http.get("/v1/capabilities", headers=headers) if key else None
    except httpx2.TransportError as error:
        return Finding(
            "api",
            "warn",
            f"nothing answers at {where}: {error}",
            "Start it (`make run`, or `runward api`), or say where it is: --url or RUNWARD_URL.",
        )
    if not ready.is_success:
        return Finding(
            "api",
            "fail",
            f"{where} answers {ready.status_code} and is not ready",
            "If that is Runward, its log says why; its database is the first suspect.",
        )
    if known is None:
        return Finding("api", "ok", f"{where} is ready; without --key no key was tried")
    if known.status_code == UNAUTHORIZED:
        return Finding(
            "api",
            "fail",
            f"{where} is ready, but does not know the key",
            "Set RUNWARD_KEY to a valid one. If every key is unknown, RUNWARD_SECRET_KEY of the "
            "API is not the former one.",
        )
    return Finding("api", "ok", f"{where} is ready and knows the key")


def _show(finding: Finding) -> None:
    line = Text(f"{finding.status:4}", style=STYLES[finding.status])
    line.append(f"  {finding.check:10}  {visible_line(finding.detail)}", style="none")
    console().print(line, soft_wrap=True)
    if finding.remedy:
        console().print(Text(f"{'':18}→ {visible_line(finding.remedy)}"), soft_wrap=True)


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
