"""Topics: what was said of their hours, how late their events were, what became of their lines.
Within one read transaction."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import msgspec

from audit.api.answers import Flow, ListPage, TopicRow
from audit.api.queries import TopicsQuery, order, pattern
from audit.api.verdicts import settled_state
from audit.findings import Kinds, State, or_empty, summed, worst_first
from audit.picture import Tier, TopicKey
from audit.store.fleet.agents import UNTIL
from audit.store.statements import loads
from ground.known_types import known_type

HOUR: Final = 3_600_000
UNKNOWN: Final = -1

# Topics without an id are only known by name, until one with an id is spoken of.
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
    """A topic with faults in some hours: what is wrong, and between which hours."""

    key: TopicKey
    kinds: Kinds
    first_hour: int
    last_hour: int


class Overview(NamedTuple):
    """A page of topics; and, whatever is searched for, how many of the cluster there are of each
    state, how many have anything of each state, and how many topics nobody watched for a time,
    which is accepted."""

    by_state: Counter[State]
    having: Counter[State]
    partly_unseen: int
    page: ListPage
    items: Sequence[TopicRow]


def topics(connection: sqlite3.Connection) -> list[TopicKey]:
    rows = connection.execute(KEYS + " ORDER BY cluster, topic, topics.last, topic_id")
    return [TopicKey(*row[1:4]) for row in rows]


def retired(connection: sqlite3.Connection) -> frozenset[TopicKey]:
    """Topics that operators have accepted as a whole, and to which no agent has shipped since."""
    rows = connection.execute(
        "SELECT cluster, topic, topics.topic_id, statement FROM accepted"
        " JOIN topics ON topics.name = accepted.name"
        " JOIN topic_names ON topic_names.id = topics.name"
        " WHERE accepted.topic_id IN ('', topics.topic_id) AND NOT EXISTS (SELECT 1 FROM sources"
        "  WHERE sources.topic = topics.id AND sources.last > accepted.time)"
    )
    return frozenset(TopicKey(*key) for *key, said in rows if _is_whole(msgspec.json.decode(said)))


def _is_whole(said: Mapping[str, Any]) -> bool:
    limits = said["offsets"], said["runs"], said["host"], said["to_time"] is not None
    return said["partition"] < 0 and said["from_time"] == 0 and not any(limits)


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
    """Those with faults in these hours that nobody has accepted."""
    found: dict[int, list[tuple[int, Kinds]]] = defaultdict(list)
    for topic, hour, kinds in connection.execute(
        "SELECT topic, hour, kinds FROM judged WHERE hour >= ? AND hour < ? AND kinds <> '[]'"
        " ORDER BY hour",
        (from_hour, to_hour),
    ):
        found[topic].append((hour, _kinds(kinds)))
    return [
        FaultyTopic(
            TopicKey(*key),
            summed(count for _, kinds in found[number] for count in kinds),
            found[number][0][0],
            found[number][-1][0],
        )
        for number, *key, _ in connection.execute(KEYS)
        if number in found and cluster in {"", key[0]}
    ]


def hour_counts(connection: sqlite3.Connection, from_hour: int) -> dict[TopicKey, dict[int, int]]:
    keys = {row[0]: TopicKey(*row[1:4]) for row in connection.execute(KEYS)}
    found: dict[TopicKey, dict[int, int]] = defaultdict(dict)
    for number, by_hour in _counts(connection, from_hour).items():
        if number in keys:
            found[keys[number]] = by_hour
    return dict(found)


def _counts(connection: sqlite3.Connection, from_hour: int) -> dict[int, dict[int, int]]:
    """As agents have them, or brokers if these have more; loaders only where nobody else counts."""
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for topic, hour, before, landed in connection.execute(
        "SELECT topic, hour, max(CASE WHEN kind <> 'hdfs' THEN events END), max(events)"
        " FROM hours JOIN tiers ON tiers.id = tier WHERE hour >= ?"
        " AND (topic, tier) NOT IN replaced GROUP BY topic, hour",
        (from_hour,),
    ):
        found[topic][hour] = landed if before is None else before
    return found


_STATES: Final = {each.value: each for each in State}  # looked up, as there are thousands
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
    """All topics fit into memory: there are some hundreds of them."""
    hours = range(to_hour - query.hours * HOUR, to_hour, HOUR)
    unloaded = loads.unloaded(connection)
    counts = _counts(connection, hours.start)
    found = _rows(connection, query, hours, counts, unloaded=unloaded, is_deleted=is_deleted)
    if query.state:
        found = [row for row in found if query.state in row.having]
    name, down = order(query.sort, _SORTS)
    found.sort(key=_SORTS["topic"])
    found.sort(key=_SORTS[name], reverse=down)
    states = _states(connection, hours, counts, unloaded, is_deleted, cluster=query.cluster)
    return Overview(
        Counter(each[0] for each in states),
        Counter(state for each in states for state in each),
        _partly_unseen(connection, hours),
        query.of(len(found)),
        query.cut(found),
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
    """What each topic has anything of, the worst first."""
    said: dict[int, set[State]] = defaultdict(set)
    for topic, state, waits, kinds in connection.execute(
        "SELECT DISTINCT topic, state, pending_windows > 0, kinds FROM judged"
        " WHERE hour >= ? AND hour < ?",
        (hours.start, hours.stop),
    ):
        said[topic] |= _hour_states(state, waits, _kinds(kinds))
    found = []
    for number, *key, _ in connection.execute(KEYS):
        about = TopicKey(*key)
        if cluster not in {"", about.cluster}:
            continue
        fails = about[:2] in unloaded
        events = _events_in(hours, counts.get(number, {}))
        states, deleted = said[number], is_deleted(about)
        found.append(_having(states, events, deleted=deleted, load_fails=fails))
    return found


def _kinds(packed: str) -> Kinds:
    return msgspec.json.decode(packed, type=known_type(Kinds)) if packed != "[]" else ()


def _hour_states(state: str, waits: int, kinds: Kinds) -> set[State]:
    """All that an hour has anything of: its worst state hides none."""
    return {
        _STATES[state],
        *(each.kind.state for each in kinds),
        *([State.PENDING] if waits else []),
    }


def _events_in(hours: range, counts: Mapping[int, int]) -> int:
    return sum(counts.get(hour, 0) for hour in hours)


def _having(states: set[State], events: int, *, deleted: bool, load_fails: bool) -> list[State]:
    """Nothing is waited for of one that was deleted; one whose loads fail is not complete."""
    if deleted:
        states = {settled_state(each) for each in states}
    elif load_fails:
        states = states | {State.PENDING}
    return worst_first(states - {State.COMPLETE}) or [or_empty(State.COMPLETE, events)]


def _partly_unseen(connection: sqlite3.Connection, hours: range) -> int:
    ((count,),) = connection.execute(
        "SELECT count(DISTINCT topic) FROM judged WHERE partly_unseen AND hour >= ? AND hour < ?",
        (hours.start, hours.stop),
    ).fetchall()
    return int(count)


def _rows(
    connection: sqlite3.Connection,
    query: TopicsQuery,
    hours: range,
    counts: Mapping[int, Mapping[int, int]],
    *,
    unloaded: set[tuple[str, str]],
    is_deleted: Callable[[TopicKey], bool],
) -> list[TopicRow]:
    where, values = "", []
    if query.cluster:
        where, values = " AND cluster = ?", [query.cluster]
    if query.search:
        where += " AND topic LIKE ? ESCAPE '\\'"
        values.append(pattern(query.search))
    rows = connection.execute(KEYS + where, values).fetchall()
    asked = str([row[0] for row in rows])
    judged = _judged(connection, asked, hours)
    agents = _agents(connection, hours.stop - HOUR)
    last = _last(connection, asked)
    found = []
    for number, *names, name in rows:
        key = TopicKey(*names)
        deleted = is_deleted(key)
        found.append(
            _row(
                key,
                judged[number],
                counts.get(number, {}),
                hours,
                agents=agents.get(name, (0, 0)),
                last=last.get(number, -1),
                deleted=deleted,
                load_fails=key[:2] in unloaded and not deleted,
            )
        )
    return found


def _judged(
    connection: sqlite3.Connection, asked: str, hours: range
) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for topic, *said in connection.execute(
        "SELECT topic, hour, state, events, missing, excess, pending_windows, findings, waits,"
        " partly_unseen, kinds"
        " FROM judged WHERE topic IN (SELECT value FROM json_each(?)) AND hour >= ? AND hour < ?"
        " ORDER BY topic, hour",
        (asked, hours.start, hours.stop),
    ):
        found[topic].append(tuple(said))
    return found


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
    """Of one that was deleted nothing is waited for; one whose loads fail is not complete, and an
    hour that was never judged has nothing against it."""
    states = {hour: _STATES[state] for hour, state, *_ in judged}
    if deleted:
        states = {hour: settled_state(state) for hour, state in states.items()}
    waits = [each[7] for each in judged if each[7] and not deleted]
    missing, excess, pending, findings = (sum(each[at] for each in judged) for at in (3, 4, 5, 6))
    kinds = [_kinds(each[9]) for each in judged]
    had = set[State]()
    for each, of_hour in zip(judged, kinds, strict=True):
        had |= _hour_states(each[1], each[5], of_hour)
    events = _events_in(hours, counts)
    having = _having(had, events, deleted=deleted, load_fails=load_fails)
    return TopicRow(
        cluster=key.cluster,
        topic=key.topic,
        topic_id=key.topic_id,
        state=having[0],
        events=events,
        missing=missing,
        excess=excess,
        pending_windows=0 if deleted else pending,
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
        partly_unseen=any(each[8] for each in judged),
        having=having,
        kinds=summed(count for each in kinds for count in each),
    )


def _agents(connection: sqlite3.Connection, before: int) -> dict[int, tuple[int, int]]:
    """By topic's name: how many there are, and how many of them have not come to that time."""
    rows = connection.execute(
        f"SELECT name, count(*), sum({UNTIL} < ?) FROM agent_topics JOIN agents USING (journal)"  # noqa: S608
        " WHERE last_named >= named_seq GROUP BY name",
        (before,),
    )
    return {name: (count, behind) for name, count, behind in rows}


def _last(connection: sqlite3.Connection, asked: str) -> dict[int, int]:
    """Where the newest window begins in which something happened."""
    rows = connection.execute(
        "SELECT value, (SELECT max(start) FROM sums WHERE topic = value) FROM json_each(?)",
        (asked,),
    )
    return {topic: last for topic, last in rows if last is not None}


def delays(
    connection: sqlite3.Connection,
    topic: int,
    tiers: dict[int, Tier],
    from_time: int,
    to_time: int,
) -> Delays:
    """Of whole hours."""
    counts: dict[Tier, list[tuple[int, ...]]] = defaultdict(list)
    for of_hour in delays_by_hour(connection, topic, tiers, from_time, to_time).values():
        for tier, found in of_hour.items():
            counts[tier].append(found)
    return {
        tier: tuple(map(sum, zip_longest(*several, fillvalue=0)))
        for tier, several in counts.items()
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
            tier: tuple(found.get(each, 0) for each in range(max(found) + 1))
            for tier, found in of_hour.items()
        }
        for hour, of_hour in counts.items()
    }


def flow(connection: sqlite3.Connection, topic: int, from_time: int, to_time: int) -> Flow:
    """What was read is what became of it. -1 in `lost` and `read` where nobody can know."""
    (row,) = connection.execute(
        "SELECT sum(shipped), sum(filtered), sum(dead), sum(lost), sum(lost_unknown),"
        " sum(lost_bytes), sum(events) FROM flows WHERE topic = ? AND start >= ? AND start < ?",
        (topic, from_time, to_time),
    ).fetchall()
    shipped, filtered, dead, lost, unknown, lost_bytes, events = (each or 0 for each in row)
    return Flow(
        read=UNKNOWN if unknown else shipped + filtered + dead + lost,
        shipped=shipped,
        filtered=filtered,
        dead=dead,
        lost=UNKNOWN if unknown else lost,
        lost_bytes=lost_bytes,
        events=events,
    )
