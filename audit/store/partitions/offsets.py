"""Which offsets each tier has spoken of, and what is spoken of by one and not yet by the next.

Rule 1: a broker's passage whose offsets are all spoken of by brokers already is the same again, by
        another who counted: it is not counted twice. It must be known before sums are added.
        Of one that speaks of such offsets and of others, nobody knows which of its events are new:
        its offsets count, its events do not, and its windows are not compared by their sums.
Rule 2: passages of a run that has rebuilt hours speak of these hours only, and of no offsets.
Rule 3: offsets that brokers have spoken of under another leader epoch, of which nobody knows that
        they were cut off in between (generations.py), may be the same events counted by the next
        leader, or others: they are not counted, and nothing is compared by their sums.
Rule 4: what an agent said of a partition that others write to as well has gaps without end; the
        oldest of them are forgotten.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow.compute as pc

from audit.picture import TierKind
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import Numbers, numbers
from audit.store.folding.keyed_intervals import (
    PAIR,
    Keyed,
    Mask,
    grouped,
    groups,
    in_order,
    running_most,
)
from audit.store.partitions import origins
from audit.store.partitions.generations import FOR_EVER, all_generations, any_cuts, placed_in

MOST_INTERVALS: Final = 4_096  # of one partition and tier
KEPT: Final = 600_000  # milliseconds: somebody may follow whom nobody knew of
_NOWHERE: Final[Mapping[int, int]] = {}

_CLAIM: Final = """
INSERT INTO claimed VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET upto = excluded.upto, intervals = excluded.intervals
"""
_SPAN: Final = """
INSERT INTO spans (topic, tier, partition, from_time, epoch, to_time, first, next_offset, said,
    events) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET to_time = max(to_time, excluded.to_time),
    first = min(first, excluded.first), next_offset = max(next_offset, excluded.next_offset),
    said = max(said, excluded.said), events = events + excluded.events
"""
_DROP: Final = """
DELETE FROM spans WHERE topic = ? AND tier = ? AND partition = ? AND next_offset <= ? AND said < ?
"""
_NOT_CUT_OFF: Final = """
    AND NOT EXISTS (SELECT 1 FROM cuts WHERE cuts.topic = spans.topic
        AND cuts.partition = spans.partition AND cuts.epoch > spans.epoch
        AND cuts.next_offset > spans.first)
"""
_STILL_THERE: Final = """
UPDATE claimed SET upto = min(upto, (SELECT min(first) FROM cuts WHERE cuts.topic = claimed.topic
        AND cuts.partition = claimed.partition AND cuts.epoch > claimed.epoch
        AND cuts.next_offset = ?2))
    WHERE topic IN (SELECT value FROM json_each(?1)) AND epoch >= 0 AND EXISTS (
        SELECT 1 FROM cuts WHERE cuts.topic = claimed.topic
        AND cuts.partition = claimed.partition AND cuts.epoch > claimed.epoch
        AND cuts.next_offset = ?2)
"""


class PassagePlaces(msgspec.Struct, frozen=True):
    """Where passages lie in time and in their partition. By passage; `count` is 0 without any."""

    from_time: Numbers
    to_time: Numbers
    first: Numbers
    next_offset: Numbers
    count: Numbers

    @classmethod
    def of(cls, chunk: Chunk) -> "PassagePlaces":
        """Passages without windows are given that in which they were written."""
        passages, windows, offsets = chunk.passages, chunk.windows, chunk.offsets
        written = chunk.entries.window()[passages.entry]
        from_time, to_time = written.copy(), written + 1
        to_time += chunk.entries.window_millis[passages.entry] - 1
        passage, begin, _ = groups(windows.passage)
        if len(begin):
            from_time[passage] = np.minimum.reduceat(windows.start, begin)
            to_time[passage] = np.maximum.reduceat(windows.start + windows.length, begin)
        first, next_offset = np.zeros(len(passages), np.int64), np.zeros(len(passages), np.int64)
        count = np.zeros(len(passages), np.int64)
        passage, begin, _ = groups(offsets.passage)
        if len(begin):
            first[passage] = np.minimum.reduceat(offsets.first, begin)
            next_offset[passage] = np.maximum.reduceat(offsets.first + offsets.count, begin)
            count[passage] = np.add.reduceat(offsets.count, begin)
        return cls(from_time, to_time, first, next_offset, count)


class Claimed(msgspec.Struct, frozen=True):
    """By passage: whether its events are to be counted, and whether they are some that were
    counted and some that were not."""

    counted: Mask
    partly: Mask
    over: Mask  # a loader has spoken of some of these offsets before


def claim(chunk: Chunk, places: PassagePlaces) -> Claimed:
    """Keeps which offsets are spoken of."""
    passages, offsets = chunk.passages, chunk.offsets
    tier = chunk.tier[passages.entry]
    rebuilt = numbers(pc.list_value_length(chunk.entries.body.field("rebuilt"))) > 0
    claiming = (tier > 0) & ~rebuilt[passages.entry]
    at = np.flatnonzero(claiming[offsets.passage])
    passage = offsets.passage[at]
    columns = (chunk.topic[passage], passages.partition[passage], tier[passage])
    together = grouped(*columns, passages.epoch[passage])
    said = Keyed(together.numbered(), offsets.first[at], offsets.first[at] + offsets.count[at])
    names = list(zip(*(each.tolist() for each in together.keys), strict=True))
    spoken = len(names)
    before = _before(chunk, names)
    here = _in_generations(chunk, names, before, said, passage)
    again = _again(chunk, places, here)
    counted = (tier > 0) & ~again
    counters = counted & chunk.passages_of("broker", "mirror") & (places.count > 0)
    partly = _partly(counters, here)
    if here.several and again.any():
        partly |= _under_others(again & chunk.passages_of("broker", "mirror"), here)
    _keep(chunk, names, before.where(before.key < spoken).and_(said).united())
    over = _over(chunk.passages_of("hdfs"), said, passage, before)
    return Claimed(counted & ~partly, partly, over)


def keep_spans(chunk: Chunk, places: PassagePlaces, claimed: Claimed, newest: int) -> None:
    """All but loaders' are spoken of by somebody else later. What the next tier has spoken of as
    well, some time ago, is dropped: where it just has gone on. Of what was cut off, and whose
    offsets were given again, that says nothing."""
    connection, old = chunk.connection, newest - KEPT
    is_whole = not any_cuts(connection)
    topics = np.unique(chunk.topic[chunk.passages_of("broker", "hdfs")]).tolist()
    limits = limits_of(connection, topics)
    connection.executemany(
        _DROP if is_whole else _DROP + _NOT_CUT_OFF,
        (
            (*way, partition, limit, old)
            for way, upto in limits.items()
            for partition, limit in upto.items()
            if limit
        ),
    )
    mine = (
        (claimed.counted | claimed.partly)
        & (places.count > 0)
        & chunk.passages_of("agent", "broker", "mirror")
    )
    at = np.flatnonzero(mine)
    entry = chunk.passages.entry[at]
    together = grouped(
        chunk.topic[at],
        chunk.tier[entry],
        chunk.passages.partition[at],
        places.from_time[at],
        chunk.passages.epoch[at],
    )
    columns = (
        *together.keys,
        together.most(places.to_time[at]),
        together.least(places.first[at]),
        together.most(places.next_offset[at]),
        together.most(chunk.entries.time[entry]),
        together.sums(places.count[at]),
    )
    if is_whole:
        *_, next_offset, said, _ = columns
        left = (said >= old) | (next_offset > _limit_of(limits, *together.keys[:3]))
        columns = tuple(column[left] for column in columns)
    connection.executemany(_SPAN, zip(*(column.tolist() for column in columns), strict=True))


def _limit_of(
    limits: Mapping[tuple[int, int], Mapping[int, int]],
    topic: Numbers,
    tier: Numbers,
    partition: Numbers,
) -> Numbers:
    together = grouped(topic, tier, partition)
    found = [
        limits.get((one, other), _NOWHERE).get(number, 0)
        for one, other, number in zip(*(key.tolist() for key in together.keys), strict=True)
    ]
    return np.array(found, np.int64)[together.numbered()]


def limits_of(
    connection: sqlite3.Connection, topics: Sequence[int]
) -> dict[tuple[int, int], dict[int, int]]:
    """By topic, and tier that somebody follows upon: up to which offset of each partition those who
    do have come. Upon agents follow brokers, or all loaders where no broker counts; upon brokers,
    loaders; upon the last of a cluster, what is known of its copies."""
    if not topics:
        return {}
    copies = origins.copies_of(connection, topics) if origins.any_copies(connection) else {}
    ends = origins.ends(connection, [copy for some in copies.values() for copy in some])
    uptos: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for topic, tier, partition, upto in connection.execute(
        "SELECT topic, tier, partition, upto FROM claimed"
        " WHERE topic IN (SELECT value FROM json_each(?))",
        (str(list(topics)),),
    ):
        of_way = uptos[topic, tier]
        of_way[partition] = max(upto, of_way.get(partition, 0))
    found = {}
    for topic, tiers in tiers_of(connection, topics).items():
        of_kind = defaultdict(list)
        for tier, kind in tiers.items():
            of_kind[kind].append(uptos[topic, tier])
        loaders = of_kind[TierKind.HDFS] + [ends[copy] for copy in copies.get(topic, ())]
        after = {
            TierKind.AGENT: of_kind[TierKind.BROKER] or loaders,
            TierKind.BROKER: loaders,
        }
        for tier, kind in tiers.items():
            if next_ := after.get(kind):
                found[topic, tier] = {
                    partition: min([each.get(partition, 0) for each in next_])
                    for partition in uptos[topic, tier]
                }
    return found


def tiers_of(
    connection: sqlite3.Connection, topics: Sequence[int]
) -> dict[int, dict[int, TierKind]]:
    """By topic: that have spoken of it; and brokers, if any of them counts at all in its
    cluster."""
    found: dict[int, dict[int, TierKind]] = {topic: {} for topic in topics}
    for topic, tier, kind in connection.execute(
        "SELECT topic, tier, kind FROM topic_tiers JOIN tiers ON tiers.id = tier"
        " WHERE topic IN (SELECT value FROM json_each(?1)) AND (topic, tier) NOT IN replaced"
        " UNION ALL SELECT topics.id, tiers.id, kind FROM topics"
        "  JOIN topic_names ON topic_names.id = name JOIN tiers ON kind = 'broker'"
        "  WHERE topics.id IN (SELECT value FROM json_each(?1)) AND EXISTS (SELECT 1 FROM journals"
        "   WHERE journals.cluster = topic_names.cluster AND tier = 'broker')",
        (str(list(topics)),),
    ):
        found[topic][tier] = TierKind(kind)
    return found


def counted_by(connection: sqlite3.Connection, topic: int, most: int) -> int:
    """Before which time (`most` at the latest) brokers that count this topic, and its copies, have
    spoken of all that agents have."""
    copies = origins.copies_of(connection, [topic]) if origins.any_copies(connection) else {}
    earlier = (TierKind.AGENT, TierKind.BROKER) if copies else (TierKind.AGENT, TierKind.AGENT)
    for where in (topic, *copies.get(topic, ())):
        ((first,),) = connection.execute(
            "SELECT min(from_time) FROM spans JOIN tiers ON tiers.id = spans.tier"
            " JOIN (SELECT partition, tier, max(upto) AS upto FROM claimed WHERE topic = ?1"
            "  GROUP BY partition, tier) AS claimed ON claimed.partition = spans.partition"
            " JOIN tiers AS counting ON counting.id = claimed.tier WHERE spans.topic = ?2"
            " AND tiers.kind IN (?3, ?4) AND counting.kind = ?5 AND next_offset > upto",
            (where, topic, *earlier, TierKind.BROKER),
        ).fetchall()
        most = most if first is None else min(most, int(first))
    return most


class _Here(msgspec.Struct, frozen=True):
    """What the chunk says, and what was said before, by generation and tier. `passage` is of what
    is said; of both, `epoch`. `there`: what was said before, united. `several`: not all of a key
    are of one epoch."""

    said: Keyed
    passage: Numbers
    said_epoch: Numbers
    before: Keyed
    before_epoch: Numbers
    there: Keyed
    several: bool


def _before(chunk: Chunk, names: list[tuple[int, int, int, int]]) -> Keyed:
    """United, of all epochs of these partitions and tiers; those that the chunk does not speak of
    follow upon the names."""
    place = {name: at for at, name in enumerate(names)}
    wanted = {name[:3] for name in names}
    topics, tiers = (sorted({name[at] for name in names}) for at in (0, 2))
    keys, packed = [], []
    for topic, partition, tier, epoch, intervals in chunk.connection.execute(
        "SELECT topic, partition, tier, epoch, intervals FROM claimed"
        " WHERE topic IN (SELECT value FROM json_each(?))"
        " AND tier IN (SELECT value FROM json_each(?))",
        (str(topics), str(tiers)),
    ):
        if (topic, partition, tier) in wanted:
            name = (topic, partition, tier, epoch)
            at = place.get(name)
            if at is None:
                at = place[name] = len(place)
                names.append(name)
            keys.append(at)
            packed.append(intervals)
    found = Keyed.of_packed(np.array(keys, np.int64), packed)
    order = in_order(found.key, found.first)
    return Keyed(found.key[order], found.first[order], found.end[order])


def _in_generations(
    chunk: Chunk,
    names: list[tuple[int, int, int, int]],
    before: Keyed,
    said: Keyed,
    passage: Numbers,
) -> _Here:
    columns = np.array(names, np.int64).reshape(-1, 4)
    generations = all_generations(chunk.connection, sorted({name[0] for name in names}))
    if len({name[:3] for name in names}) == len(names) and not any(generations.values()):
        epoch = columns[:, 3]
        now, then = epoch[said.key], epoch[before.key]
        return _Here(said, passage, now, before, then, before, several=False)

    def placed(offsets: Keyed) -> tuple[Numbers, Numbers, Keyed]:
        topic, partition, _, epoch = columns[offsets.key].T
        return placed_in(generations, topic, partition, epoch, offsets)

    rows, numbers_, theirs = placed(said)
    _, old_numbers, old = placed(before)
    key = np.concatenate((theirs.key, old.key))
    together = grouped(columns[key, 0], columns[key, 2], np.concatenate((numbers_, old_numbers)))
    number = together.numbered()
    epoch = columns[key, 3]
    several = bool((together.least(epoch) != together.most(epoch)).any())
    size = len(theirs.key)
    before = Keyed(number[size:], old.first, old.end)
    return _Here(
        Keyed(number[:size], theirs.first, theirs.end),
        passage[rows],
        epoch[:size],
        before,
        epoch[size:],
        before.united(),
        several=several,
    )


def _again(chunk: Chunk, places: PassagePlaces, here: _Here) -> Mask:
    """Brokers' passages whose offsets were all spoken of, or are by another one of the chunk."""
    counters = chunk.passages_of("broker", "mirror") & (places.count > 0)
    found = np.zeros(len(chunk.passages), np.bool_)
    mine = counters[here.passage]
    if not mine.any():
        return found
    new = np.zeros(len(chunk.passages), np.bool_)
    said, passage = here.said.where(mine), here.passage[mine]
    said, passage = said.where(~here.there.cover(said)), passage[~here.there.cover(said)]
    new[passage[~_inside_another(said)]] = True
    found |= counters & ~new
    return found


def _inside_another(said: Keyed) -> Mask:
    """Which lie within one that begins earlier or reaches further; of equal ones, all but one."""
    found = np.zeros(len(said.key), np.bool_)
    order = in_order(said.key, said.first, -said.end)
    key, end = said.key[order], said.end[order]
    same = key[1:] == key[:-1]
    found[order[1:]] = same & (end[1:] <= running_most(key, end)[:-1])
    return found


def _under_others(again: Mask, here: _Here) -> Mask:
    """Of these, those that were not spoken of under the very same epoch."""
    found = np.zeros(len(again), np.bool_)
    mine = again[here.passage]
    epochs = np.unique(np.concatenate((here.said_epoch, here.before_epoch)))
    for epoch in epochs.tolist():
        said = mine & (here.said_epoch == epoch)
        same = here.before.where(here.before_epoch == epoch)
        first = ~again[here.passage] & (here.said_epoch == epoch)
        same = same.and_(here.said.where(first)).united()
        found[here.passage[said][~same.cover(here.said.where(said))]] = True
    return found


def _partly(counters: Mask, here: _Here) -> Mask:
    """Of these, those that have offsets in common with what was said before, or with another of the
    chunk: one of the two is counted."""
    return _meeting(counters, here.said, here.passage, here.there)


def _over(loaders: Mask, said: Keyed, passage: Numbers, before: Keyed) -> Mask:
    """A loader's passages of offsets that it has spoken of before, under the same epoch."""
    return _meeting(loaders, said, passage, before)


def _meeting(chosen: Mask, said: Keyed, passage: Numbers, before: Keyed) -> Mask:
    """Which of the chosen have something in common with what was said, or with another of them."""
    found = np.zeros(len(chosen), np.bool_)
    mine = chosen[passage]
    said, passage = said.where(mine), passage[mine]
    if not len(passage):
        return found
    found[passage[before.overlap(said)]] = True
    order = in_order(said.key, said.first)
    key, first, end = said.key[order], said.first[order], said.end[order]
    again = (key[1:] == key[:-1]) & (first[1:] < running_most(key, end)[:-1])
    found[passage[order[1:][again]]] = True
    return found


def _keep(chunk: Chunk, names: list[tuple[int, int, int, int]], claimed: Keyed) -> None:
    keys, packed = claimed.packed()
    _, begins, ends = claimed.groups()
    if (ends - begins).max(initial=0) > MOST_INTERVALS:
        packed = list(map(_fewer, packed))
    upto = claimed.end[ends - 1] if len(ends) else ends
    chunk.connection.executemany(
        _CLAIM,
        (
            (*names[key], most, intervals)
            for key, most, intervals in zip(keys.tolist(), upto.tolist(), packed, strict=True)
        ),
    )
    if any_cuts(chunk.connection):
        topics = str(sorted({name[0] for name in names}))
        chunk.connection.execute(_STILL_THERE, (topics, FOR_EVER))


def _fewer(intervals: bytes) -> bytes:
    """The oldest gaps are closed."""
    over = len(intervals) // PAIR - MOST_INTERVALS
    if over <= 0:
        return intervals
    at = over * PAIR
    return intervals[:8] + intervals[at + 8 :]
