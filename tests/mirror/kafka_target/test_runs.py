"""A model: workers that copy, are killed anywhere, and whose last words may come late. By the map,
each begins exactly where the copy ends, and no offset is translated to one that is ahead."""

import random
from dataclasses import dataclass, field

import pytest

from mirror.kafka_target.outgoing import Footing, Taken, take
from mirror.kafka_target.runs import Page, Run, Runs, Writer
from wire.messages.fetch import AbortedTransaction
from wire.record_batches.batch import CONTROL, TRANSACTIONAL, read_header
from wire.record_batches.records import Record, build_batch, records

_ABORT, _COMMIT = b"\0\0\0\0", b"\0\0\0\1"


@dataclass
class Source:
    """A log of batches, and what of it was aborted."""

    batches: list[bytes] = field(default_factory=list)
    transactions: list[tuple[int, AbortedTransaction]] = field(default_factory=list)
    visible: list[int] = field(default_factory=list)  # offsets that committed readers see
    end: int = 0

    def add(self, kind: str, count: int) -> None:
        if kind == "plain":
            self._data(range(count), count, 0, 1)
        elif kind == "holes":
            self._data(range(0, 2 * count, 2), 2 * count + 1, 0, 1)
        elif kind == "empty":
            self._data(range(0), count, 0, 1)
        else:
            if kind == "aborted":
                said = AbortedTransaction(producer_id=7, first_offset=self.end)
                self.transactions.append((self.end + count, said))
            self._data(range(count), count, TRANSACTIONAL, 7, shown=kind != "aborted")
            key = _ABORT if kind == "aborted" else _COMMIT
            marker = Record(self.end, 1, key, b"")
            flags = TRANSACTIONAL | CONTROL
            self.batches.append(
                build_batch([marker], base_offset=self.end, attributes=flags, producer_id=7)
            )
            self.end += 1

    def _data(
        self, offsets: range, size: int, attributes: int, producer: int, *, shown: bool = True
    ) -> None:
        found = [Record(self.end + each, 5, b"k", b"%d" % (self.end + each)) for each in offsets]
        self.batches.append(
            build_batch(
                found,
                base_offset=self.end,
                last_offset_delta=size - 1,
                attributes=attributes,
                base_timestamp=5,
                producer_id=producer,
            )
        )
        if shown:
            self.visible += [each.offset for each in found]
        self.end += size

    def aborted(self, position: int) -> list[AbortedTransaction]:
        """Those that reach behind it."""
        return [each for marker, each in self.transactions if marker >= position]

    def read(self, position: int, count: int) -> bytes:
        behind = [each for each in self.batches if read_header(each).next_offset > position]
        return b"".join(behind[:count])


@dataclass
class Target:
    """A copy: offsets of the source, or None for a marker; and the map."""

    log: list[int | None] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)
    epoch: int = 0

    def runs(self) -> Runs:
        found = Runs()
        for page in self.pages:
            found.add(page)
        return found

    def data_end(self) -> int:
        end = len(self.log)
        began = self.runs().beginning
        while end > (0 if began is None else began.target) and self.log[end - 1] is None:
            end -= 1
        return end

    def fence(self) -> Writer:
        self.epoch += 1
        self.log.append(None)
        return Writer(1, self.epoch)

    def position(self) -> int:
        end, runs = self.data_end(), self.runs()
        if runs.beginning is None:
            return 0
        run = runs.at_end(end)
        assert run is not None
        assert run.exact or run.target == end
        return run.source + end - run.target

    def append(self, taken: Taken, first: int) -> None:
        for batch, place in list(zip(taken.batches, taken.places, strict=True))[:first]:
            assert place == len(self.log)
            whole = batch.head + batch.records
            self.log += [int(each.value or b"") for each in records(whole)]


def _check(source: Source, target: Target) -> None:
    copied = [each for each in target.log if each is not None]
    assert copied == source.visible[: len(copied)]
    if not target.pages:
        return
    runs, end = target.runs(), target.data_end()
    for offset in range(source.end + 1):
        here = runs.target(offset)
        assert here is not None
        here = min(here, end)
        unread = [each for each in target.log[here:] if each is not None]
        wanted = [each for each in copied if each >= offset]
        assert unread[len(unread) - len(wanted) :] == wanted, "it is ahead"


@pytest.mark.parametrize("seed", range(30))
def test_each_once_whoever_is_killed(seed: int) -> None:
    chance = random.Random(seed)
    source, target = Source(), Target()
    late: list[Page] = []
    kinds = ["plain", "holes", "empty"] if seed % 2 else ["plain", "aborted", "committed"]
    for _ in range(40):
        for _ in range(chance.randint(0, 4)):
            source.add(chance.choice(kinds), chance.randint(1, 4))
        for _ in range(chance.choice([0, 0, 1, 3])):  # who die before they have written it down
            dead = target.fence()
            began = Run(target.position(), len(target.log))
            late.append(Page(dead, (began,), ended=target.data_end()))
        writer = target.fence()
        if chance.random() < 0.5:
            target.pages += late  # before the new one has read the map
            late.clear()
        end, position = target.data_end(), target.position()
        copied = [each for each in target.log if each is not None]
        following = source.visible[len(copied) : len(copied) + 1]
        assert (copied[-1] if copied else -1) < position <= (following or [source.end])[0]
        target.pages.append(Page(writer, (Run(position, len(target.log)),), ended=end))
        target.pages += late  # or after
        late.clear()
        footing = Footing(writer, position, len(target.log))
        for _ in range(chance.randint(0, 4)):
            answer = source.read(position, chance.randint(1, 5))
            aborted = source.aborted(position)
            taken = take(memoryview(answer), position, footing, aborted, gaps=bool(seed % 2))
            assert not taken.fault
            page = Page(writer, tuple(taken.runs)) if taken.runs else None
            is_killed = chance.random() < 0.3
            if is_killed and page is not None and chance.random() < 0.3:
                late.append(page)  # and nothing of it went out
                break
            if page is not None:
                target.pages.append(page)
            count = len(taken.batches)
            target.append(taken, chance.randint(0, count) if is_killed else count)
            position = taken.next_offset
            if is_killed:
                break
        _check(source, target)


def test_many_runs_are_thinned_out_and_never_ahead() -> None:
    source, target, writer = Source(), Target(), Writer(1, 1)
    target.fence()
    target.pages.append(Page(writer, (Run(0, 1),), ended=0))
    footing = Footing(writer, 0, 1)
    for _ in range(6000):
        source.add("committed", 1)
    taken = take(memoryview(source.read(0, 12_000)), 0, footing, None, gaps=False)
    target.append(taken, len(taken.batches))
    target.pages.append(Page(writer, tuple(taken.runs)))
    runs = target.runs()
    there = {offset: here for here, offset in enumerate(target.log)}
    translated = [(there[each], runs.target(each)) for each in source.visible]
    assert all(here is not None and wanted - 20 <= here <= wanted for wanted, here in translated)
    assert translated[-1][0] == translated[-1][1]


def test_what_lies_before_the_copys_begin_is_dropped_once() -> None:
    runs = Runs()
    for number in range(5):
        began = Page(Writer(1, number), (Run(100 * number, 100 * number + 1),), ended=100 * number)
        runs.add(began)
        runs.add(Page(Writer(1, number), (Run(100 * number + 60, 100 * number + 50),)))
    found = runs.spare(260)
    assert [each.target for each in found] == [1, 50, 101, 150]
    assert runs.spare(260) == ()


def test_what_was_announced_and_never_came_is_void() -> None:
    runs, first, second = Runs(), Writer(1, 1), Writer(1, 4)
    runs.add(Page(first, (Run(0, 1),), ended=0))
    runs.add(Page(first, (Run(10, 6),)))  # the copy got to 3; markers of others are at 3 to 6
    runs.add(Page(second, (Run(2, 7),), ended=3))
    assert [runs.target(each) for each in (0, 1, 2, 5, 12)] == [1, 2, 7, 10, 17]
