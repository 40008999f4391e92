"""What an audit counts, and how Prometheus gets to see it."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from audit.service import Service

PREFIX: Final = "penstock_audit_"


class AuditMetrics:
    """Any thread."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_AuditCollector(self))
        ProcessCollector(registry=self._registry)

    def exposition(self) -> bytes:
        """Everything, in Prometheus's text format: EXPOSITION_TYPE."""
        return generate_latest(self._registry)

    def families(self) -> Iterator[Metric]:
        reachable = GaugeMetricFamily(
            PREFIX + "cluster_reachable",
            "1 while the ledger of the cluster can be read.",
            labels=["cluster"],
        )
        for name, cluster in self._service.standing.clusters.items():
            reachable.add_metric([name], int(not cluster.unreachable))
        yield reachable


class _AuditCollector(Collector):
    def __init__(self, metrics: AuditMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return self._metrics.families()
