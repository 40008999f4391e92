"""Which events of which file lie at which offsets: agents' runs laid upon the offsets of their
passage. Both are in the same order, so the first event of the first run is at the first offset. A
run that reaches over the end of a stretch is cut there; both parts then name all of its bytes.

Packed as rows of a fixed size, without a name for each. Pure.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from audit.store.folding.columns import Numbers, Offsets, Runs
from audit.store.folding.keyed_intervals import groups

STRETCH: Final = np.dtype(
    [
        ("source", "<i8"),
        ("partition", "<i4"),
        ("first", "<i8"),
        ("seq", "<i8"),
        ("events", "<i8"),
        ("position", "<i8"),
        ("end_position", "<i8"),
        ("from_time", "<i8"),
        ("to_time", "<i8"),
        ("epoch", "<i4"),  # of the leader; -1: not known
    ]
)
Stretches = NDArray[np.void]


def laid(
    passages: int,
    offsets: Offsets,
    runs: Runs,
    *,
    chosen: NDArray[np.bool_],
    source: Numbers,
    partition: Numbers,
    epoch: Numbers,
    from_time: Numbers,
    to_time: Numbers,
) -> tuple[Stretches, Numbers]:
    """Of the chosen runs, with the passage of each. `source` is by run, the others by passage,
    of which there are so many."""
    if not len(offsets.first) or not chosen.any():
        return np.empty(0, STRETCH), np.empty(0, np.int64)
    # One axis for all events of the chunk: each passage has as much room on it as offsets.
    starts = np.cumsum(offsets.count) - offsets.count
    base = np.full(passages, -1, np.int64)
    first_of, first_at, _ = groups(offsets.passage)
    base[first_of] = starts[first_at]
    room = np.zeros(passages, np.int64)
    np.add.at(room, offsets.passage, offsets.count)

    before = np.cumsum(runs.events) - runs.events
    begins = np.concatenate(([True], runs.passage[1:] != runs.passage[:-1]))
    within = before - np.repeat(
        before[begins], np.diff(np.append(np.flatnonzero(begins), len(begins)))
    )
    fits = chosen & (runs.events > 0) & (within + runs.events <= room[runs.passage])
    at = np.flatnonzero(fits)
    begin = base[runs.passage[at]] + within[at]
    end = begin + runs.events[at]
    first = np.searchsorted(starts, begin, "right") - 1
    last = np.searchsorted(starts, end - 1, "right") - 1
    parts = last - first + 1
    run = np.repeat(at, parts)
    number = np.arange(len(run)) - np.repeat(np.cumsum(parts) - parts, parts)
    stretch = np.repeat(first, parts) + number
    part_begin = np.maximum(np.repeat(begin, parts), starts[stretch])
    part_end = np.minimum(np.repeat(end, parts), starts[stretch] + offsets.count[stretch])
    passage = runs.passage[run]

    found = np.empty(len(run), STRETCH)
    found["source"] = source[run]
    found["partition"] = partition[passage]
    found["first"] = offsets.first[stretch] + part_begin - starts[stretch]
    found["seq"] = runs.seq[run] + part_begin - np.repeat(begin, parts)
    found["events"] = part_end - part_begin
    found["position"] = runs.position[run]
    found["end_position"] = runs.end_position[run]
    found["from_time"] = from_time[passage]
    found["to_time"] = to_time[passage]
    found["epoch"] = epoch[passage]
    return found, passage
