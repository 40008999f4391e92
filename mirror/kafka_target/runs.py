"""Which offset of a copy is which of its source, where the two are not the same. Pure.

A run is where both count alike: the source's offset S and those behind it are at X and those behind
it in the copy. A new one begins where the source has something that is not copied (markers, aborted
transactions, what was compacted away), and where a worker has begun, as that leaves a marker in the
copy. A batch that was opened and numbered anew is a run in which only the first offset counts.

    source   | a b c | marker | d e |            S=0       S=4
    copy     | a b c | d e |                     X=0       X=3

Rule 1: a run is written down before the first batch of it goes out. So where the copy ends says by
        itself which batch of the source comes next, after any crash: the last run that begins not
        behind that end, and as many offsets as there are since.
Rule 2: who begins says where the copy ended then. What others have announced to begin behind that
        never came, and never will: it is void.
Rule 3: what a worker writes down after another has begun is void. It is in the order in which the
        map has it, and each worker's beginning is behind that of the worker before it.
"""

from bisect import bisect_right
from typing import Final, NamedTuple

import msgspec

_MOST: Final = 4096  # runs of a partition that are remembered one by one
_PAGES: Final = 4096


class Writer(NamedTuple):
    """Who writes into a partition: the mirror's producer for it, and the how manieth worker."""

    producer_id: int
    epoch: int


class Run(NamedTuple):
    """From `source` on there, from `target` on here."""

    source: int
    target: int
    exact: bool = True  # all its offsets; otherwise the first alone
    limit: int = -1  # no offset of it is behind that one here; -1: the next run says it


class Page(NamedTuple):
    """What a worker writes down at once: runs, of which there is one at least."""

    writer: Writer
    runs: tuple[Run, ...]
    ended: int = -1  # where the copy ended when this writer began; -1: it has before

    @property
    def target(self) -> int:
        return self.runs[0].target

    @property
    def is_beginning(self) -> bool:
        return self.ended >= 0


class PageKey(NamedTuple):
    """By which the map knows a page, among those of a partition."""

    target: int
    writer: Writer
    is_beginning: bool


class Runs(msgspec.Struct):
    """Of one partition, as the map has them; the older ones may have been thinned out."""

    beginning: Page | None = None  # the last
    _runs: list[Run] = []
    _oldest: list[PageKey] = []

    def add(self, page: Page) -> None:
        """The map's next word."""
        if len(self._oldest) < _PAGES:
            self._oldest.append(PageKey(page.target, page.writer, page.is_beginning))
        began = self.beginning
        if page.is_beginning:
            if began is not None and page.target <= began.target:
                return
            while self._runs and self._runs[-1].target > page.ended:
                self._runs.pop()
            self.beginning = page
        elif began is None or page.writer != began.writer:
            return
        for run in page.runs:
            while self._runs and self._runs[-1].target >= run.target:
                self._runs.pop()
            self._runs.append(run)
        if len(self._runs) > _MOST:
            self._thin()

    def spare(self, start: int) -> tuple[PageKey, ...]:
        """Pages that nobody needs any more where the copy begins at `start`, and that are asked for
        but once."""
        begun = [n for n, key in enumerate(self._oldest) if key.is_beginning]
        past = [n for n in begun if self._oldest[n].target <= start]
        last = past[-1] if past else 0
        found, self._oldest = tuple(self._oldest[:last]), self._oldest[last:]
        return found

    def at_end(self, end: int) -> Run | None:
        """The run in which a copy that ends there goes on."""
        found = bisect_right(self._runs, end, key=_target) - 1
        return self._runs[found] if found >= 0 else None

    def target(self, source: int) -> int | None:
        """Where that which comes next at the source comes next here: never behind it. None if
        nothing was ever copied. Where the copy ends is not known here."""
        if not self._runs:
            return None
        found = bisect_right(self._runs, source, key=_source) - 1
        if found < 0:
            return self._runs[0].target
        run = self._runs[found]
        if not run.exact:
            return run.target
        here = run.target + source - run.source
        if found + 1 < len(self._runs):
            here = min(here, self._runs[found + 1].target)
        return here if run.limit < 0 else min(here, run.limit)

    def _thin(self) -> None:
        """Of the older half every other one: what was in it is counted to the end of the run
        before."""
        older, newer = self._runs[: _MOST // 2], self._runs[_MOST // 2 :]
        kept: list[Run] = []
        for number, run in enumerate(older):
            if number % 2:
                before = kept[-1]
                limit = run.target if before.limit < 0 else before.limit
                kept[-1] = before._replace(limit=limit)
            else:
                kept.append(run)
        self._runs = kept + newer


def _source(run: Run) -> int:
    return run.source


def _target(run: Run) -> int:
    return run.target
