"""One partition's batches, from the journal to their acknowledgement, in their order.

A queue has batches with the producer, or has them all back and decides what is next:

    BACK        nothing is with the producer; at `due` the next step is taken:
                1. a batch that was refused is cured, or the queue stands until it is tried again
                2. if batches have numbers under which they may have been sent, it is asked what
                   became of them (ASKING); those that must be are sent again as they were
                   (REPEATING), and nothing else until they are acknowledged
                3. what is left is sent under numbers that nobody has seen (FLOWING)
    HALTING     what is with the producer comes back, once all answers are there

So after a crash, and after any error that leaves something open, the same steps are taken. Each may
be broken off by another crash, and is then taken again: what is decided stands in the journal
before it is done. Numbers are never used for two batches: whatever is not sent again as it was is
sent under an epoch, or a producer id, of its own.

The shipping thread's.
"""

import logging
from collections.abc import Collection, Sequence
from enum import Enum, auto
from itertools import takewhile
from typing import Final, Protocol

from agent.shipping.cures import NUMBERS_REFUSED, Cure, code_of, cure_for
from agent.shipping.evidence import Evidence, Verdicts, judged
from agent.shipping.in_flight import Sending
from client.delivery import Stamped, TopicPartition
from client.errors import ClientError, ConnectionLost
from client.identity import Identity
from client.log_search import BatchLocation
from client.produce_errors import FENCED

STAND_SECONDS: Final = 60.0
_CURELESS_PAUSE: Final = 5.0  # what a cure needs may be known soon
_FIRST_PAUSE: Final = 0.25
_ASK_PAUSE: Final = 0.5
_HIDDEN_PAUSE: Final = 0.5
# Replicas are hardly ever so far behind. It may be that a log has lost what was acknowledged, and
# has the batch below that now.
_HIDDEN_LONG: Final = 30.0
_EVERYWHERE_EVERY: Final = 600.0
_NAMELESS_PAUSE: Final = 0.25

log = logging.getLogger(__name__)


NOBODY_KNOWS: Final = BatchLocation(-1, -1)


class QueuePhase(Enum):
    BACK = auto()
    ASKING = auto()
    REPEATING = auto()
    FLOWING = auto()
    HALTING = auto()


class Crossing(Protocol):
    """What a queue can have done. Nothing blocks."""

    def renew(
        self, queue: "PartitionQueue", identity: Identity, sequence: int, first: Sequence[Sending]
    ) -> None: ...

    def submit(self, queue: "PartitionQueue", sending: Sending) -> None: ...

    def halt(self, target: TopicPartition, error: ClientError) -> None: ...

    def ask(self, queue: "PartitionQueue", sent: Sequence[Stamped], *, everywhere: bool) -> None:
        """`found_out` follows. They are looked for above what was acknowledged, or everywhere."""

    def identity(self, spent: int | None) -> Identity | None:
        """One that was never used, of another producer than this; None if it is still asked for."""

    def leader_epoch(self, target: TopicPartition) -> int: ...

    def acknowledged(self, sending: Sending, offset: int, leader_epoch: int) -> None:
        """It is acknowledged; offset -1 if nobody knows where."""

    def replaced(self, sending: Sending, cure: Cure, reason: str) -> list[Sending] | None:
        """What takes its place, now that the journal says so; None if nothing can. Those of other
        partitions are on their way there."""

    def foreseen(self, sending: Sending, met: Collection[Cure]) -> Cure | None:
        """Which of the cures that others needed it needs, as far as the topic's limits tell."""

    def moved(self, sending: Sending, target: TopicPartition) -> None: ...

    def successor(self, target: TopicPartition) -> TopicPartition | None:
        """Where batches go instead, if the partition is not there any more."""


class PartitionQueue:
    """Begins with what is added before its first step: what the journal has open."""

    def __init__(
        self, target: TopicPartition, crossing: Crossing, *, stand_seconds: float = STAND_SECONDS
    ) -> None:
        self.target = target
        self.sendings: list[Sending] = []
        self.phase = QueuePhase.BACK
        self.trouble: ClientError | None = None  # why it does not go on, or why it began anew
        self.stands = False  # for an error that somebody must see to
        self.due = 0.0
        self._crossing = crossing
        self._stand_seconds = stand_seconds
        self._identity: Identity | None = None  # that it was given; none before its first batch
        self._repeated_under: Identity | None = None
        self._spoiled = False  # its epoch: what comes next needs another
        self._fenced = False  # off its producer id
        self._refusal: tuple[Sending, ClientError] | None = None
        self._error: ClientError | None = None  # that brought it back
        self._unanswered = 0  # questions in a row
        self._everywhere_at: float | None = None  # all is looked through, while replicas are behind
        self._failures = 0  # since something was acknowledged
        self._handed = 0  # so many of the first sendings need not be handed to the producer
        self._repeats = 0  # so many are to be acknowledged before it flows
        self._met: set[Cure] = set()  # what was refused once is not sent again as it was
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
        """Whether it goes on at `due`."""
        return self.phase is QueuePhase.BACK and bool(self.sendings)

    def poke(self) -> None:
        """What it waits for may have come."""
        if not self.stands:
            self.due = 0.0

    # What the producer says

    def acknowledged(self, sending: Sending, offset: int | None) -> None:
        self._failures, self._error = 0, None
        if offset is None:
            sending.taken = True
            self.halt(ConnectionLost(f"{self.target}: the broker did not say where a batch is"))
            return
        sending.place = BatchLocation(offset, self._crossing.leader_epoch(self.target))
        self._repeats -= 1
        self._close_in_order()
        if self.phase is QueuePhase.REPEATING and not self._repeats:
            self._repeated()

    def rejected(self, sending: Sending, error: ClientError) -> None:
        """It is not in the log. What is behind it comes back as well, or has."""
        sending.numbers = None
        if self._refusal is None:
            self._refusal = sending, error
        self.halt(error)

    def halt(self, error: ClientError) -> None:
        """Has everything given back; `unsettled` follows."""
        if self.phase in {QueuePhase.FLOWING, QueuePhase.REPEATING}:
            self.phase = QueuePhase.HALTING
            self._crossing.halt(self.target, error)

    def unsettled(self, error: ClientError, now: float) -> None:
        """What has numbers is back; what has none is taken back."""
        self._crossing.halt(self.target, error)
        self._handed = 0
        self.phase = QueuePhase.BACK
        self._error = error
        self.trouble = error
        self._failures += 1
        self.due = now
        if self._failures > 1 and self._refusal is None:
            self.due += min(STAND_SECONDS, _FIRST_PAUSE * 2**self._failures)

    # What is next

    def _step(self, now: float) -> None:
        self.stands = False
        if successor := self._crossing.successor(self.target):
            self._move(successor)
        elif self._refusal is not None and not self._cured(now):
            return
        elif sent := [each for each in self.sendings if each.numbers and not each.place]:
            self._ask([each.as_sent() for each in sent], now)
        else:
            self._begin(now)

    def _ask(self, sent: Sequence[Stamped], now: float) -> None:
        self.phase = QueuePhase.ASKING
        everywhere = self._everywhere_at is not None and self._everywhere_at <= now
        if everywhere:
            self._everywhere_at = now + _EVERYWHERE_EVERY
        self._crossing.ask(self, sent, everywhere=everywhere)

    def _cured(self, now: float) -> bool:
        """Whether the next step can be taken: something else is in the place of what was refused,
        or it has been long enough."""
        assert self._refusal is not None
        sending, error = self._refusal
        cure = cure_for(error)
        if cure is Cure.REPACK:
            self._refused_codecs.add(sending.batch.header.codec)
        self._met.add(cure)
        new = None if cure is Cure.STAND else self._crossing.replaced(sending, cure, str(error))
        self._refusal = None
        self._spoiled = True
        if new is not None:
            log.warning(
                "batch replaced partition=%s cure=%s error=%r", self.target, cure.name, str(error)
            )
            self._take_place(sending, new)
            return True
        pause = self._stand_seconds if cure is Cure.STAND else _CURELESS_PAUSE
        self.stands, self.trouble, self.due = True, error, now + pause
        log.error("partition stands still partition=%s error=%r", self.target, str(error))
        return False

    def _take_place(self, sending: Sending, new: Sequence[Sending]) -> None:
        at = self.sendings.index(sending)
        self.sendings[at : at + 1] = [each for each in new if each.batch.target == self.target]

    def found_out(
        self, sent: Sequence[Stamped], answer: Evidence | ClientError, now: float
    ) -> None:
        """What became of batches, or why nobody can say now."""
        self.phase = QueuePhase.BACK
        if isinstance(answer, ClientError):
            self._unanswered += 1
            pause = min(STAND_SECONDS, _ASK_PAUSE * 2 ** min(self._unanswered, 6))
            self.trouble, self.due = answer, now + pause
            return
        self._unanswered = 0
        if self._crossing.successor(self.target):
            self.due = now
            return
        self._fenced |= self._has_rival(answer)
        sendings = {id(each.batch): each for each in self.sendings}
        taken = frozenset(each for each in sent if sendings[id(each.batch)].taken)
        refused = code_of(self._error) in NUMBERS_REFUSED
        verdicts = judged(sent, answer, taken=taken, numbers_refused=refused)
        self._settle(verdicts, {each: sendings[id(each.batch)] for each in sent}, now)

    def _has_rival(self, evidence: Evidence) -> bool:
        """Whether somebody writes under an epoch of its producer that it never had: the next of
        ours may be theirs."""
        mine = self._identity
        state = (evidence.states or {}).get(mine.producer_id) if mine else None
        return state is not None and mine is not None and state.producer_epoch > mine.epoch

    def _settle(self, verdicts: Verdicts, sendings: dict[Stamped, Sending], now: float) -> None:
        for batch, sighting in verdicts.there.items():
            sendings[batch].place = sighting or NOBODY_KNOWS
        self._close_in_order()
        self._say(verdicts)
        if verdicts.hidden:
            if self._everywhere_at is None:
                self._everywhere_at = now + _HIDDEN_LONG
            self.trouble = ConnectionLost(f"{self.target}: waiting until all replicas have it")
            self.due = now + _HIDDEN_PAUSE
            return
        self._everywhere_at = None
        # What must go before them has no numbers: then they cannot keep theirs.
        together = zip(self.sendings, verdicts.again, strict=False)
        again = [each for _, each in takewhile(lambda pair: pair[0] is sendings[pair[1]], together)]
        for batch in (*verdicts.again[len(again) :], *verdicts.anew):
            sendings[batch].numbers = None
            self._spoiled = True
        if not again:
            self._begin(now)
            return
        self._repeated_under = again[0].identity
        self.phase, self._repeats = QueuePhase.REPEATING, len(again)
        first = self.sendings[: len(again)]
        self._crossing.renew(self, self._repeated_under, again[0].base_sequence, first)

    def _say(self, verdicts: Verdicts) -> None:
        if verdicts.hidden and not verdicts.there:
            return  # as the last time
        log.info(
            "open batches looked up partition=%s there=%d again=%d anew=%d",
            self.target,
            len(verdicts.there),
            len(verdicts.again),
            len(verdicts.anew),
        )
        if verdicts.doubtful:
            log.error(
                "it cannot be known whether batches are in the log: sent again, maybe twice "
                "partition=%s batches=%d",
                self.target,
                len(verdicts.doubtful),
            )
        for sighting in verdicts.there.values():
            if sighting is None:
                log.warning("a batch was written, nobody knows where partition=%s", self.target)

    def _repeated(self) -> None:
        """All that had to be sent again is acknowledged."""
        if self._repeated_under == self._identity and not self._spoiled:
            self.phase = QueuePhase.FLOWING
        else:
            self.phase, self.due = QueuePhase.BACK, 0.0

    def _begin(self, now: float) -> None:
        """What is left goes under numbers that nobody has seen."""
        if not self.sendings:
            self.trouble = None
            return
        fresh = self._fresh_identity()
        if fresh is None:
            self.due = now + _NAMELESS_PAUSE
            return
        self._identity, self._spoiled, self._fenced, self._error = fresh, False, False, None
        self.phase, self._handed = QueuePhase.FLOWING, 0
        self._crossing.renew(self, fresh, 0, ())
        self._hand_over(now)

    def _fresh_identity(self) -> Identity | None:
        mine = self._identity
        if mine is None:
            return self._crossing.identity(None)
        fenced = self._fenced or code_of(self._error) in FENCED
        later = None if fenced else mine.next_epoch()
        return later or self._crossing.identity(mine.producer_id)

    def _hand_over(self, now: float) -> None:
        while self._handed < len(self.sendings):
            sending = self.sendings[self._handed]
            if sending.place is not None:
                self._handed += 1
                continue
            if (cure := self._foreseen(sending)) is not None:
                reason = f"{self.target}: as others before"
                new = self._crossing.replaced(sending, cure, reason)
                if new is not None:
                    self._take_place(sending, new)
                    continue
            self._crossing.submit(self, sending)
            self._handed += 1

    def _foreseen(self, sending: Sending) -> Cure | None:
        """What it would need anyway, after one more refusal and another epoch."""
        if sending.batch.header.codec in self._refused_codecs:
            return Cure.REPACK
        return self._crossing.foreseen(sending, self._met) if self._met else None

    def _move(self, successor: TopicPartition) -> None:
        """The topic was made anew, and has no such partition any more."""
        self._refusal = None
        while self.sendings:
            self._crossing.moved(self.sendings[0], successor)
            del self.sendings[0]

    def _close_in_order(self) -> None:
        while self.sendings and (place := self.sendings[0].place):
            sending = self.sendings.pop(0)
            self._handed = max(0, self._handed - 1)
            self._crossing.acknowledged(sending, place.base_offset, place.leader_epoch)

    @property
    def why(self) -> str | None:
        """Why it does not go on, if it has something to send."""
        if not self.sendings or self.phase in {QueuePhase.FLOWING, QueuePhase.HALTING}:
            return None
        return str(self.trouble) if self.trouble else None
