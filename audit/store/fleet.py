"""Agents and other writers of the ledger, a page at a time. Within one read transaction.

An agent is retired, or silent if it was not heard for too long, or behind if one of its topics is
more than `_BEHIND` after when it was heard last, or ok. What is too long, is told by its own pace:
an agent is heard once in each window, however idle it is, or as seldom as its entries were so far.
A host of the inventory that was never heard is `never`. All of them are looked at for every page: a
fleet is some ten thousand.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final

from audit.store.expected import UNTIL, Retired
from audit.store.paging import cut, parted, pattern
from audit.store.rows import AgentRow, Agents, JournalRow, Paged
from ledger.agents import LEFT_MILLIS

_BEHIND: Final = 180_000
_PACES: Final = 2.5  # in which nothing was heard: the last may have been under way
_ORDER: Final = ("never", "silent", "behind", "ok", "retired")

_SORTS: Final[dict[str, Callable[[tuple[Any, ...]], Any]]] = {
    "state": lambda row: _ORDER.index(row[0]),
    "host": lambda row: row[3],
    "lag": lambda row: row[6],
    "heard": lambda row: row[4],
    "until": lambda row: row[5],
}
_ROWS: Final = f"""
SELECT agents.journal, journals.journal, agents.cluster, coalesce(text, ''), heard,
    coalesce((SELECT min({UNTIL}) FROM agent_topics WHERE agent_topics.journal = agents.journal
        AND (last_named >= named_seq OR heard - agent_topics.last_time < {LEFT_MILLIS})), 0),
    lag_bytes, version, max(0, last_time - first_time) / max(1, entries - 1)
    FROM agents JOIN journals ON journals.id = agents.journal
    LEFT JOIN names ON names.id = agents.host WHERE heard >= ?
"""  # noqa: S608


def agents(
    connection: sqlite3.Connection,
    *,
    now: int,
    silent_millis: int,
    window_millis: int,
    expected_millis: int,
    cluster: str,
    state: str,
    search: str,
    sort: str,
    page: int,
    size: int,
) -> Agents:
    """Without `window_millis` the pace of an agent does not matter, only `silent_millis` does."""
    where, values = "", list[int | str]([now - expected_millis])
    if cluster:
        where, values = " AND agents.cluster = ?", [*values, cluster]
    if search:
        where += " AND (text LIKE ? ESCAPE '\\' OR journals.journal LIKE ? ESCAPE '\\')"
        values += [pattern(search)] * 2
    retired = {
        each: Retired(connection, each)
        for (each,) in connection.execute("SELECT DISTINCT cluster FROM retired")
    }
    rows = []
    for number, agent, cluster_, host, heard, until, lag, version, pace in connection.execute(
        _ROWS + where, values
    ):
        usual = int(_PACES * max(window_millis, pace))
        patience = min(silent_millis, usual) if window_millis else silent_millis
        reason = _reason(retired.get(cluster_), host, agent, heard)
        rows.append(
            (
                _state(reason, heard, until, now, patience),
                number,
                agent,
                host,
                heard,
                until,
                lag,
                version,
                cluster_,
                reason or "",
            )
        )
    rows += _never(connection, retired, cluster, search)
    counted = Counter(row[0] for row in rows)
    if state:
        rows = [row for row in rows if row[0] == state]
    name, down = parted(sort, _SORTS)
    rows.sort(key=lambda row: (row[3], row[2]))
    rows.sort(key=_SORTS[name], reverse=down)
    shown = cut(rows, page, size)
    topics = _topics(connection, [row[1] for row in shown])
    items = [
        AgentRow(agent, host, of, version, topics[number], lag, heard, until, state_, reason)
        for state_, number, agent, host, heard, until, lag, version, of, reason in shown
    ]
    return Agents(Paged(items, len(rows)), {each: counted[each] for each in _ORDER})


def _state(reason: str | None, heard: int, until: int, now: int, patience: int) -> str:
    if reason is not None:
        return "retired"
    if heard < now - patience:
        return "silent"
    return "behind" if until < heard - _BEHIND else "ok"


def _reason(retired: Retired | None, host: str, agent: str, heard: int) -> str | None:
    said = retired.statement(host, agent, heard) if retired else []
    return said[0][1] if said else None


def _never(
    connection: sqlite3.Connection, retired: dict[str, Retired], cluster: str, search: str
) -> list[tuple[Any, ...]]:
    """Hosts of the inventory that nobody has heard of."""
    found: list[tuple[Any, ...]] = []
    for (host,) in connection.execute(
        "SELECT DISTINCT host FROM inventory WHERE host LIKE ? ESCAPE '\\' AND host NOT IN"
        " (SELECT text FROM agents JOIN names ON names.id = agents.host)",
        (pattern(search),),
    ):
        asked = [retired[cluster]] if cluster in retired else list(retired.values())
        reasons = [each for some in asked if (each := _reason(some, host, "", 0)) is not None]
        state, reason = ("retired", reasons[0]) if reasons else ("never", "")
        found.append((state, -1, "", host, -1, 0, -1, "", cluster, reason))
    return found


def _topics(connection: sqlite3.Connection, journals: list[int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for journal, topic in connection.execute(
        "SELECT agent_topics.journal, topic FROM agent_topics JOIN agents USING (journal)"
        " JOIN topic_names ON topic_names.id = name WHERE last_named >= named_seq"
        " AND agent_topics.journal IN (SELECT value FROM json_each(?)) ORDER BY topic",
        (str(journals),),
    ):
        found[journal].append(topic)
    return found


def journals(connection: sqlite3.Connection, cluster: str, tier: str) -> list[JournalRow]:
    rows = connection.execute(
        "SELECT cluster, journal, tier, coalesce(text, ''), entries, last_time FROM journals"
        " LEFT JOIN names ON names.id = host WHERE tier = ? AND (? = '' OR cluster = ?)"
        " AND seen IS NOT NULL ORDER BY cluster, 4, journal",
        (tier, cluster, cluster),
    )
    return [JournalRow(*row) for row in rows]
