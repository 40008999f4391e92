"""Copies all partitions of one worker: assigns them to lanes, and rescans the clusters.

    scan both clusters ─▶ partitions of copies assigned to this worker
       waiting ─ ask both sides for the end (resume_points.py) ─▶ copying, in a lane
          ▲ leader change, broken connection, refusal: after a pause ──┘
       stopped: a gap, another history … reported with its reason, looked at again periodically

The clusters are rescanned when a partition leaves its lane, since its leader may have moved. A
partition resumes only with a scan that is newer than that.

Scans run on their own thread. Other threads ask leaders for resume points, one thread for each pair
of leaders: a broker that hangs holds one thread for each broker of the other side, not all.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

import msgspec

from client.connection.addresses import Address
from client.connection.metadata import NO_LEADER, ClusterMetadata
from client.errors import ClientError, ErrorCode
from client.patience import Pauses
from client.producing.delivery import TopicPartition
from client.reading.fetch_session import Key
from mirror.clusters.scanner import ClusterScanner, Scan
from mirror.config import MirrorConfig
from mirror.kafka_target.target import KafkaTarget
from mirror.partitions.bandwidth import Bandwidth
from mirror.partitions.buffers import portion
from mirror.partitions.gaps import Gap
from mirror.partitions.lane import CLIENT_ID, Lane, LaneEvents, LaneSettings, Way
from mirror.partitions.partition import CopiedPartition, Stage
from mirror.partitions.resume_points import Again, Beginning, Both, GoOn, PartitionPair, Stop, look
from mirror.partitions.target_writer import OffsetsKept
from mirror.topics import Standing, TopicCopy
from mirror.worker.silent_partitions import SILENT_S, SilentPartitions
from wire.record_batches.batch import BatchHeader

log = logging.getLogger(__name__)

T = TypeVar("T")

_THREADS: Final = 64  # at most; few are used unless brokers hang
_BETWEEN_S: Final = 0.2  # two scans
_STOPPED_S: Final = 15.0  # before a stopped partition is looked at again
_RENEWED_S: Final = 12 * 3600.0
_REFUSED_S: Final = 5.0  # before a retry after missing permissions


class Watcher(Protocol):
    """Receives news of copied batches, on the event loop."""

    def begun(self, copy: TopicCopy, partition: CopiedPartition) -> None: ...

    def written(self, partition: CopiedPartition, headers: Sequence[BatchHeader]) -> None: ...


class _Assignment(msgspec.Struct, eq=False):
    """A partition with its lane and its state."""

    partition: CopiedPartition
    copy: TopicCopy
    way: Way | None = None
    leader_epoch: int = -1
    lane: Lane | None = None
    is_asked: bool = False
    lost_at: float = 0.0
    not_before: float = 0.0
    begun_at: float = 0.0
    may_pass: bool = False  # may skip one gap, whichever comes first
    passes: Gap | None = None  # the gap that the target accepts
    pauses: Pauses = msgspec.field(default_factory=Pauses)


class Copier:
    """Copies one worker's partitions. Belongs to the event loop unless marked otherwise."""

    def __init__(
        self,
        config: MirrorConfig,
        scanner: ClusterScanner,
        *,
        accepts: Callable[[str, int], bool] = lambda _topic, _partition: False,
        watcher: Watcher | None = None,
    ) -> None:
        """`accepts`: whether an operator has allowed a partition to skip a gap."""
        self.seen: Scan | None = None  # any thread
        self.trouble = (
            "the clusters have not been scanned yet"  # any thread; error of the last scan
        )
        self.partitions: dict[Key, CopiedPartition] = {}  # by name at the target
        self._config = config
        self._scanner = scanner
        self._accepts = accepts
        self._watcher = watcher
        self._loop = asyncio.get_running_loop()
        self._bandwidth = Bandwidth(config.bandwidth, self._loop.time())
        self._assignments: dict[Key, _Assignment] = {}
        self._lanes: dict[Way, Lane] = {}
        self._assigned: frozenset[Key] | None = None
        self._soon = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: set[tuple[int, int]] = set()  # pairs of leaders being asked
        self._has_put_off = False  # partitions whose leaders were already being asked
        self._is_closing = False
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ask")
        self._looks = ThreadPoolExecutor(1, thread_name_prefix="look")

    # Any thread

    @property
    def lanes_in_trouble(self) -> dict[str, str]:
        """Errors of lanes that copy nothing, by pair of brokers."""
        return {
            f"{way.source} to {way.target}": lane.trouble
            for way, lane in tuple(self._lanes.items())
            if lane.trouble
        }

    @property
    def kafka(self) -> KafkaTarget | None:
        """The target, if it is Apache Kafka."""
        return self._scanner.kafka

    @property
    def copies(self) -> frozenset[str]:
        """Topics of the target with partitions to copy, of all workers."""
        return frozenset(self.copied_topics.values())

    @property
    def copied_topics(self) -> dict[str, str]:
        """The names of copies, by topic of the source."""
        scan = self.seen
        copies = () if scan is None else scan.copies.values()
        return {copy.there: copy.here for copy in copies if copy.partitions}

    @property
    def of_same_offsets(self) -> dict[Key, CopiedPartition]:
        """This worker's partitions if the target keeps offsets; none for Apache Kafka."""
        return {} if self.kafka is not None else self.partitions.copy()

    @property
    def ends(self) -> dict[TopicPartition, tuple[TopicPartition, int]]:
        """Copies and their ends, by partitions of the source."""
        return {
            TopicPartition(*partition.there): (TopicPartition(*partition.here), partition.copied)
            for partition in tuple(self.partitions.copy().values())
            if partition.copied >= 0
        }

    # What is copied

    def share(self, assigned: Collection[Key] | None) -> None:
        """Copies only these partitions, by their names at the target; None: all."""
        self._assigned = None if assigned is None else frozenset(assigned)
        if self.seen is not None:
            self._apply(self.seen)
        self._soon.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Copies until `stop` is set. Raises NoTarget."""
        stop_task = self._loop.create_task(stop.wait())
        access = self._config.source.bootstrap.access
        silence_task = self._loop.create_task(
            SilentPartitions(access, self._unheard, self._in_thread).run()
        )
        try:
            while not stop.is_set():
                self._soon.clear()
                await self._look()
                await self._pause(stop_task)
        finally:
            stop_task.cancel()
            silence_task.cancel()
            await self._close()

    def _unheard(self) -> dict[Address, list[CopiedPartition]]:
        scan = self.seen
        silent_since = self._loop.time() - SILENT_S
        by_leader: dict[Address, list[CopiedPartition]] = {}
        for assignment in self._assignments.values():
            way, lane = assignment.way, assignment.lane
            is_heard = lane is not None and lane.heard_at > silent_since
            if scan is not None and way is not None and way.source != NO_LEADER and not is_heard:
                by_leader.setdefault(_address(scan.source, way.source), []).append(
                    assignment.partition
                )
        return by_leader

    async def _look(self) -> None:
        try:
            scan = await self._loop.run_in_executor(self._looks, self._scanner.look)
        except ClientError as error:
            if str(error) != self.trouble:
                log.warning("cannot scan the clusters error=%r", str(error))
            self.trouble = str(error)
            return
        if self.trouble:
            log.info("clusters scanned topics=%d", len(scan.copies))
        self.trouble = ""
        self.seen = scan
        self._apply(scan)
        if scan.has_changed:
            self._soon.set()

    async def _pause(self, stop_task: "asyncio.Task[bool]") -> None:
        """Wait until the next scan is due, or a partition waits for one."""
        now = self._loop.time()
        due_times = [
            assignment.not_before
            for assignment in self._assignments.values()
            if assignment.lane is None
        ]
        seconds = min(
            [
                self._config.interval,
                *(max(0.0, due_time - now) for due_time in due_times if due_time > now),
            ]
        )
        wake_up = self._loop.create_task(self._soon.wait())
        await asyncio.wait({stop_task}, timeout=_BETWEEN_S)
        await asyncio.wait({stop_task, wake_up}, timeout=seconds, return_when="FIRST_COMPLETED")
        wake_up.cancel()

    def _apply(self, scan: Scan) -> None:
        copies = {
            (copy.here, index): copy
            for copy in scan.copies.values()
            for index in range(copy.partitions)
            if self._assigned is None or (copy.here, index) in self._assigned
        }
        for key, assignment in tuple(self._assignments.items()):
            copy = copies.get(key)
            if copy is None or copy.topic_id != assignment.copy.topic_id:
                self._take_out(assignment)
                del self._assignments[key], self.partitions[key]
        for key, copy in copies.items():
            self._follow(key, copy, scan)
        self._begin_due(scan)
        self._close_empty_lanes()

    def _follow(self, key: Key, copy: TopicCopy, scan: Scan) -> None:
        assignment = self._assignments.get(key)
        if assignment is None:
            partition = CopiedPartition(key, (copy.there, key[1]))
            assignment = self._assignments[key] = _Assignment(partition, copy)
            assignment.may_pass = self._accepts(copy.here, key[1]) or self._accepts(
                copy.there, key[1]
            )
            self.partitions[key] = partition
        partition, assignment.copy = assignment.partition, copy
        partition.compacts = copy.compacts
        ids = self._scanner.schema_ids
        partition.opened = ids.fault if ids is not None and ids.copy == copy.here else None
        if copy.standing is Standing.PAUSED:
            self._take_out(assignment)
            partition.stage, partition.trouble = Stage.PAUSED, copy.reason
            return
        if partition.stage is Stage.PAUSED:
            partition.stage, partition.trouble = Stage.WAITING, ""
        source = _leader(scan.source, copy.there, key[1])
        target = _leader(scan.target, copy.here, key[1])
        way = Way(source[0], target[0], partition.alone)
        if assignment.lane is not None and (way, source[1]) != (
            assignment.way,
            assignment.leader_epoch,
        ):
            self._take_out(assignment)
            partition.stage = Stage.WAITING
        assignment.way, assignment.leader_epoch = way, source[1]
        if assignment.lane is not None and self._is_to_renew(assignment):
            self._take_out(assignment)
            self._lost(partition, "its producer id is renewed", ErrorCode.none)
        if assignment.passes is not None and partition.copied >= assignment.passes.begins:
            self._forget_gap(assignment)

    def _is_to_renew(self, assignment: _Assignment) -> bool:
        """Apache Kafka forgets a producer that has been idle for days, and whom it fenced off."""
        is_kafka = self.kafka is not None
        return is_kafka and self._loop.time() - assignment.begun_at > _RENEWED_S

    def _take_out(self, assignment: _Assignment) -> None:
        if assignment.lane is not None:
            assignment.lane.remove(assignment.partition)
            assignment.lane = None

    def _close_empty_lanes(self) -> None:
        used_ways = {assignment.way for assignment in self._assignments.values()}
        for way, lane in tuple(self._lanes.items()):
            if not len(lane) and way not in used_ways:
                del self._lanes[way]
                self._spawn(lane.close())

    # Resuming

    def _begin_due(self, scan: Scan) -> None:
        now = self._loop.time()
        due_by_way: dict[Way, list[_Assignment]] = {}
        for assignment in self._assignments.values():
            stage = assignment.partition.stage
            if assignment.lane is not None or assignment.is_asked or stage is Stage.PAUSED:
                continue
            if (
                assignment.not_before > now
                or assignment.lost_at > scan.asked_at
                or assignment.way is None
            ):
                continue
            if NO_LEADER in assignment.way[:2]:
                side = "source" if assignment.way.source == NO_LEADER else "target"
                assignment.partition.trouble = f"no leader at the {side}"
                continue
            due_by_way.setdefault(assignment.way, []).append(assignment)
        for way, assignments in due_by_way.items():
            if way[:2] in self._asked:
                self._has_put_off = True
                continue
            self._asked.add(way[:2])
            for assignment in assignments:
                assignment.is_asked = True
            self._spawn(self._begin(way, assignments, scan))

    async def _begin(self, way: Way, assignments: Sequence[_Assignment], scan: Scan) -> None:
        try:
            await self._try_to_begin(way, assignments, scan)
        except ClientError as error:
            for assignment in assignments:
                if assignment.lane is None:
                    self._again(assignment, str(error))
        finally:
            for assignment in assignments:
                assignment.is_asked = False
            self._asked.remove(way[:2])
            self._begin_put_off()

    def _begin_put_off(self) -> None:
        if self._has_put_off and self.seen is not None and not self._is_closing:
            self._has_put_off = False
            self._begin_due(self.seen)

    async def _try_to_begin(self, way: Way, assignments: Sequence[_Assignment], scan: Scan) -> None:
        addresses = _address(scan.source, way.source), _address(scan.target, way.target)
        partitions = [_wanted(assignment) for assignment in assignments]
        source = addresses[0], self._config.source.bootstrap.access
        target = addresses[1], self._config.target.bootstrap.access
        kafka = self.kafka
        results = await self._in_thread(
            lambda: (
                look(source, target, partitions, CLIENT_ID)
                if kafka is None
                else kafka.look(source, target, partitions)
            )
        )
        refusals = await self._let_pass(assignments, results)
        for assignment in assignments:
            key = assignment.partition.here
            is_ours = self._assignments.get(key) is assignment and assignment.way == way
            if not is_ours or assignment.partition.stage is Stage.PAUSED:
                continue
            if key[0] in refusals:
                self._again(assignment, refusals[key[0]])
            elif key in results:
                self._begun(assignment, way, addresses, *results[key])

    async def _let_pass(
        self,
        assignments: Iterable[_Assignment],
        results: Mapping[Key, tuple[Beginning, Both | None]],
    ) -> dict[str, str]:
        """Allow the gaps to skip at the target. Returns the topics for which that failed, with the
        reason."""
        gaps: dict[str, dict[int, Gap | None]] = {}
        for assignment in assignments:
            topic, index = assignment.partition.here
            outcome, _ = results.get((topic, index), (None, None))
            if isinstance(outcome, GoOn) and outcome.over is not None:
                assignment.passes, assignment.may_pass = outcome.over, False
                gaps.setdefault(topic, {})[index] = outcome.over
                log.warning(
                    "gap skipped partition=%s-%d end=%d begins=%d",
                    *(topic, index, outcome.over.end, outcome.over.begins),
                )
        refusals = {}
        for topic, changes in gaps.items():
            try:
                await self._set_gaps(topic, changes)
            except ClientError as error:
                refusals[topic] = str(error)
        return refusals

    def _begun(
        self,
        assignment: _Assignment,
        way: Way,
        addresses: tuple[Address, Address],
        outcome: Beginning,
        both: Both | None,
    ) -> None:
        partition = assignment.partition
        if both is not None:
            partition.copied = both.target.end
            partition.heard(both.source.end, self._loop.time())
        match outcome:
            case Again(reason):
                self._again(assignment, reason)
            case Stop(reason):
                self._stopped(partition, reason)
            case GoOn(offset):
                partition.position = offset
                partition.stage, partition.trouble = Stage.COPYING, ""
                partition.has_gap = False
                if self._watcher is not None:
                    self._watcher.begun(assignment.copy, partition)
                assignment.begun_at = self._loop.time()
                assignment.lane = self._lane(way, addresses)
                assignment.lane.add(partition, assignment.leader_epoch)

    def _lane(self, way: Way, addresses: tuple[Address, Address]) -> Lane:
        lane = self._lanes.get(way)
        if lane is not None and lane.addresses != addresses:
            for assignment in self._assignments.values():
                if assignment.lane is lane:
                    self._lost(
                        assignment.partition, "a broker's address has changed", ErrorCode.none
                    )
            self._spawn(lane.close())
            lane = None
        if lane is None:
            events = LaneEvents(self._lost, self._stopped, self._written)
            lane = self._lanes[way] = Lane(way, addresses, self._lane_settings(way), events)
        return lane

    def _lane_settings(self, way: Way) -> LaneSettings:
        scan = self.seen
        ways = 1 if scan is None else len(scan.source.brokers) * len(scan.target.brokers)
        memory = portion(self._config.limits.memory_bytes, ways, aside=way.aside)
        kafka = self.kafka
        return LaneSettings(
            source=self._config.source.bootstrap.access,
            target=self._config.target.bootstrap.access,
            writing=OffsetsKept if kafka is None else kafka.appending,
            bandwidth=self._bandwidth,
            buffers=memory.buffers,
            buffer_bytes=memory.size,
        )

    # Events of lanes

    def _lost(self, partition: CopiedPartition, reason: str, code: ErrorCode) -> None:
        assignment = self._assignments.get(partition.here)
        if assignment is None or assignment.partition is not partition:
            return
        partition.stage = Stage.WAITING
        self._again(assignment, reason, _REFUSED_S if code in _NOT_ALLOWED else 0.0)

    def _again(self, assignment: _Assignment, reason: str, seconds: float = 0.0) -> None:
        partition, now = assignment.partition, self._loop.time()
        assignment.lane = None
        assignment.lost_at = now
        assignment.not_before = now + max(seconds, assignment.pauses.next())
        if reason != partition.trouble:
            log.info("partition waiting partition=%s reason=%r", partition.name, reason)
        partition.trouble = reason
        self._soon.set()

    def _stopped(self, partition: CopiedPartition, reason: str) -> None:
        assignment = self._assignments.get(partition.here)
        if assignment is None or assignment.partition is not partition:
            return
        assignment.lane = None
        assignment.lost_at = self._loop.time()
        assignment.not_before = assignment.lost_at + _STOPPED_S
        if reason != partition.trouble:
            partition.stops += 1
            log.error("partition stopped partition=%s reason=%r", partition.name, reason)
        partition.stage, partition.trouble = Stage.STOPPED, reason

    def _written(self, partition: CopiedPartition, headers: Sequence[BatchHeader]) -> None:
        assignment = self._assignments.get(partition.here)
        if assignment is None or assignment.partition is not partition:
            return
        assignment.pauses.reset()
        if self._watcher is not None:
            self._watcher.written(partition, headers)
        if partition.alone and assignment.lane is not None:
            partition.alone = False  # it progresses again
            self._take_out(assignment)
            self._lost(partition, "it moves back to the shared lane", ErrorCode.none)
        if assignment.passes is not None and partition.copied >= assignment.passes.begins:
            self._forget_gap(assignment)

    def _forget_gap(self, assignment: _Assignment) -> None:
        assignment.passes = None
        topic, index = assignment.partition.here
        self._spawn(self._forget(topic, index))

    async def _forget(self, topic: str, index: int) -> None:
        try:
            await self._set_gaps(topic, {index: None})
        except ClientError as error:  # harmless: the log has passed the gap
            log.warning("cannot revoke an allowed gap error=%r", str(error))

    async def _set_gaps(self, topic: str, changes: Mapping[int, Gap | None]) -> None:
        """Uses the scanning thread, since its connections belong to that."""
        await self._loop.run_in_executor(self._looks, self._scanner.set_gaps, topic, changes)

    # Threads and tasks

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._threads, work)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task failed", exc_info=error)  # a bug: the next scan tries again

    async def _close(self) -> None:
        self._is_closing = True
        for assignment in self._assignments.values():
            self._take_out(assignment)
        for lane in self._lanes.values():
            await lane.close()
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))
        self._scanner.end()
        for executor in (self._threads, self._looks):
            executor.shutdown(wait=False, cancel_futures=True)


def _wanted(assignment: _Assignment) -> PartitionPair:
    partition = assignment.partition
    gap = assignment.copy.accepted.get(partition.here[1])
    if assignment.passes is not None:
        gap = assignment.passes
    return PartitionPair(
        partition.here,
        partition.there,
        partition.compacts,
        None if gap is None else gap.end,
        has_gap=partition.has_gap,
        may_pass=assignment.may_pass,
    )


def _leader(metadata: ClusterMetadata, topic: str, index: int) -> tuple[int, int]:
    """A partition's leader and its epoch; -1 if there is none, or its address is unknown."""
    topic_metadata = metadata.topics.get(topic)
    if topic_metadata is None or index >= len(topic_metadata.partitions):
        return NO_LEADER, -1
    partition = topic_metadata.partitions[index]
    is_known = partition.leader in metadata.brokers
    return partition.leader if is_known else NO_LEADER, partition.leader_epoch


def _address(metadata: ClusterMetadata, broker: int) -> Address:
    return metadata.brokers[broker].address


_NOT_ALLOWED: Final = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    }
)
