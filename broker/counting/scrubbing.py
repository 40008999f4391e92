"""Re-reads stored segments, and reports damage to the ledger. Reads recent data often, and all data
seldom.

Two readings take turns, each at its own rate:

- The young pass begins every `young_seconds`. It reads the segments that were written to within
  `young_age`, of the log that has waited longest first. Its place is not kept: after a restart it
  begins again with the log that has waited longest.
- The round goes through the partitions by name and through all of their segments. The next one
  begins `scrub_seconds` after it did. Its place stands in `scrub` in the data directory, so that a
  restart goes on at the beginning of the segment that was being read.

When each log was last read stands in the same file, and is reported to the ledger. Damage is
journalled when it is found. What was found before a crash is found and reported again, which
changes nothing; within one process the young pass reports the same damage once.

`step` reads a piece and says how long to wait before the next, so that the caller can do other
things in between. Memory: a piece of a segment for each reading, and two times for each log.
"""

import logging
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from broker.configs.config import Checks
from broker.counting.leader_terms import key_of
from broker.counting.reports import CheckedLog, CountingReport, DamagedOffsets, Led
from broker.storage import layout
from broker.storage.directory.directories import topic_id
from broker.storage.segments.scrub import Damage, scrub
from ground.files.durable_files import replace_file
from ground.known_types import known_type
from ledger.counting.batches import Spoilt
from ledger.counting.counter import Counter
from ledger.counting.entries import MOST_SCRUBBED, scrubbed_of
from ledger.counting.journal import PartitionKey
from ledger.names import topic_id_text

FILE_NAME: Final = "scrub"
_SAVED_SECONDS: Final = 10.0
_REPORTED_SECONDS: Final = 30.0
_KEPT_MILLIS: Final = 86_400_000  # how long the times of a log that is not led any more are kept
_MOST_DAMAGES: Final = 10_000  # remembered by the young pass as reported

log = logging.getLogger(__name__)


class CheckTimes(NamedTuple):
    """The times when a log was last re-read, in milliseconds since 1970; -1: never. Each is the
    time when re-reading began, so everything written before it was read."""

    recent: int = -1  # its young segments
    whole: int = -1  # all of its segments


_NEVER: Final = CheckTimes()


class _Progress(msgspec.Struct):
    """The contents of the file `scrub`: the place of the current round, the end of the previous
    round, and the times at which each log was read."""

    began_millis: int = -1
    topic: str = ""
    partition: int = -1
    next_offset: int = 0
    is_over: bool = True
    finished_millis: int = -1
    topic_id: str = ""
    log_began_millis: int = -1  # when the reading of this log began; -1: its beginning was not read
    is_through: bool = False  # whether the reading of this log is complete
    logs: list[tuple[PartitionKey, CheckTimes]] = []


class _Reading:
    """A reading in progress. `pieces` yields the size of each piece, or None while no reading is
    due; `ready` is the time of the next piece."""

    def __init__(self, pieces: Iterator[int | None], bytes_per_second: int) -> None:
        self.pieces = pieces
        self.bytes_per_second = bytes_per_second
        self.ready = 0.0


class Scrubbing:
    """Re-reads segments, on one thread."""

    def __init__(
        self,
        data_dir: Path,
        checks: Checks,
        counter: Counter,
        now_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = data_dir / FILE_NAME
        self._checks = checks
        self._counter = counter
        self._now_millis = now_millis
        self._clock = clock
        self._progress = _read(self._path)
        self._times = dict(self._progress.logs)
        self._led: dict[PartitionKey, Led] = {}
        self._saved = self._reported = -_REPORTED_SECONDS
        self._bytes = 0
        self._damaged: list[DamagedOffsets] = []
        self._known: set[tuple[PartitionKey, int, int]] = set()  # reported damage
        self._changed: set[PartitionKey] = set()  # logs whose times the broker does not know yet
        self._unreported: set[PartitionKey] = set()  # logs whose times the ledger does not know yet
        self._readings: list[_Reading] = []
        if checks.young_seconds:
            self._readings.append(_Reading(self._young_passes(), checks.young_bytes_per_second))
        if checks.scrub_seconds:
            self._readings.append(_Reading(self._rounds(), checks.scrub_bytes_per_second))

    def follow(self, report: CountingReport) -> None:
        old_keys = self._led.keys()
        self._led = {key_of(led): led for led in report.led}
        self._changed |= self._led.keys() - old_keys
        self._changed &= self._led.keys()
        self._unreported &= self._led.keys()

    def taken(self) -> tuple[list[DamagedOffsets], int, int, list[CheckedLog]]:
        """Returns the findings since the last call: damage, bytes read, the end of the last round,
        and logs read."""
        damages, self._damaged = self._damaged, []
        count, self._bytes = self._bytes, 0
        changed_keys, self._changed = self._changed, set()
        checked_logs = [
            CheckedLog(key.topic, key.partition, *self._times[key])
            for key in changed_keys
            if key in self._times
        ]
        return damages, count, self._progress.finished_millis, checked_logs

    def step(self) -> float | None:
        """Reads a piece; returns the seconds until the next one, or None to wait for a report."""
        if not self._led:
            return None
        now = self._clock()
        pauses: list[float] = []
        for reading in self._readings:
            if reading.ready <= now:
                count = next(reading.pieces)
                if count is None:
                    continue
                self._bytes += count
                reading.ready = now + count / reading.bytes_per_second
            pauses.append(reading.ready - now)
        self._report(_REPORTED_SECONDS)
        return min(pauses, default=None)

    def _young_passes(self) -> Iterator[int | None]:
        while True:
            start_millis = self._now_millis()
            read_keys: set[PartitionKey] = set()
            while unread_keys := self._led.keys() - read_keys:
                for key in sorted(unread_keys, key=self._times_of):
                    read_keys.add(key)
                    yield from self._read_young(key)
                    yield 0
            self._save()
            self._report()
            yield from self._seconds_left(start_millis, self._checks.young_seconds)

    def _read_young(self, key: PartitionKey) -> Iterator[int]:
        start_millis = self._now_millis()
        young_millis = start_millis - int(self._checks.young_age * 1000)
        is_read = is_whole = True
        for segment in self._segments(key, 0):
            if segment.written_millis < young_millis:
                is_whole = False
            elif not (yield from self._read_segment(key, segment, again=False)):
                is_read = False
        if is_read and key in self._led:
            self._note(key, CheckTimes(start_millis, start_millis if is_whole else -1))

    def _rounds(self) -> Iterator[int | None]:
        while True:
            progress = self._progress
            if progress.is_over:
                yield from self._seconds_left(progress.began_millis, self._checks.scrub_seconds)
                progress = self._progress = _Progress(
                    began_millis=self._now_millis(),
                    is_over=False,
                    finished_millis=progress.finished_millis,
                )
            while (key := self._next_of_round()) is not None:
                yield from self._read_whole(key)
                yield 0
            progress.is_over, progress.finished_millis = True, self._now_millis()
            self._save()
            self._report()

    def _next_of_round(self) -> PartitionKey | None:
        progress = self._progress
        last_key = progress.topic, progress.partition

        def comes(key: PartitionKey) -> bool:
            topic_partition = key.topic, key.partition
            return topic_partition > last_key or (
                topic_partition == last_key and not progress.is_through
            )

        return min(
            filter(comes, self._led), key=lambda key: (key.topic, key.partition), default=None
        )

    def _read_whole(self, key: PartitionKey) -> Iterator[int]:
        progress = self._progress
        if (progress.topic, progress.topic_id, progress.partition) != key:
            progress.topic, progress.topic_id, progress.partition = key
            progress.next_offset, progress.is_through = 0, False
            progress.log_began_millis = self._now_millis()
        while (segment := next(self._segments(key, progress.next_offset), None)) is not None:
            if not (yield from self._read_segment(key, segment, again=True)):
                progress.log_began_millis = -1
            progress.next_offset = segment.end
            self._save(_SAVED_SECONDS)
        progress.is_through = True
        if progress.log_began_millis >= 0 and key in self._led:
            self._note(key, CheckTimes(progress.log_began_millis, progress.log_began_millis))

    def _seconds_left(self, began_millis: int, seconds: float) -> Iterator[None]:
        """Seconds until then; 0 if the clock was set back before its beginning."""
        due_millis = began_millis + int(seconds * 1000)
        while 0 <= began_millis <= self._now_millis() < due_millis:
            yield None

    def _segments(self, key: PartitionKey, offset: int) -> "Iterator[_Segment]":
        """The log's current segments, from the one that holds this offset on."""
        led = self._led.get(key)
        return iter(()) if led is None else _segments(Path(led.directory), offset, led)

    def _read_segment(
        self, key: PartitionKey, segment: "_Segment", *, again: bool
    ) -> Generator[int, None, bool]:
        """Whether the end was reached. `again`: report gaps, and known damage again."""
        led = self._led.get(key)
        if led is None:
            return False
        directory, end = Path(led.directory), min(segment.end, led.exposed)
        # Missing offsets are found by readers; the young pass leaves them to the round.
        gaps = not again or led.compacts or (directory / layout.COMPACTED).exists()
        try:
            for piece in scrub(segment.path, segment.base, end, gaps=gaps):
                if not isinstance(piece, Damage):
                    yield piece
                elif self._is_led_as(led) and not _is_of_another(directory, key):
                    self._report_damage(key, piece, again=again)
                else:
                    return False
        except FileNotFoundError:
            return False  # it was removed or replaced
        except OSError as error:
            at = key.topic, key.partition
            log.warning("cannot re-read log topic=%s partition=%d reason=%r", *at, str(error))
            return False
        return True

    def _is_led_as(self, before: Led) -> bool:
        """Whether no other broker has led it since, so that its log was not cut and rewritten."""
        led = self._led.get(key_of(before))
        return led is not None and led.leader_epoch == before.leader_epoch

    def _report_damage(self, key: PartitionKey, damage: Damage, *, again: bool) -> None:
        led = self._led[key]
        first_offset = max(damage.first, led.start)
        offsets = min(damage.first + damage.offsets, led.exposed) - first_offset
        if offsets <= 0:
            return  # deleted with only its segment left, or cut off
        damage_key = key, first_offset, offsets
        if damage_key in self._known and not again:
            return
        self._counter.damage([(key, Spoilt(first_offset, offsets, damage.reason))])
        self._damaged.append(
            DamagedOffsets(led.topic, led.partition, first_offset, offsets, damage.reason)
        )
        if len(self._known) >= _MOST_DAMAGES:
            self._known.clear()
        self._known.add(damage_key)

    def _times_of(self, key: PartitionKey) -> CheckTimes:
        return self._times.get(key, _NEVER)

    def _note(self, key: PartitionKey, times: CheckTimes) -> None:
        old_times = self._times_of(key)
        self._times[key] = CheckTimes(*map(max, old_times, times))
        self._changed.add(key)
        self._unreported.add(key)

    def _report(self, seconds: float = 0.0) -> None:
        """Report to the ledger, unless that was done within so many seconds. While the ledger takes
        no entries, nothing is added to those that wait."""
        now = self._clock()
        if not self._unreported or now - self._reported < seconds:
            return
        keys = sorted(self._unreported)[:MOST_SCRUBBED]
        try:
            if self._counter.scrubbed([scrubbed_of(*key, *self._times[key]) for key in keys]):
                self._unreported.difference_update(keys)
        except OSError as error:
            log.warning("cannot report checks reason=%r", str(error))
        self._reported = now

    def _save(self, seconds: float = 0.0) -> None:
        """Unless that was done within so many seconds: reading twice does no harm."""
        now = self._clock()
        if now - self._saved < seconds:
            return
        self._saved = now
        oldest_millis = self._now_millis() - _KEPT_MILLIS
        self._times = {
            key: check_times
            for key, check_times in self._times.items()
            if key in self._led or max(check_times) >= oldest_millis
        }
        self._progress.logs = list(self._times.items())
        try:
            replace_file(self._path, msgspec.json.encode(self._progress))
        except OSError as error:
            log.warning("cannot save progress path=%s reason=%r", self._path, error.strerror)


class _Segment(NamedTuple):
    """A segment and its exposed offsets."""

    path: Path
    base: int
    end: int
    written_millis: int


def _is_of_another(directory: Path, key: PartitionKey) -> bool:
    """Whether the topic was deleted and created again since the last report."""
    current_id = topic_id(directory)
    return current_id is not None and topic_id_text(current_id) != key.topic_id


def _segments(directory: Path, offset: int, led: Led) -> Iterator[_Segment]:
    try:
        bases = sorted(layout.scan(directory).logs)
    except FileNotFoundError:
        return
    for base, next_base in zip(bases, [*bases, led.exposed][1:], strict=True):
        end = min(next_base, led.exposed)
        if end > max(base, offset):
            path = layout.numbered(directory, base, layout.LOG)
            try:
                written_millis = path.stat().st_mtime_ns // 1_000_000
            except FileNotFoundError:
                continue
            yield _Segment(path, base, end, written_millis)


def _read(path: Path) -> _Progress:
    """Load the progress; if it cannot be read, a new round begins."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=known_type(_Progress))
    except FileNotFoundError:
        return _Progress()
    except (msgspec.DecodeError, OSError) as error:
        log.warning("cannot load progress, re-reading everything path=%s reason=%s", path, error)
        return _Progress()
