"""Both clusters compared in the background: what a worker's partitions have on both sides, read
again from end to end, at a set rate. What is not the same is told, and nothing is done about it.

    a pass: every partition of this worker, from where both logs begin to where the copy ends
    fetched from both leaders, held against each other (differences.py), thrown away

Rule 1: that one log begins later than the other is no difference: retention is each side's own.
Rule 2: a difference counts when a second look, a little later, finds the same one.
Rule 3: what is known of a range holds until the range is looked at again.
Rule 4: where the source compacts, nothing is compared: each side has compacted on its own.
Rule 5: a pass is whole when all of it was read. A partition that is not copied just now, or was
        given up half-way, is tried again; until it has been compared, the pass is not over. What is
        paused is left out.
Rule 6: nothing is written down. A pass begins anywhere among the partitions, so that those of a
        worker that is often started anew come to their turn.

A thread of its own with two connections of its own. The rate is that of both sides together.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from client.addresses import Address
from client.bootstrap import Bootstrap
from client.connection import BrokerConnection
from client.errors import ClientError, ErrorCode, Refused, refusal
from client.fetch_session import Key
from client.metadata import NO_LEADER, ClusterMetadata
from ground.chance import any_below
from mirror.bandwidth import Bandwidth
from mirror.batches import Cut, cut
from mirror.beginnings import Span, spans
from mirror.config import MirrorConfig
from mirror.differences import Difference, Stretch, compared, renewed
from mirror.lane import CLIENT_ID
from mirror.looking import Seen
from mirror.partition import CopiedPartition, Stage
from wire.messages import fetch
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.slices import FileSlice

log = logging.getLogger(__name__)

_CHUNK: Final = 1024 * 1024  # bytes of each side
_GLANCE_S: Final = 1.0  # from one look for partitions to the next, while there are none
_AGAIN_S: Final = 1.0  # until the second look, and until a partition is tried again
_LONGEST_S: Final = 30.0
_ENDS_S: Final = 5.0
_TRIES: Final = 5  # of a partition, before it is told


class NotCompared(Exception):
    """Why a partition could not be compared just now."""


class Comparing:
    """Of one worker. `seen` says who leads what, `partitions` what is this worker's."""

    def __init__(
        self,
        config: MirrorConfig,
        seen: Callable[[], Seen | None],
        partitions: Callable[[], Mapping[Key, CopiedPartition]],
    ) -> None:
        self.bytes = 0  # of both sides; any thread
        self.passes = 0  # that came through; any thread
        self._config = config
        self._seen = seen
        self._partitions = partitions
        self._different: dict[Key, tuple[Difference, ...]] = {}
        self._trouble: dict[Key, str] = {}
        self._told = threading.Event()
        self._bandwidth = Bandwidth(config.compare.rate, time.monotonic())
        self._sides: dict[str, BrokerConnection] = {}
        self._whole_at = time.monotonic()  # when a whole pass had ended; or of the start
        self._thread = threading.Thread(target=self._run, name="compare", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Does not wait long for a broker that does not answer: nothing is lost."""
        self._told.set()
        self._thread.join(_ENDS_S)

    # Any thread

    @property
    def different(self) -> dict[Key, tuple[Difference, ...]]:
        """By partitions of this worker."""
        mine = self._partitions()
        return {key: each for key, each in self._different.copy().items() if key in mine}

    @property
    def trouble(self) -> dict[Key, str]:
        """What could not be compared lately, and why."""
        mine = self._partitions()
        return {key: reason for key, reason in self._trouble.items() if key in mine}

    @property
    def age_s(self) -> float:
        """Since all that there was had been compared; since the start, if it never was."""
        return time.monotonic() - self._whole_at

    # A pass

    def _run(self) -> None:
        while not self._told.is_set():
            ends = time.monotonic() + self._config.compare.interval
            is_idle = not self._pass(ends)
            self._told.wait(_GLANCE_S if is_idle else max(0.0, ends - time.monotonic()))

    def _pass(self, ends: float) -> bool:
        """Whether there was anything to compare. What fails is tried again, until the next pass is
        to begin."""
        due = [key for key, each in self._partitions().items() if _is_due(each)]
        if not due:
            return False
        first = any_below(len(due))
        due = [*due[first:], *due[:first]]
        number = 0
        while due and not self._told.is_set() and (number < _TRIES or time.monotonic() < ends):
            number += 1
            failed = {key: reason for key in due if (reason := self._tried(key))}
            self._close()
            due = list(failed)
            if number == _TRIES:
                for (topic, index), reason in failed.items():
                    log.warning("not compared partition=%s-%d reason=%r", topic, index, reason)
            if number >= _TRIES or not failed:
                self._trouble = failed
            if failed:
                self._told.wait(min(_LONGEST_S, _AGAIN_S * number))
        if not due and not self._told.is_set():
            self._whole_at = time.monotonic()
            self.passes += 1
        return True

    def _tried(self, key: Key) -> str:
        """Why it could not be compared; empty if it was, or is not to be any more."""
        partition, seen = self._partitions().get(key), self._seen()
        if partition is None:
            return ""
        try:
            if self.is_wanted(partition):
                _Partition(self, partition, seen).compare()
        except NotCompared as error:
            return str(error)
        except ClientError as error:
            self._close()
            return str(error)
        except Exception as error:  # a bug of ours: the others are compared all the same
            log.exception("comparing failed partition=%s", partition.name)
            self._close()
            return repr(error)
        return ""

    # What a partition needs

    def connected(self, cluster: str, address: Address, bootstrap: Bootstrap) -> BrokerConnection:
        """One connection to each cluster: to the broker that was asked last."""
        found = self._sides.get(cluster)
        if found is None or found.closed or found.address != address:
            if found is not None:
                found.close()
            found = BrokerConnection(address, CLIENT_ID, bootstrap.access)
            self._sides[cluster] = found
        return found

    def _close(self) -> None:
        for each in self._sides.values():
            each.close()
        self._sides.clear()

    def is_wanted(self, partition: CopiedPartition) -> bool:
        """Whether to go on; if not, it is not to be compared any more. Raises NotCompared where it
        is, but not just now."""
        now = self._partitions().get(partition.here)
        if now is None or not _is_due(now) or self._told.is_set():
            return False
        if now is not partition or now.stage is not Stage.COPYING:
            raise NotCompared("it is not copied just now")
        return True

    def wait_for_rate(self) -> None:
        while not self._told.is_set():
            wait = self._bandwidth.wait_s(time.monotonic())
            if wait <= 0:
                return
            self._told.wait(wait)

    def chunk(self) -> int:
        return self._bandwidth.portion(_CHUNK)

    def used(self, amount: int) -> None:
        self.bytes += amount
        self._bandwidth.used(amount, time.monotonic())

    def pause(self) -> None:
        self._told.wait(_AGAIN_S)

    @property
    def sides(self) -> tuple[tuple[str, Bootstrap], tuple[str, Bootstrap]]:
        """The source, and the target."""
        source, target = self._config.source, self._config.target
        return (source.cluster, source.bootstrap), (target.cluster, target.bootstrap)

    def known(self, key: Key, first: int, end: int, found: list[Difference]) -> None:
        """These offsets were compared, and that was found."""
        before = self._different.get(key, ())
        after = renewed(before, first, end, found)
        if after:
            self._different[key] = after
        else:
            self._different.pop(key, None)
        for each in after:
            if each not in before:
                log.error(
                    "copy differs partition=%s-%d first=%d end=%d reason=%r",
                    *(*key, each.first, each.end, each.reason),
                )


class _Partition:
    """One partition, in one pass."""

    def __init__(self, comparing: Comparing, partition: CopiedPartition, seen: Seen | None) -> None:
        """Raises NotCompared, ClientError."""
        if seen is None:
            raise NotCompared("the clusters were not looked at yet")
        self._comparing = comparing
        self._partition = partition
        (source, there), (target, here) = comparing.sides
        theirs = _leader(seen.source, partition.there, source)
        ours = _leader(seen.target, partition.here, target)
        self._source = comparing.connected(source, theirs, there)
        self._target = comparing.connected(target, ours, here)

    def compare(self) -> None:
        """From end to end. Raises NotCompared, ClientError."""
        comparing, partition = self._comparing, self._partition
        first, end = self._common()
        # What lay before has gone on one side: of that nobody can say anything any more.
        comparing.known(partition.here, 0, first, [])
        while first < end and comparing.is_wanted(partition):
            comparing.wait_for_rate()
            try:
                stretch = self._stretch(first)
                if stretch.found:
                    comparing.pause()
                    again = self._stretch(first).found
                    stretch = Stretch(stretch.end, [e for e in stretch.found if e in again])
            except Refused as error:
                if error.code is not ErrorCode.offset_out_of_range:
                    raise
                before, (first, end) = first, self._common()
                if first <= before < end:
                    raise  # it is there, and is not shown
                continue
            if not comparing.is_wanted(partition):
                return
            comparing.known(partition.here, first, stretch.end, stretch.found)
            first = stretch.end

    def _common(self) -> tuple[int, int]:
        """What both have, and has been copied."""
        ours = _span(self._target, self._partition.here)
        theirs = _span(self._source, self._partition.there)
        return max(theirs.start, ours.start), min(theirs.end, ours.end)

    def _stretch(self, first: int) -> Stretch:
        size = self._comparing.chunk()
        while True:
            source = self._fetched(self._source, self._partition.there, first, size)
            target = self._fetched(self._target, self._partition.here, first, size)
            found = compared(source, target, first)
            if found is not None:
                return found
            needs = max(source.needs, target.needs)
            if needs <= size:
                side = "the copy" if source.headers else "the source"
                raise NotCompared(f"{side} shows nothing at offset {first}")
            size = needs

    def _fetched(self, connection: BrokerConnection, key: Key, offset: int, size: int) -> Cut:
        wanted = FetchPartition(partition=key[1], fetch_offset=offset, partition_max_bytes=size)
        topic = FetchTopic(topic=key[0], partitions=(wanted,))
        answer = connection.call(fetch.API, FetchRequest(max_wait=0, min_bytes=0, topics=(topic,)))
        for each in answer.responses:
            for data in each.partitions:
                if data.error_code is not ErrorCode.none:
                    raise refusal(f"{key[0]}-{key[1]} at {connection.address}", data.error_code)
                records = data.records or b""
                assert not isinstance(records, FileSlice)  # those only leave
                self._comparing.used(len(records))
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
    said = spans(connection, [key])[key]
    if isinstance(said, str):
        raise NotCompared(f"{key[0]}-{key[1]} at {connection.address}: {said}")
    return said
