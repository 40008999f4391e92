"""Ships one partition's batches in order, from the journal to their acknowledgement.

A queue has batches at the producer, or has them all back and decides what to do next:

    BACK        no batch is at the producer; at `due` the queue takes the next step:
                1. it cures a refused batch, or stands until the next attempt
                2. if batches have numbers, with which they may have been sent, it looks them up
                   (ASKING); those that are missing are sent again as they were (REPEATING), and
                   nothing else until they are acknowledged
                3. it sends the others under new numbers (FLOWING)
    HALTING     batches at the producer return, once all its requests are answered

So the queue takes the same steps after a crash, and after any error with an unknown outcome.
Another crash may interrupt a step, which is then repeated: decisions are journalled before they are
carried out. Numbers are never used for two batches: a batch that is not sent again as it was gets
another epoch or producer id.

Belongs to the shipping thread.
"""

import logging
from collections.abc import Collection, Sequence
from enum import Enum, auto
from itertools import takewhile
from typing import Final, Protocol

from agent.shipping.cures import NUMBERS_REFUSED, Cure, code_of, cure_for
from agent.shipping.evidence import Evidence, Verdicts, judged
from agent.shipping.in_flight import Sending
from client.errors import ClientError, ConnectionLost
from client.producing.delivery import Stamped, TopicPartition
from client.producing.identity import Identity
from client.producing.produce_errors import FENCED
from client.reading.log_search import BatchLocation

STAND_SECONDS: Final = 60.0
_CURELESS_PAUSE: Final = 5.0  # the information for a cure may be available soon
_FIRST_PAUSE: Final = 0.25
_ASK_PAUSE: Final = 0.5
_HIDDEN_PAUSE: Final = 0.5
# Replicas are hardly ever so far behind. The log may have lost acknowledged records, and have the
# batch at a lower offset now.
_HIDDEN_LONG: Final = 30.0
_EVERYWHERE_EVERY: Final = 600.0
_NAMELESS_PAUSE: Final = 0.25

log = logging.getLogger(__name__)


UNKNOWN_LOCATION: Final = BatchLocation(-1, -1)


class QueuePhase(Enum):
    BACK = auto()
    ASKING = auto()
    REPEATING = auto()
    FLOWING = auto()
    HALTING = auto()


class QueueOperations(Protocol):
    """The operations that a queue needs. They do not block."""

    def renew(
        self, queue: "PartitionQueue", identity: Identity, sequence: int, first: Sequence[Sending]
    ) -> None: ...

    def submit(self, queue: "PartitionQueue", sending: Sending) -> None: ...

    def halt(self, target: TopicPartition, error: ClientError) -> None: ...

    def ask(self, queue: "PartitionQueue", sent: Sequence[Stamped], *, everywhere: bool) -> None:
        """Looks batches up, above the acknowledged offset or everywhere. Calls `looked_up`
        later."""

    def identity(self, spent: int | None) -> Identity | None:
        """An unused identity of another producer id than `spent`; None while it is requested."""

    def leader_epoch(self, target: TopicPartition) -> int: ...

    def acknowledged(self, sending: Sending, offset: int, leader_epoch: int) -> None:
        """Records an acknowledgement; offset -1 if unknown."""

    def replaced(self, sending: Sending, cure: Cure, reason: str) -> list[Sending] | None:
        """Replaces a batch, and journals the replacement. Returns the new batches; None if there is
        no cure. Batches for other partitions are in their queues already."""

    def foreseen(self, sending: Sending, met: Collection[Cure]) -> Cure | None:
        """The cure that a batch will need, by the topic's limits and the cures that were needed
        before (`met`), or because the ledger's chain has changed; None if it needs none."""

    def moved(self, sending: Sending, target: TopicPartition) -> None: ...

    def successor(self, target: TopicPartition) -> TopicPartition | None:
        """The partition that takes over the batches of one that no longer exists; None if it
        exists."""


class PartitionQueue:
    """The queue of a partition. It begins with the journal's open batches, which are added before
    its first step."""

    def __init__(
        self,
        target: TopicPartition,
        operations: QueueOperations,
        *,
        stand_seconds: float = STAND_SECONDS,
    ) -> None:
        self.target = target
        self.sendings: list[Sending] = []
        self.phase = QueuePhase.BACK
        self.trouble: ClientError | None = None  # why it waits or has started again
        self.stands = False  # stopped by an error that needs an operator
        self.due = 0.0
        self._operations = operations
        self._stand_seconds = stand_seconds
        self._identity: Identity | None = None  # None before its first batch
        self._repeated_under: Identity | None = None
        self._spoiled = False  # the next batches need another epoch
        self._fenced = False  # the next batches need another producer id
        self._refusal: tuple[Sending, ClientError] | None = None
        self._error: ClientError | None = None  # the one that returned its batches
        self._unanswered = 0  # failed lookups in a row
        self._everywhere_at: float | None = None  # when to search the whole log, if replicas lag
        self._failures = 0  # since the last acknowledgement
        self._handed = 0  # the number of first sendings that are at the producer
        self._repeats = 0  # acknowledgements to wait for before it flows
        self._met: set[Cure] = set()  # cures needed before, applied to later batches in advance
        self._refused_codecs: set[int] = set()

    def add(self, sending: Sending) -> None:
        self.sendings.append(sending)

    def work(self, now: float) -> None:
        """Takes the next step, if it is due."""
        if self.phase is QueuePhase.FLOWING:
            self._hand_over(now)
        elif self.phase is QueuePhase.BACK and self.due <= now and self.sendings:
            self._step(now)

    @property
    def waits(self) -> bool:
        """Whether the queue takes its next step at the time `due`."""
        return self.phase is QueuePhase.BACK and bool(self.sendings)

    def retry_now(self) -> None:
        """Retries now, as the awaited change may have happened."""
        if not self.stands:
            self.due = 0.0

    # Called for the producer

    def acknowledged(self, sending: Sending, offset: int | None) -> None:
        self._failures, self._error = 0, None
        if offset is None:
            sending.taken = True
            self.halt(ConnectionLost(f"{self.target}: the broker did not return a batch's offset"))
            return
        sending.place = BatchLocation(offset, self._operations.leader_epoch(self.target))
        self._repeats -= 1
        self._close_in_order()
        if self.phase is QueuePhase.REPEATING and not self._repeats:
            self._repeated()

    def rejected(self, sending: Sending, error: ClientError) -> None:
        """Notes a rejected batch, which is not in the log, and recalls the batches after it."""
        sending.numbers = None
        if self._refusal is None:
            self._refusal = sending, error
        self.halt(error)

    def halt(self, error: ClientError) -> None:
        """Recalls all batches from the producer, which then calls `unsettled`."""
        if self.phase in {QueuePhase.FLOWING, QueuePhase.REPEATING}:
            self.phase = QueuePhase.HALTING
            self._operations.halt(self.target, error)

    def unsettled(self, error: ClientError, now: float) -> None:
        """Takes all batches back from the producer, after an error."""
        self._operations.halt(self.target, error)
        self._handed = 0
        self.phase = QueuePhase.BACK
        self._error = error
        self.trouble = error
        self._failures += 1
        self.due = now
        if self._failures > 1 and self._refusal is None:
            self.due += min(STAND_SECONDS, _FIRST_PAUSE * 2**self._failures)

    # Next steps

    def _step(self, now: float) -> None:
        self.stands = False
        if successor := self._operations.successor(self.target):
            self._move(successor)
        elif self._refusal is not None and not self._cured(now):
            return
        elif sent_batches := [
            sending for sending in self.sendings if sending.numbers and not sending.place
        ]:
            self._ask([sending.as_sent() for sending in sent_batches], now)
        else:
            self._begin(now)

    def _ask(self, sent: Sequence[Stamped], now: float) -> None:
        self.phase = QueuePhase.ASKING
        searches_everywhere = self._everywhere_at is not None and self._everywhere_at <= now
        if searches_everywhere:
            self._everywhere_at = now + _EVERYWHERE_EVERY
        self._operations.ask(self, sent, everywhere=searches_everywhere)

    def _cured(self, now: float) -> bool:
        """Replaces the refused batch. Returns False, and stands for a while, if it cannot."""
        assert self._refusal is not None
        sending, error = self._refusal
        cure = cure_for(error)
        if cure is Cure.REPACK:
            self._refused_codecs.add(sending.batch.header.codec)
        self._met.add(cure)
        replacements = (
            None if cure is Cure.STAND else self._operations.replaced(sending, cure, str(error))
        )
        self._refusal = None
        self._spoiled = True
        if replacements is not None:
            log.warning(
                "batch replaced partition=%s cure=%s error=%r", self.target, cure.name, str(error)
            )
            self._take_place(sending, replacements)
            return True
        pause = self._stand_seconds if cure is Cure.STAND else _CURELESS_PAUSE
        self.stands, self.trouble, self.due = True, error, now + pause
        log.error("partition stopped partition=%s error=%r", self.target, str(error))
        return False

    def _take_place(self, sending: Sending, new: Sequence[Sending]) -> None:
        index = self.sendings.index(sending)
        own_replacements = [
            replacement for replacement in new if replacement.batch.target == self.target
        ]
        self.sendings[index : index + 1] = own_replacements

    def looked_up(
        self, sent: Sequence[Stamped], answer: Evidence | ClientError, now: float
    ) -> None:
        """Takes the result of a lookup, or its error."""
        self.phase = QueuePhase.BACK
        if isinstance(answer, ClientError):
            self._unanswered += 1
            pause = min(STAND_SECONDS, _ASK_PAUSE * 2 ** min(self._unanswered, 6))
            self.trouble, self.due = answer, now + pause
            return
        self._unanswered = 0
        if self._operations.successor(self.target):
            self.due = now
            return
        self._fenced |= self._has_rival(answer)
        sendings = {id(sending.batch): sending for sending in self.sendings}
        by_batch = {batch: sendings[id(batch.batch)] for batch in sent}
        taken_batches = frozenset(batch for batch, sending in by_batch.items() if sending.taken)
        are_numbers_refused = code_of(self._error) in NUMBERS_REFUSED
        verdicts = judged(sent, answer, taken=taken_batches, numbers_refused=are_numbers_refused)
        self._settle(verdicts, by_batch, now)

    def _has_rival(self, evidence: Evidence) -> bool:
        """Whether another client uses a later epoch of its producer id, so that the queue's next
        epoch may be taken."""
        own_identity = self._identity
        state = (evidence.states or {}).get(own_identity.producer_id) if own_identity else None
        return (
            state is not None
            and own_identity is not None
            and state.producer_epoch > own_identity.epoch
        )

    def _settle(self, verdicts: Verdicts, sendings: dict[Stamped, Sending], now: float) -> None:
        for batch, sighting in verdicts.in_log.items():
            sendings[batch].place = sighting or UNKNOWN_LOCATION
        self._close_in_order()
        self._log(verdicts)
        if verdicts.hidden:
            if self._everywhere_at is None:
                self._everywhere_at = now + _HIDDEN_LONG
            self.trouble = ConnectionLost(f"{self.target}: waiting for in-sync replicas")
            self.due = now + _HIDDEN_PAUSE
            return
        self._everywhere_at = None
        # A batch keeps its numbers only if no batch without numbers must precede it.
        pairs = zip(self.sendings, verdicts.repeated, strict=False)
        sendings_again = [
            batch for _, batch in takewhile(lambda pair: pair[0] is sendings[pair[1]], pairs)
        ]
        for batch in (*verdicts.repeated[len(sendings_again) :], *verdicts.renumbered):
            sendings[batch].numbers = None
            self._spoiled = True
        if not sendings_again:
            self._begin(now)
            return
        self._repeated_under = sendings_again[0].identity
        self.phase, self._repeats = QueuePhase.REPEATING, len(sendings_again)
        first_sendings = self.sendings[: len(sendings_again)]
        self._operations.renew(
            self, self._repeated_under, sendings_again[0].base_sequence, first_sendings
        )

    def _log(self, verdicts: Verdicts) -> None:
        if verdicts.hidden and not verdicts.in_log:
            return  # logged before
        log.info(
            "open batches looked up partition=%s in_log=%d repeated=%d renumbered=%d",
            self.target,
            len(verdicts.in_log),
            len(verdicts.repeated),
            len(verdicts.renumbered),
        )
        if verdicts.doubtful:
            log.error(
                "cannot tell whether batches are in the log, sending them again, possibly as "
                "duplicates partition=%s batches=%d",
                self.target,
                len(verdicts.doubtful),
            )
        for sighting in verdicts.in_log.values():
            if sighting is None:
                log.warning("a batch was written at an unknown offset partition=%s", self.target)

    def _repeated(self) -> None:
        """Goes on after all repeated batches are acknowledged."""
        if self._repeated_under == self._identity and not self._spoiled:
            self.phase = QueuePhase.FLOWING
        else:
            self.phase, self.due = QueuePhase.BACK, 0.0

    def _begin(self, now: float) -> None:
        if not self.sendings:
            self.trouble = None
            return
        fresh_identity = self._fresh_identity()
        if fresh_identity is None:
            self.due = now + _NAMELESS_PAUSE
            return
        self._identity, self._spoiled, self._fenced, self._error = (
            fresh_identity,
            False,
            False,
            None,
        )
        self.phase, self._handed = QueuePhase.FLOWING, 0
        self._operations.renew(self, fresh_identity, 0, ())
        self._hand_over(now)

    def _fresh_identity(self) -> Identity | None:
        own_identity = self._identity
        if own_identity is None:
            return self._operations.identity(None)
        is_fenced = self._fenced or code_of(self._error) in FENCED
        next_identity = None if is_fenced else own_identity.next_epoch()
        return next_identity or self._operations.identity(own_identity.producer_id)

    def _hand_over(self, now: float) -> None:
        while self._handed < len(self.sendings):
            sending = self.sendings[self._handed]
            if sending.place is not None:
                self._handed += 1
                continue
            if (cure := self._foreseen(sending)) is not None:
                reason = f"{self.target}: same as earlier batches"
                replacements = self._operations.replaced(sending, cure, reason)
                if replacements is not None:
                    self._take_place(sending, replacements)
                    continue
            self._operations.submit(self, sending)
            self._handed += 1

    def _foreseen(self, sending: Sending) -> Cure | None:
        """The cure that a batch will need, which saves a refusal and an epoch."""
        if sending.batch.header.codec in self._refused_codecs:
            return Cure.REPACK
        return self._operations.foreseen(sending, self._met)

    def _move(self, successor: TopicPartition) -> None:
        """Moves all batches to another partition, if a recreated topic lacks this one."""
        self._refusal = None
        while self.sendings:
            self._operations.moved(self.sendings[0], successor)
            del self.sendings[0]

    def _close_in_order(self) -> None:
        while self.sendings and (place := self.sendings[0].place):
            sending = self.sendings.pop(0)
            self._handed = max(0, self._handed - 1)
            self._operations.acknowledged(sending, place.base_offset, place.leader_epoch)

    @property
    def why(self) -> str | None:
        """The reason why the queue is not sending, if it has batches."""
        if not self.sendings or self.phase in {QueuePhase.FLOWING, QueuePhase.HALTING}:
            return None
        return str(self.trouble) if self.trouble else None
