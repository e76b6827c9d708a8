"""`runward doctor`: check the configuration of this machine and explain how to correct it."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final

import httpx2
import typer
from pydantic import ValidationError
from rich.text import Text

from runward.cli.connection import read_local_key, resolve_address
from runward.cli.escaping import escape_line
from runward.cli.exits import Exit, fail
from runward.cli.printing import STYLES, create_console, print_json
from runward.operating.bundle import Bundle
from runward.operating.environment import list_problems
from runward.operating.finding import Finding
from runward.operating.findings import check_database, check_settings
from runward.settings import Settings, find_unknown_variables

API_SECONDS: Final = 5.0
UNAUTHORIZED: Final = 401


def run_doctor(
    url: str | None, key: str | None, *, as_json: bool, bundle_path: Path | None = None
) -> None:
    """Print each finding as soon as its check ends, and write the bundle. The exit code is 1 if a
    check failed."""
    bundle = Bundle() if bundle_path else None
    findings: list[Finding] = []

    def found(finding: Finding) -> None:
        findings.append(finding)
        if not as_json:
            _print_finding(finding)

    _check_everything(url, key, found, bundle)
    failed = sum(one.status == "fail" for one in findings)
    warned = sum(one.status == "warn" for one in findings)
    if as_json:
        print_json({"ok": failed == 0, "findings": [asdict(one) for one in findings]})
    else:
        create_console().print(
            Text(f"\n{_format_count(failed, 'failure')}, {_format_count(warned, 'warning')}.")
        )
    if bundle is not None and bundle_path is not None:
        bundle.add_findings(findings)
        _write_bundle(bundle, bundle_path)
    if failed:
        raise typer.Exit(int(Exit.FAILED))


def _check_everything(
    url: str | None, key: str | None, found: Callable[[Finding], None], bundle: Bundle | None
) -> None:
    problems = find_unknown_variables(os.environ)
    try:
        settings = Settings()  # pyright: ignore[reportCallIssue]  # from the environment
    except ValidationError as error:
        settings = None
        problems += [line.strip() for line in list_problems(error)]
    if problems or settings is None:
        what_next = "Correct them: docs/reference/configuration.md lists all."
        found(Finding("settings", "fail", "; ".join(problems), what_next))
    else:
        found(Finding("settings", "ok", "the environment is valid"))
        if bundle is not None:
            bundle.add_settings(settings)
        asyncio.run(_collect_findings(settings, found, bundle))
        found(_check_api(url, key, bundle))


def _write_bundle(bundle: Bundle, path: Path) -> None:
    try:
        bundle.write(path)
    except OSError as error:
        fail(f"Cannot write {path}: {error.strerror}.", Exit.FAILED)
    typer.echo(
        f"Wrote {path}. It contains no secrets and no content of runs, but names of hosts, agents, "
        "tools and models.",
        err=True,
    )


async def _collect_findings(
    settings: Settings, found: Callable[[Finding], None], bundle: Bundle | None
) -> None:
    for finding in check_settings(settings):
        found(finding)
    checks = check_database(settings, bundle.add_database) if bundle else check_database(settings)
    async for finding in checks:
        found(finding)


def _check_api(url: str | None, key: str | None, bundle: Bundle | None) -> Finding:
    """Check that the API answers, and that it accepts the key if a key is set."""
    address, local = resolve_address(url)
    where = str(httpx2.URL(address).copy_with(userinfo=b""))
    key = key or (read_local_key() if local else None)
    try:
        with httpx2.Client(base_url=address, timeout=API_SECONDS, trust_env=not local) as http:
            ready = http.get("/readyz")
            headers = {"Authorization": f"Bearer {key}"}
            known = http.get("/v1/capabilities", headers=headers) if key else None
            if bundle is not None and ready.is_success:
                bundle.add_metrics(http)
    except httpx2.TransportError as error:
        return Finding(
            "api",
            "warn",
            f"no service answers at {where}: {error}",
            "Start the service (`make run` or `runward api`), or set its address "
            "with --url or RUNWARD_URL.",
        )
    if not ready.is_success:
        return Finding(
            "api",
            "fail",
            f"{where} returns HTTP {ready.status_code} and is not ready",
            "If this address is Runward, see its log for the reason. Check its database first.",
        )
    if known is None:
        return Finding(
            "api", "ok", f"{where} is ready; no API key was checked, because --key is not set"
        )
    if known.status_code == UNAUTHORIZED:
        return Finding(
            "api",
            "fail",
            f"{where} is ready, but rejects the API key",
            "Set RUNWARD_KEY to a valid key. If the API rejects every key, its "
            "RUNWARD_SECRET_KEY was changed.",
        )
    return Finding("api", "ok", f"{where} is ready and accepts the API key")


def _print_finding(finding: Finding) -> None:
    line = Text(f"{finding.status:4}", style=STYLES[finding.status])
    line.append(f"  {finding.check:10}  {escape_line(finding.detail)}", style="none")
    create_console().print(line, soft_wrap=True)
    if finding.remedy:
        create_console().print(Text(f"{'':18}→ {escape_line(finding.remedy)}"), soft_wrap=True)


def _format_count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
