"""All that one worker copies: partitions, the lanes they are in, and when each is looked at.

    look at both clusters ─▶ partitions of copies that are mine
       waiting ─ both sides asked where it is (beginnings.py) ─▶ copying, in the lane of its leaders
          ▲ a leader moved, a connection broke, a refusal: after a pause ──┘
       stopped: a gap, another history … told with its reason, looked at again now and then

What is looked at is looked at again as soon as a partition is lost: its leader may have moved. A
partition begins anew only by what was seen after that.

Looks have a thread of their own. Leaders are asked where partitions go on by others, each pair of
them by one at a time: one that hangs keeps a thread for each broker of the other side, not all.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

import msgspec

from client.addresses import Address
from client.delivery import TopicPartition
from client.errors import ClientError, ErrorCode
from client.fetch_session import Key
from client.metadata import NO_LEADER, ClusterMetadata
from client.patience import Pauses
from mirror.bandwidth import Bandwidth
from mirror.batches import Gap
from mirror.beginnings import Again, Beginning, Both, GoOn, Stop, Wanted, look
from mirror.buffers import portion
from mirror.config import MirrorConfig
from mirror.kafka_target.target import KafkaTarget
from mirror.lane import CLIENT_ID, Lane, LaneEvents, LaneSettings, Way
from mirror.looking import Looking, Seen
from mirror.partition import CopiedPartition, Stage
from mirror.topics import Standing, TopicCopy
from mirror.unheard import UNHEARD_S, Unheard
from mirror.writing import OffsetsKept
from wire.batch import BatchHeader

log = logging.getLogger(__name__)

T = TypeVar("T")

_THREADS: Final = 64  # at most; few are needed while nobody hangs
_BETWEEN_S: Final = 0.2  # two looks
_STOPPED_S: Final = 15.0  # after which a stopped partition is looked at again
_RENEWED_S: Final = 12 * 3600.0
_REFUSED_S: Final = 5.0  # after which one is tried that is not allowed


class Watcher(Protocol):
    """Who is told what was copied; on the event loop."""

    def begun(self, copy: TopicCopy, partition: CopiedPartition) -> None: ...

    def written(self, partition: CopiedPartition, headers: Sequence[BatchHeader]) -> None: ...


class _Place(msgspec.Struct, eq=False):
    """A partition, where it is, and what is known of it."""

    partition: CopiedPartition
    copy: TopicCopy
    way: Way | None = None
    leader_epoch: int = -1
    lane: Lane | None = None
    is_asked: bool = False
    lost_at: float = 0.0
    not_before: float = 0.0
    begun_at: float = 0.0
    may_pass: bool = False  # one gap, whichever is found first
    passes: Gap | None = None  # the target takes this one
    pauses: Pauses = msgspec.field(default_factory=Pauses)


class Copying:
    """Belongs to the event loop, but for what says otherwise."""

    def __init__(
        self,
        config: MirrorConfig,
        looking: Looking,
        *,
        accepts: Callable[[str, int], bool] = lambda _topic, _partition: False,
        watcher: Watcher | None = None,
    ) -> None:
        """`accepts`: whether somebody has said that a partition may go on behind a gap."""
        self.seen: Seen | None = None  # any thread
        self.trouble = "nothing was looked at yet"  # any thread; of the look, empty if it succeeded
        self.partitions: dict[Key, CopiedPartition] = {}  # by name at the target
        self._config = config
        self._looking = looking
        self._accepts = accepts
        self._watcher = watcher
        self._loop = asyncio.get_running_loop()
        self._bandwidth = Bandwidth(config.bandwidth, self._loop.time())
        self._places: dict[Key, _Place] = {}
        self._lanes: dict[Way, Lane] = {}
        self._mine: frozenset[Key] | None = None
        self._soon = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: set[tuple[int, int]] = set()  # pairs of leaders, just now
        self._has_put_off = False  # partitions whose leaders were being asked already
        self._is_closing = False
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ask")
        self._looks = ThreadPoolExecutor(1, thread_name_prefix="look")

    # Any thread

    @property
    def lanes_in_trouble(self) -> dict[str, str]:
        """Between which brokers nothing moves, and why."""
        return {
            f"{way.source} to {way.target}": lane.trouble
            for way, lane in tuple(self._lanes.items())
            if lane.trouble
        }

    @property
    def kafka(self) -> KafkaTarget | None:
        """The target, if it is Apache Kafka."""
        return self._looking.kafka

    @property
    def copies(self) -> frozenset[str]:
        """Topics of the target that have partitions to be copied, whosever they are."""
        return frozenset(self.copied_topics.values())

    @property
    def copied_topics(self) -> dict[str, str]:
        """The same, by topics of the source."""
        seen = self.seen
        copies = () if seen is None else seen.copies.values()
        return {copy.there: copy.here for copy in copies if copy.partitions}

    @property
    def of_same_offsets(self) -> dict[Key, CopiedPartition]:
        """Partitions of this worker, where the target keeps offsets."""
        return {} if self.kafka is not None else self.partitions.copy()

    @property
    def ends(self) -> dict[TopicPartition, tuple[TopicPartition, int]]:
        """By partitions of the source: their copies here, and where these end."""
        return {
            TopicPartition(*each.there): (TopicPartition(*each.here), each.copied)
            for each in tuple(self.partitions.copy().values())
            if each.copied >= 0
        }

    # What is copied

    def share(self, mine: Collection[Key] | None) -> None:
        """Copy these partitions alone, by their names at the target; None: all."""
        self._mine = None if mine is None else frozenset(mine)
        if self.seen is not None:
            self._apply(self.seen)
        self._soon.set()

    async def run(self, told: asyncio.Event) -> None:
        """Until that is told. Raises NoTarget."""
        telling = self._loop.create_task(told.wait())
        access = self._config.source.bootstrap.access
        unheard = self._loop.create_task(Unheard(access, self._unheard, self._in_thread).run())
        try:
            while not told.is_set():
                self._soon.clear()
                await self._look()
                await self._pause(telling)
        finally:
            telling.cancel()
            unheard.cancel()
            await self._close()

    def _unheard(self) -> dict[Address, list[CopiedPartition]]:
        seen = self.seen
        before = self._loop.time() - UNHEARD_S
        found: dict[Address, list[CopiedPartition]] = {}
        for place in self._places.values():
            way, lane = place.way, place.lane
            is_heard = lane is not None and lane.heard_at > before
            if seen is not None and way is not None and way.source != NO_LEADER and not is_heard:
                found.setdefault(_address(seen.source, way.source), []).append(place.partition)
        return found

    async def _look(self) -> None:
        try:
            seen = await self._loop.run_in_executor(self._looks, self._looking.look)
        except ClientError as error:
            if str(error) != self.trouble:
                log.warning("clusters cannot be looked at error=%r", str(error))
            self.trouble = str(error)
            return
        if self.trouble:
            log.info("clusters seen topics=%d", len(seen.copies))
        self.trouble = ""
        self.seen = seen
        self._apply(seen)
        if seen.has_changed:
            self._soon.set()

    async def _pause(self, telling: "asyncio.Task[bool]") -> None:
        """Until the next look is due, or something waits for it."""
        now = self._loop.time()
        due = [each.not_before for each in self._places.values() if each.lane is None]
        seconds = min([self._config.interval, *(max(0.0, at - now) for at in due if at > now)])
        soon = self._loop.create_task(self._soon.wait())
        await asyncio.wait({telling}, timeout=_BETWEEN_S)
        await asyncio.wait({telling, soon}, timeout=seconds, return_when="FIRST_COMPLETED")
        soon.cancel()

    def _apply(self, seen: Seen) -> None:
        wanted = {
            (copy.here, index): copy
            for copy in seen.copies.values()
            for index in range(copy.partitions)
            if self._mine is None or (copy.here, index) in self._mine
        }
        for key, place in tuple(self._places.items()):
            copy = wanted.get(key)
            if copy is None or copy.topic_id != place.copy.topic_id:
                self._take_out(place)
                del self._places[key], self.partitions[key]
        for key, copy in wanted.items():
            self._follow(key, copy, seen)
        self._begin_due(seen)
        self._close_empty_lanes()

    def _follow(self, key: Key, copy: TopicCopy, seen: Seen) -> None:
        place = self._places.get(key)
        if place is None:
            partition = CopiedPartition(key, (copy.there, key[1]))
            place = self._places[key] = _Place(partition, copy)
            place.may_pass = self._accepts(copy.here, key[1]) or self._accepts(copy.there, key[1])
            self.partitions[key] = partition
        partition, place.copy = place.partition, copy
        partition.compacts = copy.compacts
        ids = self._looking.schema_ids
        partition.opened = ids.fault if ids is not None and ids.copy == copy.here else None
        if copy.standing is Standing.PAUSED:
            self._take_out(place)
            partition.stage, partition.trouble = Stage.PAUSED, copy.reason
            return
        if partition.stage is Stage.PAUSED:
            partition.stage, partition.trouble = Stage.WAITING, ""
        source = _leader(seen.source, copy.there, key[1])
        target = _leader(seen.target, copy.here, key[1])
        way = Way(source[0], target[0], partition.alone)
        if place.lane is not None and (way, source[1]) != (place.way, place.leader_epoch):
            self._take_out(place)
            partition.stage = Stage.WAITING
        place.way, place.leader_epoch = way, source[1]
        if place.lane is not None and self._is_to_renew(place):
            self._take_out(place)
            self._lost(partition, "the right to write is renewed", ErrorCode.none)
        if place.passes is not None and partition.copied >= place.passes.begins:
            self._forget_gap(place)

    def _is_to_renew(self, place: _Place) -> bool:
        """Apache Kafka forgets a producer that has not begun for days, and whom it fenced off."""
        is_kafka = self.kafka is not None
        return is_kafka and self._loop.time() - place.begun_at > _RENEWED_S

    def _take_out(self, place: _Place) -> None:
        if place.lane is not None:
            place.lane.remove(place.partition)
            place.lane = None

    def _close_empty_lanes(self) -> None:
        used = {place.way for place in self._places.values()}
        for way, lane in tuple(self._lanes.items()):
            if not len(lane) and way not in used:
                del self._lanes[way]
                self._spawn(lane.close())

    # Beginnings

    def _begin_due(self, seen: Seen) -> None:
        now = self._loop.time()
        due: dict[Way, list[_Place]] = {}
        for place in self._places.values():
            stage = place.partition.stage
            if place.lane is not None or place.is_asked or stage is Stage.PAUSED:
                continue
            if place.not_before > now or place.lost_at > seen.asked_at or place.way is None:
                continue
            if NO_LEADER in place.way[:2]:
                side = "source" if place.way.source == NO_LEADER else "target"
                place.partition.trouble = f"it has no leader at the {side}"
                continue
            due.setdefault(place.way, []).append(place)
        for way, places in due.items():
            if way[:2] in self._asked:
                self._has_put_off = True
                continue
            self._asked.add(way[:2])
            for place in places:
                place.is_asked = True
            self._spawn(self._begin(way, places, seen))

    async def _begin(self, way: Way, places: Sequence[_Place], seen: Seen) -> None:
        try:
            await self._try_to_begin(way, places, seen)
        except ClientError as error:
            for place in places:
                if place.lane is None:
                    self._again(place, str(error))
        finally:
            for place in places:
                place.is_asked = False
            self._asked.remove(way[:2])
            self._begin_put_off()

    def _begin_put_off(self) -> None:
        if self._has_put_off and self.seen is not None and not self._is_closing:
            self._has_put_off = False
            self._begin_due(self.seen)

    async def _try_to_begin(self, way: Way, places: Sequence[_Place], seen: Seen) -> None:
        addresses = _address(seen.source, way.source), _address(seen.target, way.target)
        wanted = [_wanted(each) for each in places]
        source = addresses[0], self._config.source.bootstrap.access
        target = addresses[1], self._config.target.bootstrap.access
        kafka = self.kafka
        found = await self._in_thread(
            lambda: (
                look(source, target, wanted, CLIENT_ID)
                if kafka is None
                else kafka.look(source, target, wanted)
            )
        )
        refused = await self._let_pass(places, found)
        for place in places:
            key = place.partition.here
            is_ours = self._places.get(key) is place and place.way == way
            if not is_ours or place.partition.stage is Stage.PAUSED:
                continue
            if key[0] in refused:
                self._again(place, refused[key[0]])
            elif key in found:
                self._begun(place, way, addresses, *found[key])

    async def _let_pass(
        self, places: Iterable[_Place], found: Mapping[Key, tuple[Beginning, Both | None]]
    ) -> dict[str, str]:
        """The target is told which gaps it is to take; topics of which it does not hear that, and
        why."""
        gaps: dict[str, dict[int, Gap | None]] = {}
        for place in places:
            topic, index = place.partition.here
            decided, _ = found.get((topic, index), (None, None))
            if isinstance(decided, GoOn) and decided.over is not None:
                place.passes, place.may_pass = decided.over, False
                gaps.setdefault(topic, {})[index] = decided.over
                log.warning(
                    "gap passed over partition=%s-%d end=%d begins=%d",
                    *(topic, index, decided.over.end, decided.over.begins),
                )
        refused = {}
        for topic, changes in gaps.items():
            try:
                await self._set_gaps(topic, changes)
            except ClientError as error:
                refused[topic] = str(error)
        return refused

    def _begun(
        self,
        place: _Place,
        way: Way,
        addresses: tuple[Address, Address],
        decided: Beginning,
        both: Both | None,
    ) -> None:
        partition = place.partition
        if both is not None:
            partition.copied = both.target.end
            partition.heard(both.source.end, self._loop.time())
        match decided:
            case Again(reason):
                self._again(place, reason)
            case Stop(reason):
                self._stopped(partition, reason)
            case GoOn(offset):
                partition.position = offset
                partition.stage, partition.trouble = Stage.COPYING, ""
                partition.has_gap = False
                if self._watcher is not None:
                    self._watcher.begun(place.copy, partition)
                place.begun_at = self._loop.time()
                place.lane = self._lane(way, addresses)
                place.lane.add(partition, place.leader_epoch)

    def _lane(self, way: Way, addresses: tuple[Address, Address]) -> Lane:
        lane = self._lanes.get(way)
        if lane is not None and lane.addresses != addresses:
            for place in self._places.values():
                if place.lane is lane:
                    self._lost(place.partition, "a broker has moved", ErrorCode.none)
            self._spawn(lane.close())
            lane = None
        if lane is None:
            events = LaneEvents(self._lost, self._stopped, self._written)
            lane = self._lanes[way] = Lane(way, addresses, self._lane_settings(way), events)
        return lane

    def _lane_settings(self, way: Way) -> LaneSettings:
        seen = self.seen
        ways = 1 if seen is None else len(seen.source.brokers) * len(seen.target.brokers)
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

    # What lanes tell

    def _lost(self, partition: CopiedPartition, reason: str, code: ErrorCode) -> None:
        place = self._places.get(partition.here)
        if place is None or place.partition is not partition:
            return
        partition.stage = Stage.WAITING
        self._again(place, reason, _REFUSED_S if code in _NOT_ALLOWED else 0.0)

    def _again(self, place: _Place, reason: str, seconds: float = 0.0) -> None:
        partition, now = place.partition, self._loop.time()
        place.lane = None
        place.lost_at = now
        place.not_before = now + max(seconds, place.pauses.next())
        if reason != partition.trouble:
            log.info("partition waits partition=%s reason=%r", partition.name, reason)
        partition.trouble = reason
        self._soon.set()

    def _stopped(self, partition: CopiedPartition, reason: str) -> None:
        place = self._places.get(partition.here)
        if place is None or place.partition is not partition:
            return
        place.lane = None
        place.lost_at = self._loop.time()
        place.not_before = place.lost_at + _STOPPED_S
        if reason != partition.trouble:
            partition.stops += 1
            log.error("partition stopped partition=%s reason=%r", partition.name, reason)
        partition.stage, partition.trouble = Stage.STOPPED, reason

    def _written(self, partition: CopiedPartition, headers: Sequence[BatchHeader]) -> None:
        place = self._places.get(partition.here)
        if place is None or place.partition is not partition:
            return
        place.pauses.reset()
        if self._watcher is not None:
            self._watcher.written(partition, headers)
        if partition.alone and place.lane is not None:
            partition.alone = False  # it moves again: back to the others
            self._take_out(place)
            self._lost(partition, "it goes back to the others", ErrorCode.none)
        if place.passes is not None and partition.copied >= place.passes.begins:
            self._forget_gap(place)

    def _forget_gap(self, place: _Place) -> None:
        place.passes = None
        topic, index = place.partition.here
        self._spawn(self._forget(topic, index))

    async def _forget(self, topic: str, index: int) -> None:
        try:
            await self._set_gaps(topic, {index: None})
        except ClientError as error:  # it says nothing any more: the log has gone on
            log.warning("gap is still allowed error=%r", str(error))

    async def _set_gaps(self, topic: str, changes: Mapping[int, Gap | None]) -> None:
        """With the connections of looks, and so in their turn."""
        await self._loop.run_in_executor(self._looks, self._looking.set_gaps, topic, changes)

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
            log.error("a task failed", exc_info=error)  # a bug of ours: the next look tries again

    async def _close(self) -> None:
        self._is_closing = True
        for place in self._places.values():
            self._take_out(place)
        for lane in self._lanes.values():
            await lane.close()
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))
        self._looking.end()
        for each in (self._threads, self._looks):
            each.shutdown(wait=False, cancel_futures=True)


def _wanted(place: _Place) -> Wanted:
    partition = place.partition
    permitted = place.copy.accepted.get(partition.here[1])
    if place.passes is not None:
        permitted = place.passes
    return Wanted(
        partition.here,
        partition.there,
        partition.compacts,
        None if permitted is None else permitted.end,
        has_gap=partition.has_gap,
        may_pass=place.may_pass,
    )


def _leader(known: ClusterMetadata, topic: str, index: int) -> tuple[int, int]:
    """Of a partition, and the leader's epoch; -1 if there is none, or nobody knows where it is."""
    found = known.topics.get(topic)
    if found is None or index >= len(found.partitions):
        return NO_LEADER, -1
    partition = found.partitions[index]
    there = partition.leader in known.brokers
    return partition.leader if there else NO_LEADER, partition.leader_epoch


def _address(known: ClusterMetadata, broker: int) -> Address:
    return known.brokers[broker].address


_NOT_ALLOWED: Final = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    }
)
