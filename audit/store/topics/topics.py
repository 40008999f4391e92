"""Reads the list of topics: verdicts about their hours, delays of their events, and the outcome of
their lines. Runs in one read transaction."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import msgspec

from audit.api.answers import Flow, ListPage, TopicRow
from audit.api.queries import TopicsQuery, order, pattern
from audit.reconciling.dead_letters import DeadLetters
from audit.reconciling.findings import Kinds, State, or_empty, summed, worst_first
from audit.reconciling.picture import Tier, TopicKey
from audit.reconciling.topic_verdict import settled_state
from audit.store.fleet.agents import UNTIL
from audit.store.statements import loads
from ground.known_types import known_type

HOUR: Final = 3_600_000
UNKNOWN: Final = -1

# A topic without an id is known by name only, until one with an id is reported.
KEYS: Final = """
SELECT topics.id, cluster, topic, topic_id, name FROM topics
    JOIN topic_names ON topic_names.id = name
    WHERE topic NOT LIKE '\\_%' ESCAPE '\\' AND (topic_id <> ''
        OR EXISTS (SELECT 1 FROM topic_tiers WHERE topic_tiers.topic = topics.id)
        OR NOT EXISTS (SELECT 1 FROM topics AS others WHERE others.name = topics.name
            AND others.topic_id <> ''))
"""

Delays = dict[Tier, tuple[int, ...]]  # counts by doublings of a millisecond


class FaultyTopic(NamedTuple):
    """A topic with faults: the kinds of its faults, and its first and last faulty hour."""

    key: TopicKey
    kinds: Kinds
    first_hour: int
    last_hour: int


class Overview(NamedTuple):
    """A page of topics. The counts do not depend on the search: topics of the cluster by state,
    topics with at least one hour in a state, all faults that operators accepted, and dead letters.
    Only `matching` counts the topics of a state that match the search."""

    by_state: Counter[State]
    having: Counter[State]
    matching: Counter[State]
    accepted: Kinds
    dead: Mapping[TopicKey, DeadLetters]
    page: ListPage
    items: Sequence[TopicRow]


def topics(connection: sqlite3.Connection) -> list[TopicKey]:
    rows = connection.execute(KEYS + " ORDER BY cluster, topic, topics.last, topic_id")
    return [TopicKey(*row[1:4]) for row in rows]


def retired(connection: sqlite3.Connection) -> frozenset[TopicKey]:
    """Returns the topics that operators have accepted as a whole and to which no agent has shipped
    since."""
    rows = connection.execute(
        "SELECT cluster, topic, topics.topic_id, statement FROM accepted"
        " JOIN topics ON topics.name = accepted.name"
        " JOIN topic_names ON topic_names.id = topics.name"
        " WHERE accepted.topic_id IN ('', topics.topic_id) AND NOT EXISTS (SELECT 1 FROM sources"
        "  WHERE sources.topic = topics.id AND sources.last > accepted.time)"
    )
    return frozenset(
        TopicKey(*key) for *key, statement in rows if _is_whole(msgspec.json.decode(statement))
    )


def accepted_names(connection: sqlite3.Connection) -> frozenset[tuple[str, str]]:
    rows = connection.execute(
        "SELECT DISTINCT cluster, topic FROM accepted JOIN topic_names ON topic_names.id = name"
    )
    return frozenset((cluster, topic) for cluster, topic in rows)


def _is_whole(statement: Mapping[str, Any]) -> bool:
    limits = (
        statement["offsets"],
        statement["runs"],
        statement["host"],
        statement["file"],
        statement["to_time"] is not None,
    )
    return statement["partition"] < 0 and statement["from_time"] == 0 and not any(limits)


def open_hours(connection: sqlite3.Connection, topic: int) -> list[int]:
    rows = connection.execute(
        "SELECT DISTINCT hours.hour FROM hours LEFT JOIN judged"
        " ON judged.topic = ?1 AND judged.hour = hours.hour"
        " WHERE (hours.topic = ?1"
        "  OR hours.topic IN (SELECT origin FROM copied WHERE copied.copy = ?1))"
        " AND coalesce(state, '') <> 'complete'"
        " UNION SELECT hour FROM judged WHERE topic = ?1 AND state <> 'complete' ORDER BY 1",
        (topic,),
    )
    return [hour for (hour,) in rows]


def faulty_hours(connection: sqlite3.Connection, topic: int) -> list[int]:
    rows = connection.execute(
        "SELECT hour FROM judged WHERE topic = ? AND state <> 'complete' AND findings > 0"
        " ORDER BY hour",
        (topic,),
    )
    return [hour for (hour,) in rows]


def faulty_topics(
    connection: sqlite3.Connection, cluster: str, from_hour: int, to_hour: int
) -> list[FaultyTopic]:
    """Returns topics with open faults in these hours."""
    kinds_by_topic: dict[int, list[tuple[int, Kinds]]] = defaultdict(list)
    for topic, hour, kinds in connection.execute(
        "SELECT topic, hour, kinds FROM judged WHERE hour >= ? AND hour < ? AND kinds <> '[]'"
        " ORDER BY hour",
        (from_hour, to_hour),
    ):
        kinds_by_topic[topic].append((hour, _kinds(kinds)))
    return [
        FaultyTopic(
            TopicKey(*key),
            summed(count for _, kinds in kinds_by_topic[number] for count in kinds),
            kinds_by_topic[number][0][0],
            kinds_by_topic[number][-1][0],
        )
        for number, *key, _ in connection.execute(KEYS)
        if number in kinds_by_topic and cluster in {"", key[0]}
    ]


def hour_counts(connection: sqlite3.Connection, from_hour: int) -> dict[TopicKey, dict[int, int]]:
    keys = {row[0]: TopicKey(*row[1:4]) for row in connection.execute(KEYS)}
    counts_by_topic: dict[TopicKey, dict[int, int]] = defaultdict(dict)
    for number, by_hour in _counts(connection, from_hour).items():
        if number in keys:
            counts_by_topic[keys[number]] = by_hour
    return dict(counts_by_topic)


def _counts(connection: sqlite3.Connection, from_hour: int) -> dict[int, dict[int, int]]:
    """Returns events by topic and hour: as counted by agents, or by brokers if these have more; by
    loaders only if no other tier counts."""
    counts_by_topic: dict[int, dict[int, int]] = defaultdict(dict)
    for topic, hour, shipped_events, landed_events in connection.execute(
        "SELECT topic, hour, max(CASE WHEN kind <> 'hdfs' THEN events END), max(events)"
        " FROM hours JOIN tiers ON tiers.id = tier WHERE hour >= ?"
        " AND (topic, tier) NOT IN replaced GROUP BY topic, hour",
        (from_hour,),
    ):
        counts_by_topic[topic][hour] = landed_events if shipped_events is None else shipped_events
    return counts_by_topic


_STATES: Final = {state.value: state for state in State}  # looked up, as there are thousands
_SORTS: Final[dict[str, Callable[[TopicRow], Any]]] = {
    "state": lambda row: (not row.load_fails, -row.state.severity),
    "topic": lambda row: (row.cluster, row.topic, row.topic_id),
    "events": lambda row: row.events,
    "missing": lambda row: row.missing,
    "excess": lambda row: row.excess,
    "agents": lambda row: row.agents,
}


def overview(
    connection: sqlite3.Connection,
    query: TopicsQuery,
    to_hour: int,
    is_deleted: Callable[[TopicKey], bool],
) -> Overview:
    """Returns a page of topics. There are only some hundreds of topics, so all of them fit into
    memory."""
    hours = range(to_hour - query.hours * HOUR, to_hour, HOUR)
    unloaded_topics = loads.unloaded(connection)
    counts = _counts(connection, hours.start)
    rows = _rows(connection, query, hours, counts, unloaded=unloaded_topics, is_deleted=is_deleted)
    matching_counts = Counter(state for row in rows for state in row.having)
    if query.state:
        rows = [row for row in rows if query.state in row.having]
    name, is_descending = order(query.sort, _SORTS)
    rows.sort(key=_SORTS["topic"])
    rows.sort(key=_SORTS[name], reverse=is_descending)
    states = _states(connection, hours, counts, unloaded_topics, is_deleted, cluster=query.cluster)
    return Overview(
        Counter(state[0] for state in states),
        Counter(state for states_of_topic in states for state in states_of_topic),
        matching_counts,
        _accepted(connection, hours, query.cluster),
        _dead(connection, hours, query.cluster),
        query.of(len(rows)),
        query.cut(rows),
    )


def _states(
    connection: sqlite3.Connection,
    hours: range,
    counts: Mapping[int, Mapping[int, int]],
    unloaded: set[tuple[str, str]],
    is_deleted: Callable[[TopicKey], bool],
    *,
    cluster: str,
) -> list[list[State]]:
    """Returns the states of each topic, the worst first."""
    states_by_topic: dict[int, set[State]] = defaultdict(set)
    for topic, state, waits, kinds in connection.execute(
        "SELECT DISTINCT topic, state, pending_windows > 0, kinds FROM judged"
        " WHERE hour >= ? AND hour < ?",
        (hours.start, hours.stop),
    ):
        states_by_topic[topic] |= _hour_states(state, waits, _kinds(kinds))
    topic_states = []
    for number, *key, _ in connection.execute(KEYS):
        topic_key = TopicKey(*key)
        if cluster not in {"", topic_key.cluster}:
            continue
        load_fails = topic_key[:2] in unloaded
        events = _events_in(hours, counts.get(number, {}))
        states, is_gone = states_by_topic[number], is_deleted(topic_key)
        topic_states.append(_having(states, events, deleted=is_gone, load_fails=load_fails))
    return topic_states


def _kinds(packed: str) -> Kinds:
    return msgspec.json.decode(packed, type=known_type(Kinds)) if packed != "[]" else ()


def _hour_states(state: str, waits: int, kinds: Kinds) -> set[State]:
    """Returns all states of an hour, not only the worst."""
    return {
        _STATES[state],
        *(kind.kind.state for kind in kinds),
        *([State.PENDING] if waits else []),
    }


def _events_in(hours: range, counts: Mapping[int, int]) -> int:
    return sum(counts.get(hour, 0) for hour in hours)


def _having(states: set[State], events: int, *, deleted: bool, load_fails: bool) -> list[State]:
    """Returns a topic's states, the worst first. A deleted topic is never pending; one whose loads
    fail is not complete."""
    if deleted:
        states = {settled_state(state) for state in states}
    elif load_fails:
        states = states | {State.PENDING}
    return worst_first(states - {State.COMPLETE}) or [or_empty(State.COMPLETE, events)]


def _accepted(connection: sqlite3.Connection, hours: range, cluster: str) -> Kinds:
    rows = connection.execute(
        f"SELECT accepted, cluster FROM judged JOIN ({KEYS}) AS keys ON keys.id = judged.topic"  # noqa: S608
        " WHERE accepted <> '[]' AND hour >= ? AND hour < ?",
        (hours.start, hours.stop),
    )
    return summed(
        count for packed, name in rows if cluster in {"", name} for count in _kinds(packed)
    )


def _dead(
    connection: sqlite3.Connection, hours: range, cluster: str
) -> dict[TopicKey, DeadLetters]:
    """Returns the dead letters of topics that have any."""
    rows = connection.execute(
        "SELECT cluster, keys.topic, topic_id, sum(dead_lines), sum(dead_events)"  # noqa: S608
        f" FROM judged JOIN ({KEYS}) AS keys ON keys.id = judged.topic"
        " WHERE dead_lines + dead_events > 0 AND hour >= ? AND hour < ? GROUP BY keys.id"
        " ORDER BY 1, 2, 3",
        (hours.start, hours.stop),
    )
    return {
        TopicKey(*key): DeadLetters(lines=lines, events=events)
        for *key, lines, events in rows
        if cluster in {"", key[0]}
    }


def accepted_in(connection: sqlite3.Connection, cluster: str, topic: str, hour: int) -> Kinds:
    """Returns the faults that operators accepted in an hour of a topic, including deleted topics of
    that name."""
    rows = connection.execute(
        "SELECT accepted FROM judged JOIN topics ON topics.id = judged.topic"
        " JOIN topic_names ON topic_names.id = name"
        " WHERE cluster = ? AND topic_names.topic = ? AND hour = ?",
        (cluster, topic, hour),
    )
    return summed(count for (packed,) in rows for count in _kinds(packed))


def _rows(
    connection: sqlite3.Connection,
    query: TopicsQuery,
    hours: range,
    counts: Mapping[int, Mapping[int, int]],
    *,
    unloaded: set[tuple[str, str]],
    is_deleted: Callable[[TopicKey], bool],
) -> list[TopicRow]:
    condition, values = "", []
    if query.cluster:
        condition, values = " AND cluster = ?", [query.cluster]
    if query.search:
        condition += " AND topic LIKE ? ESCAPE '\\'"
        values.append(pattern(query.search))
    rows = connection.execute(KEYS + condition, values).fetchall()
    ids = str([row[0] for row in rows])
    judged_by_topic = _judged(connection, ids, hours)
    agents = _agents(connection, hours.stop - HOUR)
    last_by_topic = _last(connection, ids)
    topic_rows = []
    for number, *names, name in rows:
        key = TopicKey(*names)
        is_gone = is_deleted(key)
        topic_rows.append(
            _row(
                key,
                judged_by_topic[number],
                counts.get(number, {}),
                hours,
                agents=agents.get(name, (0, 0)),
                last=last_by_topic.get(number, -1),
                deleted=is_gone,
                load_fails=key[:2] in unloaded and not is_gone,
            )
        )
    return topic_rows


def _judged(
    connection: sqlite3.Connection, ids: str, hours: range
) -> dict[int, list[tuple[Any, ...]]]:
    judged_by_topic: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for topic, *columns in connection.execute(
        "SELECT topic, hour, state, events, missing, excess, pending_windows, findings, waits,"
        " accepted, kinds, dead_lines, dead_events"
        " FROM judged WHERE topic IN (SELECT value FROM json_each(?)) AND hour >= ? AND hour < ?"
        " ORDER BY topic, hour",
        (ids, hours.start, hours.stop),
    ):
        judged_by_topic[topic].append(tuple(columns))
    return judged_by_topic


def _row(
    key: TopicKey,
    judged: Sequence[tuple[Any, ...]],
    counts: Mapping[int, int],
    hours: range,
    *,
    agents: tuple[int, int],
    last: int,
    deleted: bool,
    load_fails: bool,
) -> TopicRow:
    """Returns a topic's row. A deleted topic is never pending; one whose loads fail is not
    complete; hours that were never judged count as complete."""
    states = {hour: _STATES[state] for hour, state, *_ in judged}
    if deleted:
        states = {hour: settled_state(state) for hour, state in states.items()}
    waits = [row[7] for row in judged if row[7] and not deleted]
    missing_events, excess_events, pending_events, findings = (
        sum(row[column] for row in judged) for column in (3, 4, 5, 6)
    )
    kinds = [_kinds(row[9]) for row in judged]
    all_states = set[State]()
    for row, hour_kinds in zip(judged, kinds, strict=True):
        all_states |= _hour_states(row[1], row[5], hour_kinds)
    events = _events_in(hours, counts)
    row_states = _having(all_states, events, deleted=deleted, load_fails=load_fails)
    return TopicRow(
        cluster=key.cluster,
        topic=key.topic,
        topic_id=key.topic_id,
        state=row_states[0],
        events=events,
        missing=missing_events,
        excess=excess_events,
        pending_windows=0 if deleted else pending_events,
        findings=findings,
        agents=agents[0],
        agents_behind=agents[1],
        last_event=last,
        from_hour=hours.start,
        counts=[counts.get(hour, 0) for hour in hours],
        states=[states.get(hour, State.COMPLETE) for hour in hours],
        waits=waits[-1] if waits else "",
        deleted=deleted,
        load_fails=load_fails,
        accepted=summed(count for row in judged for count in _kinds(row[8])),
        having=row_states,
        kinds=summed(count for kind in kinds for count in kind),
        dead=DeadLetters(
            lines=sum(row[10] for row in judged), events=sum(row[11] for row in judged)
        ),
    )


def _agents(connection: sqlite3.Connection, before: int) -> dict[int, tuple[int, int]]:
    """Returns, by the id of a topic's name, how many agents it has, and how many are behind."""
    rows = connection.execute(
        f"SELECT name, count(*), sum({UNTIL} < ?) FROM agent_topics JOIN agents USING (journal)"  # noqa: S608
        " WHERE last_named >= named_seq GROUP BY name",
        (before,),
    )
    return {name: (count, delay) for name, count, delay in rows}


def _last(connection: sqlite3.Connection, ids: str) -> dict[int, int]:
    """Returns the beginning of each topic's newest window."""
    rows = connection.execute(
        "SELECT value, (SELECT max(start) FROM sums WHERE topic = value) FROM json_each(?)",
        (ids,),
    )
    return {topic: last_time for topic, last_time in rows if last_time is not None}


def delays(
    connection: sqlite3.Connection,
    topic: int,
    tiers: dict[int, Tier],
    from_time: int,
    to_time: int,
) -> Delays:
    """Returns delays of whole hours."""
    counts: dict[Tier, list[tuple[int, ...]]] = defaultdict(list)
    for hour_delays in delays_by_hour(connection, topic, tiers, from_time, to_time).values():
        for tier, tier_counts in hour_delays.items():
            counts[tier].append(tier_counts)
    return {
        tier: tuple(map(sum, zip_longest(*all_counts, fillvalue=0)))
        for tier, all_counts in counts.items()
    }


def delays_by_hour(
    connection: sqlite3.Connection,
    topic: int,
    tiers: dict[int, Tier],
    from_time: int,
    to_time: int,
) -> dict[int, Delays]:
    counts: dict[int, dict[Tier, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for hour, tier, doubling, events in connection.execute(
        "SELECT hour, tier, doubling, sum(events) FROM delays WHERE topic = ? AND hour >= ?"
        " AND hour < ? AND (topic, tier) NOT IN replaced GROUP BY hour, tier, doubling",
        (topic, from_time - from_time % HOUR, to_time),
    ):
        by_doubling = counts[hour][tiers[tier]]
        by_doubling[doubling] = by_doubling.get(doubling, 0) + events
    return {
        hour: {
            tier: tuple(
                doubling_counts.get(number, 0) for number in range(max(doubling_counts) + 1)
            )
            for tier, doubling_counts in tiers_counts.items()
        }
        for hour, tiers_counts in counts.items()
    }


def flow(connection: sqlite3.Connection, topic: int, from_time: int, to_time: int) -> Flow:
    """Returns the outcome of lines. `read` is the sum of the outcomes; `lost` and `read` are -1 if
    unknown."""
    (row,) = connection.execute(
        "SELECT sum(shipped), sum(filtered), sum(dead), sum(lost), sum(lost_unknown),"
        " sum(lost_bytes), sum(events) FROM flows WHERE topic = ? AND start >= ? AND start < ?",
        (topic, from_time, to_time),
    ).fetchall()
    shipped_lines, filtered_lines, dead_lines, lost_lines, unknown_losses, lost_bytes, events = (
        value or 0 for value in row
    )
    return Flow(
        read=UNKNOWN
        if unknown_losses
        else shipped_lines + filtered_lines + dead_lines + lost_lines,
        shipped=shipped_lines,
        filtered=filtered_lines,
        dead=dead_lines,
        lost=UNKNOWN if unknown_losses else lost_lines,
        lost_bytes=lost_bytes,
        events=events,
    )
