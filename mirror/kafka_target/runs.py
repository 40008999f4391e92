"""Maps offsets of a copy to offsets of its source, where they differ. Pure.

A run is a range in which both advance together: the source's offsets from S on are at X and the
following offsets of the copy. A new run begins after something in the source that is not copied
(markers, aborted transactions, compacted records), and where a worker has resumed, which leaves a
marker in the copy. A batch that was decompressed and renumbered is a run in which only the first
offset counts.

    source   | a b c | marker | d e |            S=0       S=4
    copy     | a b c | d e |                     X=0       X=3

Rule 1: a run is written to the map before its first batch is sent. So after any crash, the copy's
        end determines the next batch of the source: take the last run that begins at or before that
        end, and add the offsets since.
Rule 2: a worker that resumes records the copy's end at that time. Runs that other workers announced
        to begin after it never arrived and never will: they are void.
Rule 3: what a worker records after another has resumed is void. The map's order decides, and each
        worker's beginning is after that of the worker before it.
"""

from bisect import bisect_right
from typing import Final, NamedTuple

import msgspec

_MOST: Final = 4096  # runs of a partition that are kept individually
_PAGES: Final = 4096


class Writer(NamedTuple):
    """The writer of a partition: the mirror's producer id, and its epoch, which counts workers."""

    producer_id: int
    epoch: int


class Run(NamedTuple):
    """A stretch in which both logs advance alike: the source's offset `source` is at `target` in
    the copy, and so on."""

    source: int
    target: int
    exact: bool = True  # for all its offsets; otherwise for the first only
    limit: int = -1  # upper bound of its offsets in the copy; -1: the next run's start


class Page(NamedTuple):
    """The runs that a worker records at once, at least one."""

    writer: Writer
    runs: tuple[Run, ...]
    ended: int = -1  # the copy's end when this writer began; -1: not its first page

    @property
    def target(self) -> int:
        return self.runs[0].target

    @property
    def is_beginning(self) -> bool:
        return self.ended >= 0


class PageKey(NamedTuple):
    """The map's key of a page within its partition."""

    target: int
    writer: Writer
    is_beginning: bool


class Runs(msgspec.Struct):
    """The runs of one partition in the map; older ones may have been thinned out."""

    beginning: Page | None = None  # the last one
    _runs: list[Run] = []
    _oldest: list[PageKey] = []

    def add(self, page: Page) -> None:
        """Applies the map's next page."""
        if len(self._oldest) < _PAGES:
            self._oldest.append(PageKey(page.target, page.writer, page.is_beginning))
        beginning = self.beginning
        if page.is_beginning:
            if beginning is not None and page.target <= beginning.target:
                return
            while self._runs and self._runs[-1].target > page.ended:
                self._runs.pop()
            self.beginning = page
        elif beginning is None or page.writer != beginning.writer:
            return
        for run in page.runs:
            while self._runs and self._runs[-1].target >= run.target:
                self._runs.pop()
            self._runs.append(run)
        if len(self._runs) > _MOST:
            self._thin()

    def spare(self, start: int) -> tuple[PageKey, ...]:
        """The pages that are no longer needed if the copy begins at `start`. Each is returned
        once."""
        beginnings = [n for n, key in enumerate(self._oldest) if key.is_beginning]
        passed_beginnings = [n for n in beginnings if self._oldest[n].target <= start]
        last_beginning = passed_beginnings[-1] if passed_beginnings else 0
        pages, self._oldest = tuple(self._oldest[:last_beginning]), self._oldest[last_beginning:]
        return pages

    def at_end(self, end: int) -> Run | None:
        """The run in which a copy with this end continues."""
        index = bisect_right(self._runs, end, key=_target) - 1
        return self._runs[index] if index >= 0 else None

    def target(self, source: int) -> int | None:
        """The offset of the copy for an offset of the source, or for the next one that was copied;
        None if nothing was ever copied. The copy may end before it."""
        if not self._runs:
            return None
        index = bisect_right(self._runs, source, key=_source) - 1
        if index < 0:
            return self._runs[0].target
        run = self._runs[index]
        if not run.exact:
            return run.target
        offset = run.target + source - run.source
        if index + 1 < len(self._runs):
            offset = min(offset, self._runs[index + 1].target)
        return offset if run.limit < 0 else min(offset, run.limit)

    def _thin(self) -> None:
        """Drop every other run of the older half: their offsets map to the end of the previous
        run."""
        older_runs, newer_runs = self._runs[: _MOST // 2], self._runs[_MOST // 2 :]
        kept_runs: list[Run] = []
        for number, run in enumerate(older_runs):
            if number % 2:
                previous_run = kept_runs[-1]
                limit = run.target if previous_run.limit < 0 else previous_run.limit
                kept_runs[-1] = previous_run._replace(limit=limit)
            else:
                kept_runs.append(run)
        self._runs = kept_runs + newer_runs


def _source(run: Run) -> int:
    return run.source


def _target(run: Run) -> int:
    return run.target
