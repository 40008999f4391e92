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
    at = np.flatnonzero(partly[windows.passage])
    if not len(at):
        return
    passage = windows.passage[at]
    tier = chunk.tier[chunk.passages.entry[passage]]
    together = grouped(chunk.topic[passage], windows.start[at], windows.length[at], tier)
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO uncounted VALUES (?, ?, ?, ?)", rows_of(together)
    )
    chunk.touch(together.keys[0], hours_of(together.keys[1]))


def rows_of(together: Grouped, *columns: Numbers) -> "zip[tuple[int, ...]]":
    """Returns keys and sums, as rows for a statement."""
    return zip(
        *(key.tolist() for key in together.keys),
        *(together.sums(column).tolist() for column in columns),
        strict=True,
    )


def _add_windows(chunk: Chunk, counted: Mask) -> None:
    windows, passages = chunk.windows, chunk.passages
    at = np.flatnonzero(counted[windows.passage])
    passage = windows.passage[at]
    entry = passages.entry[passage]
    topic, tier = chunk.topic[passage], chunk.tier[entry]
    run = np.where(chunk.entries.of_tier("hdfs"), chunk.entries.run, -1)[entry]
    sums = [
        column[at]
        for column in (
            windows.events,
            windows.bytes,
            windows.crc_sum,
            windows.late,
            windows.duplicates,
            windows.dead,
        )
    ]
    together = grouped(topic, windows.start[at], windows.length[at], tier, run)
    chunk.connection.executemany(_SUMS, rows_of(together, *sums))
    topic, start, _, tier, _ = together.keys
    by_hour = grouped(topic, hours_of(start), tier)
    chunk.connection.executemany(_HOURS, rows_of(by_hour, together.sums(sums[0])))
    chunk.touch(*by_hour.keys[:2])
    together = grouped(chunk.topic, chunk.tier[passages.entry])
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO topic_tiers VALUES (?, ?)", rows_of(together)
    )
    _add_hdfs_delays(chunk, at)


def _add_delays(chunk: Chunk, counted: Mask) -> None:
    lists = chunk.passages.struct.field("delays")
    if not pc.sum(pc.list_value_length(lists)).as_py():
        return
    lengths = numbers(pc.list_value_length(lists))
    begin = np.cumsum(lengths) - lengths
    flat = lists.flatten()
    counted_delays = np.flatnonzero(numbers(flat))
    events = np.clip(numbers(flat)[counted_delays], 0, MOST)
    passage = np.repeat(np.arange(len(lengths)), lengths)[counted_delays]
    is_counted = counted[passage]
    counted_delays, passage, events = (
        counted_delays[is_counted],
        passage[is_counted],
        events[is_counted],
    )
    doubling = np.minimum(counted_delays - begin[passage], _DOUBLINGS - 1)
    tier = chunk.tier[chunk.passages.entry]
    together = grouped(chunk.topic, hours_of(_first_window(chunk)), tier)
    table = np.zeros(len(together) * _DOUBLINGS, np.int64)
    np.add.at(table, together.numbered()[passage] * _DOUBLINGS + doubling, events)
    at = np.flatnonzero(table)
    rows = (*(key[at // _DOUBLINGS] for key in together.keys), at % _DOUBLINGS, table[at])
    chunk.connection.executemany(_DELAYS, zip(*(row.tolist() for row in rows), strict=True))


def _add_hdfs_delays(chunk: Chunk, at: Numbers) -> None:
    """Adds loaders' delays, which are not measured: events land when their run is committed."""
    windows = chunk.windows
    entry = chunk.passages.entry[windows.passage[at]]
    is_landed = chunk.entries.of_tier("hdfs")[entry] & (windows.events[at] > 0)
    if not is_landed.any():
        return
    at, entry = at[is_landed], entry[is_landed]
    late = np.maximum(chunk.entries.time[entry] - windows.start[at], 0)
    doubling = np.where(late > 0, np.frexp(late.astype(np.float64))[1], 0).astype(np.int64)
    together = grouped(
        chunk.topic[windows.passage[at]], windows.hour()[at], chunk.tier[entry], doubling
    )
    chunk.connection.executemany(_DELAYS, rows_of(together, windows.events[at]))


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
    together = grouped(windows.passage, then=(windows.events, windows.start))
    if len(together):
        starts[together.keys[0]] = windows.start[together.last()]
    return starts


def _add_loads(chunk: Chunk) -> None:
    passages, entries = chunk.passages, chunk.entries
    at = np.flatnonzero(chunk.passages_of("hdfs"))
    if not len(at):
        return
    windows = chunk.windows
    columns = []
    for column in (windows.events, windows.bytes, windows.late, windows.duplicates, windows.dead):
        sums = np.zeros(len(passages), np.int64)
        np.add.at(sums, windows.passage, column)
        columns.append(sums[at])
    entry = passages.entry[at]
    rebuilt = numbers(pc.list_value_length(entries.body.field("rebuilt")))[entry] > 0
    placed = (passages.partition[at] >= 0).astype(np.int64)
    together = grouped(chunk.topic[at], chunk.tier[entry], entries.run[entry])
    chunk.connection.executemany(
        _LOADS,
        zip(
            *(key.tolist() for key in together.keys),
            together.most(entries.time[entry]).tolist(),
            *(together.sums(column).tolist() for column in (*columns, placed)),
            together.most(rebuilt.astype(np.int64)).tolist(),
            strict=True,
        ),
    )


def _add_lines(chunk: Chunk) -> None:
    """Adds lines to the window with most events of their passage, or that of the agent's report: a
    single event of another year does not attract all lines."""
    runs, entries = chunk.runs, chunk.entries
    entry = chunk.passages.entry[runs.passage]
    at = np.flatnonzero(entries.of_tier("agent")[entry])
    if not len(at):
        return
    excepted, count = runs.excepted, len(runs)
    filtered = excepted.sum_of("filtered", count)[at]
    dead = excepted.sum_of("dead_lettered", count)[at]
    lost = excepted.sum_of("lost", count)[at]
    unknown = excepted.unknown("lost", count)[at]
    lost_bytes = excepted.sum_of("lost", count, of_bytes=True)[at]
    start = _main_window(chunk)[runs.passage[at]]
    length = entries.window_millis[entry[at]]
    topic = chunk.topic[runs.passage[at]]
    together = grouped(topic, start, length)
    lines, events = runs.lines[at], runs.events[at]
    chunk.connection.executemany(
        _FLOWS, rows_of(together, lines, events, filtered, dead, lost, unknown, lost_bytes)
    )
    chunk.touch(together.keys[0], hours_of(together.keys[1]))
