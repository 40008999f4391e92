"""A broker's reports followed: what is new in each partition is counted, and said in the ledger.

A partition is known by its topic's id, so one that was deleted and made again begins at its own
beginning. Where the log does not reach as far as was counted (it was cut, or restored), counting
goes on at its end; where it begins only later (retention), at its beginning.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker.counting.reading import Unreadable, runs
from broker.counting.reports import Led, Looked, Report, Task
from broker.storage import layout
from client.errors import ClientError
from ledger.counting.counter import Counter
from ledger.counting.journal import PartitionKey, Place
from schemas.errors import SchemaError

_LIVE_INTERVALS: Final = 3  # a partition that was looked at so recently is followed as it grows


class Following:
    """One thread."""

    def __init__(
        self, task: Task, counter: Counter, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._data_dir = Path(task.data_dir)
        self._live_seconds = task.interval * _LIVE_INTERVALS
        self._counter = counter
        self._clock = clock
        self._looked: dict[PartitionKey, float] = {}

    def look(self, report: Report) -> Looked:
        """Count what is new, as far as it can be read. What goes wrong is said, not raised."""
        counter = self._counter
        batches_before, opened_before = counter.batches, counter.counting.opened
        trouble = ""
        try:
            counter.settle()
            forgotten = self._gone(report)
            for led in report.led:
                try:
                    self._count(led)
                except FileNotFoundError:
                    continue  # compacted or expired meanwhile: the next report says how it stands
                except Unreadable as error:
                    trouble = str(error)
            counter.commit(forgotten)
        except (ClientError, SchemaError, OSError) as error:
            trouble = f"{type(error).__name__}: {error}"
        return Looked(
            counter.batches - batches_before, counter.counting.opened - opened_before, trouble
        )

    def _count(self, led: Led) -> None:
        key = PartitionKey(led.topic, led.topic_id, led.partition)
        now = self._clock()
        before = self._looked.get(key)
        self._looked[key] = now
        place = self._counter.place(key) or Place(led.start)
        if place.next_offset > led.exposed:
            self._counter.go_back(key, led.exposed, leader_epoch=led.leader_epoch)
            return
        if place.next_offset < led.start:
            place = Place(led.start)
        if place.next_offset >= led.exposed:
            return
        is_live = before is not None and now - before < self._live_seconds
        seen = time.time_ns() // 1_000_000 if is_live else None
        directory = Path(led.directory)
        self._counter.partition(key, place.next_offset, leader_epoch=led.leader_epoch, seen=seen)
        has_holes = led.compacts or (directory / layout.COMPACTED).exists()
        for run in runs(directory, place, led.exposed):
            self._counter.run(
                run.headers,
                run.read,
                gaps_are_empty=has_holes,
                segment=run.segment,
                byte=run.byte,
            )

    def _gone(self, report: Report) -> list[PartitionKey]:
        """Partitions that will not come back: their directory is not there, or is another's."""
        led = {(each.topic, each.partition): each.topic_id for each in report.led}
        not_served = set(report.not_served)
        gone = []
        for key in self._counter.known:
            name = (key.topic, key.partition)
            if name in led:
                is_gone = led[name] != key.topic_id
            else:
                directory = self._data_dir / f"{key.topic}-{key.partition}"
                is_gone = name not in not_served and not directory.exists()
            if is_gone:
                gone.append(key)
                self._looked.pop(key, None)
        return gone
