"""The alerts, the dashboard and the runbook: they name what the service exposes, and each alert
fires in a test of promtool."""

import re
from html import escape
from math import inf
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families as parse_metrics

from runward.api.exposition import render_metrics
from runward.metrics import definitions
from runward.metrics.recorders import Counter, Histogram
from runward.store.runs.backlog import Backlog
from tests.support import prometheus
from tests.support.services.service import ROOT

RUNBOOK = ROOT / "docs" / "how-to" / "monitoring.md"
BACKLOG = Backlog(0, 0.0, 0, 0.0, 0, 0.0, 0, (("queued", "clerk", 1),), 0)

OURS = [one for one in vars(definitions).values() if isinstance(one, Counter | Histogram)]


def name_of(metric: Counter | Histogram) -> str:
    return metric._name  # pyright: ignore[reportPrivateUsage]


def exposed_series() -> set[str]:
    """Return the names of all series that a process can expose, and `up`, which Prometheus adds."""
    found = {"up"}
    for family in parse_metrics(render_metrics(BACKLOG).decode()):
        match family.type:
            case "counter":
                found.add(f"{family.name}_total")
            case "histogram":
                found |= {f"{family.name}_{end}" for end in ("bucket", "count", "sum")}
            case _:
                found.add(family.name)
    return found


def test_queries_read_only_series_that_exist() -> None:
    queries, exposed = prometheus.list_queries(), exposed_series()
    assert len(queries) > 50
    assert all(map(prometheus.find_metrics, queries.values()))
    wrong = {at: prometheus.find_metrics(query) - exposed for at, query in queries.items()}
    assert {at: names for at, names in wrong.items() if names} == {}


def labels_of_series() -> dict[str, set[str]]:
    """Return the labels of each series, with those that Prometheus adds."""
    found: dict[str, set[str]] = {name: set() for name in exposed_series()}
    for metric in OURS:
        labels = set(metric._labels)  # pyright: ignore[reportPrivateUsage]
        ends = ("bucket", "count", "sum") if isinstance(metric, Histogram) else ("total",)
        for end in ends:
            found[f"{name_of(metric)}_{end}"] = labels | ({"le"} if end == "bucket" else set())
    for family in parse_metrics(render_metrics(BACKLOG).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return {name: labels | {"job", "instance"} for name, labels in found.items()}


def test_queries_use_only_labels_that_their_series_have() -> None:
    labels, used = labels_of_series(), 0
    for at, query in prometheus.list_queries().items():
        known = set[str]().union(*(labels[name] for name in prometheus.find_metrics(query)))
        found = prometheus.find_labels(query)
        assert found <= known, at
        used += len(found)
    assert used > 50


def test_texts_of_alerts_and_panels_name_labels_that_their_queries_return() -> None:
    alerts = [
        (" ".join(one["annotations"].values()), one["expr"]) for one in prometheus.read_alerts()
    ]
    lines = [
        (target["legendFormat"], target["expr"])
        for panel in prometheus.read_panels()
        for target in panel["targets"]
    ]
    for text, query in (*alerts, *lines):
        named = set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", text))
        is_aggregated = re.search(r"\b(sum|max|min)\b", query)
        kept = prometheus.find_groupings(query) if is_aggregated else {"instance", "job"}
        assert named <= kept, text


def test_the_series_in_the_tests_of_alerts_are_those_that_a_process_exposes() -> None:
    labels = labels_of_series()
    bounds = {f"{name_of(one)}_bucket": one for one in OURS if isinstance(one, Histogram)}
    for test in prometheus.read_alert_tests():
        for series in test["input_series"]:
            name, pairs = prometheus.parse_series(series["series"])
            wanted = {"job"} if name == "up" else labels[name] - {"job"}
            assert set(pairs) - {"instance"} == wanted - {"instance"}, series
            if "le" in pairs:
                known = bounds[name]._bounds  # pyright: ignore[reportPrivateUsage]
                assert float(pairs["le"]) in (*known, inf), series


def test_the_names_in_a_query_are_found() -> None:
    query = 'sum by (le) (rate(runward_a_bucket{x="up"}[5m])) / max(runward_b) > 1 or up == 0'
    assert prometheus.find_metrics(query) == {"runward_a_bucket", "runward_b", "up"}


def test_every_metric_of_ours_is_on_the_dashboard_and_in_the_table() -> None:
    names = set(map(name_of, OURS))
    assert len(names) > 15
    shown = " ".join(query for at, query in prometheus.list_queries().items() if "panel" in at)
    assert {name for name in names if name not in shown} == set()
    table = set(re.findall(r"^\| `(\w+)` \|", RUNBOOK.read_text(), re.MULTILINE))
    gauges = {name for name in exposed_series() if name.startswith("runward_")}
    assert {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in table} == {
        re.sub(r"_(total|bucket|count|sum)$", "", name) for name in gauges
    }


def test_every_alert_fires_in_a_test_and_not_in_a_deployment_without_a_problem() -> None:
    names = [one["alert"] for one in prometheus.read_alerts()]
    quiet, *others = prometheus.read_alert_tests()
    assert [one["alertname"] for one in quiet["alert_rule_test"]] == names
    assert not any("exp_alerts" in one for one in quiet["alert_rule_test"])
    fired = [
        case["alertname"]
        for test in others
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    ]
    assert fired == names


def test_every_alert_has_an_entry_in_the_runbook() -> None:
    headings = re.findall(r"^### (Runward\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    alerts = prometheus.read_alerts()
    assert headings == [one["alert"] for one in alerts]
    for one in alerts:
        assert one["labels"]["severity"] in {"warning", "critical"}
        anchor = f"{RUNBOOK.relative_to(ROOT)}#{one['alert'].lower()}"
        assert one["annotations"]["runbook_url"] == anchor


def test_panels_have_their_own_ids_and_places() -> None:
    panels = prometheus.read_panels()
    places = [tuple(panel["gridPos"].values()) for panel in panels]
    assert len({panel["id"] for panel in panels}) == len(set(places)) == len(panels)


@pytest.mark.processes
def test_prometheus_evaluates_every_alert_as_its_test_expects() -> None:
    assert "SUCCESS" in prometheus.promtool("check", "rules", prometheus.ALERTS)
    assert "SUCCESS" in prometheus.promtool("test", "rules", prometheus.ALERT_TESTS)


@pytest.mark.processes
def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    queries = prometheus.list_queries().values()
    rules = [{"record": f"query_{at}", "expr": query} for at, query in enumerate(queries)]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(rules)} rules found" in prometheus.promtool("check", "rules", path)


def test_the_picture_of_the_dashboard_shows_every_panel() -> None:
    picture = (ROOT / "docs" / "images" / "dashboard.svg").read_text()
    titles = {panel["title"] for panel in prometheus.read_panels()}
    assert {one for one in titles if f">{escape(one)}</text>" not in picture} == set()
