"""The audit's Prometheus metrics.

A scrape judges nothing: topics' figures are those of the writer's last round. A topic that was
deleted and created again has a row for each id, so that no two rows are equal. Counters begin at
zero with each start, as Prometheus expects.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from audit.api.queries import AgentsQuery
from audit.clusters.groups.figures import group_families
from audit.clusters.state import ClusterState
from audit.errors import NotNow, StoreDamaged
from audit.http.endpoints.topic_lookup import failing_loads
from audit.process.altered_metrics import altered_families
from audit.service.service import Service, now_millis
from audit.store.fleet.agents import patience
from audit.store.judged_hours import TopicFigures
from ground.http.exposition import certificate_family, exposition_of

PREFIX: Final = "penstock_audit_"

T = TypeVar("T")
_Figure = tuple[str, str, Callable[[T], float]]

_TOPIC: Final = ["cluster", "topic", "topic_id"]


class AuditMetrics:
    """Makes the audit's metrics, on any thread."""

    def __init__(
        self, service: Service, certificates: Callable[[], Mapping[str, float]] = dict
    ) -> None:
        """`certificates`: by file, when they expire."""
        self._service = service
        self._certificates = certificates
        self.exposition: Final = exposition_of(self.families)

    def families(self) -> Iterator[Metric]:
        yield from self._topics()
        yield from self._ledgers()
        yield self._agents()
        yield self._loads()
        yield from altered_families(PREFIX, self._service)
        service = self._service
        yield from group_families(
            PREFIX, service.groups, now_millis(), service.config.groups.series
        )
        yield from self._access_metrics()
        yield from self._self()
        yield certificate_family(self._certificates())

    def _topics(self) -> Iterator[Metric]:
        figures = self._service.figures
        events = _gauge(
            "topic_events",
            "Events of the last day that a tier has.",
            [*_TOPIC, "tier", "destination"],
        )
        for topic in figures:
            for tier, count in topic.events.items():
                events.add_metric([*topic.key, tier.kind.value, tier.destination], count)
        yield events
        yield self._kinds()
        as_of = {name: cluster.as_of for name, cluster in self._service.standing.clusters.items()}

        def waiting(topic: TopicFigures) -> float:
            read_to = as_of.get(topic.key.cluster, 0)
            return max(0, read_to - topic.waiting_since) / 1000 if topic.waiting_since >= 0 else 0

        gauges: tuple[_Figure[TopicFigures], ...] = (
            (
                "topic_missing_events",
                "Events that an earlier tier has and a later one lacks.",
                lambda topic: topic.missing,
            ),
            (
                "topic_excess_events",
                "Events that a later tier has more often than an earlier one.",
                lambda topic: topic.excess,
            ),
            ("topic_findings", "Unaccepted faults.", lambda topic: topic.findings),
            (
                "topic_pending_windows",
                "Pending windows.",
                lambda topic: topic.pending_windows,
            ),
            ("topic_pending_seconds", "How long the oldest pending window has waited.", waiting),
            (
                "topic_state",
                "The worst of its windows: 0 complete or empty, 1 pending, 2 unknown, 3 missing, "
                "4 duplicated, 5 changed.",
                lambda topic: topic.severity,
            ),
        )
        for name, documentation, value in gauges:
            family = _gauge(name, documentation, _TOPIC)
            for topic in figures:
                family.add_metric(topic.key, value(topic))
            yield family

    def _kinds(self) -> Metric:
        """Makes a metric of all kinds of faults, as the state shows only the worst."""
        family = _gauge(
            "topic_findings_of_kind",
            "Unaccepted faults of one kind.",
            [*_TOPIC, "kind"],
        )
        for figures in self._service.figures:
            for count in figures.kinds:
                family.add_metric([*figures.key, count.kind.value], count.findings)
        return family

    def _ledgers(self) -> Iterator[Metric]:
        clusters = self._service.standing.clusters.items()
        now = now_millis()
        gauges: tuple[_Figure[ClusterState], ...] = (
            (
                "cluster_reachable",
                "1 while the ledger of the cluster can be read.",
                lambda state: int(not state.unreachable),
            ),
            (
                "ledger_behind_entries",
                "Entries still to be read; -1 before the first poll.",
                lambda state: state.behind,
            ),
            (
                "ledger_age_seconds",
                "Time since the ledger was last read to its end; -1 before that.",
                lambda state: max(0, now - state.as_of) / 1000 if state.read else -1,
            ),
        )
        for name, documentation, value in gauges:
            family = _gauge(name, documentation, ["cluster"])
            for cluster, state in clusters:
                family.add_metric([cluster], value(state))
            yield family
        counters: tuple[_Figure[ClusterState], ...] = (
            ("ledger_entries", "Entries folded.", lambda state: state.entries),
            (
                "ledger_repeated",
                "Entries that had been folded before.",
                lambda state: state.repeated,
            ),
            (
                "ledger_left_out",
                "Entries that could not be read, or are not their journal's.",
                lambda state: state.left_out,
            ),
            (
                "ledger_gaps",
                "Times that entries were deleted before they were read.",
                lambda state: state.gaps,
            ),
        )
        for name, documentation, count in counters:
            counter = CounterMetricFamily(PREFIX + name, documentation, labels=["cluster"])
            for cluster, state in clusters:
                counter.add_metric([cluster], count(state))
            yield counter

    def _agents(self) -> Metric:
        family = _gauge("agents", "Expected agents and hosts.", ["cluster", "state"])
        config = self._service.config
        for cluster, cluster_state in self._service.standing.clusters.items():
            try:
                answer = self._service.reading.agents(
                    AgentsQuery(cluster=cluster, size=1),
                    patience(
                        *(config, cluster_state.as_of or now_millis()),
                        self._service.standing.clocks,
                        by_pace=True,
                    ),
                )
            except (NotNow, StoreDamaged):
                continue
            for state, count in sorted(answer.by_state.items()):
                family.add_metric([cluster, state], count)
        return family

    def _loads(self) -> Metric:
        family = _gauge(
            "load_failing_seconds",
            "Time since loads of a table began to fail; no row if they succeed.",
            ["cluster", "topic", "destination"],
        )
        try:
            loads = failing_loads(self._service)
        except (NotNow, StoreDamaged):
            return family
        now = now_millis()
        for load in loads:
            labels = [load.cluster, load.topic, load.destination]
            family.add_metric(labels, max(0, now - load.since) / 1000)
        return family

    def _access_metrics(self) -> Iterator[Metric]:
        service = self._service
        yield _gauge(
            "insecure",
            "1 if `insecure: true` allows access without login, or passwords without TLS.",
            value=int(service.config.insecure),
        )
        yield _gauge("sessions", "Users logged in on the page.", value=service.sessions())
        refusals = CounterMetricFamily(
            PREFIX + "refused", "Requests rejected before they were answered.", labels=["why"]
        )
        for reason, count in sorted(dict(service.refused).items()):
            refusals.add_metric([reason], count)
        yield refusals

    def _self(self) -> Iterator[Metric]:
        service = self._service
        yield _gauge(
            "alerts",
            "Raised alerts; of faults, one for each kind, topic and hour.",
            value=service.alerts_raised,
        )
        messages = CounterMetricFamily(
            PREFIX + "alert_messages", "Messages to receivers.", labels=["receiver", "outcome"]
        )
        for state in service.receivers.states():
            messages.add_metric([state.name, "sent"], state.sent)
            messages.add_metric([state.name, "failed"], state.failed)
        yield messages
        folding = HistogramMetricFamily(
            PREFIX + "fold_seconds", "Time to write a chunk of entries to the database."
        )
        service.folding.add_to(folding, [])
        yield folding
        requests = HistogramMetricFamily(
            PREFIX + "request_seconds", "Time to answer a request of the API.", labels=["route"]
        )
        for route, histogram in sorted(service.requests.copy().items()):
            histogram.add_to(requests, [route])
        yield requests


def _gauge(
    name: str, documentation: str, labels: list[str] | None = None, value: float | None = None
) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, documentation, value=value, labels=labels)
