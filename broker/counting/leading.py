"""Where counting goes on in a partition that this broker begins to lead: where the last one stood.

Counted is what a leader exposes, and told in the ledger by whoever leads. The next leader has the
same batches at the same offsets, but not the last one's journal. So what lies before its own epoch
may have been told or not, and may still be told late. Two things make that exact:

    1. It is counted again from a place up to which all is known to be told: this broker's own, from
       when it led before; or, where much would have to be read from there, one that the ledger
       itself shows.
    2. Up to where the epoch begins, each batch is told by itself. Replicas have the same batches,
       so what one of them has told of a batch is all of it or nothing: the audit takes either.

A leader who was not in sync when he was elected lacks what nobody can tell: that is told as well,
by himself or whoever leads after him.

Where nobody else has told anything, as in a log that was never counted, nothing of this is needed.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from broker.counting.reports import Led
from broker.withdrawals import UNKNOWN
from ledger.counting.counted_offsets import CountedUpTo, History
from ledger.counting.counter import Counter, Withdrawn
from ledger.counting.journal import PartitionKey, Place

_UNCLEAN: Final = "the broker that leads since then was not in sync"
MOST_UNASKED: Final = 10_000  # offsets that are counted again sooner than the ledger is asked


class Ledger(Protocol):
    def told(self, histories: Mapping[PartitionKey, History]) -> Mapping[PartitionKey, CountedUpTo]:
        """Up to where these partitions were told, of those of which it says anything."""


class Term(NamedTuple):
    """A leader epoch under which this broker leads a partition. Batches before `singly_before` are
    told one by one; counting goes on at `place`, if it had not begun."""

    leader_epoch: int
    singly_before: int
    place: Place


def key_of(led: Led) -> PartitionKey:
    return PartitionKey(led.topic, led.topic_id, led.partition)


class Terms:
    """Of the partitions that this broker leads. One thread."""

    def __init__(self, counter: Counter, ledger: Ledger) -> None:
        self._counter = counter
        self._ledger = ledger
        self._terms: dict[PartitionKey, Term] = {}

    def __getitem__(self, key: PartitionKey) -> Term:
        return self._terms[key]

    def forget(self, key: PartitionKey) -> None:
        self._terms.pop(key, None)

    def follow(self, all_led: Iterable[Led]) -> None:
        """These are led now. Raises what the ledger raises."""
        all_led = list(all_led)
        if losses := [loss for led in all_led if led.unclean for loss in self._lacking(led)]:
            self._counter.withdraw(losses)
        new: dict[PartitionKey, Led] = {}
        for led in all_led:
            key = key_of(led)
            self._go_back(key, led)
            known = self._terms.get(key)
            if known is None or known.leader_epoch != led.leader_epoch:
                new[key] = led
            else:
                self._say_beginning(key, led, known)
        if new:
            told = self._asked(new)
            for key, led in new.items():
                term = self._terms[key] = self._term(key, led, told.get(key))
                self._say_beginning(key, led, term)

    def _go_back(self, key: PartitionKey, led: Led) -> None:
        """Where what was counted is in the log no more: a later epoch begins before that, or the
        log ends. That consumers do not see all of it now does not mean that it is gone."""
        place = self._counter.place(key)
        if place is None:
            return
        history = History(led.epochs, led.end)
        end = history.end_of(place.leader_epoch)
        if place.next_offset > end:
            following = history.after(place.leader_epoch)
            epoch = led.leader_epoch if following is None else following.leader_epoch
            self._counter.go_back(key, end, leader_epoch=epoch)
            self.forget(key)

    def _asked(self, new: Mapping[PartitionKey, Led]) -> Mapping[PartitionKey, CountedUpTo]:
        """Of those of which it matters."""
        asked = {}
        for key, led in new.items():
            place = self._counter.place(key)
            first = led.start if place is None else max(place.next_offset, led.start)
            if led.begins - first > (0 if place is None else MOST_UNASKED):
                asked[key] = History(led.epochs, led.end)
        return self._ledger.told(asked) if asked else {}

    def _term(self, key: PartitionKey, led: Led, told: CountedUpTo | None) -> Term:
        place = self._counter.place(key)
        first = led.start if place is None else max(place.next_offset, led.start)
        if told is not None and told.source == self._counter.source:
            told = None  # nobody else has led it since
        elif told is None and (place is None or led.begins - first > MOST_UNASKED):
            pass  # nobody has ever told of it, or not for as long as the ledger is kept
        else:
            if told is not None and told.next_offset > first:
                place = Place(told.next_offset, leader_epoch=told.leader_epoch)
            return Term(led.leader_epoch, led.begins, place or Place(led.start))
        return Term(led.leader_epoch, -1, place or Place(led.start))

    def _say_beginning(self, key: PartitionKey, led: Led, term: Term) -> None:
        """Of this epoch, and of those since the last of which it was told: their leaders may have
        been gone before they said it. Once: the counter remembers it, when it is journalled."""
        place = self._counter.place(key)
        before = 0 if place is None else place.led
        if place is None or place.next_offset < term.place.next_offset:
            place = term.place
        for each in led.epochs:
            if each.leader_epoch > before:
                self._counter.begin_epoch(key, each.leader_epoch, each.first, place)

    def _lacking(self, led: Led) -> Iterator[Withdrawn]:
        """What leaders did not have who were not in sync, as far as this counter has not told it.
        Of an epoch under which nothing was written the log knows nothing: then it is gone by the
        next one."""
        key = key_of(led)
        place = self._counter.place(key)
        before = 0 if place is None else place.led
        wanted = [each for each in led.unclean if before < each <= led.leader_epoch]
        for epoch, first in led.epochs:
            due = [each for each in wanted if each <= epoch]
            if due:
                wanted = wanted[len(due) :]
                yield Withdrawn(key, epoch, first, UNKNOWN, resumes=first, reason=_UNCLEAN)
