"""The writer: decides writes in order and publishes them in groups, on a thread of its own.

The life of an epoch:

1. take     append a record without effect, which fences older writers; read up to it
2. decide   all waiting writes, each on contents that include the ones before it
3. publish  the resulting records as one batch with acks=all, while new writes queue up
4. settle   answer the writes once this registry's own readers have read the batch

After a failed publish, or one with unknown outcome, the writer's contents may be wrong. They are
discarded, those writes fail, and the next epoch starts at 1, where the topic shows the outcome. An
epoch also ends when the election says so, or when the topic has a foreign batch.

After a long idle time the writer appends a record without effect: brokers forget a silent producer,
and with it that older epochs are fenced.

The readers of other clusters' topics hand their batches over. They are applied to the writer's
contents before the next writes are decided.

A write that changes nothing or is refused is answered together with the group it was decided in,
since it may depend on records that are not published yet.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Final, TypeVar

import msgspec

from client.connection.bootstrap import Bootstrap
from client.errors import ClientError
from client.producing.producer import Identity
from cluster.registry_writer import LAST_PRODUCER_EPOCH
from cluster.values import WriterEpoch
from ground.outage import Outage
from registry.errors import schema_too_large, too_busy
from registry.log.leadership import Leadership, Over, Tenure
from registry.log.publishing import NotOurId, NotPublished, Publisher
from registry.log.topic_follower import ReadBatch
from registry.log.topic_view import TopicView
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.values import Decision, LogRecord

T = TypeVar("T")

_GROUP: Final = 500
_GROUP_SECONDS: Final = 0.1
_STOP_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


class NotWriter(Exception):
    """This registry is not the writer, and published nothing for this write."""


class _Write(msgspec.Struct, frozen=True):
    # Any: each write has an answer of its own type
    decide: Callable[[RegistryContents], Decision[Any]]
    answered: "asyncio.Future[Any]"

    def settle(self, outcome: object) -> None:
        if self.answered.done():
            return  # the caller has stopped waiting
        if isinstance(outcome, Exception):
            self.answered.set_exception(outcome)
        else:
            self.answered.set_result(outcome)


_Outcomes = list[tuple[_Write, object]]  # the answer, or the exception to raise


class TopicWriter:
    """Writes the topic. `on_intruder` is called on the event loop if another program also writes to
    it."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        topic: str,
        leadership: Leadership,
        reading: TopicView,
        *,
        capacity: int,
        publish_seconds: float,
        sign_of_life_seconds: float,
        on_intruder: Callable[[str], None],
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._leadership = leadership
        self._reading = reading
        self._capacity = capacity
        self._publish_seconds = publish_seconds
        self._sign_of_life_seconds = sign_of_life_seconds
        self._on_intruder = on_intruder
        self._news = leadership.news
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Write] = deque()
        self._brought: deque[tuple[str, ReadBatch]] = deque()  # of mirrored topics, by prefix
        self._open = False  # accepts writes
        self._stopping = False
        self._outage = Outage(log, f"writing topic {topic}")
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    # The event loop

    def start(self) -> None:
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether this registry currently decides writes."""
        return self._open

    @property
    def is_stopping(self) -> bool:
        """Whether the writer is stopping: it finishes the queued writes and accepts no new ones."""
        return self._stopping

    @property
    def waiting(self) -> int:
        """The number of writes that wait to be decided."""
        return len(self._waiting)

    async def submit(self, decide: Callable[[RegistryContents], Decision[T]]) -> T:
        """Queues a write; returns its answer once this registry's readers see the result. Raises
        ErrorAnswer, NotWriter or NotPublished."""
        write = _Write(decide, self._loop.create_future())
        with self._news:
            if not self._open:
                raise NotWriter
            if len(self._waiting) >= self._capacity:
                raise too_busy()
            self._waiting.append(write)
            self._news.notify_all()
        answer: T = await write.answered
        return answer

    def bring(self, prefix: str, batch: ReadBatch) -> None:
        """Takes a batch that was read from another cluster's schemas."""
        if self._open:
            self._brought.append((prefix, batch))

    # Any other thread

    def stop(self) -> None:
        """Finishes the queued writes, then ends. The event loop must keep running meanwhile."""
        with self._news:
            self._stopping = True
            self._news.notify_all()
        if self._thread.ident is not None:
            self._thread.join(_STOP_SECONDS)

    # The writer's own thread

    def _run(self) -> None:
        while not self._stopping:
            epoch = None
            try:
                epoch = self._leadership.take(lambda: self._stopping)
                if epoch is not None:
                    self._be_writer(epoch)
            except NotOurId as error:
                assert epoch is not None
                self._leadership.drop_id(epoch)
                self._try_later(error)
            except ClientError as error:
                self._try_later(error, passing=error.retriable)
            except NotPublished as error:
                self._try_later(error, passing=error.passing)
            except Exception as error:  # a bug: the next epoch may do better
                if self._stopping:
                    return
                log.exception("writing failed")
                self._try_later(error)

    def _try_later(self, error: Exception, *, passing: bool = True) -> None:
        """Resign, so that another registry may try, and pause."""
        if self._stopping:
            return
        self._leadership.give_up()
        pause = self._outage.failed(error, passing=passing)
        with self._news:
            self._news.wait_for(lambda: self._stopping, pause)

    def _be_writer(self, epoch: WriterEpoch) -> None:
        tenure = Tenure(epoch, self._reading, self._news)
        self._on_loop(lambda: self._reading.watch(tenure.observe))
        with self._news:
            self._open = True
        identity = Identity(epoch.producer_id, epoch.producer_epoch)
        try:
            with closing(self._publisher(identity)) as publisher:
                contents_ahead, end = self._take(epoch, tenure, publisher)
                self._outage.over()
                log.info("writer topic=%s epoch=%d", self._topic, epoch.epoch)
                while (group := self._next_group(epoch, tenure)) is not None:
                    end = self._work(group, contents_ahead, end, publisher)
            if tenure.over is not None:
                self._leadership.give_up()
            if tenure.over is Over.INTRUDED:
                self._end_because_of(tenure)
        finally:
            log.info("no longer writer topic=%s epoch=%d", self._topic, epoch.epoch)
            self._close()

    def _publisher(self, identity: Identity) -> Publisher:
        return Publisher(self._bootstrap, self._topic, identity, seconds=self._publish_seconds)

    def _take(
        self, epoch: WriterEpoch, tenure: Tenure, publisher: Publisher
    ) -> tuple[RegistryContents, int]:
        """The contents right after our first record, and the offset that follows it."""
        first = self._on_loop(self._reading.contents.sign_of_life)
        if epoch.retired_id is not None:
            retired_identity = Identity(epoch.retired_id, LAST_PRODUCER_EPOCH)
            with closing(self._publisher(retired_identity)) as last_publisher:
                last_publisher.fence(first)
        end = publisher.append([first])
        with self._news:
            self._news.wait_for(
                lambda: tenure.began is not None or self._is_over(epoch, tenure) or self._stopping,
                self._publish_seconds,
            )
        if tenure.began is None:
            is_over = self._stopping or self._is_over(epoch, tenure)
            reason = (
                "it ended before it began" if is_over else "the topic was not read up to its start"
            )
            raise NotPublished(f"epoch {epoch.epoch}: {reason}")
        contents_ahead = tenure.began
        # Records that were read meanwhile may have raised the highest id.
        if (new_sign := contents_ahead.sign_of_life()) != first:
            contents_ahead.apply(end, new_sign)
            end = publisher.append([new_sign])
        return contents_ahead, end

    def _is_over(self, epoch: WriterEpoch, tenure: Tenure) -> bool:
        return tenure.over is not None or self._leadership.epoch != epoch

    def _next_group(self, epoch: WriterEpoch, tenure: Tenure) -> list[_Write] | None:
        """The waiting writes, none after a long silence; None when the epoch or the writer ends."""
        with self._news:
            self._news.wait_for(
                lambda: self._waiting or self._is_over(epoch, tenure) or self._stopping,
                self._sign_of_life_seconds,
            )
            if self._is_over(epoch, tenure) or (self._stopping and not self._waiting):
                return None
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), _GROUP))]

    def _work(
        self,
        group: Sequence[_Write],
        contents_ahead: RegistryContents,
        end: int,
        publisher: Publisher,
    ) -> int:
        """Decide and publish; returns the offset after the published records."""
        self._take_brought(contents_ahead)
        outcomes: _Outcomes = []
        records: list[LogRecord] = [] if group else [contents_ahead.sign_of_life()]
        start_time = time.monotonic()
        for index, write in enumerate(group):
            if outcomes and time.monotonic() - start_time > _GROUP_SECONDS:
                self._put_back(group[index:])
                break
            if write.answered.done():  # its caller has timed out
                continue
            try:
                decision = write.decide(contents_ahead)
                if not all(map(publisher.takes, decision.records)):
                    raise schema_too_large()
            except Exception as error:  # noqa: BLE001  # ErrorAnswer, or a bug, logged by the caller
                outcomes.append((write, error))
                continue
            for record in decision.records:
                contents_ahead.apply(end + len(records), record)
                records.append(record)
            outcomes.append((write, decision.answer))
        try:
            end_offset = publisher.append(records) if records else end
            if end_offset != end + len(records):
                raise NotPublished(f"records end at {end_offset}, not at {end + len(records)}")
        except BaseException as error:
            self._fail([write for write, _ in outcomes], error)
            raise
        self._loop.call_soon_threadsafe(self._settle, outcomes, end_offset)
        return end_offset

    def _take_brought(self, contents_ahead: RegistryContents) -> None:
        while self._brought:
            prefix, batch = self._brought.popleft()
            for offset, record in batch.records:
                contents_ahead.apply_mirrored(prefix, offset, record)

    def _put_back(self, writes: Sequence[_Write]) -> None:
        """Leave these to the next group: those before them have waited long enough."""
        with self._news:
            self._waiting.extendleft(reversed(writes))

    def _settle(self, outcomes: _Outcomes, end: int) -> None:
        def settle() -> None:
            for write, outcome in outcomes:
                write.settle(outcome)

        self._reading.when_at(end, settle)

    def _fail(self, writes: Sequence[_Write], error: BaseException) -> None:
        kind = type(error) if isinstance(error, NotPublished) else NotPublished
        self._loop.call_soon_threadsafe(_settle_all, writes, lambda: kind(str(error)))

    def _close(self) -> None:
        """Hand the waiting writes back: another registry may be the writer."""
        with self._news:
            self._open = False
            waiting_writes = list(self._waiting)
            self._waiting.clear()
            self._brought.clear()
        self._loop.call_soon_threadsafe(_settle_all, waiting_writes, NotWriter)
        self._on_loop(lambda: self._reading.watch(None))

    def _end_because_of(self, tenure: Tenure) -> None:
        intruder = tenure.ended_by
        assert intruder is not None
        self._stopping = True
        author = f"producer {intruder.author.producer_id}, epoch {intruder.author.epoch}"
        message = (
            f"topic {self._topic} has another writer: offset "
            f"{intruder.next_offset - 1}, {author}. Two registries without a common election "
            "assign the same id to different schemas: stop the other, or configure the same "
            "`zookeeper` for both"
        )
        self._loop.call_soon_threadsafe(self._on_intruder, message)

    def _on_loop(self, act: Callable[[], T]) -> T:
        """What `act` returns on the event loop."""

        async def run() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_STOP_SECONDS)


def _settle_all(writes: Sequence[_Write], outcome: Callable[[], Exception]) -> None:
    for write in writes:
        write.settle(outcome())
