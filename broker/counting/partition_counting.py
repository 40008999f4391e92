"""Counts new events in each partition that the broker reports, and journals them for the ledger.

A partition is identified by its topic's id, so one that was deleted and created again is counted
from its own beginning. If the counted part is no longer in the log (it was cut off, or restored, or
another leader never had it), counting continues at the end of what remains (leader_terms.py); if
the log begins later (retention), at its beginning. A partition that is not led is not counted, and
its position is kept.
"""

import time
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

from broker.counting.leader_terms import Ledger, Terms, key_of
from broker.counting.log_batches import BatchRun, NoBatch, behind_damage, runs, wrong_crcs
from broker.counting.reports import (
    CountingReport,
    CountingResult,
    DamagedOffsets,
    Led,
    LostOffsets,
    Task,
)
from broker.storage import layout
from client.errors import ClientError
from ledger.counting.batches import WRONG_CRC
from ledger.counting.counter import Counter, Withdrawn
from ledger.counting.journal import CountPosition, PartitionKey
from schemas.errors import SchemaError

_LIVE_INTERVALS: Final = 3  # a partition seen this recently is followed as it grows


class PartitionCounting:
    """Counts the events of partitions, on one thread."""

    def __init__(
        self,
        task: Task,
        counter: Counter,
        ledger: Ledger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._data_dir = Path(task.data_dir)
        self._live_seconds = task.interval * _LIVE_INTERVALS
        self._checks = task.checks.landed
        self._damaged: list[DamagedOffsets] = []
        self._counter = counter
        self._terms = Terms(counter, ledger)
        self._clock = clock
        self._looked: dict[PartitionKey, float] = {}

    def look(self, report: CountingReport) -> CountingResult:
        """Counts new events as far as they can be read. Returns problems instead of raising
        them."""
        counter = self._counter
        old_batch_count, old_opened_count = counter.batches, counter.counting.opened
        trouble = ""
        told_losses: list[int] = []
        self._damaged = []
        try:
            if report.lost:
                counter.withdraw([_withdrawn(loss) for loss in report.lost])
                told_losses = [loss.number for loss in report.lost]
            counter.origins = {
                key_of(led): led.mirror_of for led in report.led if led.mirror_of is not None
            }
            counter.settle()
            removed_keys = self._removed_partitions(report)
            self._terms.follow(report.led)
            for led in report.led:
                try:
                    self._count(led)
                except FileNotFoundError:
                    continue  # compacted or expired meanwhile: the next report has the new state
            counter.commit(removed_keys)
        except (ClientError, SchemaError, OSError) as error:
            trouble = f"{type(error).__name__}: {error}"
            self._damaged = []  # what was not journalled is found again
        return CountingResult(
            counter.batches - old_batch_count,
            counter.counting.opened - old_opened_count,
            trouble,
            told_losses,
            self._damaged,
        )

    def _count(self, led: Led) -> None:
        key = key_of(led)
        now = self._clock()
        look_time = self._looked.get(key)
        self._looked[key] = now
        term = self._terms[key]
        place = max(self._counter.place(key) or term.place, term.place)
        if place.next_offset < led.start:
            place = CountPosition(led.start)
        is_live = look_time is not None and now - look_time < self._live_seconds
        seen_millis = time.time_ns() // 1_000_000 if is_live else None
        while place.next_offset < led.exposed:
            passing = _Passing(
                self._counter,
                key,
                led,
                place,
                seen_millis,
                singly_before=term.singly_before,
                checks=self._checks,
            )
            try:
                for run in runs(Path(led.directory), place, led.exposed):
                    passing.run(run)
                return
            except NoBatch as error:
                place = _report_gap(passing, error)
            finally:
                self._damaged += passing.damaged

    def _removed_partitions(self, report: CountingReport) -> list[PartitionKey]:
        """Partitions whose directory is missing, or belongs to another topic."""
        topic_ids = {
            (partition.topic, partition.partition): partition.topic_id for partition in report.led
        }
        unserved_keys = set(report.not_served)
        removed_keys = []
        for key in self._counter.known:
            name = (key.topic, key.partition)
            if name in topic_ids:
                is_gone = topic_ids[name] != key.topic_id
            else:
                directory = self._data_dir / f"{key.topic}-{key.partition}"
                is_gone = name not in unserved_keys and not directory.exists()
            if is_gone:
                removed_keys.append(key)
                self._looked.pop(key, None)
                self._terms.forget(key)
        return removed_keys


class _Passing:
    """Passes the new batches of one partition to the counter, as they are read."""

    def __init__(
        self,
        counter: Counter,
        key: PartitionKey,
        led: Led,
        place: CountPosition,
        seen: int | None,
        *,
        singly_before: int,
        checks: bool,
    ) -> None:
        self.led = led
        self.next_offset = place.next_offset
        self.damaged: list[DamagedOffsets] = []
        self._counter = counter
        self._key = key
        self._seen = seen
        self._singly_before = singly_before
        self._checks = checks
        self._epoch: int | None = None
        # A copy's log has that mark after an accepted gap too, where records are missing.
        is_compacted = led.mirror_of is None and (Path(led.directory) / layout.COMPACTED).exists()
        self._has_holes = led.compacts or is_compacted

    def run(self, run: BatchRun) -> None:
        """Counts a run epoch by epoch; reports damaged batches instead of counting them."""
        for epoch, part in _by_epoch(run):
            self._begin(self._plausible_epoch(epoch))
            first_index = 0
            for index in wrong_crcs(part) if self._checks else ():
                self._count_run(part.part(first_index, index))
                header = part.headers[index]
                self.spoilt(header[0], header[6] + 1, WRONG_CRC)
                first_index = index + 1
            self._count_run(part.part(first_index, len(part.headers)) if first_index else part)

    def _plausible_epoch(self, epoch: int) -> int:
        """The batch's epoch, if it is possible: the CRC does not cover it."""
        old_epoch, newest_epoch = self._epoch, self.led.leader_epoch
        if (0 if old_epoch is None else old_epoch) <= epoch <= newest_epoch:
            return epoch
        return newest_epoch if old_epoch is None else old_epoch

    def _begin(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._epoch = epoch
            self._begin_passage(epoch)

    def _begin_passage(self, epoch: int) -> None:
        self._counter.partition(self._key, self.next_offset, leader_epoch=epoch, seen=self._seen)

    def _count_run(self, run: BatchRun) -> None:
        if run.headers and run.headers[0][0] >= self._singly_before:
            self._count_batches(run)
            return
        for index in range(len(run.headers)):
            assert self._epoch is not None, "a part of a run has one epoch"
            self._begin_passage(self._epoch)
            self._count_batches(run.part(index, index + 1))

    def _count_batches(self, run: BatchRun) -> None:
        self._counter.run(
            run.headers,
            run.read,
            gaps_are_empty=self._has_holes,
            segment=run.segment,
            byte=run.byte,
        )
        self.next_offset = run.next_offset

    def spoilt(self, first: int, offsets: int, reason: str) -> None:
        if self._epoch is None:
            self._begin(self.led.leader_epoch)
        self._counter.spoilt(first, offsets, reason)
        self.damaged.append(
            DamagedOffsets(self.led.topic, self.led.partition, first, offsets, reason)
        )
        self.next_offset = first + offsets


def _report_gap(passing: _Passing, broken: NoBatch) -> CountPosition:
    """Report the offsets without a readable batch; returns the place of the next batch."""
    first_offset, led = passing.next_offset, passing.led
    place = behind_damage(Path(led.directory), broken, first_offset, led.exposed)
    if place.next_offset > first_offset:
        passing.spoilt(first_offset, place.next_offset - first_offset, str(broken))
    return place


def _by_epoch(run: BatchRun) -> Iterator[tuple[int, BatchRun]]:
    """The run's parts of one leader epoch each, nearly always the run as it is."""
    epochs = list(map(itemgetter(2), run.headers))
    if len(set(epochs)) == 1:
        yield epochs[0], run
        return
    first_index = 0
    for epoch, same_epochs in groupby(epochs):
        end_index = first_index + len(list(same_epochs))
        yield epoch, run.part(first_index, end_index)
        first_index = end_index


def _withdrawn(lost: LostOffsets) -> Withdrawn:
    return Withdrawn(
        PartitionKey(lost.topic, lost.topic_id, lost.partition),
        lost.leader_epoch,
        lost.first,
        lost.offsets,
        lost.resumes,
        lost.reason,
    )
