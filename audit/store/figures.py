"""Delays and lines of a topic between two times, and alerts."""

import sqlite3
from collections import defaultdict
from typing import Final

from audit.picture import Tier
from audit.store.paging import offset
from audit.store.rows import Alert, Delays, FlowRow, Paged

_ALERTS: Final = {
    "raised": "resolved < 0",
    "resolved": "resolved >= 0",
    "untold": "resolved >= 0 AND NOT told_resolved",
}


def delays(
    connection: sqlite3.Connection,
    topic: int,
    tiers: dict[int, Tier],
    from_time: int,
    to_time: int,
) -> Delays:
    """Of whole hours."""
    counts: dict[Tier, dict[int, int]] = defaultdict(dict)
    for tier, doubling, events in connection.execute(
        "SELECT tier, doubling, sum(events) FROM delays WHERE topic = ? AND hour >= ? AND hour < ?"
        " AND (topic, tier) NOT IN replaced GROUP BY tier, doubling",
        (topic, from_time - from_time % 3_600_000, to_time),
    ):
        counts[tiers[tier]][doubling] = events
    return {
        tier: tuple(found.get(each, 0) for each in range(max(found) + 1))
        for tier, found in counts.items()
    }


def flow(connection: sqlite3.Connection, topic: int, from_time: int, to_time: int) -> FlowRow:
    (row,) = connection.execute(
        "SELECT sum(shipped), sum(filtered), sum(dead), sum(lost), sum(lost_unknown),"
        " sum(lost_bytes), sum(events) FROM flows WHERE topic = ? AND start >= ? AND start < ?",
        (topic, from_time, to_time),
    ).fetchall()
    return FlowRow(*(each or 0 for each in row))


def alerts(connection: sqlite3.Connection, state: str, page: int, size: int) -> Paged[Alert]:
    where = _ALERTS.get(state, "1")
    ((total,),) = connection.execute(
        f"SELECT count(*) FROM alerts WHERE {where}"  # noqa: S608
    ).fetchall()
    rows = connection.execute(
        "SELECT kind, cluster, topic, host, words,"  # noqa: S608
        " raised, resolved, told_raised, told_resolved, hour"
        f" FROM alerts WHERE {where} ORDER BY raised DESC, kind, cluster, topic, host, hour DESC"
        " LIMIT ? OFFSET ?",
        (size, offset(page, size)),
    )
    return Paged(
        [Alert._make((*row[:7], bool(row[7]), bool(row[8]), row[9])) for row in rows], total
    )
