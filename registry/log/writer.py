"""Writes, decided one after the other and published together, on a thread of their own.

The life of an epoch:

1. take     append a record that changes nothing, which fences off older writers; read up to it
2. decide   all writes that wait, each on contents that are ahead, as if those before it were read
3. publish  what they come to as one batch with acks=all, while new ones come in to wait
4. settle   tell those who wait, once this registry's own readers have read the batch

After a publish that failed, or whose fate is unknown, the contents that are ahead may be wrong:
they are thrown away, those writes fail, and the next epoch begins at 1, where the topic says what
became of them. An epoch is over as well when the election says so, or when the topic has a batch
that is not ours.

When nothing is written for long, the writer writes what changes nothing: brokers forget a producer
that is silent, and with it that older epochs are fenced off.

What other clusters' topics say is brought here by whoever reads them, and is in the contents that
are ahead before the next writes are decided.

A write that only finds something, or is refused, is answered with the group it was decided in: what
it was decided upon may not stand yet.
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

from client.bootstrap import Bootstrap
from client.errors import ClientError
from client.producer import Identity
from cluster.registry_writer import LAST_PRODUCER_EPOCH
from cluster.values import WriterEpoch
from ground.outage import Outage
from registry.contents import RegistryContents
from registry.errors import schema_too_large, too_busy
from registry.log.following import ReadBatch
from registry.log.leadership import Leadership, Over, Tenure
from registry.log.publishing import NotOurId, NotPublished, Publisher
from registry.log.reading import TopicReading
from registry.values import Decision, LogRecord

T = TypeVar("T")

_GROUP: Final = 500
_GROUP_SECONDS: Final = 0.1
_STOP_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


class NotWriter(Exception):
    """This registry is not the writer, and nothing of the write was published."""


class _Write(msgspec.Struct, frozen=True):
    decide: Callable[
        [RegistryContents], Decision[Any]
    ]  # Any: each write has an answer of its own type
    answered: "asyncio.Future[Any]"

    def settle(self, outcome: object) -> None:
        if self.answered.done():
            return  # whoever waited has gone
        if isinstance(outcome, Exception):
            self.answered.set_exception(outcome)
        else:
            self.answered.set_result(outcome)


_Outcomes = list[tuple[_Write, object]]  # the answer, or the exception that is


class TopicWriter:
    """`on_intruder` is told, on the event loop, that somebody else writes the topic."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        topic: str,
        leadership: Leadership,
        reading: TopicReading,
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
        self._brought: deque[tuple[str, ReadBatch]] = deque()  # by prefix
        self._open = False  # writes may wait here
        self._stopping = False
        self._outage = Outage(log, f"writing topic {topic}")
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    # The event loop

    def start(self) -> None:
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether writes are decided here just now."""
        return self._open

    @property
    def is_stopping(self) -> bool:
        """Whether nothing will be decided here any more, but for what waits already."""
        return self._stopping

    @property
    def waiting(self) -> int:
        """How many writes wait to be decided."""
        return len(self._waiting)

    async def submit(self, decide: Callable[[RegistryContents], Decision[T]]) -> T:
        """The write's answer, once our readers see it; or Answered, NotWriter, NotPublished."""
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

    def bring(self, prefix: str, stretch: ReadBatch) -> None:
        """What was just read of another cluster's schemas."""
        if self._open:
            self._brought.append((prefix, stretch))

    # Any other thread

    def stop(self) -> None:
        """Do what waits, and end; the event loop must run meanwhile."""
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
        """Not at once, and perhaps another registry."""
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
                ahead, end = self._take(epoch, tenure, publisher)
                self._outage.over()
                log.info("writer topic=%s epoch=%d", self._topic, epoch.epoch)
                while (group := self._next_group(epoch, tenure)) is not None:
                    end = self._work(group, ahead, end, publisher)
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
            retired = Identity(epoch.retired_id, LAST_PRODUCER_EPOCH)
            with closing(self._publisher(retired)) as last:
                last.fence(first)
        end = publisher.append([first])
        with self._news:
            self._news.wait_for(
                lambda: tenure.began is not None or self._is_over(epoch, tenure) or self._stopping,
                self._publish_seconds,
            )
        if tenure.began is None:
            over = self._stopping or self._is_over(epoch, tenure)
            why = "it is over before it has begun" if over else "the topic is not read that far"
            raise NotPublished(f"epoch {epoch.epoch}: {why}")
        ahead = tenure.began
        # What was read meanwhile may make the first record say too little.
        if (again := ahead.sign_of_life()) != first:
            ahead.apply(end, again)
            end = publisher.append([again])
        return ahead, end

    def _is_over(self, epoch: WriterEpoch, tenure: Tenure) -> bool:
        return tenure.over is not None or self._leadership.epoch != epoch

    def _next_group(self, epoch: WriterEpoch, tenure: Tenure) -> list[_Write] | None:
        """Those that wait, none after a long silence; None when the epoch is over, or all."""
        with self._news:
            self._news.wait_for(
                lambda: self._waiting or self._is_over(epoch, tenure) or self._stopping,
                self._sign_of_life_seconds,
            )
            if self._is_over(epoch, tenure) or (self._stopping and not self._waiting):
                return None
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), _GROUP))]

    def _work(
        self, group: Sequence[_Write], ahead: RegistryContents, end: int, publisher: Publisher
    ) -> int:
        """Decide and publish; the offset after what was published."""
        self._take_brought(ahead)
        outcomes: _Outcomes = []
        records: list[LogRecord] = [] if group else [ahead.sign_of_life()]
        began = time.monotonic()
        for place, write in enumerate(group):
            if outcomes and time.monotonic() - began > _GROUP_SECONDS:
                self._put_back(group[place:])
                break
            if write.answered.done():  # whoever asked was told that it took too long
                continue
            try:
                decision = write.decide(ahead)
                if not all(map(publisher.takes, decision.records)):
                    raise schema_too_large()
            except Exception as error:  # noqa: BLE001  # Answered, or a bug for whoever asked to log
                outcomes.append((write, error))
                continue
            for record in decision.records:
                ahead.apply(end + len(records), record)
                records.append(record)
            outcomes.append((write, decision.answer))
        try:
            published = publisher.append(records) if records else end
            if published != end + len(records):
                raise NotPublished(f"records are at {published}, not at {end + len(records)}")
        except BaseException as error:
            self._fail([write for write, _ in outcomes], error)
            raise
        self._loop.call_soon_threadsafe(self._settle, outcomes, published)
        return published

    def _take_brought(self, ahead: RegistryContents) -> None:
        while self._brought:
            prefix, stretch = self._brought.popleft()
            for offset, record in stretch.records:
                ahead.apply_mirrored(prefix, offset, record)

    def _put_back(self, writes: Sequence[_Write]) -> None:
        """These are decided with the next group: those before them have waited long enough."""
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
        """What waits may be another's to decide."""
        with self._news:
            self._open = False
            left = list(self._waiting)
            self._waiting.clear()
            self._brought.clear()
        self._loop.call_soon_threadsafe(_settle_all, left, NotWriter)
        self._on_loop(lambda: self._reading.watch(None))

    def _end_because_of(self, tenure: Tenure) -> None:
        intruder = tenure.ended_by
        assert intruder is not None
        self._stopping = True
        who = f"producer {intruder.author.producer_id}, epoch {intruder.author.epoch}"
        message = (
            f"topic {self._topic} is written by somebody else as well: offset "
            f"{intruder.next_offset - 1}, {who}. Two registries that know nothing of each other "
            "give the same id to different schemas: stop the other, or have both elect a writer "
            "in one `zookeeper`"
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
