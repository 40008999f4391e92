"""Files: which of their events were shipped and landed, what was left out or lost, and how many
there were in all.

A source is suspect if, below what is known at both ends of its way, something is shipped and has
not landed, or has landed and nobody has spoken of shipping it; or if some of it was lost, shipped
or landed twice, or had been shipped as another source. It is found out whenever one of these
changes, so that nobody must search for it.

Kept as well are events that agents have shipped more than once, as they say themselves, or that
loaders have committed more than once: the same seqs of a file in two passages. An entry that comes
again was left out before; so this never happens where all is well, and what is done about it need
not be fast. The hours are those of the passage that came later.

An agent whose journal was damaged may say once more, in another entry, what it has said: the same
events at the same offsets. They were shipped once, as long as the first saying is remembered.
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
# What lands of a copy was shipped to its origin.
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
    """All that is said of sources. Returns the number of each run's."""
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
    """What has landed of these files by way of a copy, where it may be judged otherwise now."""
    if not origins.any_copies(chunk.connection):
        return doubtful[:0]
    asked = (str(shipped.tolist()), str(doubtful.tolist()))
    rows = chunk.connection.execute(_IN_COPIES, asked).fetchall()
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
    for at, end, each in _stretches(topics):
        known, added = chunk.numbers.sources.given(
            [runs.source.values[code] for code in codes[at:end].tolist()], each
        )
        numbers_ += known
        new += added
    return np.array(numbers_, np.int64)[together.numbered()], new


def _stretches(column: Numbers) -> list[tuple[int, int, int]]:
    """Where each value begins and ends, and what it is."""
    if not len(column):
        return []
    at = np.flatnonzero(np.concatenate(([True], column[1:] != column[:-1])))
    ends = np.append(at[1:], len(column))
    return list(zip(at.tolist(), ends.tolist(), column[at].tolist(), strict=True))


def _keep_shipped(chunk: Chunk, source: Numbers, at: Numbers) -> Numbers:
    """Returns those that may be suspect now, or not any more."""
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
    known = np.array([row[3:] for row in rows], np.int64)
    _keep_whose(chunk, ids, chunk.topic[runs.passage[at[together.last()]]], last, known)
    again = together.sums(runs.events[at]) + _events(ids, old) > _events(ids, shipped)
    if again.any():
        keep_twice(chunk, ids[again], source, at, old)
    simple = np.array([not row[2] for row in rows], np.bool_) & _goes_on(ids, old, shipped)
    return np.asarray(ids[~simple | again | (together.sums(lost) > 0)])


def _keep_whose(chunk: Chunk, ids: Numbers, topic: Numbers, last: Numbers, known: Numbers) -> None:
    """Where it is not known yet, or another than before. `known` has agent, host, and when that
    was said."""
    journal, host = chunk.journal[last], chunk.host[last]
    other = (journal != known[:, 0]) | (host != known[:, 1])
    at = np.flatnonzero(other & (chunk.entries.time[last] >= known[:, 2]))
    columns = (journal, host, ids)
    chunk.connection.executemany(_WHOSE, zip(*(each[at].tolist() for each in columns), strict=True))
    pairs = set(zip(topic[at].tolist(), host[at].tolist(), strict=True))
    chunk.connection.executemany("INSERT OR IGNORE INTO topic_hosts VALUES (?, ?)", pairs)


def _by_key(ids: Numbers, united: Keyed) -> list[bytes]:
    """The sets of these, in their order; empty where there is none."""
    keys, packed = united.packed()
    if len(keys) == len(ids):
        return packed
    known = dict(zip(keys.tolist(), packed, strict=True))
    return [known.get(each, b"") for each in ids.tolist()]


def _goes_on(ids: Numbers, before: Keyed, now: Keyed) -> Mask:
    """Whether it was one interval, and is one that begins where it did."""
    begun = []
    for each in (before, now):
        first = np.full(len(ids), -1, np.int64)
        keys, begins, ends = each.groups()
        one = ends - begins == 1
        first[np.searchsorted(ids, keys[one])] = each.first[begins[one]]
        begun.append(first)
    return np.asarray((begun[0] == begun[1]) & (begun[0] >= 0))


def _events(ids: Numbers, united: Keyed) -> Numbers:
    found = np.zeros(len(ids), np.int64)
    np.add.at(found, np.searchsorted(ids, united.key), united.end - united.first)
    return found


def _keep_paths(chunk: Chunk, source: Numbers, at: Numbers) -> None:
    runs = chunk.runs
    lengths = numbers(pc.binary_length(runs.path))
    at = at[lengths[at] > 0]
    if not len(at):
        return
    found = texts(runs.path.take(at))
    names = np.array(chunk.numbers.names.of(found.values), np.int64)[found.codes]
    time = chunk.entries.time[chunk.passages.entry[runs.passage[at]]]
    together = grouped(source[at], names)
    ids, paths = together.keys
    chunk.connection.executemany(
        _PATH, zip(ids.tolist(), paths.tolist(), together.most(time).tolist(), strict=True)
    )


def _keep_lost(chunk: Chunk, source: Numbers, at: Numbers) -> None:
    runs, excepted = chunk.runs, chunk.runs.excepted
    mine = np.zeros(len(runs), np.bool_)
    mine[at] = True
    lost = np.flatnonzero(excepted.of_fate("lost") & mine[excepted.owner])
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
    """By source and tier, all at once: each table's commit log is a tier of its own."""
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
    again = _sizes(numbers_, new) + _sizes(numbers_, before) > _events(numbers_, landed)
    if again.any():
        way = np.full(len(runs), -1)
        way[at] = new.key
        # A run that has rebuilt hours speaks of rows that take the place of others.
        rebuilt = numbers(pc.list_value_length(entries.body.field("rebuilt"))) > 0
        keep_landed(chunk, numbers_[again], way, at[~rebuilt[entry]], before, ways=ways)
    return np.unique(together.keys[0])


def _landed_before(chunk: Chunk, ways: list[tuple[int, int]]) -> Keyed:
    """By the place of each among these sources and tiers, which are in order."""
    place = {way: at for at, way in enumerate(ways)}
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


def _sizes(ids: Numbers, some: Keyed) -> Numbers:
    """Of all intervals of each, those that overlap counted twice."""
    found = np.zeros(len(ids), np.int64)
    np.add.at(found, np.searchsorted(ids, some.key), some.end - some.first)
    return found


def _judge(chunk: Chunk, ids: Numbers) -> None:
    """Whether these are suspect."""
    if not len(ids):
        return
    asked = (str(ids.tolist()),)
    rows = chunk.connection.execute(
        "SELECT id, suspect, EXISTS (SELECT 1 FROM lost WHERE source = sources.id)"
        " OR EXISTS (SELECT 1 FROM twice WHERE source = sources.id)"
        " OR EXISTS (SELECT 1 FROM landed_twice WHERE source = sources.id"
        "  AND (topic, tier) NOT IN replaced)"
        " OR EXISTS (SELECT 1 FROM copies WHERE source = sources.id) FROM sources"
        " WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
        asked,
    ).fetchall()
    known, before, suspect = np.array(rows, np.int64).reshape(-1, 3).T
    ways = chunk.connection.execute(_WAYS, asked).fetchall()
    differing = np.array([way[0] for way in ways], np.int64)[
        _differ([way[1] for way in ways], [way[2] for way in ways])
    ]
    suspect |= np.isin(known, differing)
    changed = np.flatnonzero(suspect != before)
    chunk.connection.executemany(
        "UPDATE sources SET suspect = ? WHERE id = ?",
        zip(suspect[changed].tolist(), known[changed].tolist(), strict=True),
    )


def _differ(shipped_: Sequence[bytes], landed_: Sequence[bytes]) -> Mask:
    """Of each two whether, below the lesser end of both, one has what the other lacks; or more has
    landed than was shipped."""
    way = np.arange(len(landed_))
    shipped, landed = Keyed.of_packed(way, shipped_), Keyed.of_packed(way, landed_)
    keys, _, ends = landed.groups()
    upto = np.zeros(len(way), np.int64)
    upto[keys] = landed.end[ends - 1]
    limit = upto[shipped.key]
    below = shipped.first < limit
    cut = Keyed(shipped.key[below], shipped.first[below], np.minimum(shipped.end, limit)[below])
    found = np.zeros(len(way), np.bool_)
    for one, other in ((cut, landed), (landed, cut)):
        found[one.key[~other.cover(one)]] = True
    return found


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

_Said = tuple[int, int, int, int]  # seqs, and windows: first, end, from, to


def keep_twice(chunk: Chunk, ids: Numbers, source: Numbers, at: Numbers, before: Keyed) -> None:
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
    runs, places = chunk.runs, PassagePlaces.of(chunk)
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
