"""What an audit counts, and how Prometheus gets to see it.

Nothing is judged for a scrape: figures of topics are those of the last round. A topic that was
deleted and made again has one row for each, with its id, so that no two rows are the same.
Counters begin at zero with each start, as Prometheus expects.
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
from audit.clusters.state import ClusterStanding
from audit.errors import NotNow, StoreDamaged
from audit.http.asking import failing_loads
from audit.process.altered_metrics import altered_families
from audit.service.service import Service, now_millis
from audit.store.fleet.agents import patience
from audit.store.judged_hours import TopicFigures
from ground.exposition import certificate_family, exposition_of

PREFIX: Final = "penstock_audit_"

T = TypeVar("T")
_Figure = tuple[str, str, Callable[[T], float]]

_TOPIC: Final = ["cluster", "topic", "topic_id"]


class AuditMetrics:
    """Any thread."""

    def __init__(
        self, service: Service, certificates: Callable[[], Mapping[str, float]] = dict
    ) -> None:
        """`certificates`: when they end, by file."""
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
        yield from self._doors()
        yield from self._self()
        yield certificate_family(self._certificates())

    def _topics(self) -> Iterator[Metric]:
        figures = self._service.figures
        events = _gauge(
            "topic_events",
            "Events of the last day that a tier has.",
            [*_TOPIC, "tier", "destination"],
        )
        for each in figures:
            for tier, count in each.events.items():
                events.add_metric([*each.key, tier.kind.value, tier.destination], count)
        yield events
        yield self._kinds()
        as_of = {name: each.as_of for name, each in self._service.standing.clusters.items()}

        def waiting(topic: TopicFigures) -> float:
            read = as_of.get(topic.key.cluster, 0)
            return max(0, read - topic.pending_since) / 1000 if topic.pending_since >= 0 else 0

        gauges: tuple[_Figure[TopicFigures], ...] = (
            (
                "topic_missing_events",
                "Events that an earlier tier has and a later one lacks.",
                lambda each: each.missing,
            ),
            (
                "topic_excess_events",
                "Events that a later tier has more often than an earlier one.",
                lambda each: each.excess,
            ),
            ("topic_findings", "Faults that nobody has accepted.", lambda each: each.findings),
            (
                "topic_pending_windows",
                "Windows that wait for somebody.",
                lambda each: each.pending_windows,
            ),
            ("topic_pending_seconds", "Since the end of the oldest window that waits.", waiting),
            (
                "topic_state",
                "The worst of its windows: 0 complete or empty, 1 pending, 2 unknown, 3 missing, "
                "4 duplicated, 5 changed.",
                lambda each: each.severity,
            ),
        )
        for name, documentation, value in gauges:
            family = _gauge(name, documentation, _TOPIC)
            for each in figures:
                family.add_metric(each.key, value(each))
            yield family

    def _kinds(self) -> Metric:
        """Each kind by itself: the state is the worst alone."""
        family = _gauge(
            "topic_findings_of_kind",
            "Faults of one kind that nobody has accepted.",
            [*_TOPIC, "kind"],
        )
        for each in self._service.figures:
            for count in each.kinds:
                family.add_metric([*each.key, count.kind.value], count.findings)
        return family

    def _ledgers(self) -> Iterator[Metric]:
        clusters = self._service.standing.clusters.items()
        now = now_millis()
        gauges: tuple[_Figure[ClusterStanding], ...] = (
            (
                "cluster_reachable",
                "1 while the ledger of the cluster can be read.",
                lambda each: int(not each.unreachable),
            ),
            (
                "ledger_behind_entries",
                "Entries that are still to be read; -1 before the first look.",
                lambda each: each.behind,
            ),
            (
                "ledger_age_seconds",
                "Since the ledger had last been read to its end; -1 before that.",
                lambda each: max(0, now - each.as_of) / 1000 if each.read else -1,
            ),
        )
        for name, documentation, value in gauges:
            family = _gauge(name, documentation, ["cluster"])
            for cluster, each in clusters:
                family.add_metric([cluster], value(each))
            yield family
        counters: tuple[_Figure[ClusterStanding], ...] = (
            ("ledger_entries", "Entries folded.", lambda each: each.entries),
            ("ledger_repeated", "Entries that had been folded before.", lambda e: e.repeated),
            ("ledger_left_out", "Entries that could not be read.", lambda each: each.left_out),
            (
                "ledger_gaps",
                "Times that entries were gone before they were read.",
                lambda e: e.gaps,
            ),
        )
        for name, documentation, count in counters:
            counter = CounterMetricFamily(PREFIX + name, documentation, labels=["cluster"])
            for cluster, each in clusters:
                counter.add_metric([cluster], count(each))
            yield counter

    def _agents(self) -> Metric:
        family = _gauge("agents", "Agents and hosts that are expected.", ["cluster", "state"])
        config = self._service.config
        for cluster, standing in self._service.standing.clusters.items():
            try:
                found = self._service.reading.agents(
                    AgentsQuery(cluster=cluster, size=1),
                    patience(config, standing.as_of or now_millis(), by_pace=True),
                )
            except (NotNow, StoreDamaged):
                continue
            for state, count in sorted(found.by_state.items()):
                family.add_metric([cluster, state], count)
        return family

    def _loads(self) -> Metric:
        family = _gauge(
            "load_failing_seconds",
            "Since loads of a table began to fail; no row where they succeed.",
            ["cluster", "topic", "destination"],
        )
        try:
            found = failing_loads(self._service)
        except (NotNow, StoreDamaged):
            return family
        now = now_millis()
        for each in found:
            labels = [each.cluster, each.topic, each.destination]
            family.add_metric(labels, max(0, now - each.since) / 1000)
        return family

    def _doors(self) -> Iterator[Metric]:
        service = self._service
        yield _gauge(
            "insecure",
            "1 where `insecure: true` lets others in without a login, or passwords go without TLS.",
            value=int(service.config.insecure),
        )
        yield _gauge("sessions", "People who are logged in on the page.", value=service.sessions())
        refused = CounterMetricFamily(
            PREFIX + "refused", "Requests that were refused at the door.", labels=["why"]
        )
        for why, count in sorted(dict(service.refused).items()):
            refused.add_metric([why], count)
        yield refused

    def _self(self) -> Iterator[Metric]:
        service = self._service
        yield _gauge(
            "alerts",
            "Alerts that are raised: with faults one for each kind, topic and hour.",
            value=service.alerts_raised,
        )
        messages = CounterMetricFamily(
            PREFIX + "alert_messages", "Messages to receivers.", labels=["receiver", "outcome"]
        )
        for each in service.receivers.states():
            messages.add_metric([each.name, "sent"], each.sent)
            messages.add_metric([each.name, "failed"], each.failed)
        yield messages
        folding = HistogramMetricFamily(
            PREFIX + "fold_seconds", "From a chunk of entries read to all of it written."
        )
        service.folding.add_to(folding, [])
        yield folding
        requests = HistogramMetricFamily(
            PREFIX + "request_seconds", "Making an answer of the API.", labels=["route"]
        )
        for route, histogram in sorted(service.requests.copy().items()):
            histogram.add_to(requests, [route])
        yield requests


def _gauge(
    name: str, documentation: str, labels: list[str] | None = None, value: float | None = None
) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, documentation, value=value, labels=labels)
