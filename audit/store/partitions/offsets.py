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
    """The times and offsets of all passages, as columns; `count` is 0 for a passage without
    offsets."""

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
        written_window = chunk.entries.window()[passages.entry]
        from_time, to_time = written_window.copy(), written_window + 1
        to_time += chunk.entries.window_millis[passages.entry] - 1
        passages_with_windows, first_rows, _ = groups(windows.passage)
        if len(first_rows):
            from_time[passages_with_windows] = np.minimum.reduceat(windows.start, first_rows)
            to_time[passages_with_windows] = np.maximum.reduceat(
                windows.start + windows.length, first_rows
            )
        first, next_offset = np.zeros(len(passages), np.int64), np.zeros(len(passages), np.int64)
        count = np.zeros(len(passages), np.int64)
        passages_with_windows, first_rows, _ = groups(offsets.passage)
        if len(first_rows):
            first[passages_with_windows] = np.minimum.reduceat(offsets.first, first_rows)
            next_offset[passages_with_windows] = np.maximum.reduceat(
                offsets.first + offsets.count, first_rows
            )
            count[passages_with_windows] = np.add.reduceat(offsets.count, first_rows)
        return cls(from_time, to_time, first, next_offset, count)


class Claimed(msgspec.Struct, frozen=True):
    """The result of claiming, by passage: whether its events count, and whether some of them were
    counted before."""

    counted: Mask
    partly: Mask
    over: Mask  # a loader has claimed some of these offsets before


def claim(chunk: Chunk, places: PassagePlaces) -> Claimed:
    """Stores the chunk's claims, and returns which passages count."""
    passages, offsets = chunk.passages, chunk.offsets
    tier = chunk.tier[passages.entry]
    is_rebuilt = numbers(pc.list_value_length(chunk.entries.body.field("rebuilt"))) > 0
    is_claiming = (tier > 0) & ~is_rebuilt[passages.entry]
    rows = np.flatnonzero(is_claiming[offsets.passage])
    passage = offsets.passage[rows]
    columns = (chunk.topic[passage], passages.partition[passage], tier[passage])
    grouping = grouped(*columns, passages.epoch[passage])
    claims = Keyed(
        grouping.numbered(), offsets.first[rows], offsets.first[rows] + offsets.count[rows]
    )
    claim_keys = list(zip(*(column.tolist() for column in grouping.keys), strict=True))
    key_count = len(claim_keys)
    earlier_claims = _before(chunk, claim_keys)
    statements = _in_generations(chunk, claim_keys, earlier_claims, claims, passage)
    is_repeated = _again(chunk, places, statements)
    is_counted = (tier > 0) & ~is_repeated
    is_counter = is_counted & chunk.passages_of("broker", "mirror") & (places.count > 0)
    is_partly_counted = _partly(is_counter, statements)
    if statements.several and is_repeated.any():
        is_partly_counted |= _under_others(
            is_repeated & chunk.passages_of("broker", "mirror"), statements
        )
    _keep(
        chunk,
        claim_keys,
        earlier_claims.where(earlier_claims.key < key_count).and_(claims).united(),
    )
    is_over = _over(chunk.passages_of("hdfs"), claims, passage, earlier_claims)
    return Claimed(is_counted & ~is_partly_counted, is_partly_counted, is_over)


def keep_spans(chunk: Chunk, places: PassagePlaces, claimed: Claimed, newest: int) -> None:
    """Stores spans of all tiers except loaders, and drops those that the next tier claimed some
    time ago. Keeps them if a log was truncated and its offsets were assigned again, because the
    next tier's progress then proves nothing."""
    connection, old_limit = chunk.connection, newest - KEPT
    is_whole = not any_cuts(connection)
    topics = np.unique(chunk.topic[chunk.passages_of("broker", "hdfs")]).tolist()
    limits = limits_of(connection, topics)
    connection.executemany(
        _DROP if is_whole else _DROP + _NOT_CUT_OFF,
        (
            (*way, partition, limit, old_limit)
            for way, partition_limits in limits.items()
            for partition, limit in partition_limits.items()
            if limit
        ),
    )
    is_kept = (
        (claimed.counted | claimed.partly)
        & (places.count > 0)
        & chunk.passages_of("agent", "broker", "mirror")
    )
    rows = np.flatnonzero(is_kept)
    entry = chunk.passages.entry[rows]
    grouping = grouped(
        chunk.topic[rows],
        chunk.tier[entry],
        chunk.passages.partition[rows],
        places.from_time[rows],
        chunk.passages.epoch[rows],
    )
    columns = (
        *grouping.keys,
        grouping.most(places.to_time[rows]),
        grouping.least(places.first[rows]),
        grouping.most(places.next_offset[rows]),
        grouping.most(chunk.entries.time[entry]),
        grouping.sums(places.count[rows]),
    )
    if is_whole:
        *_, next_offsets, reported_times, _ = columns
        is_open = (reported_times >= old_limit) | (
            next_offsets > _limit_of(limits, *grouping.keys[:3])
        )
        columns = tuple(column[is_open] for column in columns)
    connection.executemany(_SPAN, zip(*(column.tolist() for column in columns), strict=True))


def _limit_of(
    limits: Mapping[tuple[int, int], Mapping[int, int]],
    topic: Numbers,
    tier: Numbers,
    partition: Numbers,
) -> Numbers:
    grouping = grouped(topic, tier, partition)
    row_limits = [
        limits.get((topic_id, tier_id), _NOWHERE).get(number, 0)
        for topic_id, tier_id, number in zip(*(key.tolist() for key in grouping.keys), strict=True)
    ]
    return np.array(row_limits, np.int64)[grouping.numbered()]


def limits_of(
    connection: sqlite3.Connection, topics: Sequence[int]
) -> dict[tuple[int, int], dict[int, int]]:
    """Returns, by topic and tier, the offset of each partition that the next tiers have reached.
    Brokers follow agents (or all loaders do, if no broker counts), loaders follow brokers, and
    copies follow the last tier of a cluster."""
    if not topics:
        return {}
    copies = origins.copies_of(connection, topics) if origins.any_copies(connection) else {}
    ends = origins.ends(connection, [copy for ids in copies.values() for copy in ids])
    ends_by_topic_tier: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for topic, tier, partition, end_offset in connection.execute(
        "SELECT topic, tier, partition, upto FROM claimed"
        " WHERE topic IN (SELECT value FROM json_each(?))",
        (str(list(topics)),),
    ):
        partition_ends = ends_by_topic_tier[topic, tier]
        partition_ends[partition] = max(end_offset, partition_ends.get(partition, 0))
    limits = {}
    for topic, tiers in tiers_of(connection, topics).items():
        ends_by_kind = defaultdict(list)
        for tier, kind in tiers.items():
            ends_by_kind[kind].append(ends_by_topic_tier[topic, tier])
        loaders = ends_by_kind[TierKind.HDFS] + [ends[copy] for copy in copies.get(topic, ())]
        next_tiers = {
            TierKind.AGENT: ends_by_kind[TierKind.BROKER] or loaders,
            TierKind.BROKER: loaders,
        }
        for tier, kind in tiers.items():
            if next_ends := next_tiers.get(kind):
                limits[topic, tier] = {
                    partition: min([tier_ends.get(partition, 0) for tier_ends in next_ends])
                    for partition in ends_by_topic_tier[topic, tier]
                }
    return limits


def tiers_of(
    connection: sqlite3.Connection, topics: Sequence[int]
) -> dict[int, dict[int, TierKind]]:
    """Returns, by topic, the tiers with claims, including brokers if any broker of the cluster
    counts."""
    tiers_by_topic: dict[int, dict[int, TierKind]] = {topic: {} for topic in topics}
    for topic, tier, kind in connection.execute(
        "SELECT topic, tier, kind FROM topic_tiers JOIN tiers ON tiers.id = tier"
        " WHERE topic IN (SELECT value FROM json_each(?1)) AND (topic, tier) NOT IN replaced"
        " UNION ALL SELECT topics.id, tiers.id, kind FROM topics"
        "  JOIN topic_names ON topic_names.id = name JOIN tiers ON kind = 'broker'"
        "  WHERE topics.id IN (SELECT value FROM json_each(?1)) AND EXISTS (SELECT 1 FROM journals"
        "   WHERE journals.cluster = topic_names.cluster AND tier = 'broker')",
        (str(list(topics)),),
    ):
        tiers_by_topic[topic][tier] = TierKind(kind)
    return tiers_by_topic


def counted_by(connection: sqlite3.Connection, topic: int, limit: int) -> int:
    """Returns the time (at most `limit`) before which brokers that count this topic and its copies
    have claimed everything that agents have claimed."""
    copies = origins.copies_of(connection, [topic]) if origins.any_copies(connection) else {}
    earlier_kinds = (
        (TierKind.AGENT, TierKind.BROKER) if copies else (TierKind.AGENT, TierKind.AGENT)
    )
    for topic_id in (topic, *copies.get(topic, ())):
        ((first_time,),) = connection.execute(
            "SELECT min(from_time) FROM spans JOIN tiers ON tiers.id = spans.tier"
            " JOIN (SELECT partition, tier, max(upto) AS upto FROM claimed WHERE topic = ?1"
            "  GROUP BY partition, tier) AS claimed ON claimed.partition = spans.partition"
            " JOIN tiers AS counting ON counting.id = claimed.tier WHERE spans.topic = ?2"
            " AND tiers.kind IN (?3, ?4) AND counting.kind = ?5 AND next_offset > upto",
            (topic_id, topic, *earlier_kinds, TierKind.BROKER),
        ).fetchall()
        limit = limit if first_time is None else min(limit, int(first_time))
    return limit


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
    key_numbers = {name: number for number, name in enumerate(names)}
    key_prefixes = {name[:3] for name in names}
    topics, tiers = (sorted({name[position] for name in names}) for position in (0, 2))
    keys, packed = [], []
    for topic, partition, tier, epoch, intervals in chunk.connection.execute(
        "SELECT topic, partition, tier, epoch, intervals FROM claimed"
        " WHERE topic IN (SELECT value FROM json_each(?))"
        " AND tier IN (SELECT value FROM json_each(?))",
        (str(topics), str(tiers)),
    ):
        if (topic, partition, tier) in key_prefixes:
            claim_key = (topic, partition, tier, epoch)
            number = key_numbers.get(claim_key)
            if number is None:
                number = key_numbers[claim_key] = len(key_numbers)
                names.append(claim_key)
            keys.append(number)
            packed.append(intervals)
    claims = Keyed.of_packed(np.array(keys, np.int64), packed)
    order = in_order(claims.key, claims.first)
    return Keyed(claims.key[order], claims.first[order], claims.end[order])


def _in_generations(
    chunk: Chunk,
    names: list[tuple[int, int, int, int]],
    earlier_claims: Keyed,
    claims: Keyed,
    passage: Numbers,
) -> _Claims:
    columns = np.array(names, np.int64).reshape(-1, 4)
    generations = all_generations(chunk.connection, sorted({name[0] for name in names}))
    if len({name[:3] for name in names}) == len(names) and not any(generations.values()):
        epoch = columns[:, 3]
        epoch_now, epoch_before = epoch[claims.key], epoch[earlier_claims.key]
        return _Claims(
            claims, passage, epoch_now, earlier_claims, epoch_before, earlier_claims, several=False
        )

    def placed(offsets: Keyed) -> tuple[Numbers, Numbers, Keyed]:
        topic, partition, _, epoch = columns[offsets.key].T
        return placed_in(generations, topic, partition, epoch, offsets)

    rows, new_numbers, new_claims = placed(claims)
    _, old_numbers, old_claims = placed(earlier_claims)
    key = np.concatenate((new_claims.key, old_claims.key))
    grouping = grouped(columns[key, 0], columns[key, 2], np.concatenate((new_numbers, old_numbers)))
    number = grouping.numbered()
    epoch = columns[key, 3]
    has_several = bool((grouping.least(epoch) != grouping.most(epoch)).any())
    size = len(new_claims.key)
    earlier_claims = Keyed(number[size:], old_claims.first, old_claims.end)
    return _Claims(
        Keyed(number[:size], new_claims.first, new_claims.end),
        passage[rows],
        epoch[:size],
        earlier_claims,
        epoch[size:],
        earlier_claims.united(),
        several=has_several,
    )


def _again(chunk: Chunk, places: PassagePlaces, statements: _Claims) -> Mask:
    """Whether all offsets of brokers' passages were claimed before, or by another passage of the
    chunk."""
    is_counter = chunk.passages_of("broker", "mirror") & (places.count > 0)
    is_repeated = np.zeros(len(chunk.passages), np.bool_)
    is_counted = is_counter[statements.passage]
    if not is_counted.any():
        return is_repeated
    is_new = np.zeros(len(chunk.passages), np.bool_)
    claims, passage = statements.said.where(is_counted), statements.passage[is_counted]
    claims, passage = (
        claims.where(~statements.there.cover(claims)),
        passage[~statements.there.cover(claims)],
    )
    is_new[passage[~_inside_another(claims)]] = True
    is_repeated |= is_counter & ~is_new
    return is_repeated


def _inside_another(claims: Keyed) -> Mask:
    """Whether intervals lie within one that begins earlier or ends later; of equal ones, all but
    one do."""
    is_inside = np.zeros(len(claims.key), np.bool_)
    order = in_order(claims.key, claims.first, -claims.end)
    key, end = claims.key[order], claims.end[order]
    is_same_key = key[1:] == key[:-1]
    is_inside[order[1:]] = is_same_key & (end[1:] <= running_most(key, end)[:-1])
    return is_inside


def _under_others(repeated: Mask, statements: _Claims) -> Mask:
    """Whether these were not claimed under the same epoch."""
    is_under_others = np.zeros(len(repeated), np.bool_)
    is_chosen = repeated[statements.passage]
    epochs = np.unique(np.concatenate((statements.said_epoch, statements.before_epoch)))
    for epoch in epochs.tolist():
        is_reported = is_chosen & (statements.said_epoch == epoch)
        same_epoch = statements.before.where(statements.before_epoch == epoch)
        is_first = ~repeated[statements.passage] & (statements.said_epoch == epoch)
        same_epoch = same_epoch.and_(statements.said.where(is_first)).united()
        is_under_others[
            statements.passage[is_reported][~same_epoch.cover(statements.said.where(is_reported))]
        ] = True
    return is_under_others


def _partly(counters: Mask, statements: _Claims) -> Mask:
    """Whether these overlap earlier claims, or each other: only one of such claims counts."""
    return _meeting(counters, statements.said, statements.passage, statements.there)


def _over(loaders: Mask, claims: Keyed, passage: Numbers, before: Keyed) -> Mask:
    """Whether loaders' passages have offsets claimed before, under the same epoch."""
    return _meeting(loaders, claims, passage, before)


def _meeting(chosen: Mask, claims: Keyed, passage: Numbers, before: Keyed) -> Mask:
    """Whether the chosen passages overlap earlier claims, or each other."""
    is_meeting = np.zeros(len(chosen), np.bool_)
    is_chosen_claim = chosen[passage]
    claims, passage = claims.where(is_chosen_claim), passage[is_chosen_claim]
    if not len(passage):
        return is_meeting
    is_meeting[passage[before.overlap(claims)]] = True
    order = in_order(claims.key, claims.first)
    key, first, end = claims.key[order], claims.first[order], claims.end[order]
    is_overlapping = (key[1:] == key[:-1]) & (first[1:] < running_most(key, end)[:-1])
    is_meeting[passage[order[1:][is_overlapping]]] = True
    return is_meeting


def _keep(chunk: Chunk, names: list[tuple[int, int, int, int]], claimed: Keyed) -> None:
    keys, packed_sets = claimed.packed()
    _, first_rows, ends = claimed.groups()
    if (ends - first_rows).max(initial=0) > MOST_INTERVALS:
        packed_sets = list(map(_fewer, packed_sets))
    end_offsets = claimed.end[ends - 1] if len(ends) else ends
    chunk.connection.executemany(
        _CLAIM,
        (
            (*names[key], end_offset, intervals)
            for key, end_offset, intervals in zip(
                keys.tolist(), end_offsets.tolist(), packed_sets, strict=True
            )
        ),
    )
    if any_cuts(chunk.connection):
        topics = str(sorted({name[0] for name in names}))
        chunk.connection.execute(_STILL_THERE, (topics, FOR_EVER))


def _fewer(intervals: bytes) -> bytes:
    """Closes the oldest gaps."""
    surplus = len(intervals) // PAIR - MOST_INTERVALS
    if surplus <= 0:
        return intervals
    position = surplus * PAIR
    return intervals[:8] + intervals[position + 8 :]
