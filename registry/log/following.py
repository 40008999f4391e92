"""The topic, read from its beginning to its end and on, on a thread of its own.

Rule 1: a batch is handed over once, whole, in the order of the log; the next ones are waited with
until it is taken.
Rule 2: brokers that restart, leaders that move, connections that break are outages: they are waited
out, however long, since what was read stays true.
Rule 3: a topic that was deleted, made anew or cut off holds no longer what was read. Then there is
nothing to be served any more, and the follower ends and says why.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final

import msgspec

from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.errors import ClientError, ErrorCode, Refused, UnknownTopic, check
from client.fetcher import FetchedBatch, Fetcher
from client.producer import Identity
from client.rights import on_topic
from ground.outage import Outage
from registry.errors import RegistryFailure
from registry.log.topic import CLIENT_ID, SchemasTopic, check_partitions, known_id
from registry.values import LogRecord
from wire.acls import Operation
from wire.errors import BatchError
from wire.messages import offset_for_leader_epoch
from wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from wire.records import records

_POLL_SECONDS: Final = 0.5  # how soon it stops
_HELD_MS: Final = 2_000  # by a broker that has nothing new: what is new is sent at once
_STOP_SECONDS: Final = 2.0
MISSING_SECONDS: Final = 10.0  # brokers that have just started may not know all topics yet
_AT_ONCE: Final = 500  # records: what is handed over keeps the taker busy for a moment only

log = logging.getLogger(__name__)


class ReadBatch(msgspec.Struct, frozen=True):
    """What one batch brought: its records that are still there, by offset, and who wrote it."""

    author: Identity
    records: tuple[tuple[int, LogRecord], ...]
    next_offset: int


class TopicGone(Exception):
    """What was read is no longer what the topic holds."""


class TopicFollower:
    """`take` is handed what was read and returns when it is worked off; `on_end` is told why there
    will be no more. Both are called on the follower's thread."""

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
        """Waits a moment for what is under way. Not to be called where `take` is worked off."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_SECONDS)

    @property
    def trouble(self) -> str:
        """Why it does not get on just now; empty while it does."""
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
            except Exception:  # a bug: what is served would grow old without anybody noticing
                if self.stopping:
                    return
                log.exception("reading topic failed topic=%s", self._topic.name)
                self._on_end(f"reading topic {self._topic.name} failed; the log says how")
                return

    def _check_unchanged(self, brokers: Brokers) -> None:
        """Whether what comes at the position still follows what was read."""
        name = self._topic.name
        try:
            found = brokers.topic(name, Operation.READ)
        except UnknownTopic:
            self._missing_since = self._missing_since or time.monotonic()
            if time.monotonic() - self._missing_since > self._missing_seconds:
                raise TopicGone(f"topic {name} was deleted") from None
            raise
        self._missing_since = None
        check_partitions(found)
        if self._topic.id is not None and known_id(found) not in {None, self._topic.id}:
            raise TopicGone(f"topic {name} was deleted and created anew")
        if self._leader_epoch >= 0:
            end = self._end_of_epoch(brokers, found.partition(0).leader)
            if 0 <= end < self._position:
                raise TopicGone(
                    f"topic {name} was cut off at offset {end}, after it was read up to "
                    f"{self._position}"
                )

    def _end_of_epoch(self, brokers: Brokers, leader: int) -> int:
        """Where the log of the leader that wrote our last batch ends, by the leader of today."""
        asked = OffsetForLeaderPartition(partition=0, leader_epoch=self._leader_epoch)
        request = OffsetForLeaderEpochRequest(
            topics=(OffsetForLeaderTopic(topic=self._topic.name, partitions=(asked,)),)
        )
        answer = brokers.broker(leader).call(offset_for_leader_epoch.API, request)
        ((found,),) = (each.partitions for each in answer.topics)
        needs = on_topic(brokers.who, self._topic.name, Operation.DESCRIBE)
        check(found.error_code, f"{self._topic.name}-0", needs=needs)
        return found.end_offset

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
                            "records were deleted, or the topic was"
                        ) from None
                    raise
                if fetcher.ends:
                    self._outage.over()
                for portion in _portions(self._stretch(batch) for batch in batches):
                    self._take(portion)

    def _stretch(self, batch: FetchedBatch) -> ReadBatch:
        header = batch.header
        found: list[tuple[int, LogRecord]] = []
        if not header.is_control:
            try:
                found.extend(self._records(batch))
            except BatchError as error:  # all registries that read it do the same
                log.error("batch left out offset=%d error=%r", header.base_offset, str(error))
        self._position = header.next_offset
        self._leader_epoch = header.leader_epoch
        author = Identity(header.producer_id, header.producer_epoch)
        return ReadBatch(author, tuple(found), header.next_offset)

    def _records(self, batch: FetchedBatch) -> Iterator[tuple[int, LogRecord]]:
        for record in records(batch.data):
            if record.offset >= self._position:
                yield record.offset, LogRecord(record.key or b"", record.value)


def _portions(stretches: Iterable[ReadBatch]) -> Iterator[list[ReadBatch]]:
    portion: list[ReadBatch] = []
    size = 0
    for stretch in stretches:
        portion.append(stretch)
        size += len(stretch.records)
        if size >= _AT_ONCE:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
