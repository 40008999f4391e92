"""What a mirror counts, as Prometheus gets to see it."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from ground.exposition import certificate_family, exposition_of
from mirror.partition import Stage
from mirror.standing import MirrorStanding

_PREFIX: Final = "penstock_mirror_"
_LABELS: Final = ("topic", "partition")


class MirrorMetrics:
    """On the scraping thread."""

    def __init__(self, standing: MirrorStanding, ends: Callable[[], Mapping[str, float]]) -> None:
        """`ends`: when certificates do, by file."""
        self._standing = standing
        self._ends = ends
        self.exposition = exposition_of(self._families)

    def _families(self) -> Iterator[Metric]:
        partitions = self._standing.partitions
        stages = [each.stage for each in partitions]
        family = GaugeMetricFamily(
            _PREFIX + "partitions", "Partitions of this worker.", labels=["stage"]
        )
        for stage in Stage:
            family.add_metric([stage.value], stages.count(stage))
        yield family
        yield GaugeMetricFamily(
            _PREFIX + "ready",
            "1 if both clusters could be looked at last time.",
            value=int(not self._standing.why_not_ready),
        )
        for name, text, value in (
            ("bytes", "Bytes of batches copied.", sum(each.bytes for each in partitions)),
            ("batches", "Batches copied.", sum(each.batches for each in partitions)),
            ("messages", "Messages copied.", sum(each.messages for each in partitions)),
            ("stops", "Partitions that stopped.", sum(each.stops for each in partitions)),
        ):
            yield CounterMetricFamily(_PREFIX + name, text, value=value)
        yield from self._lags()
        yield from self._compared()
        yield certificate_family(self._ends())

    def _lags(self) -> Iterator[Metric]:
        now = time.monotonic()
        most = self._standing.config.limits.series
        shown = sorted(self._standing.partitions, key=lambda each: -each.lag)[:most]
        messages = GaugeMetricFamily(
            _PREFIX + "lag_messages", "Messages that the target lacks.", labels=_LABELS
        )
        size = GaugeMetricFamily(_PREFIX + "lag_bytes", "Their bytes, about.", labels=_LABELS)
        seconds = GaugeMetricFamily(
            _PREFIX + "lag_seconds",
            "For how long the oldest of them has been known, at most.",
            labels=_LABELS,
        )
        stopped = GaugeMetricFamily(
            _PREFIX + "stopped", "1 if the partition has stopped, with a reason.", labels=_LABELS
        )
        for each in shown:
            labels = [each.here[0], str(each.here[1])]
            messages.add_metric(labels, each.lag)
            size.add_metric(labels, each.lag_bytes)
            seconds.add_metric(labels, each.lag_seconds(now))
            stopped.add_metric(labels, int(each.stage is Stage.STOPPED))
        yield from (messages, size, seconds, stopped)

    def _compared(self) -> Iterator[Metric]:
        comparing = self._standing.comparing
        if comparing is None:
            return
        yield CounterMetricFamily(
            _PREFIX + "compared_bytes",
            "Bytes of both clusters that were compared.",
            value=comparing.bytes,
        )
        yield GaugeMetricFamily(
            _PREFIX + "compared_age_seconds",
            "Since all partitions had been compared from end to end; since the start, if never.",
            value=comparing.age_s,
        )
        different = GaugeMetricFamily(
            _PREFIX + "different",
            "Ranges of offsets at which the copy differs from its source.",
            labels=_LABELS,
        )
        found = sorted(comparing.different.items(), key=lambda each: -len(each[1]))
        for (topic, index), ranges in found[: self._standing.config.limits.series]:
            different.add_metric([topic, str(index)], len(ranges))
        yield different
