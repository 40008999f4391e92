"""The contents of a journal, and how each entry changes them. No I/O, no clock, no threads.

Replaying the same entries in the same order gives the same contents. So changes may depend only on
the contents and the entry.

Invariants: the sources of every open batch are known; a source with an open batch is neither
forgotten nor reported as finished; a statement has the number of its batch, and no number is used
twice.
"""

from collections import ChainMap, Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from agent.accounting.alterations import AlteredText
from agent.accounting.parcels import BatchKind, Eventless, Outgoing, Parcel
from agent.accounting.runs import KnownSource, Progress, SourceId
from agent.history.blind_times import Looked, LookedAt, Traces, united
from agent.history.position import HistoryPosition
from agent.journal.ledger_chain import head_behind
from agent.journal.state import (
    Chosen,
    Finished,
    NotSeen,
    Numbers,
    OpenBatch,
    Shipped,
    Statement,
    WindowPassed,
)
from client.producing.delivery import TopicPartition
from client.producing.identity import Identity
from ledger.proofs import NO_HEAD
from wire.record_batches.batch import BatchHeader

MOST_WAITING = 100_000
"""The number of statements and runs that may wait for the ledger, about 30 MB. Beyond that, the
oldest are given up, and counted: lines are still shipped, but the ledger lacks their proof."""

MOST_NOT_SEEN = 10_000
"""The number of statements about unwatched times that wait in addition. They are never given up,
since a heartbeat would cover them; beyond this number, a new one is merged with the last one about
its topic, including the time between."""

MOST_ALTERED: Final = 10_000
"""The number of statements about altered text that wait in addition; beyond that, the oldest are
given up. They have a limit of their own, so that remarks never displace proofs of delivery."""

MOST_LOOKED: Final = 1_000
"""The number of inputs, configured or not, whose last look is remembered; beyond that, the oldest
are forgotten."""

Numbering = tuple[int, Identity, int, int]  # number, identity, base sequence, CRC


class InconsistentEntry(ValueError):
    """The error for an entry about an object that the contents do not have."""


class JournalContents(msgspec.Struct):
    """The contents of a journal. `known` has the sources as last journalled; their progress is in
    `progress`."""

    agent_id: str
    known: dict[SourceId, KnownSource] = {}
    progress: dict[SourceId, Progress] = {}
    open: dict[int, OpenBatch] = {}
    statements: dict[int, Statement] = {}
    not_seen: dict[int, None] = {}  # statements that are never given up
    altered: dict[int, None] = {}  # statements of altered text
    withheld: dict[int, int] = {}  # statements that wait for batches up to this number
    ending: dict[SourceId, int] = {}  # finished, but not acknowledged
    leaving: dict[SourceId, None] = {}  # to be forgotten, but still mentioned
    open_runs: Counter[SourceId] = msgspec.field(default_factory=Counter)  # of each source
    # the number of open runs and statements that mention a source
    mentions: Counter[SourceId] = msgspec.field(default_factory=Counter)
    silent: set[SourceId] = set()  # no longer mentioned since the last check
    moved: dict[SourceId, None] = {}  # moved to another file, which is not published yet
    partitions: dict[str, Chosen] = {}
    acknowledged_offsets: dict[TopicPartition, int] = {}
    looked: dict[str, Looked] = {}  # by input
    history: HistoryPosition | None = None  # events of names up to here are processed
    ledger_seq: int = 0
    ledger_head: bytes = NO_HEAD  # of the chain of acknowledged ledger entries
    next_number: int = 0
    given_up: int = 0  # statements
    waiting: int = 0  # statements and their runs
    open_bytes: int = 0
    keeps_statements: bool = True  # False without a ledger

    def copy(self) -> "JournalContents":
        """A copy, to be written while these contents change."""
        return replace(
            self,
            known=self.known.copy(),
            progress=self.progress.copy(),
            open=self.open.copy(),
            statements=self.statements.copy(),
            not_seen=self.not_seen.copy(),
            altered=self.altered.copy(),
            withheld=self.withheld.copy(),
            ending=self.ending.copy(),
            leaving=self.leaving.copy(),
            open_runs=self.open_runs.copy(),
            mentions=self.mentions.copy(),
            silent=self.silent.copy(),
            moved=self.moved.copy(),
            partitions=self.partitions.copy(),
            acknowledged_offsets=self.acknowledged_offsets.copy(),
            looked=self.looked.copy(),
        )

    # Changes by entries

    def source(self, known: KnownSource) -> None:
        """Adds or updates a source. Its progress is taken the first time only; later, parcels
        advance it."""
        self.progress.setdefault(known.id, known.progress)
        self.leaving.pop(known.id, None)
        known_before = self.known.get(known.id)
        is_finished = known.finished if known_before is None else known_before.finished
        if known_before is not None and _has_moved(known_before, known) and self.keeps_statements:
            self.moved[known.id] = None
        self.known[known.id] = replace(
            known, progress=self.progress[known.id], finished=is_finished
        )

    def parcel(self, parcel: Parcel) -> None:
        self.check_parcel(parcel)
        self._open((outgoing, (outgoing.number,)) for outgoing in parcel.batches)
        self._state(parcel.eventless)
        for altered in parcel.altered:
            self._count(altered.number)
            self._add(altered)
        for source, progress in parcel.progress.items():
            if progress != self.progress[source]:
                self._go_on(source)
            self.progress[source] = progress
        self.ledger_seq += sum(
            outgoing.batch.records
            for outgoing in parcel.batches
            if outgoing.kind is BatchKind.LEDGER
        )

    def numbered(self, numberings: Iterable[Numbering]) -> None:
        for number, identity, base_sequence, crc in numberings:
            numbers = Numbers(identity, base_sequence, crc)
            self.open[number] = replace(self.open_batch(number), numbers=numbers)

    def acknowledged(
        self, number: int, base_offset: int, leader_epoch: int, digest: bytes = b""
    ) -> None:
        closed_batch = self._close(number)
        outgoing, header = closed_batch.outgoing, closed_batch.outgoing.batch.header
        if base_offset >= 0:
            target = outgoing.batch.target
            last = base_offset + header.last_offset_delta
            self.acknowledged_offsets[target] = max(last, self.acknowledged_offsets.get(target, -1))
        if outgoing.kind is BatchKind.LEDGER:
            self.ledger_head = head_behind(self.ledger_head, outgoing.batch)
            for covered_number in outgoing.covers:
                self._drop(covered_number)
        else:
            self._add(self._shipped(closed_batch, header, base_offset, leader_epoch, digest))
        self._end(outgoing)
        self._let_leave()

    def replaced(
        self, number: int, batches: Sequence[Outgoing], eventless: Sequence[Eventless]
    ) -> None:
        self.check_new(batches)
        old_batch = self._close(number)
        self._open((outgoing, (*old_batch.place, index)) for index, outgoing in enumerate(batches))
        self._state(eventless)
        self._end(old_batch.outgoing)
        self._let_leave()

    def finished(self, source: SourceId, number: int, millis: int) -> None:
        self.check_known((source,))
        known_source = self.known[source]
        # Not before its creation, even if the clock is.
        seen_millis = max(known_source.seen_millis, millis)
        self.known[source] = replace(known_source, finished=True, seen_millis=seen_millis)
        self._count(number)
        self.ending[source] = number
        self._end_if_acknowledged(source)

    def unwatched(self, statement: NotSeen) -> None:
        """Adds the statement. If it names a source, the source has ended, and is never reported as
        finished."""
        source = statement.unwatched.source
        if source:
            self.check_known((source,))
            self.known[source] = replace(self.known[source], finished=True)
            self.ending.pop(source, None)
        self._count(statement.number)
        self._add(self._united(statement) if _must_be_published(statement) else statement)

    def looked_at(self, at: LookedAt) -> None:
        self.looked[at.input] = at.after(self.looked.pop(at.input, None))
        while len(self.looked) > MOST_LOOKED:
            del self.looked[min(self.looked, key=lambda name: self.looked[name].millis)]

    def history_reached(self, position: HistoryPosition) -> None:
        self.history = position

    def partition(self, topic: str, chosen: Chosen) -> None:
        previous = self.partitions.get(topic)
        if previous is not None and previous.topic_id != chosen.topic_id:
            self.acknowledged_offsets = {
                target: offset
                for target, offset in self.acknowledged_offsets.items()
                if target.topic != topic
            }
        self.partitions[topic] = chosen

    def begins(self, target: TopicPartition, offset: int) -> None:
        """Notes that the agent has no records before this offset, unless some were acknowledged."""
        self.acknowledged_offsets.setdefault(target, offset - 1)

    def forget(self, source: SourceId) -> None:
        """Forgets a source once nothing of it is open or unpublished, unless it is journalled again
        before that."""
        if source in self.known:
            self.leaving[source] = None
            self.silent.add(source)
            self._let_leave()

    def reopen(self, batch: OpenBatch) -> None:
        """Adds a batch that was open when the file was begun."""
        outgoing = batch.outgoing
        self.open[outgoing.number] = batch
        self.open_bytes += outgoing.batch.size
        for run in outgoing.runs:
            self.open_runs[run.source] += 1
            self.mentions[run.source] += 1

    def restate(self, statement: Statement) -> None:
        """Adds a statement that was unacknowledged when the file was begun."""
        self._add(statement)

    # Checks

    def check_known(self, sources: Iterable[SourceId]) -> None:
        for source in sources:
            if source not in self.known:
                raise InconsistentEntry(f"unknown source {source}")

    def check_new(self, batches: Iterable[Outgoing]) -> None:
        for outgoing in batches:
            if outgoing.number in self.open:
                raise InconsistentEntry(f"batch {outgoing.number} already exists")

    def check_parcel(self, parcel: Parcel) -> None:
        self.check_known(parcel.progress)
        self.check_new(parcel.batches)

    def open_batch(self, number: int) -> OpenBatch:
        try:
            return self.open[number]
        except KeyError:
            raise InconsistentEntry(f"batch {number} is not open") from None

    # Queries

    def sources(self) -> tuple[KnownSource, ...]:
        return tuple(map(self.known_source, self.known))

    def known_source(self, source: SourceId) -> KnownSource:
        known_source, progress = self.known[source], self.progress[source]
        return (
            known_source
            if known_source.progress == progress
            else replace(known_source, progress=progress)
        )

    def journalled_head(self) -> bytes:
        """The head of the chain after all ledger entries, also those that are open."""
        head = self.ledger_head
        for batch in self.open_in_order():
            if batch.outgoing.kind is BatchKind.LEDGER:
                head = head_behind(head, batch.outgoing.batch)
        return head

    def open_in_order(self) -> tuple[OpenBatch, ...]:
        return tuple(sorted(self.open.values(), key=lambda each: each.place))

    def unpublished(self) -> tuple[Statement, ...]:
        """The statements that can be published: neither in an open ledger batch nor withheld."""
        covered_numbers = {
            number for batch in self.open.values() for number in batch.outgoing.covers
        }
        if self.withheld:
            oldest_numbers: dict[str, int] = {}
            for batch in self.open.values():
                topic, number = batch.outgoing.batch.target.topic, batch.place[0]
                oldest_numbers[topic] = min(number, oldest_numbers.get(topic, number))
            covered_numbers.update(
                number
                for number, first_open in self.withheld.items()
                if oldest_numbers.get(self.statements[number].topic, first_open + 1) <= first_open
            )
        return tuple(
            statement
            for statement in self.statements.values()
            if statement.number not in covered_numbers
        )

    def has_taken(self, parcel: Parcel) -> bool:
        """Whether this parcel was added, and is unchanged since."""
        for batch in parcel.batches:
            open_batch = self.open.get(batch.number)
            return open_batch is not None and open_batch.outgoing is batch
        new_statements: list[Statement] = [*parcel.eventless, *parcel.altered]
        for statement in new_statements:
            return self.statements.get(statement.number) is statement
        return False

    # Implementation

    def _open(self, batches: Iterable[tuple[Outgoing, tuple[int, ...]]]) -> None:
        for outgoing, place in batches:
            self.reopen(OpenBatch(outgoing, None, place))
            self._count(outgoing.number)

    def _close(self, number: int) -> OpenBatch:
        open_batch = self.open_batch(number)
        del self.open[number]
        self.open_bytes -= open_batch.outgoing.batch.size
        for run in open_batch.outgoing.runs:
            _count_down(self.open_runs, run.source)
            self._drop_mention(run.source)
        return open_batch

    def _state(self, eventless: Sequence[Eventless]) -> None:
        for statement in eventless:
            self._count(statement.number)
        for statement in eventless:
            self._add(statement)
            if statement.run.events and statement.number in self.statements:  # batches have them
                self.withheld[statement.number] = self.next_number - 1

    def _add(self, statement: Statement) -> None:
        if self.keeps_statements:
            self.statements[statement.number] = statement
            self.waiting += _weight(statement)
            self.mentions.update(_sources_of(statement))
            if _must_be_published(statement):
                self.not_seen[statement.number] = None
            if isinstance(statement, AlteredText):
                self.altered[statement.number] = None
        while len(self.altered) > MOST_ALTERED:
            self._drop(next(iter(self.altered)))
            self.given_up += 1
        while self.waiting > MOST_WAITING:
            self._give_up()

    def _give_up(self) -> None:
        """Gives up the oldest statement that may be; those before it move to the end."""
        kept_statements = ChainMap(self.not_seen, self.altered)
        while (number := next(iter(self.statements))) in kept_statements:
            self.statements[number] = self.statements.pop(number)
        self._drop(number)
        self.given_up += 1

    def _united(self, statement: NotSeen) -> NotSeen:
        """Merges the statement with the last one about its topic, if too many wait. It keeps its
        new number, which no entry of the ledger covers yet, so it is published even if the other
        one already was."""
        for number in reversed(self.not_seen) if len(self.not_seen) >= MOST_NOT_SEEN else ():
            old_statement = self.statements[number]
            if isinstance(old_statement, NotSeen) and old_statement.topic == statement.topic:
                self._drop(number)
                return replace(
                    statement, unwatched=united(old_statement.unwatched, statement.unwatched)
                )
        return statement

    def _drop(self, number: int) -> None:
        statement = self.statements.pop(number, None)
        if statement is not None:
            self.waiting -= _weight(statement)
            self.not_seen.pop(number, None)
            self.altered.pop(number, None)
            self.withheld.pop(number, None)
            for source in _sources_of(statement):
                self._drop_mention(source)

    def _drop_mention(self, source: SourceId) -> None:
        if _count_down(self.mentions, source):
            self.silent.add(source)

    def _count(self, number: int) -> None:
        self.next_number = max(self.next_number, number + 1)

    def _shipped(
        self,
        done: OpenBatch,
        header: BatchHeader,
        base_offset: int,
        leader_epoch: int,
        digest: bytes,
    ) -> Shipped:
        outgoing = done.outgoing
        target = outgoing.batch.target
        chosen = self.partitions.get(target.topic)
        crc = header.crc if done.numbers is None else done.numbers.crc
        counts = sorted(outgoing.windows, key=lambda each: each.start)
        size = outgoing.batch.size
        windows = [
            WindowPassed(count.start, count.events, size, crc)
            if count is counts[0]
            else WindowPassed(count.start, count.events, 0, 0)
            for count in counts
        ]
        return Shipped(
            number=outgoing.number,
            topic=target.topic,
            topic_id=chosen.topic_id if chosen else "",
            partition=target.partition,
            leader_epoch=leader_epoch,
            base_offset=base_offset,
            offsets=header.last_offset_delta + 1,
            windows=tuple(windows),
            runs=outgoing.runs,
            delays=outgoing.delays,
            window_millis=outgoing.window_millis,
            digest=digest,
        )

    def _go_on(self, source: SourceId) -> None:
        """Reopens a finished source that has grown."""
        if self.known[source].finished:
            self.known[source] = replace(self.known[source], finished=False)
            self.ending.pop(source, None)
        self.leaving.pop(source, None)

    def _end(self, outgoing: Outgoing) -> None:
        for run in outgoing.runs if self.ending else ():
            if run.source in self.ending:
                self._end_if_acknowledged(run.source)

    def _end_if_acknowledged(self, source: SourceId) -> None:
        if source in self.open_runs:
            return
        known_source, progress = self.known[source], self.progress[source]
        number = self.ending.pop(source)
        path = known_source.last_path or known_source.path
        self._add(
            Finished(number, source, known_source.topic, path, progress.seq, progress.position)
        )

    def _let_leave(self) -> None:
        silent, self.silent = self.silent, set()
        for source in silent:
            if source in self.leaving and not self._is_mentioned(source):
                del self.leaving[source], self.known[source], self.progress[source]
                self.moved.pop(source, None)

    def _is_mentioned(self, source: SourceId) -> bool:
        return source in self.mentions or source in self.ending


def _has_moved(before: KnownSource, known: KnownSource) -> bool:
    return (before.device, before.inode) != (known.device, known.inode)


def _count_down(counts: Counter[SourceId], source: SourceId) -> bool:
    """Counts down. Returns whether the count is 0 now."""
    counts[source] -= 1
    if counts[source]:
        return False
    del counts[source]
    return True


def _must_be_published(statement: Statement) -> bool:
    """Whether the statement reports something unknown, so that it must be published."""
    return isinstance(statement, NotSeen) and statement.unwatched.traces is not Traces.UNCHANGED


def _weight(statement: Statement) -> int:
    """The share of a statement in `MOST_WAITING`. A window counts a quarter of a run, since a
    backlog may have thousands. Statements with a limit of their own count nothing."""
    if _must_be_published(statement) or isinstance(statement, AlteredText):
        return 0
    if not isinstance(statement, Shipped):
        return 2
    return 1 + len(statement.runs) + len(statement.windows) // 4


def _sources_of(statement: Statement) -> set[SourceId]:
    if isinstance(statement, Shipped):
        return {run.source for run in statement.runs}
    if isinstance(statement, AlteredText):
        return set()  # it has the path itself
    if isinstance(statement, NotSeen):
        return {statement.unwatched.source} - {SourceId("")}
    return {statement.run.source if isinstance(statement, Eventless) else statement.source}
