"""The mirror's Prometheus metrics."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from ground.http.exposition import certificate_family, exposition_of
from mirror.monitoring.status import MirrorStatus
from mirror.partitions.partition import Stage

_PREFIX: Final = "penstock_mirror_"
_LABELS: Final = ("topic", "partition")


class MirrorMetrics:
    """Collects metrics, on the scraping thread."""

    def __init__(self, status: MirrorStatus, ends: Callable[[], Mapping[str, float]]) -> None:
        """`ends`: expiry of certificates by file."""
        self._status = status
        self._ends = ends
        self.exposition = exposition_of(self._families)

    def _families(self) -> Iterator[Metric]:
        partitions = self._status.partitions
        stages = [partition.stage for partition in partitions]
        family = GaugeMetricFamily(
            _PREFIX + "partitions", "Partitions of this worker.", labels=["stage"]
        )
        for stage in Stage:
            family.add_metric([stage.value], stages.count(stage))
        yield family
        yield GaugeMetricFamily(
            _PREFIX + "ready",
            "1 if the last scan of both clusters succeeded.",
            value=int(not self._status.why_not_ready),
        )
        for name, text, value in (
            ("bytes", "Bytes of batches copied.", sum(p.bytes for p in partitions)),
            ("batches", "Batches copied.", sum(p.batches for p in partitions)),
            ("messages", "Messages copied.", sum(p.messages for p in partitions)),
            ("stops", "Partitions that stopped.", sum(p.stops for p in partitions)),
        ):
            yield CounterMetricFamily(_PREFIX + name, text, value=value)
        yield from self._lags()
        yield from self._compared()
        yield certificate_family(self._ends())

    def _lags(self) -> Iterator[Metric]:
        now = time.monotonic()
        limit = self._status.config.limits.series
        partitions = self._status.partitions
        largest_lags = sorted(partitions, key=lambda partition: -partition.lag)[:limit]
        messages = GaugeMetricFamily(
            _PREFIX + "lag_messages", "Messages not copied yet.", labels=_LABELS
        )
        size = GaugeMetricFamily(
            _PREFIX + "lag_bytes", "Their approximate size in bytes.", labels=_LABELS
        )
        seconds = GaugeMetricFamily(
            _PREFIX + "lag_seconds",
            "Upper bound on how long the oldest of them has been known.",
            labels=_LABELS,
        )
        stopped_gauge = GaugeMetricFamily(
            _PREFIX + "stopped", "1 if the partition has stopped.", labels=_LABELS
        )
        for partition in largest_lags:
            labels = [partition.here[0], str(partition.here[1])]
            messages.add_metric(labels, partition.lag)
            size.add_metric(labels, partition.lag_bytes)
            seconds.add_metric(labels, partition.lag_seconds(now))
            stopped_gauge.add_metric(labels, int(partition.stage is Stage.STOPPED))
        yield from (messages, size, seconds, stopped_gauge)

    def _compared(self) -> Iterator[Metric]:
        comparison = self._status.comparing
        if comparison is None:
            return
        yield CounterMetricFamily(
            _PREFIX + "compared_bytes",
            "Bytes read from both clusters for comparison.",
            value=comparison.bytes,
        )
        yield GaugeMetricFamily(
            _PREFIX + "compared_age_seconds",
            "Seconds since the last complete comparison, or since the start.",
            value=comparison.age_s,
        )
        difference_gauge = GaugeMetricFamily(
            _PREFIX + "different",
            "Ranges of offsets at which the copy differs from its source.",
            labels=_LABELS,
        )
        by_size = sorted(comparison.different.items(), key=lambda item: -len(item[1]))
        for (topic, index), ranges in by_size[: self._status.config.limits.series]:
            difference_gauge.add_metric([topic, str(index)], len(ranges))
        yield difference_gauge
