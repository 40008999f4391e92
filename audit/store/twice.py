"""Events that agents have shipped more than once, as they say themselves, or that loaders have
committed more than once: the same seqs of a file in two passages. An entry that comes again was
left out before; so this never happens where all is well, and what is done here need not be fast.
The hours are those of the passage that came later.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from audit.folding.columns import Numbers
from audit.folding.keyed import Keyed
from audit.store.chunks import Chunk
from audit.store.offsets import Places

MOST: Final = 1_000  # stretches of one file, in one chunk

_Said = tuple[int, int, int, int]  # seqs, and windows: first, end, from, to


def keep(chunk: Chunk, ids: Numbers, source: Numbers, at: Numbers, before: Keyed) -> None:
    """Of these files; `before` are the seqs of files that were shipped before."""
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO twice VALUES (?, ?, ?, ?, ?)",
        _more_than_once(chunk, ids, source, at, before),
    )


def keep_landed(
    chunk: Chunk, ids: Numbers, source: Numbers, at: Numbers, before: Keyed, *, tier: int
) -> None:
    """Likewise, of rows at one destination."""
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO landed_twice VALUES (?, ?, ?, ?, ?, ?)",
        ((one[0], tier, *one[1:]) for one in _more_than_once(chunk, ids, source, at, before)),
    )


def _more_than_once(
    chunk: Chunk, ids: Numbers, source: Numbers, at: Numbers, before: Keyed
) -> Iterator[tuple[int, int, int, int, int]]:
    runs, places = chunk.runs, Places.of(chunk)
    for each in ids.tolist():
        mine = at[source[at] == each]
        passage = runs.passage[mine]
        columns = (
            runs.seq[mine],
            runs.seq[mine] + runs.events[mine],
            places.from_time[passage],
            places.to_time[passage],
        )
        there = before.where(before.key == each)
        said = zip(*(column.tolist() for column in columns), strict=True)
        for one in islice(_again(there, said), MOST):
            yield (each, *one)


def _again(there: Keyed, said: Iterable[_Said]) -> Iterator[_Said]:
    firsts, ends = there.first.tolist(), there.end.tolist()
    for first, end, from_time, to_time in said:
        if first >= end:
            continue
        at = after = bisect_right(ends, first)
        while after < len(firsts) and firsts[after] < end:
            yield max(first, firsts[after]), min(end, ends[after]), from_time, to_time
            after += 1
        least, most = [first, *firsts[at:after]], [end, *ends[at:after]]
        firsts[at:after], ends[at:after] = [min(least)], [max(most)]
