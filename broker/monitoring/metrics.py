"""A broker's counters, and their exposition for Prometheus.

Counting is on the hot path and costs as little as it can: plain integers and lists, written by the
event loop alone. Prometheus's names are assigned during a scrape, on the scraping thread. That may
read a histogram between updates of its count and its sum, which makes no visible difference.
Counters restart at zero, as Prometheus expects.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from broker.storage.segments.files import OPEN
from ground.http.exposition import Histogram, exposition_of
from wire.errors import ErrorCode

_PREFIX: Final = "penstock_broker_"
_OF_LOGS: Final = {
    "log_start_offset": "First available offset.",
    "log_end_offset": "Offset of the next message to be appended.",
    "exposed_offset": "First offset that consumers cannot read yet.",
    "log_bytes": "Size of the log's segments.",
}
_OF_PARTITIONS: Final = {
    "partition_online": "1 if the partition is served, 0 if it is offline.",
    **_OF_LOGS,
    "follower_lag": "Committed messages of partitions followed here that are not on disk here yet.",
}
_SUMS: Final = {
    "led_partitions": "Partitions that this broker leads.",
    "followed_partitions": "Partitions that this broker follows.",
    "under_replicated_partitions": "Partitions led here with replicas that are not in sync.",
    "below_min_in_sync_partitions": "Partitions led here with too few in sync for acks=all.",
}
_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_AT_ONCE: Final = 200  # partitions, before others get their turn


class TopicTraffic:
    """Traffic of one topic, counted by the code that moves it."""

    __slots__ = ("bytes_in", "bytes_out", "messages_in")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.messages_in = 0
        self.bytes_out = 0


class ReplicaTraffic:
    """Bytes that followers have fetched here, and the numbers of replicas that left or joined the
    in-sync sets of partitions led here; counted where it happens."""

    __slots__ = ("bytes_out", "fetches", "joined", "left")

    def __init__(self) -> None:
        self.fetches = 0
        self.bytes_out = 0
        self.joined = 0
        self.left = 0


class PartitionGauge(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one partition; an offline one has no meaningful offsets."""

    topic: str
    partition: int
    online: bool
    log_start_offset: int = 0
    log_end_offset: int = 0
    exposed_offset: int = 0
    log_bytes: int = 0
    led: bool = False
    replicas: int = 1
    in_sync: int = 1
    min_in_sync: int = 1
    follower_lag: int | None = None
    """None if nothing is copied."""


class LossGauge(NamedTuple):
    """One loss of a log; `offsets` is -1 if the number of lost offsets is unknown."""

    topic: str
    partition: int
    offsets: int


class CheckedGauge(NamedTuple):
    """The results of re-reading stored data: damaged batches by topic and partition, bytes read,
    and the time when everything had been read, in seconds; below 0 if never. For each log, the
    times when its young segments and all of its segments were last read."""

    damaged: Mapping[tuple[str, int], int]
    scrubbed_bytes: int
    scrubbed_time: float
    logs: Mapping[tuple[str, int], tuple[float, float]] = MappingProxyType({})


class BrokerMetrics:
    """All counters of a broker. Calls the callables passed in at every scrape, on the scrape's
    thread."""

    def __init__(
        self,
        partitions: Callable[[], Iterable[PartitionGauge]],
        losses: Callable[[], Iterable[LossGauge]] = tuple,
        checked: Callable[[], CheckedGauge] = lambda: CheckedGauge({}, 0, -1),
        *,
        allowed: Mapping[str, int] = MappingProxyType({}),
        more: Callable[[], Iterable[Metric]] = tuple,
    ) -> None:
        """`allowed`: the limits, by what they limit. `more`: metrics counted elsewhere."""
        self._more = more
        self.connections = 0
        self.replicas = ReplicaTraffic()
        self._partitions = partitions
        self._losses = losses
        self._checked = checked
        self._allowed = allowed
        self._topics: dict[str, TopicTraffic] = {}
        self._requests: dict[str, Histogram] = {}
        self._flushes = Histogram()
        self._rejected: dict[ErrorCode, int] = {}
        self._complaints: dict[str, int] = {}
        self._written = exposition_of(self.families)

    def topic(self, name: str) -> TopicTraffic:
        """Returns the counters of a topic, which the caller may keep."""
        traffic = self._topics.get(name)
        if traffic is None:
            traffic = self._topics[name] = TopicTraffic()
        return traffic

    def forget_topic(self, name: str) -> None:
        """Stops reporting a topic that is gone."""
        self._topics.pop(name, None)

    def request(self, api_name: str, seconds: float) -> None:
        """Counts a request that was answered `seconds` after its arrival."""
        histogram = self._requests.get(api_name)
        if histogram is None:
            histogram = self._requests[api_name] = Histogram()
        histogram.observe(seconds)

    def flush(self, seconds: float) -> None:
        self._flushes.observe(seconds)

    def rejected(self, error: ErrorCode) -> None:
        self._rejected[error] = self._rejected.get(error, 0) + 1

    def complained(self, kind: str) -> None:
        """Counts a complaint about a client, whether or not it was logged."""
        self._complaints[kind] = self._complaints.get(kind, 0) + 1

    def exposition(self) -> bytes:
        """Returns all metrics in Prometheus's text format: EXPOSITION_TYPE."""
        text = self._written()
        for name, samples in self._partition_samples().items():
            header = f"# TYPE {_PREFIX}{name} gauge\n".encode()
            text = text.replace(header, header + samples, 1)
        return text

    def families(self) -> Iterator[Metric]:
        yield from self._topic_families()
        yield from self._partition_families()
        yield from self._replica_families()
        yield from self._loss_families()
        yield from self._checked_families()
        requests = HistogramMetricFamily(
            _PREFIX + "request_seconds", "Time from a request to its answer.", labels=["api"]
        )
        for api, histogram in tuple(self._requests.items()):
            histogram.add_to(requests, [api])
        yield requests
        flushes = HistogramMetricFamily(_PREFIX + "flush_seconds", "Duration of a flush.")
        self._flushes.add_to(flushes, [])
        yield flushes
        rejections = CounterMetricFamily(
            _PREFIX + "rejected_batches", "Batches rejected, by Kafka's error.", labels=["error"]
        )
        for error, count in tuple(self._rejected.items()):
            rejections.add_metric([error.name.upper()], count)
        yield rejections
        complaints = CounterMetricFamily(
            _PREFIX + "complaints",
            "Problems with clients, by the kinds in the log.",
            labels=["kind"],
        )
        for kind, count in tuple(self._complaints.items()):
            complaints.add_metric([kind], count)
        yield complaints
        yield GaugeMetricFamily(
            _PREFIX + "connections", "Connections of clients.", value=self.connections
        )
        yield GaugeMetricFamily(_PREFIX + "log_files", "Open files of logs.", value=len(OPEN))
        limits = GaugeMetricFamily(_PREFIX + "allowed", "The limit of each kind.", labels=["of"])
        for name, limit in self._allowed.items():
            limits.add_metric([name], limit)
        yield limits
        yield from self._more()

    def _topic_families(self) -> Iterator[Metric]:
        topics = tuple(self._topics.items())
        for name, documentation in (
            ("bytes_in", "Bytes of batches appended."),
            ("messages_in", "Messages appended."),
            ("bytes_out", "Bytes of batches sent to consumers."),
        ):
            family = CounterMetricFamily(f"{_PREFIX}topic_{name}", documentation, labels=["topic"])
            for topic, traffic in topics:
                family.add_metric([topic], getattr(traffic, name))
            yield family

    def _partition_families(self) -> Iterator[Metric]:
        """Families without samples, which `_partition_samples` writes."""
        for name, documentation in _OF_PARTITIONS.items():
            yield GaugeMetricFamily(_PREFIX + name, documentation, labels=["topic", "partition"])
        for name, documentation in _SUMS.items():
            yield GaugeMetricFamily(_PREFIX + name, documentation)

    def _partition_samples(self) -> Mapping[str, bytes]:
        """The lines of each family. There may be tens of thousands; as objects, each would be
        visited a dozen times, while the event loop waits for this thread."""
        lines: dict[str, list[str]] = {name: [] for name in _OF_PARTITIONS}
        sums = dict.fromkeys(_SUMS, 0)
        for index, gauge in enumerate(self._partitions()):
            if index % _AT_ONCE == 0:
                time.sleep(0)
            topic = gauge.topic.translate(_ESCAPED)
            labels = f'{{topic="{topic}",partition="{gauge.partition}"}}'
            lines["partition_online"].append(
                f"{_PREFIX}partition_online{labels} {gauge.online:d}\n"
            )
            if gauge.online:
                for name in _OF_LOGS:
                    lines[name].append(f"{_PREFIX}{name}{labels} {getattr(gauge, name)}\n")
            if gauge.follower_lag is not None:
                lines["follower_lag"].append(
                    f"{_PREFIX}follower_lag{labels} {gauge.follower_lag}\n"
                )
            if gauge.led:
                sums["led_partitions"] += 1
                sums["under_replicated_partitions"] += gauge.in_sync < gauge.replicas
                sums["below_min_in_sync_partitions"] += gauge.in_sync < gauge.min_in_sync
            elif gauge.online:
                sums["followed_partitions"] += 1
        samples = {name: "".join(parts).encode() for name, parts in lines.items()}
        return samples | {
            name: f"{_PREFIX}{name} {count}\n".encode() for name, count in sums.items()
        }

    def _replica_families(self) -> Iterator[Metric]:
        replicas = self.replicas
        changes = CounterMetricFamily(
            _PREFIX + "in_sync_changes",
            "In-sync changes of partitions led here.",
            labels=["change"],
        )
        changes.add_metric(["joined"], replicas.joined)
        changes.add_metric(["left"], replicas.left)
        yield changes
        for name, documentation, value in (
            ("follower_fetches", "Fetches of followers answered.", replicas.fetches),
            ("follower_bytes_out", "Bytes of batches sent to followers.", replicas.bytes_out),
        ):
            yield CounterMetricFamily(_PREFIX + name, documentation, value=value)

    def _loss_families(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        damage_counts: Counter[tuple[str, str]] = Counter()
        offsets: Counter[tuple[str, str]] = Counter()
        for loss in self._losses():
            values = loss.topic, str(loss.partition)
            damage_counts[values] += 1
            offsets[values] += max(0, loss.offsets)
        for name, documentation, traffic_count in (
            ("withdrawals", "Losses of acknowledged messages found.", damage_counts),
            ("withdrawn_offsets", "Acknowledged offsets lost, at least.", offsets),
        ):
            family = GaugeMetricFamily(_PREFIX + name, documentation, labels=labels)
            for values, value in traffic_count.items():
                family.add_metric(list(values), value)
            yield family

    def _checked_families(self) -> Iterator[Metric]:
        gauge = self._checked()
        damaged_batches = CounterMetricFamily(
            _PREFIX + "damaged_batches",
            "Stored batches that are damaged.",
            labels=["topic", "partition"],
        )
        for (topic, partition), count in gauge.damaged.items():
            damaged_batches.add_metric([topic, str(partition)], count)
        yield damaged_batches
        yield CounterMetricFamily(
            _PREFIX + "scrubbed_bytes", "Stored bytes re-read.", value=gauge.scrubbed_bytes
        )
        yield GaugeMetricFamily(
            _PREFIX + "scrubbed_time_seconds",
            "When the last complete re-reading of stored data ended, since 1970; below 0 if never.",
            value=gauge.scrubbed_time,
        )
        logs = GaugeMetricFamily(
            _PREFIX + "log_checked_time_seconds",
            "When the last complete reading of a log's young segments, or of all of them, began, "
            "since 1970; below 0 if never.",
            labels=["topic", "partition", "segments"],
        )
        for (topic, partition), check_times in gauge.logs.items():
            for segments, seconds in zip(("young", "all"), check_times, strict=True):
                logs.add_metric([topic, str(partition), segments], seconds)
        yield logs
