"""Determines where counting starts in a partition that this broker begins to lead.

Exposed batches are counted and reported to the ledger by the partition's leader. The next leader
has the same batches at the same offsets, but not its predecessor's journal. So batches before its
own epoch may have been reported or not, and may still be reported late. Two rules make this exact:

    1. Counting starts at an offset before which everything is known to be reported: this broker's
       own, from when it led before; or, if that would mean to read much again, one that the ledger
       shows.
    2. Up to the beginning of the epoch, each batch is reported individually. Replicas have the same
       batches, so another broker's report covers a batch completely or not at all: the audit
       accepts either.

A leader that was not in sync when it was elected lacks batches that no broker can name: it reports
that, too, or its successor does.

If no other broker has reported anything, as for a log that was never counted, this is not needed.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from broker.counting.reports import Led
from broker.replicas.log_losses import UNKNOWN
from ledger.counting.counted_offsets import CountedUpTo, History
from ledger.counting.counter import Counter, Withdrawn
from ledger.counting.journal import CountPosition, PartitionKey

_UNCLEAN: Final = "unclean leader election: the new leader was not in sync"
MOST_UNASKED: Final = 10_000  # offsets that may be counted again without asking the ledger


class Ledger(Protocol):
    def ends(self, histories: Mapping[PartitionKey, History]) -> Mapping[PartitionKey, CountedUpTo]:
        """Returns the end of the batches reported for each of these partitions; omits partitions
        without a report."""


class Term(NamedTuple):
    """A leader epoch under which this broker leads a partition. Batches before `singly_before` are
    reported one by one; counting starts at `place` if no batch has been counted."""

    leader_epoch: int
    singly_before: int
    place: CountPosition


def key_of(led: Led) -> PartitionKey:
    return PartitionKey(led.topic, led.topic_id, led.partition)


class Terms:
    """The terms of the partitions that this broker leads. Belongs to one thread."""

    def __init__(self, counter: Counter, ledger: Ledger) -> None:
        self._counter = counter
        self._ledger = ledger
        self._terms: dict[PartitionKey, Term] = {}

    def __getitem__(self, key: PartitionKey) -> Term:
        return self._terms[key]

    def forget(self, key: PartitionKey) -> None:
        self._terms.pop(key, None)

    def follow(self, all_led: Iterable[Led]) -> None:
        """Replaces the partitions that this broker leads. Raises the ledger's errors."""
        all_led = list(all_led)
        if losses := [loss for led in all_led if led.unclean for loss in self._unclean_losses(led)]:
            self._counter.withdraw(losses)
        new_partitions: dict[PartitionKey, Led] = {}
        for led in all_led:
            key = key_of(led)
            self._go_back(key, led)
            old_term = self._terms.get(key)
            if old_term is None or old_term.leader_epoch != led.leader_epoch:
                new_partitions[key] = led
            else:
                self._journal_epochs(key, led, old_term)
        if new_partitions:
            history = self._ask_ledger(new_partitions)
            for key, led in new_partitions.items():
                term = self._terms[key] = self._term(key, led, history.get(key))
                self._journal_epochs(key, led, term)

    def _go_back(self, key: PartitionKey, led: Led) -> None:
        """Move the position back if the counted part is no longer in the log: a later epoch begins
        before its end, or the log ends there. Counted offsets that consumers no longer see may
        still be in it."""
        position = self._counter.place(key)
        if position is None:
            return
        history = History(led.epochs, led.end)
        end = history.end_of(position.leader_epoch)
        if position.next_offset > end:
            next_claim = history.after(position.leader_epoch)
            epoch = led.leader_epoch if next_claim is None else next_claim.leader_epoch
            self._counter.go_back(key, end, leader_epoch=epoch)
            self.forget(key)

    def _ask_ledger(self, new: Mapping[PartitionKey, Led]) -> Mapping[PartitionKey, CountedUpTo]:
        """The ledger's answer about the partitions for which it matters."""
        histories = {}
        for key, led in new.items():
            position = self._counter.place(key)
            first_offset = led.start if position is None else max(position.next_offset, led.start)
            if led.begins - first_offset > (0 if position is None else MOST_UNASKED):
                histories[key] = History(led.epochs, led.end)
        return self._ledger.ends(histories) if histories else {}

    def _term(self, key: PartitionKey, led: Led, history: CountedUpTo | None) -> Term:
        position = self._counter.place(key)
        first_offset = led.start if position is None else max(position.next_offset, led.start)
        if history is not None and history.source == self._counter.source:
            history = None  # no other broker has led it since
        elif history is None and (position is None or led.begins - first_offset > MOST_UNASKED):
            pass  # nothing has ever been reported, or not for as long as the ledger is kept
        else:
            if history is not None and history.next_offset > first_offset:
                position = CountPosition(history.next_offset, leader_epoch=history.leader_epoch)
            return Term(led.leader_epoch, led.begins, position or CountPosition(led.start))
        return Term(led.leader_epoch, -1, position or CountPosition(led.start))

    def _journal_epochs(self, key: PartitionKey, led: Led, term: Term) -> None:
        """Journal the beginnings of this epoch and of those since the last reported one: their
        leaders may have gone before they did. Done once, as the counter remembers it."""
        position = self._counter.place(key)
        counted_epoch = 0 if position is None else position.led
        if position is None or position.next_offset < term.place.next_offset:
            position = term.place
        for start in led.epochs:
            if start.leader_epoch > counted_epoch:
                self._counter.begin_epoch(key, start.leader_epoch, start.first, position)

    def _unclean_losses(self, led: Led) -> Iterator[Withdrawn]:
        """Losses by unclean elections that this counter has not reported. The log knows nothing of
        an epoch without batches: its loss is dated by the next epoch."""
        key = key_of(led)
        position = self._counter.place(key)
        counted_epoch = 0 if position is None else position.led
        unclean_epochs = [
            epoch for epoch in led.unclean if counted_epoch < epoch <= led.leader_epoch
        ]
        for epoch, first_offset in led.epochs:
            due_epochs = [
                unclean_epoch for unclean_epoch in unclean_epochs if unclean_epoch <= epoch
            ]
            if due_epochs:
                unclean_epochs = unclean_epochs[len(due_epochs) :]
                yield Withdrawn(
                    key, epoch, first_offset, UNKNOWN, resumes=first_offset, reason=_UNCLEAN
                )
