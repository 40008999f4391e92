"""The partition queues of an agent, with their shared producer, identities, journal and counts.

The producer uses the identities given to it, and never begins an epoch by itself: a refused batch
returns with all batches after it, and the queue decides the order in which they go on.

Belongs to the shipping thread.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile
from typing import Final

import msgspec

from agent.accounting.parcels import BatchKind
from agent.journal.journal import Journal
from agent.journal.ledger_chain import fits, head_behind
from agent.journal.state import Numbers
from agent.shipping.batch_lookup import evidence_of
from agent.shipping.cures import Cure, code_of
from agent.shipping.evidence import Evidence
from agent.shipping.in_flight import InFlight, Sending, origin_of
from agent.shipping.partition_queue import PartitionQueue
from agent.shipping.questions import GoesOn, Questions
from agent.shipping.replacements import Replacement, Replacer
from agent.shipping.topics import Topics
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import ClientError, ErrorCode
from client.patience import NEVER
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import (
    Acknowledged,
    Batch,
    Event,
    Rejected,
    Stamped,
    TopicPartition,
    Unsettled,
)
from client.producing.identity import Identity, take_identity
from client.producing.shipping import ShippingLimits
from ledger.passage_digests import digest_of_batch
from ledger.proofs import NO_HEAD

CLIENT_ID: Final = "penstock-agent"
_IDENTITY_PAUSE: Final = 1.0
_UNLIMITED: Final = 1 << 62  # bytes in flight are limited before they are journalled
_CRC: Final = slice(17, 21)

log = logging.getLogger(__name__)


class TopicCounts(msgspec.Struct):
    """The counts of a topic. Written by the shipping thread, read by any thread."""

    batches: int = 0  # acknowledged
    events: int = 0  # acknowledged
    bytes: int = 0  # acknowledged, as they were sent
    retries: int = 0  # failures after which a batch was sent again
    replaced: int = 0  # refused batches that were replaced
    last_error: str = ""  # until something is acknowledged


class ShippingCounts(msgspec.Struct):
    """The counts by topic since the process started."""

    topics: dict[str, TopicCounts] = msgspec.field(default_factory=lambda: defaultdict(TopicCounts))


class Dispatch:
    def __init__(  # noqa: PLR0917 - all are different parts
        self,
        bootstrap: Bootstrap,
        journal: Journal,
        questions: Questions,
        topics: Topics,
        replacer: Replacer,
        in_flight: InFlight,
        counts: ShippingCounts,
        *,
        computes_digests: bool,
        request_seconds: float,
        stand_seconds: float,
    ) -> None:
        self._bootstrap = bootstrap
        self._journal = journal
        self._questions = questions
        self._topics = topics
        self._replacer = replacer
        self._in_flight = in_flight
        self._counts = counts
        self._computes_digests = computes_digests
        self._stand_seconds = stand_seconds
        self._limits = ShippingLimits(memory_bytes=_UNLIMITED, request_seconds=request_seconds)
        self.producer: BatchProducer | None = None
        self.trouble: ClientError | None = None  # why there is no producer id
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._handed: dict[Batch, tuple[PartitionQueue, Sending]] = {}
        self._own: Identity | None = None
        self._asking = False
        self._identity_due = 0.0
        self._troubles: dict[TopicPartition, ClientError] = {}
        self._vanished: dict[TopicPartition, TopicPartition] = {}

    def queues(self) -> Iterator[PartitionQueue]:
        return iter(list(self._queues.values()))

    def add(self, sending: Sending) -> None:
        target = sending.batch.target
        queue = self._queues.get(target)
        if queue is None:
            queue = PartitionQueue(target, self, stand_seconds=self._stand_seconds)
            self._queues[target] = queue
        queue.add(sending)

    def work(self, now: float) -> float:
        """Lets all queues take their next steps. Returns when the next one is due."""
        if self._own is None and self._queues:
            self.identity(None)
        if self.producer is None:
            # No identity is requested before there is something to send.
            return self._identity_due if self._queues and not self._asking else NEVER
        for event in self.producer.collect():
            self._happened(event, now)
        for queue in self.queues():
            queue.work(now)
        self._count_troubles()
        return min((queue.due for queue in self.queues() if queue.waits), default=NEVER)

    def recreated(self, topic: str, partitions: int, successor: TopicPartition) -> None:
        """Halts the queues of partitions that a recreated topic no longer has; their batches move
        to `successor`."""
        for target, queue in self._queues.items():
            if target.topic == topic and target.partition >= partitions:
                self._vanished[target] = successor
                queue.halt(ClientError(f"{target}: the topic was recreated without it"))
            elif target.topic == topic:
                self._vanished.pop(target, None)

    def close(self) -> None:
        if self.producer is not None:
            self.producer.close()

    # Called by queues

    def renew(
        self, queue: PartitionQueue, identity: Identity, sequence: int, first: Sequence[Sending]
    ) -> None:
        assert self.producer is not None
        for sending in first:
            self._handed[sending.batch] = queue, sending
        batches = [sending.batch for sending in first]
        self.producer.renew(queue.target, identity=identity, sequence=sequence, first=batches)

    def submit(self, queue: PartitionQueue, sending: Sending) -> None:
        assert self.producer is not None
        self._handed[sending.batch] = queue, sending
        is_taken = self.producer.submit(sending.batch)
        assert is_taken

    def halt(self, target: TopicPartition, error: ClientError) -> None:
        assert self.producer is not None
        for batch in self.producer.halt(target, error):
            del self._handed[batch]

    def ask(self, queue: PartitionQueue, sent: Sequence[Stamped], *, everywhere: bool) -> None:
        last_offset = self._journal.acknowledged_offset(queue.target)
        offset = 0 if last_offset is None else last_offset + 1

        def question(brokers: Brokers, goes_on: GoesOn) -> Evidence:
            return evidence_of(brokers, queue.target, sent, offset, goes_on, everywhere=everywhere)

        def answered(answer: Evidence | ClientError) -> None:
            placement = self._topics.known(queue.target.topic)
            if isinstance(answer, Evidence) and placement and placement.topic_id != answer.topic_id:
                self._topics.doubt(queue.target.topic)
            queue.looked_up(sent, answer, time.monotonic())

        self._questions.ask(question, answered, long=True)

    def identity(self, spent: int | None) -> Identity | None:
        if self._own is not None and self._own.producer_id != spent:
            return self._own
        now = time.monotonic()
        if not self._asking and self._identity_due <= now:
            self._asking, self._identity_due = True, now + _IDENTITY_PAUSE
            self._questions.ask(lambda brokers, _: take_identity(brokers), self._identified)
        return None

    def leader_epoch(self, target: TopicPartition) -> int:
        assert self.producer is not None
        return self.producer.leader_epoch(target)

    def acknowledged(self, sending: Sending, offset: int, leader_epoch: int) -> None:
        batch, topic = sending.batch, sending.batch.target.topic
        last_offset = self._journal.acknowledged_offset(batch.target)
        if offset >= 0 and last_offset is not None and offset <= last_offset:
            self._topics.doubt(topic)  # the log may be a new one
        digest = self._digest_of(sending) if offset >= 0 else b""
        self._journal.acknowledged(sending.outgoing.number, offset, leader_epoch, digest)
        counts = self._counts.topics[topic]
        counts.batches += 1
        counts.events += batch.records
        counts.bytes += batch.size
        counts.last_error = ""
        self._leave(sending)

    def replaced(self, sending: Sending, cure: Cure, reason: str) -> list[Sending] | None:
        outgoing, topic = sending.outgoing, sending.batch.target.topic
        now_millis = time.time_ns() // 1_000_000
        bounds = self._topics.bounds(topic)
        head = self._head_before(sending) if outgoing.kind is BatchKind.LEDGER else NO_HEAD
        replacement = self._replacer.replacement(
            outgoing, cure, reason, bounds, now_millis, head=head
        )
        return None if replacement is None else self._replace(sending, replacement)

    def foreseen(self, sending: Sending, met: Collection[Cure]) -> Cure | None:
        if sending.outgoing.kind is BatchKind.LEDGER and not fits(
            self._head_before(sending), sending.batch
        ):
            return Cure.PROVE
        if not met:
            return None
        header, topic = sending.batch.header, sending.batch.target.topic
        if Cure.SPLIT in met and header.size > self._topics.batch_bytes(topic):
            return Cure.SPLIT
        if Cure.CLAMP in met:
            now_millis = time.time_ns() // 1_000_000
            times = header.base_timestamp, header.max_timestamp
            if not self._topics.bounds(topic).hold(times, now_millis):
                return Cure.CLAMP
        return None

    def moved(self, sending: Sending, target: TopicPartition) -> None:
        self._replace(sending, self._replacer.moved(sending.outgoing, target))

    def successor(self, target: TopicPartition) -> TopicPartition | None:
        return self._vanished.get(target)

    # Implementation

    def _digest_of(self, sending: Sending) -> bytes:
        """The digest of an acknowledged batch with its last numbers; empty if it has none."""
        is_ledger = sending.outgoing.kind is BatchKind.LEDGER
        if is_ledger or not self._computes_digests or sending.numbers is None:
            return b""
        stamped_batch = sending.as_sent()
        return digest_of_batch(stamped_batch.head, stamped_batch.body)

    def _head_before(self, sending: Sending) -> bytes:
        """The head of the ledger's chain after the entries that precede this one."""
        head = self._journal.ledger_head
        for earlier in takewhile(
            lambda other: other is not sending, self._queues[sending.batch.target].sendings
        ):
            head = head_behind(head, earlier.batch)
        return head

    def _leave(self, sending: Sending) -> None:
        self._in_flight.remove(origin_of(sending), sending.batch.target.topic, sending.batch.size)

    def _replace(self, sending: Sending, new: Replacement) -> list[Sending]:
        """Replaces a batch. Adds new batches of other partitions to their queues; the caller places
        those of this one."""
        self._journal.replaced(sending.outgoing.number, new.batches, new.eventless)
        self._replacer.letter_counted(new.letters)
        replacements = [Sending(outgoing, sending.origin) for outgoing in new.batches]
        for replacement in replacements:
            self._in_flight.add(
                origin_of(replacement), replacement.batch.target.topic, replacement.batch.size
            )
        self._counts.topics[sending.batch.target.topic].replaced += 1
        self._leave(sending)
        for replacement in replacements:
            if replacement.batch.target != sending.batch.target:
                self.add(replacement)
        return replacements

    def _identified(self, answer: Identity | ClientError) -> None:
        self._asking = False
        if isinstance(answer, ClientError):
            if self.trouble is None:
                log.warning("cannot get a producer id error=%r", str(answer))
            self.trouble = answer
            return
        self.trouble, self._own = None, answer
        if self.producer is None:
            self.producer = BatchProducer(
                self._bootstrap,
                client_id=CLIENT_ID,
                identity=answer,
                limits=self._limits,
                journal=self._write_down,
            )
        for queue in self.queues():
            queue.retry_now()

    def _write_down(self, batches: Sequence[Stamped]) -> None:
        """Journals the numbers of batches. Called by the producer before it first sends them."""
        new_numbers: list[tuple[Sending, Numbers]] = []
        for batch in batches:
            _, sending = self._handed[batch.batch]
            crc = int.from_bytes(batch.head[_CRC], "big")
            numbers = Numbers(batch.identity, batch.base_sequence, crc)
            if sending.numbers != numbers:
                new_numbers.append((sending, numbers))
        if new_numbers:
            self._journal.numbered(
                [
                    (sending.outgoing.number, numbers.identity, numbers.base_sequence, numbers.crc)
                    for sending, numbers in new_numbers
                ]
            )
        for sending, numbers in new_numbers:
            sending.numbers = numbers

    def _happened(self, event: Event, now: float) -> None:
        match event:
            case Acknowledged(batch, base_offset):
                queue, sending = self._handed.pop(batch)
                queue.acknowledged(sending, base_offset)
            case Rejected(batch, error):
                queue, sending = self._handed.pop(batch)
                self._failed(queue, error)
                queue.rejected(sending, error)
            case Unsettled(target, batches, error):
                for stamped_batch in batches:
                    del self._handed[stamped_batch.batch]
                queue = self._queues[target]
                self._failed(queue, error)
                queue.unsettled(error, now)

    def _failed(self, queue: PartitionQueue, error: ClientError) -> None:
        self._counts.topics[queue.target.topic].last_error = str(error)

    def _count_troubles(self) -> None:
        """Counts new failures, which are distinct error objects."""
        assert self.producer is not None
        troubles = self.producer.troubles()
        for target, error in troubles.items():
            if self._troubles.get(target) is not error:
                counts = self._counts.topics[target.topic]
                counts.retries += 1
                counts.last_error = str(error)
                if code_of(error) is ErrorCode.unknown_topic_or_partition:
                    self._topics.doubt(target.topic)
        self._troubles = troubles

    def troubles(self) -> dict[TopicPartition, ClientError]:
        """The last errors of partitions with something to send."""
        return self._troubles
