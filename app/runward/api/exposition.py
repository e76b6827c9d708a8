"""The metrics of this process and the gauges of the deployment, in the Prometheus text format."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from runward.metrics.definitions import NO_AGENT
from runward.metrics.recorders import LabelLimit
from runward.store.runs.backlog import Backlog


def render_metrics(backlog: Backlog | None) -> bytes:
    """Return all metrics. Without a backlog, the database is unavailable."""
    deployment = CollectorRegistry(auto_describe=False)
    deployment.register(_Deployment(backlog))
    return generate_latest(REGISTRY) + generate_latest(deployment)


class _Deployment(Collector):
    def __init__(self, backlog: Backlog | None) -> None:
        self._backlog = backlog

    def collect(self) -> Iterator[GaugeMetricFamily]:
        backlog = self._backlog
        yield _gauge("runward_database_up", "Whether the database responds.", backlog is not None)
        if backlog is None:
            return
        yield _gauge("runward_queue_depth", "Runs that wait for a worker.", backlog.queued)
        yield _gauge(
            "runward_queue_oldest_age_seconds",
            "Time for which the first of these runs has been waiting. 0 if there are none.",
            backlog.queued_seconds,
        )
        yield _gauge(
            "runward_approvals_pending", "Approvals that wait for a person.", backlog.pending
        )
        yield _gauge(
            "runward_approvals_oldest_age_seconds",
            "Age of the oldest of these approvals. 0 if there are none.",
            backlog.pending_seconds,
        )
        yield _gauge(
            "runward_webhook_deliveries_pending",
            "Deliveries of notifications that have not ended, without those of disabled endpoints.",
            backlog.deliveries,
        )
        yield _gauge(
            "runward_webhook_deliveries_oldest_due_seconds",
            "Time since the next attempt of one of these deliveries was due. 0 if none is due.",
            backlog.due_seconds,
        )
        yield _gauge(
            "runward_workers", "Workers with a heartbeat in the last 30 seconds.", backlog.workers
        )
        yield _gauge(
            "runward_values_with_previous_data_keys",
            "Stored values that a previous data key encrypts. Workers encrypt them again.",
            backlog.outdated_values,
        )
        yield _make_open_runs(backlog)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _make_open_runs(backlog: Backlog) -> GaugeMetricFamily:
    """Return the open runs by status and agent. The limit keeps the most frequent agents."""
    labels = ["status", "agent"]
    limit, counts = LabelLimit(labels), Counter[tuple[str, ...]]()
    for status, agent, count in backlog.runs:
        counts[limit.apply((status, agent or NO_AGENT))] += count
    family = GaugeMetricFamily(
        "runward_open_runs", "Runs that have not ended, by status and agent.", labels=labels
    )
    for values, count in counts.items():
        family.add_metric(values, count)
    return family
