"""Stores the offsets that each tier has claimed, and spans that one tier has claimed and the next
has not yet.

Rule 1: A broker's passage whose offsets are all claimed by brokers already repeats them, by another
        broker that counted: it is not counted twice. This must be known before sums are added. If
        only some of its offsets are, it is unknown which of its events are new: its offsets count,
        its events do not, and its windows are not compared by their sums.
Rule 2: Passages of a run that rebuilt hours claim these hours only, and no offsets.
Rule 3: Offsets that brokers claimed under another leader epoch, and that are not known to have been
        cut off in between (generations.py), may be the same events counted by the next leader, or
        others: they are not counted, and their windows are not compared by their sums.
Rule 4: An agent's claims in a partition that has other producers have gaps without end; the oldest
        of them are forgotten.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow.compute as pc

from audit.reconciling.picture import TierKind
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
KEPT: Final = 600_000  # milliseconds: a later tier that is not known yet may need them
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
    """The times and offsets of passages, by passage; `count` is 0 for a passage without offsets."""

    from_time: Numbers
    to_time: Numbers
    first: Numbers
    next_offset: Numbers
    count: Numbers

    @classmethod
    def of(cls, chunk: Chunk) -> "PassagePlaces":
        """Returns the places of passages; those without windows get the window in which they were
        written."""
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
    """The result of claiming, by passage: whether its events count, and whether some of them were
    counted before."""

    counted: Mask
    partly: Mask
    over: Mask  # a loader has claimed some of these offsets before


def claim(chunk: Chunk, places: PassagePlaces) -> Claimed:
    """Stores the chunk's claims."""
    passages, offsets = chunk.passages, chunk.offsets
    tier = chunk.tier[passages.entry]
    rebuilt = numbers(pc.list_value_length(chunk.entries.body.field("rebuilt"))) > 0
    claiming = (tier > 0) & ~rebuilt[passages.entry]
    at = np.flatnonzero(claiming[offsets.passage])
    passage = offsets.passage[at]
    columns = (chunk.topic[passage], passages.partition[passage], tier[passage])
    together = grouped(*columns, passages.epoch[passage])
    claims = Keyed(together.numbered(), offsets.first[at], offsets.first[at] + offsets.count[at])
    names = list(zip(*(column.tolist() for column in together.keys), strict=True))
    spoken = len(names)
    before = _before(chunk, names)
    statements = _in_generations(chunk, names, before, claims, passage)
    repeated = _again(chunk, places, statements)
    counted = (tier > 0) & ~repeated
    counters = counted & chunk.passages_of("broker", "mirror") & (places.count > 0)
    partly = _partly(counters, statements)
    if statements.several and repeated.any():
        partly |= _under_others(repeated & chunk.passages_of("broker", "mirror"), statements)
    _keep(chunk, names, before.where(before.key < spoken).and_(claims).united())
    over = _over(chunk.passages_of("hdfs"), claims, passage, before)
    return Claimed(counted & ~partly, partly, over)


def keep_spans(chunk: Chunk, places: PassagePlaces, claimed: Claimed, newest: int) -> None:
    """Stores spans of all tiers except loaders, and drops those that the next tier claimed some
    time ago. If a log was truncated and its offsets were assigned again, the next tier's progress
    proves nothing, and spans are kept."""
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
    is_kept = (
        (claimed.counted | claimed.partly)
        & (places.count > 0)
        & chunk.passages_of("agent", "broker", "mirror")
    )
    at = np.flatnonzero(is_kept)
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
        *_, next_offset, reported, _ = columns
        is_open = (reported >= old) | (next_offset > _limit_of(limits, *together.keys[:3]))
        columns = tuple(column[is_open] for column in columns)
    connection.executemany(_SPAN, zip(*(column.tolist() for column in columns), strict=True))


def _limit_of(
    limits: Mapping[tuple[int, int], Mapping[int, int]],
    topic: Numbers,
    tier: Numbers,
    partition: Numbers,
) -> Numbers:
    together = grouped(topic, tier, partition)
    limits_ = [
        limits.get((topic_id, tier_id), _NOWHERE).get(number, 0)
        for topic_id, tier_id, number in zip(*(key.tolist() for key in together.keys), strict=True)
    ]
    return np.array(limits_, np.int64)[together.numbered()]


def limits_of(
    connection: sqlite3.Connection, topics: Sequence[int]
) -> dict[tuple[int, int], dict[int, int]]:
    """Returns, by topic and tier, the offset of each partition that the next tiers have reached.
    Agents are followed by brokers, or by all loaders if no broker counts; brokers by loaders; the
    last tier of a cluster by its copies."""
    if not topics:
        return {}
    copies = origins.copies_of(connection, topics) if origins.any_copies(connection) else {}
    ends = origins.ends(connection, [copy for ids in copies.values() for copy in ids])
    uptos: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for topic, tier, partition, upto in connection.execute(
        "SELECT topic, tier, partition, upto FROM claimed"
        " WHERE topic IN (SELECT value FROM json_each(?))",
        (str(list(topics)),),
    ):
        of_way = uptos[topic, tier]
        of_way[partition] = max(upto, of_way.get(partition, 0))
    limits = {}
    for topic, tiers in tiers_of(connection, topics).items():
        of_kind = defaultdict(list)
        for tier, kind in tiers.items():
            of_kind[kind].append(uptos[topic, tier])
        loaders = of_kind[TierKind.HDFS] + [ends[copy] for copy in copies.get(topic, ())]
        next_tiers = {
            TierKind.AGENT: of_kind[TierKind.BROKER] or loaders,
            TierKind.BROKER: loaders,
        }
        for tier, kind in tiers.items():
            if next_ := next_tiers.get(kind):
                limits[topic, tier] = {
                    partition: min([uptos_.get(partition, 0) for uptos_ in next_])
                    for partition in uptos[topic, tier]
                }
    return limits


def tiers_of(
    connection: sqlite3.Connection, topics: Sequence[int]
) -> dict[int, dict[int, TierKind]]:
    """Returns, by topic, the tiers with claims, and brokers if any broker of the cluster counts."""
    tiers_: dict[int, dict[int, TierKind]] = {topic: {} for topic in topics}
    for topic, tier, kind in connection.execute(
        "SELECT topic, tier, kind FROM topic_tiers JOIN tiers ON tiers.id = tier"
        " WHERE topic IN (SELECT value FROM json_each(?1)) AND (topic, tier) NOT IN replaced"
        " UNION ALL SELECT topics.id, tiers.id, kind FROM topics"
        "  JOIN topic_names ON topic_names.id = name JOIN tiers ON kind = 'broker'"
        "  WHERE topics.id IN (SELECT value FROM json_each(?1)) AND EXISTS (SELECT 1 FROM journals"
        "   WHERE journals.cluster = topic_names.cluster AND tier = 'broker')",
        (str(list(topics)),),
    ):
        tiers_[topic][tier] = TierKind(kind)
    return tiers_


def counted_by(connection: sqlite3.Connection, topic: int, most: int) -> int:
    """Returns the time (at most `most`) before which brokers that count this topic and its copies
    have claimed all that agents have."""
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


class _Claims(msgspec.Struct, frozen=True):
    """The chunk's claims (`said`) and earlier ones (`before`), by generation and tier. `passage`
    belongs to `said`. `there`: `before`, united. `several`: a key has several epochs."""

    said: Keyed
    passage: Numbers
    said_epoch: Numbers
    before: Keyed
    before_epoch: Numbers
    there: Keyed
    several: bool


def _before(chunk: Chunk, names: list[tuple[int, int, int, int]]) -> Keyed:
    """Returns the earlier claims, united, of all epochs of these partitions and tiers. Those not in
    the chunk are appended to `names`."""
    place = {name: at for at, name in enumerate(names)}
    places = {name[:3] for name in names}
    topics, tiers = (sorted({name[at] for name in names}) for at in (0, 2))
    keys, packed = [], []
    for topic, partition, tier, epoch, intervals in chunk.connection.execute(
        "SELECT topic, partition, tier, epoch, intervals FROM claimed"
        " WHERE topic IN (SELECT value FROM json_each(?))"
        " AND tier IN (SELECT value FROM json_each(?))",
        (str(topics), str(tiers)),
    ):
        if (topic, partition, tier) in places:
            name = (topic, partition, tier, epoch)
            at = place.get(name)
            if at is None:
                at = place[name] = len(place)
                names.append(name)
            keys.append(at)
            packed.append(intervals)
    claims = Keyed.of_packed(np.array(keys, np.int64), packed)
    order = in_order(claims.key, claims.first)
    return Keyed(claims.key[order], claims.first[order], claims.end[order])


def _in_generations(
    chunk: Chunk,
    names: list[tuple[int, int, int, int]],
    before: Keyed,
    claims: Keyed,
    passage: Numbers,
) -> _Claims:
    columns = np.array(names, np.int64).reshape(-1, 4)
    generations = all_generations(chunk.connection, sorted({name[0] for name in names}))
    if len({name[:3] for name in names}) == len(names) and not any(generations.values()):
        epoch = columns[:, 3]
        epoch_now, epoch_before = epoch[claims.key], epoch[before.key]
        return _Claims(claims, passage, epoch_now, before, epoch_before, before, several=False)

    def placed(offsets: Keyed) -> tuple[Numbers, Numbers, Keyed]:
        topic, partition, _, epoch = columns[offsets.key].T
        return placed_in(generations, topic, partition, epoch, offsets)

    rows, numbers_, new = placed(claims)
    _, old_numbers, old = placed(before)
    key = np.concatenate((new.key, old.key))
    together = grouped(columns[key, 0], columns[key, 2], np.concatenate((numbers_, old_numbers)))
    number = together.numbered()
    epoch = columns[key, 3]
    several = bool((together.least(epoch) != together.most(epoch)).any())
    size = len(new.key)
    before = Keyed(number[size:], old.first, old.end)
    return _Claims(
        Keyed(number[:size], new.first, new.end),
        passage[rows],
        epoch[:size],
        before,
        epoch[size:],
        before.united(),
        several=several,
    )


def _again(chunk: Chunk, places: PassagePlaces, statements: _Claims) -> Mask:
    """Whether all offsets of brokers' passages were claimed before, or by another passage of the
    chunk."""
    counters = chunk.passages_of("broker", "mirror") & (places.count > 0)
    repeated = np.zeros(len(chunk.passages), np.bool_)
    is_counted = counters[statements.passage]
    if not is_counted.any():
        return repeated
    new = np.zeros(len(chunk.passages), np.bool_)
    claims, passage = statements.said.where(is_counted), statements.passage[is_counted]
    claims, passage = (
        claims.where(~statements.there.cover(claims)),
        passage[~statements.there.cover(claims)],
    )
    new[passage[~_inside_another(claims)]] = True
    repeated |= counters & ~new
    return repeated


def _inside_another(claims: Keyed) -> Mask:
    """Whether intervals lie within one that begins earlier or ends later; of equal ones, all but
    one do."""
    inside = np.zeros(len(claims.key), np.bool_)
    order = in_order(claims.key, claims.first, -claims.end)
    key, end = claims.key[order], claims.end[order]
    same = key[1:] == key[:-1]
    inside[order[1:]] = same & (end[1:] <= running_most(key, end)[:-1])
    return inside


def _under_others(repeated: Mask, statements: _Claims) -> Mask:
    """Whether these were not claimed under the same epoch."""
    under_others = np.zeros(len(repeated), np.bool_)
    chosen = repeated[statements.passage]
    epochs = np.unique(np.concatenate((statements.said_epoch, statements.before_epoch)))
    for epoch in epochs.tolist():
        reported = chosen & (statements.said_epoch == epoch)
        same = statements.before.where(statements.before_epoch == epoch)
        first = ~repeated[statements.passage] & (statements.said_epoch == epoch)
        same = same.and_(statements.said.where(first)).united()
        under_others[statements.passage[reported][~same.cover(statements.said.where(reported))]] = (
            True
        )
    return under_others


def _partly(counters: Mask, statements: _Claims) -> Mask:
    """Whether these overlap earlier claims, or each other: only one of such claims counts."""
    return _meeting(counters, statements.said, statements.passage, statements.there)


def _over(loaders: Mask, claims: Keyed, passage: Numbers, before: Keyed) -> Mask:
    """Whether loaders' passages have offsets claimed before, under the same epoch."""
    return _meeting(loaders, claims, passage, before)


def _meeting(chosen: Mask, claims: Keyed, passage: Numbers, before: Keyed) -> Mask:
    """Whether the chosen passages overlap earlier claims, or each other."""
    meeting = np.zeros(len(chosen), np.bool_)
    chosen_ = chosen[passage]
    claims, passage = claims.where(chosen_), passage[chosen_]
    if not len(passage):
        return meeting
    meeting[passage[before.overlap(claims)]] = True
    order = in_order(claims.key, claims.first)
    key, first, end = claims.key[order], claims.first[order], claims.end[order]
    overlapping = (key[1:] == key[:-1]) & (first[1:] < running_most(key, end)[:-1])
    meeting[passage[order[1:][overlapping]]] = True
    return meeting


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
    """Closes the oldest gaps."""
    over = len(intervals) // PAIR - MOST_INTERVALS
    if over <= 0:
        return intervals
    at = over * PAIR
    return intervals[:8] + intervals[at + 8 :]
