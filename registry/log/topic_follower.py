"""Reads the topic from its beginning and follows it, on a thread of its own.

Rule 1: a batch is handed over once, as a whole, in log order; the next one waits until it is taken.
Rule 2: restarts, leader changes and broken connections are outages, which are waited out however
long they last, since what was read stays valid.
Rule 3: if the topic was deleted, recreated or truncated, what was read is no longer valid. The
follower then ends and reports the reason.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final

import msgspec

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import ClientError, ErrorCode, Refused, UnknownTopic, check
from client.producing.producer import Identity
from client.reading.fetcher import FetchedBatch, Fetcher
from client.rights import on_topic
from ground.outage import Outage
from registry.errors import RegistryFailure
from registry.log.topic import CLIENT_ID, SchemasTopic, check_partitions, known_id
from registry.schemas_topic.values import LogRecord
from wire.acls import Operation
from wire.errors import BatchError
from wire.messages import offset_for_leader_epoch
from wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from wire.record_batches.records import records

_POLL_SECONDS: Final = 0.5  # upper bound on the time to stop
_HELD_MS: Final = 2_000  # long poll; new data is sent immediately
_STOP_SECONDS: Final = 2.0
MISSING_SECONDS: Final = 10.0  # brokers may not know all topics right after their start
_AT_ONCE: Final = 500  # records handed over at a time, so as not to block the taker for long

log = logging.getLogger(__name__)


class ReadBatch(msgspec.Struct, frozen=True):
    """A batch's author and its remaining records by offset."""

    author: Identity
    records: tuple[tuple[int, LogRecord], ...]
    next_offset: int


class TopicGone(Exception):
    """The topic has lost records that had been read from it."""


class TopicFollower:
    """Follows the topic. `take` is called with records, and returns once they are processed;
    `on_end` is called with the reason for the end. Both run on the follower's thread."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        topic: SchemasTopic,
        *,
        take: Callable[[Sequence[ReadBatch]], None],
        on_end: Callable[[str], None],
        missing_seconds: float = MISSING_SECONDS,
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._take = take
        self._on_end = on_end
        self._missing_seconds = missing_seconds
        self._position = topic.start
        self._leader_epoch = -1  # of the last batch
        self._missing_since: float | None = None
        self._outage = Outage(log, f"reading topic {topic.name}")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops, waiting a moment for work in progress. Not to be called from within `take`."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_SECONDS)

    @property
    def trouble(self) -> str:
        """The current outage; empty if there is none."""
        return self._outage.why

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def _run(self) -> None:
        while not self.stopping:
            try:
                with Brokers(self._bootstrap, client_id=CLIENT_ID, patience_seconds=0) as brokers:
                    self._check_unchanged(brokers)
                    self._follow(brokers)
            except ClientError as error:
                self._stopping.wait(self._outage.failed(error, passing=error.retriable))
            except (TopicGone, RegistryFailure) as gone:
                self._on_end(str(gone))
                return
            except Exception:  # a bug: stale data would be served unnoticed
                if self.stopping:
                    return
                log.exception("reading topic failed topic=%s", self._topic.name)
                self._on_end(f"reading topic {self._topic.name} failed: see the log")
                return

    def _check_unchanged(self, brokers: Brokers) -> None:
        """Raise TopicGone unless the records at the position follow those that were read."""
        name = self._topic.name
        try:
            topic = brokers.topic(name, Operation.READ)
        except UnknownTopic:
            self._missing_since = self._missing_since or time.monotonic()
            if time.monotonic() - self._missing_since > self._missing_seconds:
                raise TopicGone(f"topic {name} was deleted") from None
            raise
        self._missing_since = None
        check_partitions(topic)
        if self._topic.id is not None and known_id(topic) not in {None, self._topic.id}:
            raise TopicGone(f"topic {name} was deleted and recreated")
        if self._leader_epoch >= 0:
            end = self._end_of_epoch(brokers, topic.partition(0).leader)
            if 0 <= end < self._position:
                raise TopicGone(
                    f"topic {name} was truncated to offset {end} after it was read up to "
                    f"{self._position}"
                )

    def _end_of_epoch(self, brokers: Brokers, leader: int) -> int:
        """The end offset of our last batch's leader epoch, according to the current leader."""
        partition = OffsetForLeaderPartition(partition=0, leader_epoch=self._leader_epoch)
        request = OffsetForLeaderEpochRequest(
            topics=(OffsetForLeaderTopic(topic=self._topic.name, partitions=(partition,)),)
        )
        answer = brokers.broker(leader).call(offset_for_leader_epoch.API, request)
        ((result,),) = (topic.partitions for topic in answer.topics)
        needed_right = on_topic(brokers.who, self._topic.name, Operation.DESCRIBE)
        check(result.error_code, f"{self._topic.name}-0", needs=needed_right)
        return result.end_offset

    def _follow(self, brokers: Brokers) -> None:
        with closing(
            Fetcher(brokers, self._topic.name, {0: self._position}, held_ms=_HELD_MS)
        ) as fetcher:
            while not self.stopping:
                try:
                    batches = fetcher.poll(_POLL_SECONDS)
                except Refused as refused:
                    if refused.code is ErrorCode.offset_out_of_range:
                        raise TopicGone(
                            f"topic {self._topic.name} has no offset {self._position} any more: "
                            "records or the topic were deleted"
                        ) from None
                    raise
                if fetcher.ends:
                    self._outage.over()
                for portion in _portions(self._read_batch(batch) for batch in batches):
                    self._take(portion)

    def _read_batch(self, batch: FetchedBatch) -> ReadBatch:
        header = batch.header
        batch_records: list[tuple[int, LogRecord]] = []
        if not header.is_control:
            try:
                batch_records.extend(self._records(batch))
            except BatchError as error:  # all registries skip it alike
                log.error("batch skipped offset=%d error=%r", header.base_offset, str(error))
        self._position = header.next_offset
        self._leader_epoch = header.leader_epoch
        author = Identity(header.producer_id, header.producer_epoch)
        return ReadBatch(author, tuple(batch_records), header.next_offset)

    def _records(self, batch: FetchedBatch) -> Iterator[tuple[int, LogRecord]]:
        for record in records(batch.data):
            if record.offset >= self._position:
                yield record.offset, LogRecord(record.key or b"", record.value)


def _portions(batches: Iterable[ReadBatch]) -> Iterator[list[ReadBatch]]:
    portion: list[ReadBatch] = []
    size = 0
    for batch in batches:
        portion.append(batch)
        size += len(batch.records)
        if size >= _AT_ONCE:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
