"""Stores, for each file (source), the shipped and landed events, the events left out or lost, and
their total.

A source is suspect if, below the lesser of its shipped and landed ends, something was shipped and
has not landed, or has landed and was not reported as shipped; or if some of it was lost, shipped or
landed twice, or shipped before as another source. The flag is updated with each change, so that
readers need not search.

Events that agents shipped, or loaders committed, more than once are kept, too: the same seqs of a
file in two passages. Repeated entries were dropped before, so this is a fault, and rare enough that
the code need not be fast. The hours are those of the later passage.

An agent whose journal was damaged may report the same events at the same offsets again, in another
entry. These count as shipped once while the first report is kept.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Final

import numpy as np
import pyarrow.compute as pc

from audit.store.entries.chunks import Chunk
from audit.store.files.shipped_stretches import stretches_of
from audit.store.folding.columns import Numbers, TextColumn, cut, numbers, parents, texts
from audit.store.folding.keyed_intervals import Keyed, Mask, grouped
from audit.store.folding.stretches import laid
from audit.store.partitions import origins
from audit.store.partitions.offsets import PassagePlaces

_SHIPPED: Final = """
UPDATE sources SET shipped = ?2, events = ?3, filtered = filtered + ?4, dead = dead + ?5,
    lost_bytes = lost_bytes + ?6, position = max(position, ?7),
    last = max(last, ?8) WHERE id = ?1
"""
_WHOSE: Final = "UPDATE sources SET agent = ?, host = ? WHERE id = ?"
_PATH: Final = """
UPDATE sources SET path = ?2, path_time = ?3 WHERE id = ?1
    AND (?3 > path_time OR (?3 = path_time AND ?2 > path))
"""
_LANDED: Final = """
INSERT INTO landed VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET first_time = min(first_time, excluded.first_time),
    events = excluded.events, intervals = excluded.intervals,
    from_time = min(from_time, excluded.from_time), to_time = max(to_time, excluded.to_time)
"""
_FINISHED: Final = """
INSERT INTO finished VALUES (?1, ?2, ?3, ?4, ?5, ?3) ON CONFLICT DO UPDATE SET
    events = max(events, excluded.events), size = max(size, excluded.size),
    time = max(time, excluded.time), newest = CASE
        WHEN (excluded.time, excluded.newest) > (time, newest) THEN excluded.newest ELSE newest END
"""
_LOST: Final = "INSERT OR IGNORE INTO lost VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
# What lands from a copy was shipped to its origin.
_WAYS: Final = """
SELECT sources.id, coalesce(theirs.shipped, sources.shipped), intervals FROM landed
    JOIN sources ON sources.id = landed.source
    LEFT JOIN copied ON copied.copy = sources.topic
    LEFT JOIN sources AS theirs ON theirs.topic = copied.origin AND theirs.source = sources.source
    WHERE sources.id IN (SELECT value FROM json_each(?))
    AND (sources.topic, landed.tier) NOT IN replaced
"""
_IN_COPIES: Final = """
SELECT theirs.id FROM sources AS mine JOIN copied ON copied.origin = mine.topic
    JOIN sources AS theirs ON theirs.topic = copied.copy AND theirs.source = mine.source
    WHERE mine.id IN (SELECT value FROM json_each(?1))
    AND (theirs.suspect OR mine.id IN (SELECT value FROM json_each(?2)))
"""


def keep(chunk: Chunk, places: PassagePlaces) -> Numbers:
    """Stores everything that the chunk reports about sources. Returns the source number of each
    run."""
    runs = chunk.runs
    source, new_ids = _numbered(chunk)
    entry = chunk.passages.entry[runs.passage]
    agents = np.flatnonzero(chunk.entries.of_tier("agent")[entry])
    loaders = np.flatnonzero(chunk.entries.of_tier("hdfs")[entry])
    doubtful_ids = [np.array(new_ids, np.int64), _of_topics(chunk, chunk.replaced)]
    if len(agents):
        doubtful_ids.append(_keep_shipped(chunk, source, agents))
        doubtful_ids.append(_in_copies(chunk, np.unique(source[agents]), doubtful_ids[-1]))
        _keep_paths(chunk, source, agents)
        _keep_lost(chunk, source, agents)
    if len(loaders):
        doubtful_ids.append(_keep_landed(chunk, places, source, loaders))
    _judge(chunk, np.unique(np.concatenate(doubtful_ids)))
    _keep_finished(chunk)
    return source


def _in_copies(chunk: Chunk, shipped: Numbers, doubtful: Numbers) -> Numbers:
    """Returns the sources in copies whose suspicion may have changed with these files."""
    if not origins.any_copies(chunk.connection):
        return doubtful[:0]
    parameters = (str(shipped.tolist()), str(doubtful.tolist()))
    rows = chunk.connection.execute(_IN_COPIES, parameters).fetchall()
    return np.array([number for (number,) in rows], np.int64)


def _of_topics(chunk: Chunk, topics: set[int]) -> Numbers:
    rows = chunk.connection.execute(
        "SELECT id FROM sources WHERE topic IN (SELECT value FROM json_each(?))",
        (str(sorted(topics)),),
    )
    return np.array([number for (number,) in rows], np.int64)


def _numbered(chunk: Chunk) -> tuple[Numbers, list[int]]:
    runs = chunk.runs
    topic = chunk.topic[runs.passage]
    grouping = grouped(topic, runs.source.codes)
    source_ids, new_ids = [], []
    topics, codes = grouping.keys
    for begin, end, topic_id in _stretches(topics):
        ids, added_ids = chunk.numbers.sources.given(
            [runs.source.values[code] for code in codes[begin:end].tolist()], topic_id
        )
        source_ids += ids
        new_ids += added_ids
    return np.array(source_ids, np.int64)[grouping.numbered()], new_ids


def _stretches(column: Numbers) -> list[tuple[int, int, int]]:
    """Returns the beginning, end and value of each stretch of equal values."""
    if not len(column):
        return []
    begins = np.flatnonzero(np.concatenate(([True], column[1:] != column[:-1])))
    ends = np.append(begins[1:], len(column))
    return list(zip(begins.tolist(), ends.tolist(), column[begins].tolist(), strict=True))


def _keep_shipped(chunk: Chunk, source: Numbers, at: Numbers) -> Numbers:
    """Returns the sources whose suspicion may have changed."""
    runs, entries = chunk.runs, chunk.entries
    entry = chunk.passages.entry[runs.passage[at]]
    grouping = grouped(source[at], then=(entries.time[entry],))
    (ids,) = grouping.keys
    rows = chunk.connection.execute(
        "SELECT id, shipped, suspect, agent, host, last FROM sources"
        " WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
        (str(ids.tolist()),),
    ).fetchall()
    new_seqs = Keyed(source[at], runs.seq[at], runs.seq[at] + runs.events[at])
    old_seqs = Keyed.of_packed(ids, [row[1] for row in rows])
    shipped_seqs = old_seqs.and_(new_seqs).united()
    packed_seqs = _by_key(ids, shipped_seqs)
    last_entries = entry[grouping.last()]
    excepted_columns, count = runs.excepted, len(runs)
    lost_counts = (
        excepted_columns.sum_of("lost", count)[at] + excepted_columns.unknown("lost", count)[at]
    )
    sums = [
        grouping.sums(column).tolist()
        for column in (
            excepted_columns.sum_of("filtered", count)[at],
            excepted_columns.sum_of("dead_lettered", count)[at],
            excepted_columns.sum_of("lost", count, of_bytes=True)[at],
        )
    ]
    chunk.connection.executemany(
        _SHIPPED,
        zip(
            ids.tolist(),
            packed_seqs,
            _events(ids, shipped_seqs).tolist(),
            *sums,
            grouping.most(runs.end_position[at]).tolist(),
            entries.time[last_entries].tolist(),
            strict=True,
        ),
    )
    known_owners = np.array([row[3:] for row in rows], np.int64)
    _keep_whose(
        chunk, ids, chunk.topic[runs.passage[at[grouping.last()]]], last_entries, known_owners
    )
    repeated_events = grouping.sums(runs.events[at]) + _events(ids, old_seqs) > _events(
        ids, shipped_seqs
    )
    if repeated_events.any():
        keep_twice(chunk, ids[repeated_events], source, at, old_seqs)
    is_simple = np.array([not row[2] for row in rows], np.bool_) & _goes_on(
        ids, old_seqs, shipped_seqs
    )
    return np.asarray(ids[~is_simple | repeated_events | (grouping.sums(lost_counts) > 0)])


def _keep_whose(
    chunk: Chunk, ids: Numbers, topic: Numbers, last: Numbers, known_owners: Numbers
) -> None:
    """Keeps the agents and hosts of sources that are new or have changed. `known_owners` has agent,
    host, and the time of the report."""
    journal, host = chunk.journal[last], chunk.host[last]
    is_changed = (journal != known_owners[:, 0]) | (host != known_owners[:, 1])
    rows = np.flatnonzero(is_changed & (chunk.entries.time[last] >= known_owners[:, 2]))
    columns = (journal, host, ids)
    chunk.connection.executemany(
        _WHOSE, zip(*(column[rows].tolist() for column in columns), strict=True)
    )
    pairs = set(zip(topic[rows].tolist(), host[rows].tolist(), strict=True))
    chunk.connection.executemany("INSERT OR IGNORE INTO topic_hosts VALUES (?, ?)", pairs)


def _by_key(ids: Numbers, united: Keyed) -> list[bytes]:
    """Returns the packed sets of these ids, in their order; empty where there is none."""
    keys, packed = united.packed()
    if len(keys) == len(ids):
        return packed
    packed_by_key = dict(zip(keys.tolist(), packed, strict=True))
    return [packed_by_key.get(source_id, b"") for source_id in ids.tolist()]


def _goes_on(ids: Numbers, old: Keyed, new: Keyed) -> Mask:
    """Whether each was one interval, and still is one with the same beginning."""
    first_seqs = []
    for seqs in (old, new):
        first_seqs_of_set = np.full(len(ids), -1, np.int64)
        keys, first_rows, ends = seqs.groups()
        is_single = ends - first_rows == 1
        first_seqs_of_set[np.searchsorted(ids, keys[is_single])] = seqs.first[first_rows[is_single]]
        first_seqs.append(first_seqs_of_set)
    return np.asarray((first_seqs[0] == first_seqs[1]) & (first_seqs[0] >= 0))


def _events(ids: Numbers, united: Keyed) -> Numbers:
    counts = np.zeros(len(ids), np.int64)
    np.add.at(counts, np.searchsorted(ids, united.key), united.end - united.first)
    return counts


def _keep_paths(chunk: Chunk, source: Numbers, rows: Numbers) -> None:
    runs = chunk.runs
    lengths = numbers(pc.binary_length(runs.path))
    rows = rows[lengths[rows] > 0]
    if not len(rows):
        return
    path_column = texts(runs.path.take(rows))
    names = np.array(chunk.numbers.names.of(path_column.values), np.int64)[path_column.codes]
    time = chunk.entries.time[chunk.passages.entry[runs.passage[rows]]]
    grouping = grouped(source[rows], names)
    ids, paths = grouping.keys
    chunk.connection.executemany(
        _PATH, zip(ids.tolist(), paths.tolist(), grouping.most(time).tolist(), strict=True)
    )


def _keep_lost(chunk: Chunk, source: Numbers, at: Numbers) -> None:
    runs, excepted_columns = chunk.runs, chunk.runs.excepted
    is_chosen = np.zeros(len(runs), np.bool_)
    is_chosen[at] = True
    lost_rows = np.flatnonzero(excepted_columns.of_fate("lost") & is_chosen[excepted_columns.owner])
    if not len(lost_rows):
        return
    run = excepted_columns.owner[lost_rows]
    entry = chunk.passages.entry[runs.passage[run]]
    chunk.connection.executemany(
        _LOST,
        zip(
            source[run].tolist(),
            (runs.seq[run] + runs.events[run]).tolist(),
            runs.position[run].tolist(),
            runs.end_position[run].tolist(),
            excepted_columns.count[lost_rows].tolist(),
            excepted_columns.bytes[lost_rows].tolist(),
            map(cut, excepted_columns.reason.take(lost_rows).to_pylist()),
            chunk.entries.time[entry].tolist(),
            strict=True,
        ),
    )


def _keep_landed(chunk: Chunk, places: PassagePlaces, source: Numbers, rows: Numbers) -> Numbers:
    """Keeps what landed, by source and tier. Each table's commit log is a tier."""
    runs, entries = chunk.runs, chunk.entries
    rows = rows[runs.events[rows] > 0]
    passage = runs.passage[rows]
    entry = chunk.passages.entry[passage]
    grouping = grouped(source[rows], chunk.tier[entry])
    ways = list(zip(*(key.tolist() for key in grouping.keys), strict=True))
    way_numbers = np.arange(len(ways))
    landed_before = _landed_before(chunk, ways)
    new_seqs = Keyed(grouping.numbered(), runs.seq[rows], runs.seq[rows] + runs.events[rows])
    landed_seqs = landed_before.and_(new_seqs).united()
    chunk.connection.executemany(
        _LANDED,
        zip(
            *(key.tolist() for key in grouping.keys),
            grouping.least(entries.time[entry]).tolist(),
            _events(way_numbers, landed_seqs).tolist(),
            _by_key(way_numbers, landed_seqs),
            grouping.least(places.from_time[passage]).tolist(),
            grouping.most(places.to_time[passage]).tolist(),
            strict=True,
        ),
    )
    is_repeated = _sizes(way_numbers, new_seqs) + _sizes(way_numbers, landed_before) > _events(
        way_numbers, landed_seqs
    )
    if is_repeated.any():
        way = np.full(len(runs), -1)
        way[rows] = new_seqs.key
        # Rows of a run that rebuilt hours replace others.
        is_rebuilt = numbers(pc.list_value_length(entries.body.field("rebuilt"))) > 0
        keep_landed(
            chunk, way_numbers[is_repeated], way, rows[~is_rebuilt[entry]], landed_before, ways=ways
        )
    return np.unique(grouping.keys[0])


def _landed_before(chunk: Chunk, ways: list[tuple[int, int]]) -> Keyed:
    """Returns the seqs landed so far, keyed by the index of their source and tier in `ways`."""
    way_numbers = {way: number for number, way in enumerate(ways)}
    rows = [
        (way_numbers[source, tier], intervals)
        for source, tier, intervals in chunk.connection.execute(
            "SELECT source, tier, intervals FROM landed"
            " WHERE source IN (SELECT value FROM json_each(?)) ORDER BY source, tier",
            (str(sorted({source for source, _ in ways})),),
        )
        if (source, tier) in way_numbers
    ]
    return Keyed.of_packed(np.array([row[0] for row in rows], np.int64), [row[1] for row in rows])


def _sizes(ids: Numbers, intervals: Keyed) -> Numbers:
    """Returns the total length of each id's intervals; overlaps count twice."""
    totals = np.zeros(len(ids), np.int64)
    np.add.at(totals, np.searchsorted(ids, intervals.key), intervals.end - intervals.first)
    return totals


def _judge(chunk: Chunk, ids: Numbers) -> None:
    """Updates whether these sources are suspect."""
    if not len(ids):
        return
    parameters = (str(ids.tolist()),)
    rows = chunk.connection.execute(
        "SELECT id, suspect, EXISTS (SELECT 1 FROM lost WHERE source = sources.id)"
        " OR EXISTS (SELECT 1 FROM twice WHERE source = sources.id)"
        " OR EXISTS (SELECT 1 FROM landed_twice WHERE source = sources.id"
        "  AND (topic, tier) NOT IN replaced)"
        " OR EXISTS (SELECT 1 FROM copies WHERE source = sources.id) FROM sources"
        " WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
        parameters,
    ).fetchall()
    judged_ids, was_suspect, is_suspect = np.array(rows, np.int64).reshape(-1, 3).T
    ways = chunk.connection.execute(_WAYS, parameters).fetchall()
    differing_ids = np.array([way[0] for way in ways], np.int64)[
        _differ([way[1] for way in ways], [way[2] for way in ways])
    ]
    is_suspect |= np.isin(judged_ids, differing_ids)
    changed_rows = np.flatnonzero(is_suspect != was_suspect)
    chunk.connection.executemany(
        "UPDATE sources SET suspect = ? WHERE id = ?",
        zip(is_suspect[changed_rows].tolist(), judged_ids[changed_rows].tolist(), strict=True),
    )


def _differ(shipped_: Sequence[bytes], landed_: Sequence[bytes]) -> Mask:
    """Whether, for each pair of sets, they differ below the lesser end of both, or more has landed
    than was shipped."""
    way = np.arange(len(landed_))
    shipped_seqs, landed_seqs = Keyed.of_packed(way, shipped_), Keyed.of_packed(way, landed_)
    keys, _, ends = landed_seqs.groups()
    end_seqs = np.zeros(len(way), np.int64)
    end_seqs[keys] = landed_seqs.end[ends - 1]
    limits = end_seqs[shipped_seqs.key]
    is_below = shipped_seqs.first < limits
    cut_seqs = Keyed(
        shipped_seqs.key[is_below],
        shipped_seqs.first[is_below],
        np.minimum(shipped_seqs.end, limits)[is_below],
    )
    is_different = np.zeros(len(way), np.bool_)
    for seqs, other_seqs in ((cut_seqs, landed_seqs), (landed_seqs, cut_seqs)):
        is_different[seqs.key[~other_seqs.cover(seqs)]] = True
    return is_different


def _keep_finished(chunk: Chunk) -> None:
    list_column = chunk.entries.body.field("finished")
    elements = list_column.flatten()
    if not len(elements):
        return
    entry = parents(list_column)
    topic: TextColumn = texts(elements.field("topic"))
    names = chunk.topic_names(topic.values)
    source: TextColumn = texts(elements.field("source"))
    chunk.connection.executemany(
        _FINISHED,
        zip(
            [names[code] for code in topic.codes.tolist()],
            source.take(np.arange(len(elements))),
            numbers(elements.field("events")).tolist(),
            numbers(elements.field("size")).tolist(),
            chunk.entries.time[entry].tolist(),
            strict=True,
        ),
    )


MOST: Final = 1_000  # stretches of one file, in one chunk

_Repeated = tuple[int, int, int, int]  # seqs and windows: first, end, from, to


def keep_twice(chunk: Chunk, ids: Numbers, source: Numbers, at: Numbers, before: Keyed) -> None:
    """Stores sequence numbers that were shipped more than once. `before`: the numbers shipped
    earlier."""
    places = _placed(chunk, ids, source)
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO twice VALUES (?, ?, ?, ?, ?)",
        (
            (source_id, *seqs, from_time, to_time)
            for source_id, first, end, from_time, to_time in _more_than_once(
                chunk, ids, source, at, before
            )
            for seqs in _but_repeated(places[source_id], first, end)
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
    """Stores sequence numbers that landed more than once. `ways` has pairs of source and tier;
    `chosen` has indexes into it."""
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO landed_twice VALUES (?, ?, ?, ?, ?, ?)",
        (
            (*ways[overlap[0]], *overlap[1:])
            for overlap in _more_than_once(chunk, chosen, way, at, before)
        ),
    )


def _more_than_once(
    chunk: Chunk, ids: Numbers, source: Numbers, at: Numbers, before: Keyed
) -> Iterator[tuple[int, int, int, int, int]]:
    runs, places = chunk.runs, PassagePlaces.of(chunk)
    for source_id in ids.tolist():
        source_rows = at[source[at] == source_id]
        passage = runs.passage[source_rows]
        columns = (
            runs.seq[source_rows],
            runs.seq[source_rows] + runs.events[source_rows],
            places.from_time[passage],
            places.to_time[passage],
        )
        earlier_seqs = before.where(before.key == source_id)
        new_runs = zip(*(column.tolist() for column in columns), strict=True)
        for overlap in islice(_again(earlier_seqs, new_runs), MOST):
            yield (source_id, *overlap)


def _again(earlier: Keyed, runs: Iterable[_Repeated]) -> Iterator[_Repeated]:
    firsts, ends = earlier.first.tolist(), earlier.end.tolist()
    for first, end, from_time, to_time in runs:
        if first >= end:
            continue
        begin_index = end_index = bisect_right(ends, first)
        while end_index < len(firsts) and firsts[end_index] < end:
            yield max(first, firsts[end_index]), min(end, ends[end_index]), from_time, to_time
            end_index += 1
        lowest, highest = (
            [first, *firsts[begin_index:end_index]],
            [end, *ends[begin_index:end_index]],
        )
        firsts[begin_index:end_index], ends[begin_index:end_index] = [min(lowest)], [max(highest)]


_Place = tuple[int, int, int]  # partition, epoch, and the offset that event 0 would have
_Placed = tuple[int, int, _Place]  # seqs, and their place


def _placed(chunk: Chunk, ids: Numbers, source: Numbers) -> Mapping[int, Sequence[_Placed]]:
    """Returns, for each file, all places of its events that its agent has reported and that are
    kept."""
    agents, passages = chunk.passages_of("agent"), chunk.passages
    is_chosen = agents[chunk.runs.passage] & np.isin(source, ids)
    zeros = np.zeros(len(passages), np.int64)
    new_stretches, _ = laid(
        len(passages),
        chunk.offsets,
        chunk.runs,
        chosen=is_chosen,
        source=source,
        partition=passages.partition,
        epoch=passages.epoch,
        from_time=zeros,
        to_time=zeros,
    )
    topics = np.unique(chunk.topic[chunk.runs.passage[is_chosen]]).tolist()
    stored_stretches = stretches_of(
        chunk.connection.execute(
            "SELECT stretches FROM details WHERE topic IN (SELECT value FROM json_each(?))",
            (str(topics),),
        )
    )
    places: dict[int, list[_Placed]] = defaultdict(list)
    for stretches in (stored_stretches[np.isin(stored_stretches["source"], ids)], new_stretches):
        names = ("source", "partition", "first", "seq", "events", "epoch")
        columns = (stretches[name].tolist() for name in names)
        for number, partition, first, seq, events, epoch in zip(*columns, strict=True):
            places[number].append((seq, seq + events, (partition, epoch, first - seq)))
    return places


def _but_repeated(reported: Sequence[_Placed], first: int, end: int) -> Iterator[tuple[int, int]]:
    """Leaves out events that were reported several times at the same place."""
    overlaps = [place for place in reported if place[0] < end and place[1] > first]
    bounds = {
        first,
        end,
        *(bound for begin, end_bound, _ in overlaps for bound in (begin, end_bound)),
    }
    cuts = sorted(bound for bound in bounds if first <= bound <= end)
    kept_bounds: list[int] = []  # alternating beginnings and ends
    for begin, stop in pairwise(cuts):
        places = [
            place
            for place_begin, place_end, place in overlaps
            if place_begin <= begin and stop <= place_end
        ]
        if len(places) >= 2 and len(set(places)) == 1:
            continue
        if kept_bounds and kept_bounds[-1] == begin:
            kept_bounds[-1] = stop
        else:
            kept_bounds += (begin, stop)
    return zip(kept_bounds[::2], kept_bounds[1::2], strict=True)
