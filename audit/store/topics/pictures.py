"""Reads the picture of a topic (audit/reconciling/picture.py) from the tables, in one transaction.

If the beginning of the ledger has expired, its content is unknown: windows before that time are not
shown, nor what landed of files whose shipping was reported then. It has expired if most of the
agents heard first had written entries before; without agents, if most other programs had, many of
which begin a journal with each run. If it is there, a journal whose first entries are missing has a
hole like any other.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from audit.reconciling.picture import (
    Acceptance,
    Disputed,
    FileFault,
    Hole,
    Inexact,
    OffsetSpan,
    PartitionPicture,
    Tier,
    TierKind,
    TopicKey,
    TopicPicture,
    UnwatchedTime,
    Window,
    WindowSums,
)
from audit.store.entries import disputes, examining
from audit.store.entries.journals import unpacked
from audit.store.files.suspects import suspects
from audit.store.fleet.agents import expected_agents, renewed_hosts
from audit.store.fleet.health import roots_of
from audit.store.folding.keyed_intervals import Keyed, pairs_of
from audit.store.partitions import (
    collisions,
    comparisons,
    event_hours,
    exactness,
    log_losses,
    origins,
)
from audit.store.partitions.generations import STRIDE, Generations, damage_of, doubtful_times
from audit.store.partitions.offsets import limits_of
from audit.store.statements.rare_statements import HOUR
from audit.store.topics.copies import joined, joined_partitions, own_offsets
from ground.intervals import Interval, Intervals, merged

_ORDER: Final = list(TierKind)
_NO_SUMS: Final = WindowSums()
_AGENTS: Final = Tier(TierKind.AGENT)

_SUMS: Final = """
SELECT start, length, tier, sum(events), sum(bytes), sum(crc_sum), sum(late), sum(duplicates),
    sum(dead) FROM sums WHERE topic = ? AND start >= ? AND start < ?
    AND (topic, tier) NOT IN replaced {}
    GROUP BY start, length, tier
"""
_NOT_VOID: Final = """
AND NOT EXISTS (SELECT 1 FROM voided WHERE voided.topic = sums.topic AND voided.tier = sums.tier
    AND voided.run > sums.run AND start >= from_time AND start < to_time)
"""


# Of the journals heard first: how many there are, how many had entries before; the same of agents.
_BEGIN: Final = """
SELECT min(first_time), count(*), sum(first_seq > 0), sum(tier = 'agent'),
    sum(tier = 'agent' AND first_seq > 0) FROM journals WHERE cluster = ?1
    AND tier <> 'operator' AND first_time <= ?2 + (
        SELECT min(first_time) FROM journals WHERE cluster = ?1 AND tier <> 'operator')
"""
# Destinations of former topics of the same name.
_LOADED_BEFORE: Final = """
SELECT DISTINCT tier FROM topics AS former JOIN topic_tiers ON topic_tiers.topic = former.id
    JOIN tiers ON tiers.id = tier JOIN topics AS deleted ON deleted.name = former.name
    WHERE deleted.id = ? AND former.last < deleted.last AND kind = 'hdfs'
    AND (former.id, tier) NOT IN replaced
"""
_DELETED: Final = "the topic was deleted"
_BEFORE: Final = 60_000  # the time between two entries
_MOST_HOLE_HOURS: Final = 168
_MOST_SEQ: Final = 1 << 62
_TOGETHER: Final = 600_000  # milliseconds


class Topic:
    """A topic's ids in the tables, and its tiers."""

    def __init__(self, connection: sqlite3.Connection, key: TopicKey) -> None:
        self.connection = connection
        self.key = key
        rows = connection.execute(
            "SELECT id FROM topic_names WHERE topic = ? AND cluster = ?", (key.topic, key.cluster)
        ).fetchall()
        self.name: int = rows[0][0] if rows else -1
        rows = connection.execute(
            "SELECT id FROM topics WHERE name = ? AND topic_id = ?", (self.name, key.topic_id)
        ).fetchall()
        self.id: int = rows[0][0] if rows else -1
        self.tiers = tier_names(connection)

    def expected(self, heard_since: int, *, is_deleted: bool = False) -> tuple[Tier, ...]:
        """Returns the tiers that the topic's events should pass. A topic that was never loaded is
        expected at the destinations of loaders that were heard from recently and report that they
        load it; a deleted topic is expected where former topics of its name were loaded."""
        claimed_tiers = {
            self.tiers[tier]
            for (tier,) in self.connection.execute(
                "SELECT tier FROM topic_tiers WHERE topic = ? AND (topic, tier) NOT IN replaced",
                (self.id,),
            )
        }
        if self._has_agents():
            claimed_tiers.add(Tier(TierKind.AGENT))
        if self.connection.execute(
            "SELECT 1 FROM journals WHERE cluster = ? AND tier = 'broker' LIMIT 1",
            (self.key.cluster,),
        ).fetchall():
            claimed_tiers.add(Tier(TierKind.BROKER))
        is_loaded = any(tier.kind is TierKind.HDFS for tier in claimed_tiers)
        if is_deleted and not is_loaded:
            claimed_tiers.update(
                self.tiers[tier] for (tier,) in self.connection.execute(_LOADED_BEFORE, (self.id,))
            )
        elif not is_loaded:
            cluster, topic, _ = self.key
            roots = roots_of(self.connection, cluster, topic, heard_since)
            claimed_tiers.update(Tier(TierKind.HDFS, root) for root in roots)
        return tuple(sorted(claimed_tiers, key=_place))

    def _has_agents(self) -> bool:
        return bool(
            self.connection.execute(
                "SELECT 1 FROM agent_topics WHERE name = ?1"
                " UNION SELECT 1 FROM inventory WHERE topic = ?2 LIMIT 1",
                (self.name, self.key.topic),
            ).fetchall()
        )


def tier_names(connection: sqlite3.Connection) -> dict[int, Tier]:
    return {
        number: Tier(TierKind(kind), destination)
        for number, kind, destination in connection.execute(
            "SELECT id, kind, destination FROM tiers"
        )
    }


class PictureQuery(msgspec.Struct, frozen=True):
    """The period and options with which the picture of a topic is read."""

    from_time: int
    to_time: int
    now: int
    expected_millis: int
    grace_millis: int
    names: bool
    is_deleted: bool = False

    @property
    def heard_since(self) -> int:
        """The time since which a program must have been heard from for verdicts to wait for it."""
        return self.now - self.expected_millis


def picture(connection: sqlite3.Connection, key: TopicKey, query: PictureQuery) -> TopicPicture:
    """Reads the picture of a topic; that of a copy is joined with its origin's. A deleted copy is
    not cut off, because the mirror copies the same events again."""
    topic = Topic(connection, key)
    origin_keys = origins.origins(connection, topic.id)
    if not origin_keys:
        partitions = _partitions(topic, Generations.of(connection, topic.id))
        tiers = topic.expected(query.heard_since, is_deleted=query.is_deleted)
        if query.is_deleted and any(tier.kind is TierKind.HDFS for tier in tiers):
            partitions = [_deleted(partition) for partition in partitions]
        return _picture(topic, query, partitions, event_hours.lacking(partitions))
    origin = Topic(connection, origin_keys[0])
    origin_partitions = _partitions(origin, Generations.of(connection, origin.id))
    copy_partitions = _partitions(topic, Generations.of(connection, topic.id))
    own_ranges = own_offsets(copy_partitions, _marked(topic))
    placed_partitions = event_hours.lacking(
        joined_partitions(origin_partitions, copy_partitions, origin.key.cluster, own_ranges)
    )
    placed_partitions |= {partition.number for partition in copy_partitions if partition.is_cut_off}
    joined_picture = joined(
        _picture(origin, query, origin_partitions, placed_partitions, copy=topic.id),
        _picture(topic, query, copy_partitions, placed_partitions),
        own_ranges,
        origins.opened_at(connection, topic.id),
    )
    return replace(joined_picture, unjoined=_why_not_joined(topic, origin_keys))


def _why_not_joined(topic: Topic, origin_keys: Sequence[TopicKey]) -> str:
    connection, (origin, *other_origins) = topic.connection, origin_keys
    origin_name = f"{origin.cluster}/{origin.topic}"
    if other_origins:
        other_name = (
            f"{other_origins[0].cluster}/{other_origins[0].topic}/{other_origins[0].topic_id}"
        )
        return (
            f"it is a copy of {origin_name}/{origin.topic_id}, and was one of {other_name}: which"
            " offsets belong to which is unknown. Delete the copy, and let the mirror create it"
            " again"
        )
    if {*origins.origins(connection, Topic(connection, origin).id)} - {topic.key}:
        return (
            f"it is a copy of {origin_name}, which is a copy itself: name the first origin's mirror"
        )
    return ""


def _marked(topic: Topic) -> dict[int, Intervals]:
    marked_offsets = origins.marked(topic.connection, topic.id)
    return {partition: pairs_of(packed) for partition, packed in marked_offsets.items()}


def _picture(
    topic: Topic,
    query: PictureQuery,
    partitions: Sequence[PartitionPicture],
    lacking: set[int],
    copy: int = 0,
) -> TopicPicture:
    """Reads what the topic's own cluster reports. With `copy`, files are those of the copy."""
    connection, key = topic.connection, topic.key
    from_time, to_time = query.from_time, query.to_time
    begin = ledger_begin(connection, key.cluster)
    start_time = max(from_time, begin)
    generations = Generations.of(connection, topic.id)
    damage = damage_of(connection, topic.id, generations)
    uncompared = comparisons.of(connection, topic.id, topic.tiers, generations)
    acceptances = accepted(connection, topic.name, topic.key.topic_id)
    placed_partitions = lacking | {batch.partition for batch in damage}
    placed_partitions |= {
        partition.number for partition in partitions if _is_accepted(partition, acceptances)
    }
    inexact_partitions = exactness.partitions(connection, topic.id)
    dated_partitions = inexact_partitions | {part.number for part in uncompared}
    hours = event_hours.of(connection, topic.id, placed_partitions | dated_partitions, generations)
    tiers = topic.expected(query.heard_since, is_deleted=query.is_deleted)
    return TopicPicture(
        key=key,
        from_time=start_time,
        to_time=to_time,
        now=query.now,
        tiers=tiers,
        windows=_windows(topic, start_time, to_time),
        partitions=partitions,
        open=_open(topic, generations, tiers),
        sources=suspects(
            connection,
            topic.id,
            topic.name,
            topic.tiers,
            begin,
            generations=generations,
            copy=copy,
        )
        if query.names
        else (),
        agents=expected_agents(connection, key, topic.name, query.now, query.expected_millis),
        holes=_holes(topic, begin),
        disputed=_disputed(topic),
        file_faults=_file_faults(topic, from_time, to_time),
        damaged=event_hours.dated(damage, hours),
        uncompared=event_hours.dated_uncompared(uncompared, hours),
        withdrawn=log_losses.uncounted(connection, topic.id, partitions, generations),
        collided=collisions.of(
            connection, topic.id, topic.tiers, generations, between=(start_time, to_time)
        ),
        unwatched=_unwatched(topic, start_time, to_time),
        inexact=[
            *exactness.of(connection, topic.id, topic.tiers, hours),
            *exactness.rebuilt(connection, topic.id, topic.tiers, start_time, to_time),
            *(
                Inexact(_AGENTS, *times)
                for times in doubtful_times(connection, topic.id, start_time, to_time)
            ),
        ],
        rebuilt=exactness.rebuilt_times(connection, topic.id, topic.tiers, start_time, to_time),
        placed=[hour for hour in hours if hour.partition in placed_partitions],
        accepted=acceptances,
        grace_millis=query.grace_millis,
        renewed=renewed_hosts(connection, topic.name),
    )


def ledger_begin(connection: sqlite3.Connection, cluster: str) -> int:
    """Returns the time from which on all entries are known; 0 if all entries are known."""
    rows = connection.execute(_BEGIN, (cluster, _TOGETHER)).fetchall()
    ((first_time, journal_count, begun_journals, agent_count, begun_agents),) = rows
    if agent_count:
        journal_count, begun_journals = agent_count, begun_agents
    if first_time is None or 2 * begun_journals <= journal_count:
        return 0
    return int(first_time) + HOUR - int(first_time) % HOUR


def _place(tier: Tier) -> tuple[int, str]:
    return _ORDER.index(tier.kind), tier.destination


def _windows(topic: Topic, from_time: int, to_time: int) -> list[Window]:
    parameters = (topic.id, from_time, to_time)
    void_rows = topic.connection.execute(
        "SELECT 1 FROM voided WHERE topic = ? LIMIT 1", (topic.id,)
    ).fetchall()
    sums_by_window: dict[tuple[int, int], dict[Tier, WindowSums]] = defaultdict(dict)
    for start, length, tier, *sum_values in topic.connection.execute(
        _SUMS.format(_NOT_VOID if void_rows else ""), parameters
    ):
        sums_by_window[start, length][topic.tiers[tier]] = WindowSums(*sum_values)
    flows: dict[tuple[int, int], tuple[int, int, int, int]] = {
        (start, length): (filtered, dead, lost, lost_bytes)
        for start, length, filtered, dead, lost, lost_bytes in topic.connection.execute(
            "SELECT start, length, filtered, dead, CASE WHEN lost_unknown THEN -1 ELSE lost END,"
            " lost_bytes FROM flows WHERE topic = ? AND start >= ? AND start < ?"
            " AND (filtered OR dead OR lost OR lost_unknown OR lost_bytes)",
            parameters,
        )
    }
    for key in flows:
        sums_by_window[key]
    uncounted_tiers: dict[tuple[int, int], set[Tier]] = defaultdict(set)
    for start, length, tier in topic.connection.execute(
        "SELECT start, length, tier FROM uncounted WHERE topic = ? AND start >= ? AND start < ?",
        parameters,
    ):
        uncounted_tiers[start, length].add(topic.tiers[tier])
        sums_by_window[start, length]
    no_lines = (0, 0, 0, 0)
    return [
        Window(
            start,
            length,
            by_tier,
            *flows.get((start, length), no_lines),
            frozenset(uncounted_tiers.get((start, length), ())),
        )
        for (start, length), by_tier in sorted(
            sums_by_window.items(), key=lambda window_: window_[0]
        )
    ]


def _partitions(topic: Topic, generations: Generations) -> list[PartitionPicture]:
    """Returns the claims in the log, and those of ends that were cut off."""
    claims_by_number: dict[int, dict[Tier, Intervals]] = defaultdict(dict)
    intervals_by_tier: dict[tuple[int, Tier], list[Interval]] = {}
    for partition, tier, epoch, intervals in topic.connection.execute(
        "SELECT partition, tier, epoch, intervals FROM claimed WHERE topic = ?"
        " AND (topic, tier) NOT IN replaced ORDER BY partition",
        (topic.id,),
    ):
        name, pairs = topic.tiers[tier], pairs_of(intervals)
        if partition not in generations.partitions and name not in claims_by_number[partition]:
            claims_by_number[partition][name] = pairs
            continue
        for first, end in pairs:
            for part in generations.parts(partition, epoch, first, end):
                earlier_intervals = claims_by_number[part.number].setdefault(name, ())
                intervals_by_tier.setdefault((part.number, name), list(earlier_intervals)).append(
                    part[1:]
                )
    for (number, name), interval_list in intervals_by_tier.items():
        claims_by_number[number][name] = merged(interval_list)
    pictures = []
    for number, by_tier in claims_by_number.items():
        cut = generations.cut_of(number)
        reason = cut.reason or "it continued at an earlier offset" if cut else ""
        time = cut.time if cut else -1
        pictures.append(
            PartitionPicture(number, by_tier, cut is not None, number % STRIDE, reason, time)
        )
    return pictures


def _deleted(partition: PartitionPicture) -> PartitionPicture:
    """Returns a partition of a deleted topic: all of its log is cut off."""
    if partition.is_cut_off:
        return partition
    return replace(partition, is_cut_off=True, partition=partition.number, reason=_DELETED)


def _is_accepted(partition: PartitionPicture, acceptances: Sequence[Acceptance]) -> bool:
    """Whether some of a partition's offsets are accepted."""
    return any(
        acceptance.offsets and acceptance.partition in {-1, partition.partition}
        for acceptance in acceptances
    )


def _open(topic: Topic, generations: Generations, expected: Collection[Tier]) -> list[OffsetSpan]:
    limits_by_tier = limits_of(topic.connection, [topic.id])
    if any(tier.kind is TierKind.HDFS for tier in expected):
        for number, name in topic.tiers.items():
            if name in expected and name.kind in {TierKind.AGENT, TierKind.BROKER}:
                limits_by_tier.setdefault((topic.id, number), {})  # the first load is to come
    spans = []
    for (_, tier), limits in limits_by_tier.items():
        rows = topic.connection.execute(
            "SELECT partition, epoch, first, next_offset, from_time, to_time, events FROM spans"
            " WHERE topic = ? AND tier = ?",
            (topic.id, tier),
        )
        name = topic.tiers[tier]
        for partition, epoch, first, end, *span_times in rows:
            limit = limits.get(partition, 0)
            if not generations:
                if end > limit:
                    spans.append(OffsetSpan(name, partition, first, end, *span_times))
                continue
            spans += [
                OffsetSpan(name, *part, *span_times)
                for part in generations.parts(partition, epoch, first, end)
                if part.number >= STRIDE or part.end > limit
            ]
    return sorted(spans)


def _unwatched(topic: Topic, from_time: int, to_time: int) -> list[UnwatchedTime]:
    """Returns unwatched times, without files that were found again since and read to the end."""
    if not _is_newest(topic):
        return []
    rows = topic.connection.execute(
        "SELECT host, journal, path, unwatched.source, position, from_time, to_time, traces,"
        " reason, (SELECT size FROM finished WHERE finished.source = unwatched.source"
        "  AND finished.name = unwatched.name), (SELECT max(sources.position) FROM sources"
        "  WHERE sources.source = unwatched.source AND topic = ?)"
        " FROM unwatched WHERE name = ? AND from_time < ? AND to_time > ?"
        " ORDER BY from_time, host, path, unwatched.source, seq, number",
        (topic.id, topic.name, to_time, from_time),
    )
    gaps = []
    for *columns, size, known_position in rows:
        gap = UnwatchedTime(*columns)
        if gap.source and gap.traces == "vanished":
            if size is not None and size > gap.position:
                continue
            gap = gap._replace(position=max(gap.position, known_position or 0))
        gaps.append(gap)
    return gaps


def hole_hours(topic: Topic) -> set[int]:
    """Returns the hours that missing entries and unwatched periods may affect; for a very long
    hole, only the hours at its beginning."""
    hours: set[int] = set()
    for origin in origins.origins(topic.connection, topic.id)[:1]:
        if origin != topic.key:
            hours = _hole_hours(Topic(topic.connection, origin))
    return hours | _hole_hours(topic)


def _hole_hours(topic: Topic) -> set[int]:
    begin = ledger_begin(topic.connection, topic.key.cluster)
    times = [(hole.from_time, hole.to_time + 1) for hole in _holes(topic, begin)]
    times += [(gap.from_time, gap.to_time) for gap in _unwatched(topic, begin, _MOST_SEQ)]
    times += [(gap.since, max(gap.since, gap.until) + 1) for gap in _disputed(topic)]
    hours: set[int] = set()
    for from_time, to_time in times:
        first_hour = from_time - from_time % HOUR
        hours.update(range(first_hour, min(to_time, first_hour + _MOST_HOLE_HOURS * HOUR), HOUR))
    return hours


def _disputed(topic: Topic) -> list[Disputed]:
    values = (topic.connection, topic.key.cluster, topic.name)
    return [*disputes.of(*values), *examining.altered(*values)]


def _holes(topic: Topic, begin: int) -> list[Hole]:
    rows = topic.connection.execute(
        "SELECT journals.id, journal, tier, text, seen FROM journals"
        " LEFT JOIN names ON names.id = host WHERE cluster = ? AND (holes > 0 OR first_seq > ?)"
        " AND (tier = 'broker' OR EXISTS (SELECT 1 FROM journal_topics"
        "  WHERE name = ? AND journal_topics.journal = journals.id)) ORDER BY journal",
        (topic.key.cluster, _MOST_SEQ if begin else 0, topic.name),
    ).fetchall()
    holes = []
    for number, journal, tier, host, packed_entries in rows:
        if tier not in set(TierKind):
            continue
        entries, times = unpacked(np.array([number]), [packed_entries])
        first, first_time = int(entries.first[0]), int(times[0, 0])
        if first > 0 and not begin:
            holes.append(
                Hole(
                    journal, TierKind(tier), host or "", 0, first, first_time - _BEFORE, first_time
                )
            )
        holes += [
            Hole(journal, TierKind(tier), host or "", seq, end - seq, from_time, to_time)
            for seq, end, from_time, to_time in zip(
                entries.end[:-1].tolist(),
                entries.first[1:].tolist(),
                times[:-1, 1].tolist(),
                times[1:, 0].tolist(),
                strict=True,
            )
        ]
    return holes


def _file_faults(topic: Topic, from_time: int, to_time: int) -> list[FileFault]:
    if not _is_newest(topic):
        return []
    rows = topic.connection.execute(
        "SELECT tier, faults FROM checked JOIN tiers ON tiers.id = tier"
        " WHERE name = ?1 AND hour >= ?2 AND hour < ?3 AND length(faults) > 2"
        " AND NOT EXISTS (SELECT 1 FROM retired WHERE cluster = ?4 AND host = destination"
        "  AND agent = '' AND retired.time >= checked.time) ORDER BY hour, tier",
        (topic.name, from_time - from_time % HOUR, to_time, topic.key.cluster),
    )
    return [
        FileFault(
            topic.tiers[tier],
            fault["path"],
            fault["hour"],
            fault["fault"],
            fault["committed_rows"],
            fault["found_rows"],
        )
        for tier, faults in rows
        for fault in msgspec.json.decode(faults)
    ]


def _is_newest(topic: Topic) -> bool:
    """Whether this is the newest topic of its name: checkers of files know only the name."""
    rows = topic.connection.execute(
        "SELECT id FROM topics WHERE name = ? ORDER BY last DESC, topic_id DESC LIMIT 1",
        (topic.name,),
    ).fetchall()
    return rows == [(topic.id,)]


_MOST_NUMBER: Final = 1 << 62
_NONE: Final = ((-1, -1),)  # covers nothing, as an empty set stands for any


def accepted(connection: sqlite3.Connection, name: int, topic_id: str) -> list[Acceptance]:
    """Returns the acceptances that apply to this topic."""
    rows = connection.execute(
        "SELECT statement, time FROM accepted WHERE name = ? AND topic_id IN ('', ?)"
        " ORDER BY journal, seq, number",
        (name, topic_id),
    )
    return [_acceptance(msgspec.json.decode(statement), time) for statement, time in rows]


def _acceptance(statement: dict[str, Any], time: int) -> Acceptance:
    seqs: dict[str, list[Interval]] = defaultdict(list)
    lengths: dict[str, list[Interval]] = defaultdict(list)
    for run in statement["runs"]:
        if run["events"] > 0:
            seqs[run["source"]].append((run["seq"], run["seq"] + run["events"]))
        else:
            lengths[run["source"]].append((run["position"], run["end_position"]))
    offsets = [(part["first"], part["first"] + part["count"]) for part in statement["offsets"]]
    return Acceptance(
        statement["partition"],
        _united(offsets) or (_NONE if offsets else ()),
        {source: _united(pairs) for source, pairs in seqs.items()},
        {source: _united(pairs) for source, pairs in lengths.items()},
        statement["host"],
        statement["from_time"],
        statement["to_time"],
        statement["reason"],
        statement["operator"],
        time,
        file=statement["file"],
    )


def _united(intervals: Sequence[Interval]) -> Intervals:
    """Unites intervals, limited to possible numbers: an operator may have written "to the end"."""
    pairs = [(max(0, first), min(end, _MOST_NUMBER)) for first, end in intervals]
    columns = np.array([pair for pair in pairs if pair[0] < pair[1]], np.int64).reshape(-1, 2)
    result = Keyed(np.zeros(len(columns), np.int64), columns[:, 0], columns[:, 1]).united()
    return tuple(zip(result.first.tolist(), result.end.tolist(), strict=True))
