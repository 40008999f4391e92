"""What is stored is read again, round after round, and damage is said in the ledger.

A round goes through the partitions by name, and through their segments from the first; the next one
begins a while after it did. How far it has come stands in `scrub` in the data directory, so that a
restart goes on there: within the segment that was being read, at its beginning. A partition that is
made meanwhile is read in the next round. Damage is journalled when it is found; what was found
before a crash and is read again is said again, which changes nothing.

`step` reads a piece and says how long to wait before the next, so that whoever calls it can do
other things in between.
"""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from broker.config import Checks
from broker.counting.reports import CountingReport, DamagedOffsets, Led
from broker.storage import layout
from broker.storage.scrub import Damage, scrub
from ground.durable_files import replace_file
from ground.known_types import known_type
from ledger.counting.batches import Spoilt
from ledger.counting.counter import Counter
from ledger.counting.journal import PartitionKey

FILE_NAME: Final = "scrub"
_SAVED_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class _Progress(msgspec.Struct):
    """The round that began last: what it has come to, and when the one before was through."""

    began_millis: int = -1
    topic: str = ""
    partition: int = -1
    next_offset: int = 0
    is_over: bool = True
    finished_millis: int = -1


class Scrubbing:
    """One thread."""

    def __init__(
        self,
        data_dir: Path,
        checks: Checks,
        counter: Counter,
        now_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._path = data_dir / FILE_NAME
        self._checks = checks
        self._counter = counter
        self._now_millis = now_millis
        self._progress = _read(self._path)
        self._led: dict[tuple[str, int], Led] = {}
        self._reading: Iterator[int | Damage] | None = None
        self._segment = (0, 0)  # of the one that is read: its first offset, and the next one's
        self._saved = 0.0
        self._bytes = 0
        self._damaged: list[DamagedOffsets] = []

    def follow(self, report: CountingReport) -> None:
        """These partitions are led now."""
        self._led = {(led.topic, led.partition): led for led in report.led}

    def taken(self) -> tuple[list[DamagedOffsets], int, int]:
        """What was found and how much was read since this was last asked; when a round ended."""
        found, self._damaged = self._damaged, []
        count, self._bytes = self._bytes, 0
        return found, count, self._progress.finished_millis

    def step(self) -> float | None:
        """Read a piece; how many seconds to wait before the next. None: not before a report."""
        if not self._checks.scrub_seconds or not self._led:
            return None
        progress = self._progress
        if progress.is_over:
            due = progress.began_millis + int(self._checks.scrub_seconds * 1000)
            now = self._now_millis()
            if 0 <= progress.began_millis <= now < due:
                return None
            self._progress = _Progress(
                began_millis=now, is_over=False, finished_millis=progress.finished_millis
            )
        count = self._read_piece()
        self._bytes += count
        return count / self._checks.scrub_bytes_per_second

    def _read_piece(self) -> int:
        """How many bytes."""
        try:
            if self._reading is None and not self._begin_segment():
                return 0
            assert self._reading is not None
            each = next(self._reading, None)
            if isinstance(each, Damage):
                self._say(each)
        except FileNotFoundError:
            each = None  # it was removed or replaced: the next one
        except OSError as error:
            at = self._progress.topic, self._progress.partition
            log.warning("not read again topic=%s partition=%d reason=%r", *at, str(error))
            each = None
        if each is None:
            self._reading = None
            self._progress.next_offset = self._segment[1]
            self._save()
        return each if isinstance(each, int) else 0

    def _say(self, damage: Damage) -> None:
        led = self._led.get((self._progress.topic, self._progress.partition))
        if led is None:
            return  # it is not here any more
        first = max(damage.first, led.start)
        offsets = damage.first + damage.offsets - first
        if offsets <= 0:
            return  # it was deleted, and only its segment is still there
        key = PartitionKey(led.topic, led.topic_id, led.partition)
        self._counter.damage([(key, Spoilt(first, offsets, damage.reason))])
        self._damaged.append(
            DamagedOffsets(led.topic, led.partition, first, offsets, damage.reason)
        )

    def _begin_segment(self) -> bool:
        """The next one of this round; False if it is over, which is then written down."""
        progress = self._progress
        for key in sorted(self._led):
            at = progress.topic, progress.partition
            if key < at:
                continue
            if key > at:
                progress.topic, progress.partition = key
                progress.next_offset = 0
            led = self._led[key]
            directory = Path(led.directory)
            bounds = _segment_at(directory, progress.next_offset, led.exposed)
            if bounds is not None:
                self._segment = bounds
                gaps = led.compacts or (directory / layout.COMPACTED).exists()
                path = layout.numbered(directory, bounds[0], layout.LOG)
                self._reading = scrub(path, *bounds, gaps=gaps)
                return True
        progress.is_over, progress.finished_millis = True, self._now_millis()
        self._saved = 0.0
        self._save()
        return False

    def _save(self) -> None:
        """Seldom: what is read once more does no harm."""
        if time.monotonic() - self._saved >= _SAVED_SECONDS or not self._saved:
            self._saved = time.monotonic()
            try:
                replace_file(self._path, msgspec.json.encode(self._progress))
            except OSError as error:
                log.warning("progress not saved path=%s reason=%r", self._path, error.strerror)


def _segment_at(directory: Path, offset: int, exposed: int) -> tuple[int, int] | None:
    """First offset of the segment that holds this one or begins behind it, and where it ends."""
    try:
        bases = sorted(layout.scan(directory).logs)
    except FileNotFoundError:
        return None
    for base, following in zip(bases, [*bases, exposed][1:], strict=True):
        end = min(following, exposed)
        if end > max(base, offset):
            return base, end
    return None


def _read(path: Path) -> _Progress:
    """Where it cannot be read, a round begins anew."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=known_type(_Progress))
    except FileNotFoundError:
        return _Progress()
    except (msgspec.DecodeError, OSError) as error:
        log.warning("progress not read, all is read again path=%s reason=%s", path, error)
        return _Progress()
