"""The topic in an Apache Kafka target that holds a mirror's state: the topics that are copies, and
the offsets of their batches (runs.py).

It is called `_penstock_mirror.NAME`, is compacted, and has one partition, so that its records are
ordered. Keys and values are JSON. A copy is identified by its topic id, if the cluster has ids: a
topic that was deleted and recreated is not a copy.

Any thread; blocks. Written records are read back, since others may have written before them.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.errors import Corrupt, ErrorCode, Refused, check
from client.reading.fetcher import Fetcher
from client.reading.offsets import Beginning, End, start_offsets
from client.rights import on_topic
from mirror.kafka_target.runs import Page, PageKey, Run, Runs, Writer
from wire.acls import Operation
from wire.errors import BatchError
from wire.messages import produce
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.mirrored import MirrorOf
from wire.record_batches.records import Record, build_batch, records

_ALL: Final = -1
_TIMEOUT_MS: Final = 10_000
_AT_ONCE: Final = 2000  # records per batch
_CONFIGS: Final = {"cleanup.policy": "compact"}


class _MarkKey(msgspec.Struct, frozen=True, tag="copy", array_like=True):
    topic: str


class _PageKey(msgspec.Struct, frozen=True, tag="runs", array_like=True):
    topic: str
    partition: int
    topic_id: str
    target: int
    writer: Writer
    is_beginning: bool


class Mark(msgspec.Struct, frozen=True):
    """Marks a topic of the target as a copy. Before the topic is created, the id is unknown."""

    of: str
    topic_id: str = ""
    paused: bool = False


class _Page(msgspec.Struct, frozen=True):
    runs: tuple[Run, ...]
    ended: int = -1


class TargetPartition(NamedTuple):
    """A partition of a copy; `topic_id` is empty if the cluster has no topic ids."""

    topic: str
    partition: int
    topic_id: str


_KEY: Final = msgspec.json.Decoder(_MarkKey | _PageKey)
_MARK: Final = msgspec.json.Decoder(Mark)
_PAGE: Final = msgspec.json.Decoder(_Page)


class _Known(msgspec.Struct):
    """The state that was read up to `position`."""

    position: int = -1
    marks: dict[str, Mark] = {}
    runs: dict[TargetPartition, Runs] = {}


class MapTopic:
    """The map, read and written by one worker."""

    def __init__(self, brokers: Brokers, mirror: str) -> None:
        self.name = f"_penstock_mirror.{mirror}"
        self._brokers = brokers
        self._known = _Known()
        self._is_there = False
        self._lock = threading.Lock()
        self._fetcher: Fetcher | None = None

    def close(self) -> None:
        with self._lock:
            self._close_fetcher()
            self._brokers.close()

    def read(self) -> None:
        """Reads up to the current end. Raises ClientError."""
        with self._lock:
            try:
                self._read()
            except BaseException:
                self._close_fetcher()
                raise

    def marks(self) -> Mapping[str, Mark]:
        """The marks of copies, by topic of the target, as of the last read."""
        with self._lock:
            return dict(self._known.marks)

    def beginning(self, place: TargetPartition) -> Page | None:
        """The page with which a worker last began writing to a partition, as of the last read."""
        with self._lock:
            runs = self._known.runs.get(place)
            return None if runs is None else runs.beginning

    def run_at(self, place: TargetPartition, end: int) -> Run | None:
        """The run in which a copy with this end continues, as of the last read."""
        with self._lock:
            runs = self._known.runs.get(place)
            return None if runs is None else runs.at_end(end)

    def target(self, place: TargetPartition, source: int) -> int | None:
        """The copy's offset for an offset of the source, as of the last read."""
        with self._lock:
            runs = self._known.runs.get(place)
            return None if runs is None else runs.target(source)

    def spare(self, place: TargetPartition, start: int) -> tuple[PageKey, ...]:
        """The pages to drop if the copy begins at this offset."""
        with self._lock:
            runs = self._known.runs.get(place)
            return () if runs is None else runs.spare(start)

    # TargetWriter; raises ClientError

    def mark(self, topic: str, mark: Mark | None) -> None:
        value = None if mark is None else msgspec.json.encode(mark)
        self._write([(msgspec.json.encode(_MarkKey(topic)), value)])

    def write(self, pages: Iterable[tuple[TargetPartition, Page]]) -> None:
        self._write(
            [
                (
                    _key(target_partition, PageKey(page.target, page.writer, page.is_beginning)),
                    msgspec.json.encode(_Page(page.runs, page.ended)),
                )
                for target_partition, page in pages
            ]
        )

    def drop(self, pages: Iterable[tuple[TargetPartition, PageKey]]) -> None:
        self._write([(_key(target_partition, key), None) for target_partition, key in pages])

    def _write(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        for first in range(0, len(entries), _AT_ONCE):
            messages = [
                Record(number, _now_ms(), key, value)
                for number, (key, value) in enumerate(entries[first : first + _AT_ONCE])
            ]
            batch = memoryview(build_batch(messages))
            with self._lock:
                self._create()
                self._brokers.persist(lambda batch=batch: self._append(batch))  # type: ignore[misc]

    def _create(self) -> None:
        """Created before the first write: reading alone leaves nothing behind."""
        if not self._is_there and not self._brokers.refresh([self.name]).has(self.name):
            try:
                admin.create_topic(self._brokers, self.name, partitions=1, configs=_CONFIGS)
            except Refused as error:
                if error.code is not ErrorCode.topic_already_exists:
                    raise
        self._is_there = True

    def _append(self, batch: memoryview) -> None:
        data = PartitionProduceData(index=0, records=batch)
        request = ProduceRequest(
            acks=_ALL,
            timeout=_TIMEOUT_MS,
            topic_data=(TopicProduceData(name=self.name, partition_data=(data,)),),
        )
        leader = self._brokers.topic(self.name).partition(0).leader
        answer = self._brokers.broker(leader).call(produce.API, request)
        needed_right = on_topic(self._brokers.who, self.name, Operation.WRITE)
        for topic in answer.responses:
            for partition in topic.partition_responses:
                check(
                    partition.error_code,
                    f"topic {self.name}",
                    partition.error_message,
                    needs=needed_right,
                )

    # Reading

    def _read(self) -> None:
        state = self._known
        if state.position < 0 and not self._brokers.refresh([self.name]).has(self.name):
            return  # not created yet
        self._brokers.topic(self.name)
        start = start_offsets(self._brokers, self.name, [0], Beginning())[0]
        end = start_offsets(self._brokers, self.name, [0], End())[0]
        if state.position > end:
            state = self._known = _Known()  # the topic was recreated
        state.position = max(state.position, start)
        if state.position >= end:
            return
        if self._fetcher is None:
            self._fetcher = Fetcher(self._brokers, self.name, {0: state.position})
        self._fetcher.begin(0, state.position)
        while state.position < end:
            for batch in self._fetcher.poll(1.0):
                if batch.header.base_offset >= state.position or not batch.header.is_control:
                    self._take(batch.data, state.position)
                state.position = batch.header.next_offset

    def _take(self, batch: memoryview, position: int) -> None:
        try:
            for record in records(batch):
                if record.offset >= position and record.key is not None:
                    self._apply(record.key, record.value)
        except (BatchError, msgspec.DecodeError, ValueError) as error:
            raise Corrupt(f"topic {self.name}: {error}") from None

    def _apply(self, key: bytes, value: bytes | None) -> None:
        match _KEY.decode(key):
            case _MarkKey(topic):
                self._known.marks.pop(topic, None)
                if value is not None:
                    mark = _MARK.decode(value)
                    MirrorOf.parse(mark.of)
                    self._known.marks[topic] = mark
            case _PageKey(topic, partition, topic_id, _, writer) if value is not None:
                page = _PAGE.decode(value)
                if page.runs:
                    target_partition = TargetPartition(topic, partition, topic_id)
                    new_page = Page(Writer(*writer), page.runs, page.ended)
                    self._known.runs.setdefault(target_partition, Runs()).add(new_page)

    def _close_fetcher(self) -> None:
        if self._fetcher is not None:
            self._fetcher.close()
            self._fetcher = None


def _key(place: TargetPartition, key: PageKey) -> bytes:
    return msgspec.json.encode(_PageKey(*place, *key))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
