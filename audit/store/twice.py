"""Events that agents have shipped more than once, as they say themselves, or that loaders have
committed more than once: the same seqs of a file in two passages. An entry that comes again was
left out before; so this never happens where all is well, and what is done here need not be fast.
The hours are those of the passage that came later.

An agent whose journal was damaged may say once more, in another entry, what it has said: the same
events at the same offsets. They were shipped once, as long as the first saying is remembered.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Final

import numpy as np

from audit.folding.columns import Numbers
from audit.folding.keyed import Keyed
from audit.folding.stretches import laid
from audit.store.chunks import Chunk
from audit.store.details import stretches_of
from audit.store.offsets import Places

MOST: Final = 1_000  # stretches of one file, in one chunk

_Said = tuple[int, int, int, int]  # seqs, and windows: first, end, from, to


def keep(chunk: Chunk, ids: Numbers, source: Numbers, at: Numbers, before: Keyed) -> None:
    """Of these files; `before` are the seqs of files that were shipped before."""
    said = _sayings(chunk, ids, source)
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO twice VALUES (?, ?, ?, ?, ?)",
        (
            (each, *seqs, from_time, to_time)
            for each, first, end, from_time, to_time in _more_than_once(
                chunk, ids, source, at, before
            )
            for seqs in _but_repeated(said[each], first, end)
        ),
    )


def keep_landed(
    chunk: Chunk,
    chosen: Numbers,
    way: Numbers,
    at: Numbers,
    before: Keyed,
    *,
    ways: Sequence[tuple[int, int]],
) -> None:
    """Likewise, of rows at destinations: by their place in `ways`, which are sources and tiers."""
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO landed_twice VALUES (?, ?, ?, ?, ?, ?)",
        ((*ways[one[0]], *one[1:]) for one in _more_than_once(chunk, chosen, way, at, before)),
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


_Place = tuple[int, int, int]  # partition, epoch, and the offset that event number 0 would have
_Saying = tuple[int, int, _Place]  # seqs, and where they lie


def _sayings(chunk: Chunk, ids: Numbers, source: Numbers) -> Mapping[int, Sequence[_Saying]]:
    """Of each file: all that its agent has said of where its events lie, as far as it is kept."""
    agents, passages = chunk.passages_of("agent"), chunk.passages
    mine = agents[chunk.runs.passage] & np.isin(source, ids)
    nothing = np.zeros(len(passages), np.int64)
    new, _ = laid(
        len(passages),
        chunk.offsets,
        chunk.runs,
        chosen=mine,
        source=source,
        partition=passages.partition,
        epoch=passages.epoch,
        from_time=nothing,
        to_time=nothing,
    )
    topics = np.unique(chunk.topic[chunk.runs.passage[mine]]).tolist()
    kept = stretches_of(
        chunk.connection.execute(
            "SELECT stretches FROM details WHERE topic IN (SELECT value FROM json_each(?))",
            (str(topics),),
        )
    )
    found: dict[int, list[_Saying]] = defaultdict(list)
    for some in (kept[np.isin(kept["source"], ids)], new):
        names = ("source", "partition", "first", "seq", "events", "epoch")
        columns = (some[name].tolist() for name in names)
        for number, partition, first, seq, events, epoch in zip(*columns, strict=True):
            found[number].append((seq, seq + events, (partition, epoch, first - seq)))
    return found


def _but_repeated(said: Sequence[_Saying], first: int, end: int) -> Iterator[tuple[int, int]]:
    """Without those events of which it was said again and again that they lie in one place."""
    over = [each for each in said if each[0] < end and each[1] > first]
    bounds = {first, end, *(at for begin, upto, _ in over for at in (begin, upto))}
    cuts = sorted(at for at in bounds if first <= at <= end)
    again: list[int] = []  # where it begins and ends, again and again
    for begin, upto in pairwise(cuts):
        places = [place for low, high, place in over if low <= begin and upto <= high]
        if len(places) >= 2 and len(set(places)) == 1:
            continue
        if again and again[-1] == begin:
            again[-1] = upto
        else:
            again += (begin, upto)
    return zip(again[::2], again[1::2], strict=True)
