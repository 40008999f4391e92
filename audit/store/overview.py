"""Topics, and what was said of their hours: the overview's rows. Within one read transaction."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Container, Sequence
from typing import Any, Final

from audit.picture import TopicKey
from audit.store import loads_tried
from audit.store.expected import UNTIL
from audit.store.paging import cut, parted, pattern
from audit.store.rows import Paged, TopicRow
from audit.verdicts import State

HOUR: Final = 3_600_000
STATES: Final = tuple(each.value for each in State)  # the worst last
_NOT_LANDED: Final = State.PENDING.value  # at least, where no load commits anything

# Topics without an id are only known by name, until one with an id is spoken of.
KEYS: Final = """
SELECT topics.id, cluster, topic, topic_id, name FROM topics
    JOIN topic_names ON topic_names.id = name
    WHERE topic NOT LIKE '\\_%' ESCAPE '\\' AND (topic_id <> ''
        OR EXISTS (SELECT 1 FROM topic_tiers WHERE topic_tiers.topic = topics.id)
        OR NOT EXISTS (SELECT 1 FROM topics AS others WHERE others.name = topics.name
            AND others.topic_id <> ''))
"""


def topics(connection: sqlite3.Connection) -> list[TopicKey]:
    rows = connection.execute(KEYS + " ORDER BY cluster, topic, topics.last, topic_id")
    return [TopicKey(*row[1:4]) for row in rows]


def open_hours(connection: sqlite3.Connection, topic: int) -> list[int]:
    rows = connection.execute(
        "SELECT DISTINCT hours.hour FROM hours LEFT JOIN judged"
        " ON judged.topic = hours.topic AND judged.hour = hours.hour"
        " WHERE hours.topic = ?1 AND coalesce(state, '') <> 'complete'"
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


def states(
    connection: sqlite3.Connection, from_hour: int, to_hour: int, deleted: Container[TopicKey]
) -> dict[TopicKey, str]:
    unloaded = loads_tried.unloaded(connection)
    said: dict[int, set[str]] = defaultdict(set)
    for topic, state in connection.execute(
        "SELECT DISTINCT topic, state FROM judged WHERE hour >= ? AND hour < ?",
        (from_hour, to_hour),
    ):
        said[topic].add(state)
    keys = {row[0]: TopicKey(*row[1:4]) for row in connection.execute(KEYS)}
    for number, key in keys.items():
        if key[:2] in unloaded:
            said[number].add(_NOT_LANDED)
    return {
        key: max(
            (_settled(each) if key in deleted else each for each in said[number]),
            key=severity,
            default=STATES[0],
        )
        for number, key in keys.items()
    }


def _settled(state: str) -> str:
    """What a topic that was deleted waits for is not waited for."""
    return STATES[0] if state == "pending" else state


def severity(state: str) -> int:
    return STATES.index(state) if state in STATES else -1


_SORTS: Final[dict[str, Callable[[TopicRow], Any]]] = {
    "state": lambda row: (not row.load_fails, -severity(row.state)),
    "topic": lambda row: row.key,
    "events": lambda row: row.events,
    "missing": lambda row: row.missing,
    "excess": lambda row: row.excess,
    "agents": lambda row: row.agents,
}


def topic_rows(
    connection: sqlite3.Connection,
    *,
    from_hour: int,
    to_hour: int,
    cluster: str,
    search: str,
    state: str,
    deleted: Container[TopicKey],
    sort: str,
    page: int,
    size: int,
) -> Paged[TopicRow]:
    """All topics fit into memory: there are some hundreds of them."""
    where, values = "", []
    if cluster:
        where, values = " AND cluster = ?", [cluster]
    if search:
        where += " AND topic LIKE ? ESCAPE '\\'"
        values.append(pattern(search))
    rows = connection.execute(KEYS + where, values).fetchall()
    asked = str([row[0] for row in rows])
    judged = _judged(connection, asked, from_hour, to_hour)
    counts = _counts(connection, from_hour)
    agents = _agents(connection, to_hour - HOUR)
    unloaded = loads_tried.unloaded(connection)
    last = _last(connection, asked)
    hours = range(from_hour, to_hour, HOUR)
    found = [
        _row(
            TopicKey(*key),
            judged[id_],
            counts.get(id_, {}),
            hours,
            agents=agents.get(name, (0, 0)),
            last=last.get(id_, -1),
            deleted=TopicKey(*key) in deleted,
            load_fails=TopicKey(*key)[:2] in unloaded and TopicKey(*key) not in deleted,
        )
        for id_, *key, name in rows
    ]
    if state:
        found = [row for row in found if row.state == state]
    name_, down = parted(sort, _SORTS)
    found.sort(key=lambda row: row.key)
    found.sort(key=_SORTS[name_], reverse=down)
    return Paged(cut(found, page, size), len(found))


def _judged(
    connection: sqlite3.Connection, asked: str, from_hour: int, to_hour: int
) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for topic, *said in connection.execute(
        "SELECT topic, hour, state, events, missing, excess, pending_windows, findings, waits"
        " FROM judged WHERE topic IN (SELECT value FROM json_each(?)) AND hour >= ? AND hour < ?"
        " ORDER BY topic, hour",
        (asked, from_hour, to_hour),
    ):
        found[topic].append(tuple(said))
    return found


def _row(
    key: TopicKey,
    judged: Sequence[tuple[Any, ...]],
    counts: dict[int, int],
    hours: range,
    *,
    agents: tuple[int, int],
    last: int,
    deleted: bool,
    load_fails: bool,
) -> TopicRow:
    """Of one that was deleted nothing is waited for; one whose loads fail is not complete."""
    states = {hour: _settled(state) if deleted else state for hour, state, *_ in judged}
    waits = [each[7] for each in judged if each[7] and not deleted]
    worst = max(
        [*states.values(), *([_NOT_LANDED] if load_fails else [])], key=severity, default=STATES[0]
    )
    missing, excess, pending, findings = (sum(each[at] for each in judged) for at in (3, 4, 5, 6))
    return TopicRow(
        key,
        worst,
        sum(counts.get(hour, 0) for hour in hours),
        missing,
        excess,
        0 if deleted else pending,
        findings,
        *agents,
        last,
        [counts.get(hour, 0) for hour in hours],
        [states.get(hour, "") for hour in hours],
        waits[-1] if waits else "",
        deleted,
        load_fails,
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
