"""Compares both clusters in the background: reads a worker's partitions on both sides completely,
at a set rate, and reports differences. Repairs nothing.

    a pass: every partition of this worker, from where both logs begin to where the copy ends;
    fetched from both leaders, compared (differences.py), discarded

Rule 1: a log that begins later than the other is no difference: each side has its own retention.
Rule 2: a difference counts if a second look, a little later, finds it again.
Rule 3: the result for a range is kept until the range is compared again.
Rule 4: where the source compacts, nothing is compared: each side compacts on its own.
Rule 5: a pass is complete when everything was read. A partition that is not being copied at the
        moment, or failed half-way, is retried; until then the pass is not complete. Paused
        partitions are left out.
Rule 6: no progress is stored. A pass begins at a random partition, so that a worker that restarts
        often gets to all of them.

Runs on its own thread with two connections. The rate covers both sides together.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from client.connection.addresses import Address
from client.connection.bootstrap import Bootstrap
from client.connection.connection import BrokerConnection
from client.connection.metadata import NO_LEADER, ClusterMetadata
from client.errors import ClientError, ErrorCode, Refused, refusal
from client.reading.fetch_session import Key
from ground.randomness import any_below
from mirror.clusters.scanner import Scan
from mirror.comparing.differences import Difference, Differences, compared, renewed
from mirror.config import MirrorConfig
from mirror.partitions.bandwidth import Bandwidth
from mirror.partitions.lane import CLIENT_ID
from mirror.partitions.partition import CopiedPartition, Stage
from mirror.partitions.resume_points import Span, spans
from mirror.partitions.whole_batches import Cut, cut
from wire.framing.slices import FileSlice
from wire.messages import fetch
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

log = logging.getLogger(__name__)

_CHUNK: Final = 1024 * 1024  # bytes read of each side at a time
_GLANCE_S: Final = 1.0  # between looks for partitions, while there are none
_AGAIN_S: Final = 1.0  # before a second look or a retry
_LONGEST_S: Final = 30.0
_ENDS_S: Final = 5.0
_TRIES: Final = 5  # of a partition, before it is reported


class NotCompared(Exception):
    """The error for a partition that cannot be compared at the moment; the message has the
    reason."""


class Comparison:
    """Compares partitions on a thread of its own. `seen` gives the leaders, `partitions` this
    worker's partitions."""

    def __init__(
        self,
        config: MirrorConfig,
        seen: Callable[[], Scan | None],
        partitions: Callable[[], Mapping[Key, CopiedPartition]],
    ) -> None:
        self.bytes = 0  # read of both sides; any thread
        self.passes = 0  # complete ones; any thread
        self._config = config
        self._seen = seen
        self._partitions = partitions
        self._different: dict[Key, tuple[Difference, ...]] = {}
        self._trouble: dict[Key, str] = {}
        self._stopping = threading.Event()
        self._bandwidth = Bandwidth(config.compare.rate, time.monotonic())
        self._sides: dict[str, BrokerConnection] = {}
        self._whole_at = time.monotonic()  # end of the last complete pass, or the start
        self._thread = threading.Thread(target=self._run, name="compare", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops, without waiting long for a broker that does not answer; no result is lost."""
        self._stopping.set()
        self._thread.join(_ENDS_S)

    # Any thread

    @property
    def different(self) -> dict[Key, tuple[Difference, ...]]:
        """The differences found, by partition of this worker."""
        own_partitions = self._partitions()
        return {
            key: ranges for key, ranges in self._different.copy().items() if key in own_partitions
        }

    @property
    def trouble(self) -> dict[Key, str]:
        """The reasons why comparisons failed lately, by partition of this worker."""
        own_partitions = self._partitions()
        return {key: reason for key, reason in self._trouble.items() if key in own_partitions}

    @property
    def age_s(self) -> float:
        """Seconds since all partitions had last been compared, or since the start if they never
        were."""
        return time.monotonic() - self._whole_at

    # A pass

    def _run(self) -> None:
        while not self._stopping.is_set():
            ends = time.monotonic() + self._config.compare.interval
            is_idle = not self._pass(ends)
            self._stopping.wait(_GLANCE_S if is_idle else max(0.0, ends - time.monotonic()))

    def _pass(self, ends: float) -> bool:
        """Compare all partitions once; whether there were any. Failed ones are retried until the
        next pass is due."""
        due_keys = [key for key, partition in self._partitions().items() if _is_due(partition)]
        if not due_keys:
            return False
        first = any_below(len(due_keys))
        due_keys = [*due_keys[first:], *due_keys[:first]]
        count = 0
        while (
            due_keys and not self._stopping.is_set() and (count < _TRIES or time.monotonic() < ends)
        ):
            count += 1
            failures = {key: reason for key in due_keys if (reason := self._tried(key))}
            self._close()
            due_keys = list(failures)
            if count == _TRIES:
                for (topic, index), reason in failures.items():
                    log.warning("not compared partition=%s-%d reason=%r", topic, index, reason)
            if count >= _TRIES or not failures:
                self._trouble = failures
            if failures:
                self._stopping.wait(min(_LONGEST_S, _AGAIN_S * count))
        if not due_keys and not self._stopping.is_set():
            self._whole_at = time.monotonic()
            self.passes += 1
        return True

    def _tried(self, key: Key) -> str:
        """The reason why the partition could not be compared; empty if it was, or need not be."""
        partition, scan = self._partitions().get(key), self._seen()
        if partition is None:
            return ""
        try:
            if self.is_wanted(partition):
                _Partition(self, partition, scan).compare()
        except NotCompared as error:
            return str(error)
        except ClientError as error:
            self._close()
            return str(error)
        except Exception as error:  # a bug: the other partitions are still compared
            log.exception("comparison failed partition=%s", partition.name)
            self._close()
            return repr(error)
        return ""

    # What a partition needs

    def connected(self, cluster: str, address: Address, bootstrap: Bootstrap) -> BrokerConnection:
        """A connection to each cluster, kept for the broker that was asked last."""
        connection = self._sides.get(cluster)
        if connection is None or connection.closed or connection.address != address:
            if connection is not None:
                connection.close()
            connection = BrokerConnection(address, CLIENT_ID, bootstrap.access)
            self._sides[cluster] = connection
        return connection

    def _close(self) -> None:
        for connection in self._sides.values():
            connection.close()
        self._sides.clear()

    def is_wanted(self, partition: CopiedPartition) -> bool:
        """Whether the partition is still to be compared. Raises NotCompared if it cannot be
        compared at the moment."""
        current_partition = self._partitions().get(partition.here)
        if current_partition is None or not _is_due(current_partition) or self._stopping.is_set():
            return False
        if current_partition is not partition or current_partition.stage is not Stage.COPYING:
            raise NotCompared("the partition is not being copied at the moment")
        return True

    def wait_for_rate(self) -> None:
        while not self._stopping.is_set():
            wait = self._bandwidth.wait_s(time.monotonic())
            if wait <= 0:
                return
            self._stopping.wait(wait)

    def chunk(self) -> int:
        return self._bandwidth.portion(_CHUNK)

    def used(self, amount: int) -> None:
        self.bytes += amount
        self._bandwidth.used(amount, time.monotonic())

    def pause(self) -> None:
        self._stopping.wait(_AGAIN_S)

    @property
    def sides(self) -> tuple[tuple[str, Bootstrap], tuple[str, Bootstrap]]:
        """The source and the target."""
        source, target = self._config.source, self._config.target
        return (source.cluster, source.bootstrap), (target.cluster, target.bootstrap)

    def known(self, key: Key, first: int, end: int, differences: list[Difference]) -> None:
        """Replaces the known differences between these offsets by those found now."""
        old_differences = self._different.get(key, ())
        new_differences = renewed(old_differences, first, end, differences)
        if new_differences:
            self._different[key] = new_differences
        else:
            self._different.pop(key, None)
        for difference in new_differences:
            if difference not in old_differences:
                log.error(
                    "copy differs partition=%s-%d first=%d end=%d reason=%r",
                    *(*key, difference.first, difference.end, difference.reason),
                )


class _Partition:
    """One partition in one pass."""

    def __init__(
        self, comparison: Comparison, partition: CopiedPartition, scan: Scan | None
    ) -> None:
        """Raises NotCompared, ClientError."""
        if scan is None:
            raise NotCompared("the clusters have not been scanned yet")
        self._comparison = comparison
        self._partition = partition
        (source, source_access), (target, target_access) = comparison.sides
        source_leader = _leader(scan.source, partition.there, source)
        target_leader = _leader(scan.target, partition.here, target)
        self._source = comparison.connected(source, source_leader, source_access)
        self._target = comparison.connected(target, target_leader, target_access)

    def compare(self) -> None:
        """Compares the whole partition. Raises NotCompared, ClientError."""
        comparison, partition = self._comparison, self._partition
        first, end = self._common()
        # Offsets before are deleted on one side and cannot be compared any more.
        comparison.known(partition.here, 0, first, [])
        while first < end and comparison.is_wanted(partition):
            comparison.wait_for_rate()
            try:
                result = self._compared(first)
                if result.found:
                    comparison.pause()
                    second_result = self._compared(first)
                    result = Differences(
                        result.end, [d for d in result.found if d in second_result.found]
                    )
            except Refused as error:
                if error.code is not ErrorCode.offset_out_of_range:
                    raise
                position, (first, end) = first, self._common()
                if first <= position < end:
                    raise  # the offset exists, but the broker does not show it
                continue
            if not comparison.is_wanted(partition):
                return
            comparison.known(partition.here, first, result.end, result.found)
            first = result.end

    def _common(self) -> tuple[int, int]:
        """The offsets that both logs have."""
        target_span = _span(self._target, self._partition.here)
        source_span = _span(self._source, self._partition.there)
        return max(source_span.start, target_span.start), min(source_span.end, target_span.end)

    def _compared(self, first: int) -> Differences:
        size = self._comparison.chunk()
        while True:
            source = self._fetched(self._source, self._partition.there, first, size)
            target = self._fetched(self._target, self._partition.here, first, size)
            result = compared(source, target, first)
            if result is not None:
                return result
            needed_size = max(source.needs, target.needs)
            if needed_size <= size:
                side = "the copy" if source.headers else "the source"
                raise NotCompared(f"{side} returns no batch at offset {first}")
            size = needed_size

    def _fetched(self, connection: BrokerConnection, key: Key, offset: int, size: int) -> Cut:
        partition = FetchPartition(partition=key[1], fetch_offset=offset, partition_max_bytes=size)
        topic = FetchTopic(topic=key[0], partitions=(partition,))
        answer = connection.call(fetch.API, FetchRequest(max_wait=0, min_bytes=0, topics=(topic,)))
        for topic_response in answer.responses:
            for data in topic_response.partitions:
                if data.error_code is not ErrorCode.none:
                    raise refusal(f"{key[0]}-{key[1]} at {connection.address}", data.error_code)
                records = data.records or b""
                assert not isinstance(records, FileSlice)  # used only for sending
                self._comparison.used(len(records))
                return cut(memoryview(records), offset, gaps=True)
        raise refusal(f"fetch from {connection.address}", answer.error_code)


def _is_due(partition: CopiedPartition) -> bool:
    return partition.stage is not Stage.PAUSED and not partition.compacts


def _leader(known: ClusterMetadata, key: Key, cluster: str) -> Address:
    topic = known.topics.get(key[0])
    if topic is not None and key[1] < len(topic.partitions):
        leader = topic.partitions[key[1]].leader
        if leader != NO_LEADER and leader in known.brokers:
            return known.brokers[leader].address
    raise NotCompared(f"{key[0]}-{key[1]} has no leader at {cluster}")


def _span(connection: BrokerConnection, key: Key) -> Span:
    span = spans(connection, [key])[key]
    if isinstance(span, str):
        raise NotCompared(f"{key[0]}-{key[1]} at {connection.address}: {span}")
    return span
