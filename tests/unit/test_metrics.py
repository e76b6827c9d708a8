"""The recorders of metrics: what they count, and how many series they keep."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from prometheus_client import REGISTRY
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families as parse_metrics

from runward.api.exposition import render_metrics
from runward.domain.run.response import ReportedUsage, Usage
from runward.metrics import definitions
from runward.metrics.recorders import MAX_VALUES, OTHER, Counter, Histogram
from runward.store.runs.backlog import Backlog

BACKLOG = Backlog(
    queued=2,
    queued_seconds=1.5,
    pending=1,
    pending_seconds=60.0,
    deliveries=4,
    due_seconds=30.0,
    workers=3,
    runs=(),
    outdated_values=7,
)


@pytest.fixture
def name() -> str:
    return f"test_{uuid4().hex}"


@pytest.fixture(autouse=True)
def only_ours() -> Iterator[None]:
    """Remove the metrics of a test from the registry of the process."""
    known = set(REGISTRY._collector_to_names)  # pyright: ignore[reportPrivateUsage]
    yield
    for collector in set(REGISTRY._collector_to_names) - known:  # pyright: ignore[reportPrivateUsage]
        REGISTRY.unregister(collector)


def read(name: str, backlog: Backlog | None = BACKLOG) -> Metric:
    """Return a metric as a scrape reads it."""
    text = render_metrics(backlog).decode()
    [found] = [one for one in parse_metrics(text) if one.name == name]
    return found


def values_of(metric: Metric) -> dict[tuple[str, ...], float]:
    """Return the values by the name and the labels, in the alphabetical order of their names."""
    return {
        (one.name, *dict(sorted(one.labels.items())).values()): one.value for one in metric.samples
    }


def test_a_counter_without_labels_exists_before_its_first_increment(name: str) -> None:
    counter = Counter(name, "Text.")
    assert values_of(read(name)) == {(f"{name}_total",): 0.0}
    counter.count()
    counter.count(by=2.5)
    assert values_of(read(name)) == {(f"{name}_total",): 3.5}


def test_a_counter_has_a_series_for_each_label(name: str) -> None:
    counter = Counter(name, "Text.", ["kind"], initial=[("model",)])
    counter.count('a "tool"\n')
    assert values_of(read(name)) == {
        (f"{name}_total", "model"): 0.0,
        (f"{name}_total", 'a "tool"\n'): 1.0,
    }


def test_values_above_the_limit_share_a_series(name: str) -> None:
    counter = Counter(name, "Text.", ["tool", "reason"])
    for number in range(MAX_VALUES + 10):
        counter.count(f"tool {number}", "error")
    counter.count("tool 0", "timeout")
    counter.count("tool 999", "timeout")
    found = values_of(read(name))
    assert len(found) == MAX_VALUES + 3
    assert found[f"{name}_total", "error", OTHER] == 10
    assert found[f"{name}_total", "timeout", "tool 0"] == 1
    assert found[f"{name}_total", "timeout", OTHER] == 1


def test_a_histogram_counts_a_value_in_every_bucket_that_includes_it(name: str) -> None:
    histogram = Histogram(name, "Text.", [0.5, 1.0, 10.0], ["provider"])
    for seconds in (0.1, 1.0, 60.0):
        histogram.observe(seconds, "openai")
    buckets = {("0.5", 1.0), ("1.0", 2.0), ("10.0", 2.0), ("+Inf", 3.0)}
    found = values_of(read(name))
    assert {
        (key[1], value) for key, value in found.items() if key[0] == f"{name}_bucket"
    } == buckets
    assert found[f"{name}_sum", "openai"] == pytest.approx(61.1)
    assert found[f"{name}_count", "openai"] == 3


def test_a_histogram_has_a_limited_number_of_series(name: str) -> None:
    histogram = Histogram(name, "Text.", [1.0], ["tool"])
    for number in range(MAX_VALUES + 10):
        histogram.observe(0.1, f"tool {number}")
    counts = {key: n for key, n in values_of(read(name)).items() if key[0] == f"{name}_count"}
    assert len(counts) == MAX_VALUES + 1
    assert counts[f"{name}_count", OTHER] == 10


def test_cached_input_is_counted_once() -> None:
    def tokens() -> dict[str, float]:
        found = read("runward_tokens").samples
        return {one.labels["type"]: one.value for one in found if one.labels["model"] == "counted"}

    definitions.count_usage("openai:counted", Usage(input=100, cached_input=80, output=7, cost=0.5))
    assert tokens() == {"input": 20, "cached_input": 80, "output": 7}
    reported = [ReportedUsage("openai:counted", Usage(input=1), priced=False)]
    definitions.count_reported_usage(reported, lambda _model, _usage: 0.25)
    assert tokens()["input"] == 21
    cost = values_of(read("runward_cost_usd"))
    assert cost["runward_cost_usd_total", "counted", "openai"] == 0.75


def test_the_gauges_of_the_deployment_are_those_of_the_backlog() -> None:
    assert values_of(read("runward_queue_depth")) == {("runward_queue_depth",): 2}
    assert read("runward_queue_oldest_age_seconds").samples[0].value == 1.5
    assert read("runward_approvals_oldest_age_seconds").samples[0].value == 60
    assert read("runward_webhook_deliveries_pending").samples[0].value == 4
    assert read("runward_webhook_deliveries_oldest_due_seconds").samples[0].value == 30
    assert read("runward_workers").samples[0].value == 3
    assert read("runward_values_with_previous_data_keys").samples[0].value == 7
    assert read("runward_database_up").samples[0].value == 1


def test_the_rarest_agents_share_a_series() -> None:
    runs = tuple(("queued", f"agent {n}", 100 - n) for n in range(MAX_VALUES + 2))
    backlog = Backlog(0, 0.0, 0, 0.0, 0, 0.0, 0, (*runs, ("in_progress", None, 1)), 0)
    found = values_of(read("runward_open_runs", backlog))
    assert found["runward_open_runs", "agent 0", "queued"] == 100
    assert found["runward_open_runs", OTHER, "queued"] == 50 + 49
    assert len(found) == MAX_VALUES + 2


def test_without_a_database_only_its_state_is_shown() -> None:
    assert read("runward_database_up", None).samples[0].value == 0
    assert b"runward_queue_depth" not in render_metrics(None)
    assert read("runward_lease_expiries", None).samples


def test_names_follow_the_conventions_of_prometheus() -> None:
    ours = [one for one in parse_metrics(render_metrics(BACKLOG).decode()) if "runward" in one.name]
    assert len(ours) > 20
    for metric in ours:
        assert metric.documentation.endswith("."), metric.name
        assert "_ms" not in metric.name and "_total" not in metric.name
        assert metric.type != "histogram" or metric.name.endswith("_seconds")
