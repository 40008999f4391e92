"""Ships journalled batches on a thread of its own: once, in order, retrying as long as necessary.

Submitted batches are journalled already; those that were open at the start go first. A topic that
has stopped, or whose brokers are down, does not delay other topics, but its batches stay in memory:
the pipeline checks `room`, and does not read for topics in `stalled`.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from agent.accounting.parcels import Parcel
from agent.accounting.runs import SourceId
from agent.configuration.config import AgentConfig, Proof
from agent.encoding.topic_schemas.values import TopicSchema
from agent.errors import JournalFull
from agent.journal.journal import Journal
from agent.journal.state import JournalState
from agent.shipping.dead_letters import RefusedLetters
from agent.shipping.dispatch import CLIENT_ID, Dispatch, ShippingCounts
from agent.shipping.in_flight import InFlight, Sending, origin_of
from agent.shipping.ledger.publishing import Ledger
from agent.shipping.partition_queue import STAND_SECONDS
from agent.shipping.questions import Questions
from agent.shipping.replacements import DeadLetterTopic, Replacer
from agent.shipping.topics import Placement, Topics, TopicUnusable
from client.patience import NEVER
from client.producing.delivery import TopicPartition
from ledger.health import Problem
from ledger.names import DEAD_SUFFIX, LEDGER_TOPIC

REQUEST_SECONDS: Final = 30.0
_LONGEST_TURN: Final = 1.0
_JOURNAL_PAUSE: Final = 1.0
_PATIENCE_WITH_TROUBLE: Final = 1.0  # not reported: a change of leader takes less
_MOST_STALLED: Final = 4  # times the limit of bytes in flight

log = logging.getLogger(__name__)


class Schemas(Protocol):
    """The schemas that shipping itself writes with; None while unknown."""

    def dead_letters(self, topic: str) -> TopicSchema | None: ...

    @property
    def ledger(self) -> TopicSchema | None: ...


class Shipper:
    """Owns the shipping thread. Thread-safe."""

    def __init__(
        self,
        config: AgentConfig,
        journal: Journal,
        state: JournalState,
        schemas: Schemas,
        *,
        request_seconds: float = REQUEST_SECONDS,
        stand_seconds: float = STAND_SECONDS,
    ) -> None:
        self.counts: Final = ShippingCounts()
        self.failure: str | None = None
        self.in_flight_limit = config.limits.in_flight_bytes  # may be changed at any time
        self._config = config
        self._journal = journal
        self._schemas = schemas
        self._in_flight = InFlight()
        self._submitted: deque[Sending] = deque()
        self._news = threading.Event()
        self._questions = Questions(config.bootstrap, CLIENT_ID, self._wake)
        self._topics = Topics(journal, self._questions, self._recreated)
        self._ledger = Ledger(config, journal, lambda topic: self._topics.place(topic) is not None)
        self._dispatch = Dispatch(
            config.bootstrap,
            journal,
            self._questions,
            self._topics,
            Replacer(
                journal.next_number,
                RefusedLetters(journal.next_source, self._path_of),
                self._dead_letter_topic,
                self._ledger.too_large,
                journal.key,
            ),
            self._in_flight,
            self.counts,
            computes_digests=config.ledger and config.proof is Proof.ON,
            request_seconds=request_seconds,
            stand_seconds=stand_seconds,
        )
        self._stalled: dict[str, str] = {}
        self._standing: frozenset[str] = frozenset()
        self._trouble_since: dict[TopicPartition, float] = {}
        self._journal_trouble = ""
        self._thread = threading.Thread(target=self._run, name="shipping", daemon=True)
        self._draining = self._stopping = False
        self._drained = threading.Event()
        for open_batch in state.open:
            self._enter(
                Sending(open_batch.outgoing, open_batch.outgoing.number, open_batch.numbers)
            )

    def start(self) -> None:
        self._thread.start()

    def stop(self, drain_seconds: float) -> bool:
        """Waits for open batches, then stops. Returns whether every line is acknowledged."""
        self._draining = True
        self._wake()
        if self._thread.is_alive():
            self._drained.wait(drain_seconds)
        self._stopping = True
        self._wake()
        if self._thread.ident is not None:
            self._thread.join()
        self._questions.close()
        return self._in_flight.oldest() is None

    def target(self, topic: str) -> Placement | None:
        """The agent's partitions of a topic; None while unknown."""
        placement = self._topics.place(topic)
        if placement is None:
            self._wake()
        return placement

    def most_batch_bytes(self, topic: str) -> int:
        return self._topics.batch_bytes(topic)

    def submit(self, parcel: Parcel) -> None:
        """Submits a parcel that was just journalled."""
        for outgoing in parcel.batches:
            self._enter(Sending(outgoing, outgoing.number))
        self._wake()

    def room(self, topic: str | None = None) -> bool:
        """Whether more may be read: the bytes in flight of moving topics are below
        `in_flight_limit`. One topic with its dead letters gets half of it, and less the more topics
        are stalled, so that stalled topics together never take the rest."""
        byte_limit = self.in_flight_limit
        if topic is not None:
            names = topic, topic + DEAD_SUFFIX
            size = sum(self._in_flight.in_flight(name)[1] for name in names)
            if size > byte_limit / 2 / (1 + len(self._stalled)):
                return False
        return (
            self._in_flight.bytes(self._stalled) < byte_limit
            and self._in_flight.bytes() < _MOST_STALLED * byte_limit
        )

    def wait_for_room(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self.room():
            remaining_seconds = deadline - time.monotonic()
            if remaining_seconds <= 0:
                return False
            self._in_flight.wait(remaining_seconds)
        return True

    def oldest_open(self, topic: str | None = None) -> int | None:
        """The smallest batch number, of one topic or of all, that is not fully acknowledged; None
        if all are acknowledged."""
        return self._in_flight.oldest(topic)

    def stalled(self) -> Mapping[str, str]:
        """Topics that are not moving, and the reasons."""
        return self._stalled

    def standing(self) -> Mapping[str, str]:
        """The stalled topics that an operator must put right, and the reasons."""
        standing_topics = self._standing
        return {
            topic: reason for topic, reason in self._stalled.items() if topic in standing_topics
        }

    def in_flight(self, topic: str) -> tuple[int, int]:
        """The batches and bytes of a topic that are not acknowledged."""
        return self._in_flight.in_flight(topic)

    def in_flight_bytes(self) -> int:
        return self._in_flight.bytes()

    def heartbeat(self, until: Mapping[str, int], lag_bytes: int) -> None:
        """Sets the times up to which topics are acknowledged, in milliseconds."""
        self._ledger.heartbeat(until, lag_bytes)

    def report_problems(self, problems: Sequence[Problem]) -> None:
        """Sets the problems for the next statement of health."""
        self._ledger.problems = problems

    # The shipping thread

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except Exception as error:
            self.failure = f"shipping failed: {error!r}"
            log.exception("shipping failed")
        finally:
            self._dispatch.close()
            self._drained.set()
            self._in_flight.wake()

    def _turn(self) -> None:
        now = time.monotonic()
        for callback in self._questions.take():
            self._guarded(callback)
        while self._submitted:
            self._dispatch.add(self._submitted.popleft())
        due_time = now + _LONGEST_TURN
        try:
            due_time = min(
                due_time, self._dispatch.work(now), self._topics.next_time(), self._publish()
            )
            self._topics.work(now)
            self._journal_works()
        except JournalFull as error:
            self._journal_full(error)
            due_time = now + _JOURNAL_PAUSE
        self._look_at_queues(now)
        if self._draining and self._is_done():
            self._drained.set()
        if not self._submitted:
            self._wait(max(0.0, due_time - time.monotonic()))

    def _wait(self, seconds: float) -> None:
        producer = self._dispatch.producer
        if producer is None:
            self._news.wait(seconds)
            self._news.clear()
            return
        try:
            producer.pump(seconds)
        except JournalFull as error:
            self._journal_full(error)
            time.sleep(_JOURNAL_PAUSE / 10)

    def _wake(self) -> None:
        self._news.set()
        if producer := self._dispatch.producer:
            producer.wake()

    def _enter(self, sending: Sending) -> None:
        """Adds a batch; it counts as in flight before the shipping thread sees it."""
        self._in_flight.add(origin_of(sending), sending.batch.target.topic, sending.batch.size)
        self._submitted.append(sending)

    def _recreated(self, new: Placement) -> None:
        self._dispatch.recreated(new.topic, new.partitions, new.target)

    def _path_of(self, source: str) -> str:
        known_source = self._journal.known_source(SourceId(source))
        return known_source.path if known_source else ""

    def _dead_letter_topic(self, topic: str) -> DeadLetterTopic | None:
        placement = self._topics.place(topic + DEAD_SUFFIX)
        schema = self._schemas.dead_letters(topic)
        return DeadLetterTopic(placement.target, schema) if placement and schema else None

    # The ledger

    def _publish(self) -> float:
        """Publishes entries of the ledger. Returns when there may be more."""
        if not self._config.ledger or self._ledger_is_open():
            return NEVER
        placement, schema = self._topics.place(LEDGER_TOPIC), self._schemas.ledger
        if placement is None or schema is None:
            return NEVER
        batches = self._ledger.entries(
            placement.target,
            schema,
            time.time_ns() // 1_000_000,
            most_batch_bytes=self._topics.batch_bytes(LEDGER_TOPIC),
            hurry=self._draining and self._in_flight.oldest() is None,
        )
        for batch in batches:
            self._enter(Sending(batch, batch.number))
        return self._ledger.due

    def _ledger_is_open(self) -> bool:
        return self._in_flight.in_flight(LEDGER_TOPIC)[0] > 0

    # State

    def _is_done(self) -> bool:
        """Whether draining can end, since nothing more can be acknowledged."""
        queues = [queue for queue in self._dispatch.queues() if queue.sendings]
        if self._submitted or any(not queue.stands for queue in queues):
            return False
        if queues or not self._config.ledger or self._schemas.ledger is None:
            return True
        if self._topics.place(LEDGER_TOPIC) is None and LEDGER_TOPIC in self._topics.troubles():
            return True
        return not self._ledger.has_more()

    def _look_at_queues(self, now: float) -> None:
        troubles = self._dispatch.troubles()
        self._trouble_since = {target: self._trouble_since.get(target, now) for target in troubles}
        stalled_reasons: dict[str, str] = {}
        standing_topics = set()
        for queue in self._dispatch.queues():
            reason = queue.why
            if queue.stands:
                standing_topics.add(queue.target.topic)
            trouble_since = self._trouble_since.get(queue.target, now)
            if reason is None and now - trouble_since >= _PATIENCE_WITH_TROUBLE:
                reason = str(troubles[queue.target])
            if reason is None and queue.sendings and self._dispatch.trouble is not None:
                reason = str(self._dispatch.trouble)
            if reason is not None:
                stalled_reasons[queue.target.topic] = reason
        for topic, error in self._topics.troubles().items():
            if self._topics.known(topic) is None or isinstance(error, TopicUnusable):
                stalled_reasons.setdefault(topic, str(error))
                standing_topics.add(topic)
        self._standing = frozenset(standing_topics)
        if stalled_reasons != self._stalled:
            self._log_stalls(stalled_reasons)
            self._stalled = stalled_reasons
            self._in_flight.wake()

    def _log_stalls(self, stalled: Mapping[str, str]) -> None:
        """Logs the topics that have stopped, and those that move again."""
        for topic in stalled.keys() - self._stalled.keys():
            log.warning("topic stalled topic=%s error=%r", topic, stalled[topic])
        for topic in self._stalled.keys() - stalled.keys():
            log.info("topic resumed topic=%s", topic)

    def _guarded(self, answered: object) -> None:
        assert callable(answered)
        try:
            answered()
        except JournalFull as error:
            self._journal_full(error)

    def _journal_full(self, error: JournalFull) -> None:
        if not self._journal_trouble:
            log.error("journal not writable, sending is paused error=%r", str(error))
        self._journal_trouble = str(error)

    def _journal_works(self) -> None:
        if self._journal_trouble and self._journal.trouble is None:
            log.info("journal writable again")
            self._journal_trouble = ""
