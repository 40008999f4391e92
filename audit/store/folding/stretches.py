"""Assigns offsets to agents' runs, so that each stretch maps events of a file to offsets.

Runs and offsets of a passage are in the same order, so the first event of the first run is at the
first offset. A run that crosses the end of a stretch of offsets is split there; both parts then
have all of its bytes.

Stretches are packed as rows of a fixed size. Pure.
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
        ("epoch", "<i4"),  # of the leader; -1: unknown
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
    """Returns the stretches of the chosen runs, with the passage of each. `source` is by run, the
    other arrays are by passage; `passages` is the number of passages."""
    if not len(offsets.first) or not chosen.any():
        return np.empty(0, STRETCH), np.empty(0, np.int64)
    # One axis for all events of the chunk, on which each passage has as much room as offsets.
    starts = np.cumsum(offsets.count) - offsets.count
    base_offsets = np.full(passages, -1, np.int64)
    passages_with_offsets, first_rows, _ = groups(offsets.passage)
    base_offsets[passages_with_offsets] = starts[first_rows]
    capacities = np.zeros(passages, np.int64)
    np.add.at(capacities, offsets.passage, offsets.count)

    events_before = np.cumsum(runs.events) - runs.events
    is_first = np.concatenate(([True], runs.passage[1:] != runs.passage[:-1]))
    events_within = events_before - np.repeat(
        events_before[is_first], np.diff(np.append(np.flatnonzero(is_first), len(is_first)))
    )
    is_fitting = (
        chosen & (runs.events > 0) & (events_within + runs.events <= capacities[runs.passage])
    )
    rows = np.flatnonzero(is_fitting)
    begin = base_offsets[runs.passage[rows]] + events_within[rows]
    end = begin + runs.events[rows]
    first = np.searchsorted(starts, begin, "right") - 1
    last_rows = np.searchsorted(starts, end - 1, "right") - 1
    parts = last_rows - first + 1
    run = np.repeat(rows, parts)
    number = np.arange(len(run)) - np.repeat(np.cumsum(parts) - parts, parts)
    stretch = np.repeat(first, parts) + number
    part_begin = np.maximum(np.repeat(begin, parts), starts[stretch])
    part_end = np.minimum(np.repeat(end, parts), starts[stretch] + offsets.count[stretch])
    passage = runs.passage[run]

    stretches = np.empty(len(run), STRETCH)
    stretches["source"] = source[run]
    stretches["partition"] = partition[passage]
    stretches["first"] = offsets.first[stretch] + part_begin - starts[stretch]
    stretches["seq"] = runs.seq[run] + part_begin - np.repeat(begin, parts)
    stretches["events"] = part_end - part_begin
    stretches["position"] = runs.position[run]
    stretches["end_position"] = runs.end_position[run]
    stretches["from_time"] = from_time[passage]
    stretches["to_time"] = to_time[passage]
    stretches["epoch"] = epoch[passage]
    return stretches, passage
