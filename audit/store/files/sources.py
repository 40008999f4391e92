"""Stores, for each file (source), the shipped and landed events, those left out or lost, and the
total.

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
    source, new = _numbered(chunk)
    entry = chunk.passages.entry[runs.passage]
    agents = np.flatnonzero(chunk.entries.of_tier("agent")[entry])
    loaders = np.flatnonzero(chunk.entries.of_tier("hdfs")[entry])
    doubtful = [np.array(new, np.int64), _of_topics(chunk, chunk.replaced)]
    if len(agents):
        doubtful.append(_keep_shipped(chunk, source, agents))
        doubtful.append(_in_copies(chunk, np.unique(source[agents]), doubtful[-1]))
        _keep_paths(chunk, source, agents)
        _keep_lost(chunk, source, agents)
    if len(loaders):
        doubtful.append(_keep_landed(chunk, places, source, loaders))
    _judge(chunk, np.unique(np.concatenate(doubtful)))
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
    together = grouped(topic, runs.source.codes)
    numbers_, new = [], []
    topics, codes = together.keys
    for at, end, topic_id in _stretches(topics):
        ids, added = chunk.numbers.sources.given(
            [runs.source.values[code] for code in codes[at:end].tolist()], topic_id
        )
        numbers_ += ids
        new += added
    return np.array(numbers_, np.int64)[together.numbered()], new


def _stretches(column: Numbers) -> list[tuple[int, int, int]]:
    """Returns the beginning, end and value of each stretch of equal values."""
    if not len(column):
        return []
    at = np.flatnonzero(np.concatenate(([True], column[1:] != column[:-1])))
    ends = np.append(at[1:], len(column))
    return list(zip(at.tolist(), ends.tolist(), column[at].tolist(), strict=True))


def _keep_shipped(chunk: Chunk, source: Numbers, at: Numbers) -> Numbers:
    """Returns the sources whose suspicion may have changed."""
    runs, entries = chunk.runs, chunk.entries
    entry = chunk.passages.entry[runs.passage[at]]
    together = grouped(source[at], then=(entries.time[entry],))
    (ids,) = together.keys
    rows = chunk.connection.execute(
        "SELECT id, shipped, suspect, agent, host, last FROM sources"
        " WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
        (str(ids.tolist()),),
    ).fetchall()
    new = Keyed(source[at], runs.seq[at], runs.seq[at] + runs.events[at])
    old = Keyed.of_packed(ids, [row[1] for row in rows])
    shipped = old.and_(new).united()
    packed = _by_key(ids, shipped)
    last = entry[together.last()]
    excepted, count = runs.excepted, len(runs)
    lost = excepted.sum_of("lost", count)[at] + excepted.unknown("lost", count)[at]
    sums = [
        together.sums(column).tolist()
        for column in (
            excepted.sum_of("filtered", count)[at],
            excepted.sum_of("dead_lettered", count)[at],
            excepted.sum_of("lost", count, of_bytes=True)[at],
        )
    ]
    chunk.connection.executemany(
        _SHIPPED,
        zip(
            ids.tolist(),
            packed,
            _events(ids, shipped).tolist(),
            *sums,
            together.most(runs.end_position[at]).tolist(),
            entries.time[last].tolist(),
            strict=True,
        ),
    )
    known_owners = np.array([row[3:] for row in rows], np.int64)
    _keep_whose(chunk, ids, chunk.topic[runs.passage[at[together.last()]]], last, known_owners)
    repeated = together.sums(runs.events[at]) + _events(ids, old) > _events(ids, shipped)
    if repeated.any():
        keep_twice(chunk, ids[repeated], source, at, old)
    simple = np.array([not row[2] for row in rows], np.bool_) & _goes_on(ids, old, shipped)
    return np.asarray(ids[~simple | repeated | (together.sums(lost) > 0)])


def _keep_whose(
    chunk: Chunk, ids: Numbers, topic: Numbers, last: Numbers, known_owners: Numbers
) -> None:
    """Keeps the agents and hosts of sources that are new or have changed. `known_owners` has agent,
    host, and the time of the report."""
    journal, host = chunk.journal[last], chunk.host[last]
    changed = (journal != known_owners[:, 0]) | (host != known_owners[:, 1])
    at = np.flatnonzero(changed & (chunk.entries.time[last] >= known_owners[:, 2]))
    columns = (journal, host, ids)
    chunk.connection.executemany(
        _WHOSE, zip(*(column[at].tolist() for column in columns), strict=True)
    )
    pairs = set(zip(topic[at].tolist(), host[at].tolist(), strict=True))
    chunk.connection.executemany("INSERT OR IGNORE INTO topic_hosts VALUES (?, ?)", pairs)


def _by_key(ids: Numbers, united: Keyed) -> list[bytes]:
    """Returns the packed sets of these ids, in their order; empty where there is none."""
    keys, packed = united.packed()
    if len(keys) == len(ids):
        return packed
    packed_by_key = dict(zip(keys.tolist(), packed, strict=True))
    return [packed_by_key.get(id_, b"") for id_ in ids.tolist()]


def _goes_on(ids: Numbers, old: Keyed, new: Keyed) -> Mask:
    """Whether each was one interval, and still is one with the same beginning."""
    first_seqs = []
    for seqs in (old, new):
        first = np.full(len(ids), -1, np.int64)
        keys, begins, ends = seqs.groups()
        single = ends - begins == 1
        first[np.searchsorted(ids, keys[single])] = seqs.first[begins[single]]
        first_seqs.append(first)
    return np.asarray((first_seqs[0] == first_seqs[1]) & (first_seqs[0] >= 0))


def _events(ids: Numbers, united: Keyed) -> Numbers:
    counts = np.zeros(len(ids), np.int64)
    np.add.at(counts, np.searchsorted(ids, united.key), united.end - united.first)
    return counts


def _keep_paths(chunk: Chunk, source: Numbers, at: Numbers) -> None:
    runs = chunk.runs
    lengths = numbers(pc.binary_length(runs.path))
    at = at[lengths[at] > 0]
    if not len(at):
        return
    paths_ = texts(runs.path.take(at))
    names = np.array(chunk.numbers.names.of(paths_.values), np.int64)[paths_.codes]
    time = chunk.entries.time[chunk.passages.entry[runs.passage[at]]]
    together = grouped(source[at], names)
    ids, paths = together.keys
    chunk.connection.executemany(
        _PATH, zip(ids.tolist(), paths.tolist(), together.most(time).tolist(), strict=True)
    )


def _keep_lost(chunk: Chunk, source: Numbers, at: Numbers) -> None:
    runs, excepted = chunk.runs, chunk.runs.excepted
    is_chosen = np.zeros(len(runs), np.bool_)
    is_chosen[at] = True
    lost = np.flatnonzero(excepted.of_fate("lost") & is_chosen[excepted.owner])
    if not len(lost):
        return
    run = excepted.owner[lost]
    entry = chunk.passages.entry[runs.passage[run]]
    chunk.connection.executemany(
        _LOST,
        zip(
            source[run].tolist(),
            (runs.seq[run] + runs.events[run]).tolist(),
            runs.position[run].tolist(),
            runs.end_position[run].tolist(),
            excepted.count[lost].tolist(),
            excepted.bytes[lost].tolist(),
            map(cut, excepted.reason.take(lost).to_pylist()),
            chunk.entries.time[entry].tolist(),
            strict=True,
        ),
    )


def _keep_landed(chunk: Chunk, places: PassagePlaces, source: Numbers, at: Numbers) -> Numbers:
    """Keeps what landed, by source and tier. Each table's commit log is a tier."""
    runs, entries = chunk.runs, chunk.entries
    at = at[runs.events[at] > 0]
    passage = runs.passage[at]
    entry = chunk.passages.entry[passage]
    together = grouped(source[at], chunk.tier[entry])
    ways = list(zip(*(key.tolist() for key in together.keys), strict=True))
    numbers_ = np.arange(len(ways))
    before = _landed_before(chunk, ways)
    new = Keyed(together.numbered(), runs.seq[at], runs.seq[at] + runs.events[at])
    landed = before.and_(new).united()
    chunk.connection.executemany(
        _LANDED,
        zip(
            *(key.tolist() for key in together.keys),
            together.least(entries.time[entry]).tolist(),
            _events(numbers_, landed).tolist(),
            _by_key(numbers_, landed),
            together.least(places.from_time[passage]).tolist(),
            together.most(places.to_time[passage]).tolist(),
            strict=True,
        ),
    )
    repeated = _sizes(numbers_, new) + _sizes(numbers_, before) > _events(numbers_, landed)
    if repeated.any():
        way = np.full(len(runs), -1)
        way[at] = new.key
        # Rows of a run that rebuilt hours replace others.
        rebuilt = numbers(pc.list_value_length(entries.body.field("rebuilt"))) > 0
        keep_landed(chunk, numbers_[repeated], way, at[~rebuilt[entry]], before, ways=ways)
    return np.unique(together.keys[0])


def _landed_before(chunk: Chunk, ways: list[tuple[int, int]]) -> Keyed:
    """Returns the seqs landed so far, keyed by the index of their source and tier in `ways`."""
    place = {way: number for number, way in enumerate(ways)}
    rows = [
        (place[source, tier], intervals)
        for source, tier, intervals in chunk.connection.execute(
            "SELECT source, tier, intervals FROM landed"
            " WHERE source IN (SELECT value FROM json_each(?)) ORDER BY source, tier",
            (str(sorted({source for source, _ in ways})),),
        )
        if (source, tier) in place
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
    ids_ = (str(ids.tolist()),)
    rows = chunk.connection.execute(
        "SELECT id, suspect, EXISTS (SELECT 1 FROM lost WHERE source = sources.id)"
        " OR EXISTS (SELECT 1 FROM twice WHERE source = sources.id)"
        " OR EXISTS (SELECT 1 FROM landed_twice WHERE source = sources.id"
        "  AND (topic, tier) NOT IN replaced)"
        " OR EXISTS (SELECT 1 FROM copies WHERE source = sources.id) FROM sources"
        " WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
        ids_,
    ).fetchall()
    judged, was_suspect, suspect = np.array(rows, np.int64).reshape(-1, 3).T
    ways = chunk.connection.execute(_WAYS, ids_).fetchall()
    differing = np.array([way[0] for way in ways], np.int64)[
        _differ([way[1] for way in ways], [way[2] for way in ways])
    ]
    suspect |= np.isin(judged, differing)
    changed = np.flatnonzero(suspect != was_suspect)
    chunk.connection.executemany(
        "UPDATE sources SET suspect = ? WHERE id = ?",
        zip(suspect[changed].tolist(), judged[changed].tolist(), strict=True),
    )


def _differ(shipped_: Sequence[bytes], landed_: Sequence[bytes]) -> Mask:
    """Whether, for each pair of sets, they differ below the lesser end of both, or more has landed
    than was shipped."""
    way = np.arange(len(landed_))
    shipped, landed = Keyed.of_packed(way, shipped_), Keyed.of_packed(way, landed_)
    keys, _, ends = landed.groups()
    upto = np.zeros(len(way), np.int64)
    upto[keys] = landed.end[ends - 1]
    limit = upto[shipped.key]
    below = shipped.first < limit
    cut = Keyed(shipped.key[below], shipped.first[below], np.minimum(shipped.end, limit)[below])
    differing = np.zeros(len(way), np.bool_)
    for part, other in ((cut, landed), (landed, cut)):
        differing[part.key[~other.cover(part)]] = True
    return differing


def _keep_finished(chunk: Chunk) -> None:
    lists = chunk.entries.body.field("finished")
    flat = lists.flatten()
    if not len(flat):
        return
    entry = parents(lists)
    topic: TextColumn = texts(flat.field("topic"))
    names = chunk.topic_names(topic.values)
    source: TextColumn = texts(flat.field("source"))
    chunk.connection.executemany(
        _FINISHED,
        zip(
            [names[code] for code in topic.codes.tolist()],
            source.take(np.arange(len(flat))),
            numbers(flat.field("events")).tolist(),
            numbers(flat.field("size")).tolist(),
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
            (id_, *seqs, from_time, to_time)
            for id_, first, end, from_time, to_time in _more_than_once(
                chunk, ids, source, at, before
            )
            for seqs in _but_repeated(places[id_], first, end)
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
    """Stores sequence numbers that landed more than once. `chosen`: indexes into `ways`, sources
    and tiers."""
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
    for id_ in ids.tolist():
        of_source = at[source[at] == id_]
        passage = runs.passage[of_source]
        columns = (
            runs.seq[of_source],
            runs.seq[of_source] + runs.events[of_source],
            places.from_time[passage],
            places.to_time[passage],
        )
        earlier = before.where(before.key == id_)
        repeated = zip(*(column.tolist() for column in columns), strict=True)
        for overlap in islice(_again(earlier, repeated), MOST):
            yield (id_, *overlap)


def _again(earlier: Keyed, runs: Iterable[_Repeated]) -> Iterator[_Repeated]:
    firsts, ends = earlier.first.tolist(), earlier.end.tolist()
    for first, end, from_time, to_time in runs:
        if first >= end:
            continue
        at = after = bisect_right(ends, first)
        while after < len(firsts) and firsts[after] < end:
            yield max(first, firsts[after]), min(end, ends[after]), from_time, to_time
            after += 1
        least, most = [first, *firsts[at:after]], [end, *ends[at:after]]
        firsts[at:after], ends[at:after] = [min(least)], [max(most)]


_Place = tuple[int, int, int]  # partition, epoch, and the offset that event 0 would have
_Placed = tuple[int, int, _Place]  # seqs, and their place


def _placed(chunk: Chunk, ids: Numbers, source: Numbers) -> Mapping[int, Sequence[_Placed]]:
    """Returns, for each file, all places of its events that its agent has reported and that are
    kept."""
    agents, passages = chunk.passages_of("agent"), chunk.passages
    chosen = agents[chunk.runs.passage] & np.isin(source, ids)
    nothing = np.zeros(len(passages), np.int64)
    new, _ = laid(
        len(passages),
        chunk.offsets,
        chunk.runs,
        chosen=chosen,
        source=source,
        partition=passages.partition,
        epoch=passages.epoch,
        from_time=nothing,
        to_time=nothing,
    )
    topics = np.unique(chunk.topic[chunk.runs.passage[chosen]]).tolist()
    stored = stretches_of(
        chunk.connection.execute(
            "SELECT stretches FROM details WHERE topic IN (SELECT value FROM json_each(?))",
            (str(topics),),
        )
    )
    places: dict[int, list[_Placed]] = defaultdict(list)
    for stretches in (stored[np.isin(stored["source"], ids)], new):
        names = ("source", "partition", "first", "seq", "events", "epoch")
        columns = (stretches[name].tolist() for name in names)
        for number, partition, first, seq, events, epoch in zip(*columns, strict=True):
            places[number].append((seq, seq + events, (partition, epoch, first - seq)))
    return places


def _but_repeated(reported: Sequence[_Placed], first: int, end: int) -> Iterator[tuple[int, int]]:
    """Leaves out events that were reported several times at the same place."""
    overlapping = [place for place in reported if place[0] < end and place[1] > first]
    bounds = {first, end, *(bound for begin, upto, _ in overlapping for bound in (begin, upto))}
    cuts = sorted(bound for bound in bounds if first <= bound <= end)
    kept: list[int] = []  # alternating beginnings and ends
    for begin, upto in pairwise(cuts):
        places = [place for low, high, place in overlapping if low <= begin and upto <= high]
        if len(places) >= 2 and len(set(places)) == 1:
            continue
        if kept and kept[-1] == begin:
            kept[-1] = upto
        else:
            kept += (begin, upto)
    return zip(kept[::2], kept[1::2], strict=True)
