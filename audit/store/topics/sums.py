"""Adds up windows, lines, hours, delays and loads. Every entry is folded once, so additions may
come in any order.

Windows of hdfs are kept by run: what a rebuild makes void is left out when they are read.
"""

from typing import Final

import numpy as np
import pyarrow.compute as pc

from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import MOST, Numbers, hours_of, numbers
from audit.store.folding.keyed_intervals import Grouped, Mask, grouped, groups

_DOUBLINGS: Final = 64

_SUMS: Final = """
INSERT INTO sums VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET events = events + excluded.events, bytes = bytes + excluded.bytes,
    crc_sum = crc_sum + excluded.crc_sum, late = late + excluded.late,
    duplicates = duplicates + excluded.duplicates, dead = dead + excluded.dead
"""
_HOURS: Final = """
INSERT INTO hours VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET events = events + excluded.events
"""
_DELAYS: Final = """
INSERT INTO delays VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET events = events + excluded.events
"""
_FLOWS: Final = """
INSERT INTO flows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET shipped = shipped + excluded.shipped, events = events + excluded.events,
    filtered = filtered + excluded.filtered, dead = dead + excluded.dead,
    lost = lost + excluded.lost, lost_unknown = lost_unknown + excluded.lost_unknown,
    lost_bytes = lost_bytes + excluded.lost_bytes
"""
_LOADS: Final = """
INSERT INTO loads VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET time = max(time, excluded.time), rows = rows + excluded.rows,
    bytes = bytes + excluded.bytes, late = late + excluded.late,
    duplicates = duplicates + excluded.duplicates, dead = dead + excluded.dead,
    partitions = partitions + excluded.partitions, rebuilt = max(rebuilt, excluded.rebuilt)
"""


def add(chunk: Chunk, counted: Mask) -> None:
    """Adds the windows of `counted` passages, and all lines."""
    _add_windows(chunk, counted)
    _add_delays(chunk, counted)
    _add_loads(chunk)
    _add_lines(chunk)


def keep_uncounted(chunk: Chunk, partly: Mask) -> None:
    """Stores the windows of passages whose events were counted in part."""
    windows = chunk.windows
    rows = np.flatnonzero(partly[windows.passage])
    if not len(rows):
        return
    passage = windows.passage[rows]
    tier = chunk.tier[chunk.passages.entry[passage]]
    grouping = grouped(chunk.topic[passage], windows.start[rows], windows.length[rows], tier)
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO uncounted VALUES (?, ?, ?, ?)", rows_of(grouping)
    )
    chunk.touch(grouping.keys[0], hours_of(grouping.keys[1]))


def rows_of(together: Grouped, *columns: Numbers) -> "zip[tuple[int, ...]]":
    """Returns keys and sums, as rows for a statement."""
    return zip(
        *(key.tolist() for key in together.keys),
        *(together.sums(column).tolist() for column in columns),
        strict=True,
    )


def _add_windows(chunk: Chunk, counted: Mask) -> None:
    windows, passages = chunk.windows, chunk.passages
    rows = np.flatnonzero(counted[windows.passage])
    passage = windows.passage[rows]
    entry = passages.entry[passage]
    topic, tier = chunk.topic[passage], chunk.tier[entry]
    run = np.where(chunk.entries.of_tier("hdfs"), chunk.entries.run, -1)[entry]
    sums = [
        column[rows]
        for column in (
            windows.events,
            windows.bytes,
            windows.crc_sum,
            windows.late,
            windows.duplicates,
            windows.dead,
        )
    ]
    grouping = grouped(topic, windows.start[rows], windows.length[rows], tier, run)
    chunk.connection.executemany(_SUMS, rows_of(grouping, *sums))
    topic, start, _, tier, _ = grouping.keys
    hour_grouping = grouped(topic, hours_of(start), tier)
    chunk.connection.executemany(_HOURS, rows_of(hour_grouping, grouping.sums(sums[0])))
    chunk.touch(*hour_grouping.keys[:2])
    grouping = grouped(chunk.topic, chunk.tier[passages.entry])
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO topic_tiers VALUES (?, ?)", rows_of(grouping)
    )
    _add_hdfs_delays(chunk, rows)


def _add_delays(chunk: Chunk, counted: Mask) -> None:
    list_column = chunk.passages.struct.field("delays")
    if not pc.sum(pc.list_value_length(list_column)).as_py():
        return
    lengths = numbers(pc.list_value_length(list_column))
    begin = np.cumsum(lengths) - lengths
    elements = list_column.flatten()
    delay_rows = np.flatnonzero(numbers(elements))
    events = np.clip(numbers(elements)[delay_rows], 0, MOST)
    passage = np.repeat(np.arange(len(lengths)), lengths)[delay_rows]
    is_counted = counted[passage]
    delay_rows, passage, events = (
        delay_rows[is_counted],
        passage[is_counted],
        events[is_counted],
    )
    doubling = np.minimum(delay_rows - begin[passage], _DOUBLINGS - 1)
    tier = chunk.tier[chunk.passages.entry]
    grouping = grouped(chunk.topic, hours_of(_first_window(chunk)), tier)
    table = np.zeros(len(grouping) * _DOUBLINGS, np.int64)
    np.add.at(table, grouping.numbered()[passage] * _DOUBLINGS + doubling, events)
    row_ids = np.flatnonzero(table)
    rows = (
        *(key[row_ids // _DOUBLINGS] for key in grouping.keys),
        row_ids % _DOUBLINGS,
        table[row_ids],
    )
    chunk.connection.executemany(_DELAYS, zip(*(row.tolist() for row in rows), strict=True))


def _add_hdfs_delays(chunk: Chunk, rows: Numbers) -> None:
    """Adds loaders' delays, which are not measured: events land when their run is committed."""
    windows = chunk.windows
    entry = chunk.passages.entry[windows.passage[rows]]
    is_landed = chunk.entries.of_tier("hdfs")[entry] & (windows.events[rows] > 0)
    if not is_landed.any():
        return
    rows, entry = rows[is_landed], entry[is_landed]
    lateness = np.maximum(chunk.entries.time[entry] - windows.start[rows], 0)
    doubling = np.where(lateness > 0, np.frexp(lateness.astype(np.float64))[1], 0).astype(np.int64)
    grouping = grouped(
        chunk.topic[windows.passage[rows]], windows.hour()[rows], chunk.tier[entry], doubling
    )
    chunk.connection.executemany(_DELAYS, rows_of(grouping, windows.events[rows]))


def _first_window(chunk: Chunk) -> Numbers:
    """Returns the first window of each passage, or else the one in which its entry was written."""
    windows = chunk.entries.window()[chunk.passages.entry].copy()
    passage, begin, _ = groups(chunk.windows.passage)
    if len(begin):
        windows[passage] = np.minimum.reduceat(chunk.windows.start, begin)
    return windows


def _main_window(chunk: Chunk) -> Numbers:
    """Returns the window with most events of each passage, the last of several, or else the one in
    which its entry was written."""
    windows = chunk.windows
    starts = chunk.entries.window()[chunk.passages.entry].copy()
    grouping = grouped(windows.passage, then=(windows.events, windows.start))
    if len(grouping):
        starts[grouping.keys[0]] = windows.start[grouping.last()]
    return starts


def _add_loads(chunk: Chunk) -> None:
    passages, entries = chunk.passages, chunk.entries
    rows = np.flatnonzero(chunk.passages_of("hdfs"))
    if not len(rows):
        return
    windows = chunk.windows
    columns = []
    for column in (windows.events, windows.bytes, windows.late, windows.duplicates, windows.dead):
        sums = np.zeros(len(passages), np.int64)
        np.add.at(sums, windows.passage, column)
        columns.append(sums[rows])
    entry = passages.entry[rows]
    is_rebuilt = numbers(pc.list_value_length(entries.body.field("rebuilt")))[entry] > 0
    is_placed = (passages.partition[rows] >= 0).astype(np.int64)
    grouping = grouped(chunk.topic[rows], chunk.tier[entry], entries.run[entry])
    chunk.connection.executemany(
        _LOADS,
        zip(
            *(key.tolist() for key in grouping.keys),
            grouping.most(entries.time[entry]).tolist(),
            *(grouping.sums(column).tolist() for column in (*columns, is_placed)),
            grouping.most(is_rebuilt.astype(np.int64)).tolist(),
            strict=True,
        ),
    )


def _add_lines(chunk: Chunk) -> None:
    """Adds lines to the window with most events of their passage, or that of the agent's report: a
    single event of another year does not attract all lines."""
    runs, entries = chunk.runs, chunk.entries
    entry = chunk.passages.entry[runs.passage]
    rows = np.flatnonzero(entries.of_tier("agent")[entry])
    if not len(rows):
        return
    excepted_columns, count = runs.excepted, len(runs)
    filtered_lines = excepted_columns.sum_of("filtered", count)[rows]
    dead_lines = excepted_columns.sum_of("dead_lettered", count)[rows]
    lost_lines = excepted_columns.sum_of("lost", count)[rows]
    unknown_lines = excepted_columns.unknown("lost", count)[rows]
    lost_bytes = excepted_columns.sum_of("lost", count, of_bytes=True)[rows]
    start = _main_window(chunk)[runs.passage[rows]]
    length = entries.window_millis[entry[rows]]
    topic = chunk.topic[runs.passage[rows]]
    grouping = grouped(topic, start, length)
    lines, events = runs.lines[rows], runs.events[rows]
    chunk.connection.executemany(
        _FLOWS,
        rows_of(
            grouping,
            lines,
            events,
            filtered_lines,
            dead_lines,
            lost_lines,
            unknown_lines,
            lost_bytes,
        ),
    )
    chunk.touch(grouping.keys[0], hours_of(grouping.keys[1]))
