"""The files for Prometheus and Grafana in deploy/, and the queries in them."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.programs import missing
from tests.support.services.service import ROOT

ALERTS: Final = ROOT / "deploy" / "prometheus" / "alerts.yml"
ALERT_TESTS: Final = ALERTS.with_name("alerts.test.yml")
DASHBOARD: Final = ROOT / "deploy" / "grafana" / "runward.json"
KEDA: Final = ROOT / "deploy" / "kustomize" / "components" / "keda" / "scaled-object.yaml"
_METRIC: Final = re.compile(r"\b((?:runward|process|python)_\w+|up)\b(?=[{\[)\s]|$)")
_MATCHER: Final = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPING: Final = re.compile(r"\b(?:by|without|on|ignoring)\s*\([^)]*\)")


def promtool(*arguments: str | Path) -> str:
    """Run promtool, and return its output. Fails if promtool reports an error."""
    program = shutil.which("promtool")
    if program is None:
        missing("promtool is not installed: apt-get install prometheus")
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read_alerts() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(ALERTS.read_text())["groups"]
    return group["rules"]


def read_alert_tests() -> list[dict[str, Any]]:
    return yaml.safe_load(ALERT_TESTS.read_text())["tests"]


def read_panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard, without the titles of its rows."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in panels if panel["type"] != "row"]


def list_queries() -> dict[str, str]:
    """Return all queries by where they are."""
    alerts = {f"alert {one['alert']}": one["expr"] for one in read_alerts()}
    panels = {
        f"panel {panel['id']} {panel['title']} {target['refId']}": target["expr"].replace(
            "$__rate_interval", "1m"
        )
        for panel in read_panels()
        for target in panel["targets"]
    }
    [trigger] = yaml.safe_load(KEDA.read_text())["spec"]["triggers"]
    return {**alerts, **panels, "KEDA": trigger["metadata"]["query"]}


def find_metrics(query: str) -> set[str]:
    """Return the names of the series that a query reads."""
    return set(_METRIC.findall(_GROUPING.sub(" ", query)))


def find_labels(query: str) -> set[str]:
    """Return the labels that a query groups by or compares."""
    return find_groupings(query) | set(_MATCHER.findall(query))


def find_groupings(query: str) -> set[str]:
    """Return the labels that a query groups by."""
    groups = " ".join(_GROUPING.findall(query))
    return set(re.findall(r"\w+", groups)) - {"by", "without", "on", "ignoring"}


def parse_series(series: str) -> tuple[str, dict[str, str]]:
    """Return the name and the labels of a series such as `up{job="api"}`."""
    return series.partition("{")[0], dict(re.findall(r'(\w+)="([^"]*)"', series))
