"""Stores lags over time, which this audit measures once a minute: bytes that a host's agents have
not shipped, messages that a group has not read, offsets that a loader has not landed.

They are in no ledger, so they start over when the database is lost. A series has no row for a time
without lag; the sum of its kind, a series without a name, has one for each measurement. So a time
without a row of the sum is unknown.

Bounds: the `MOST_SERIES` largest of each kind and cluster at a time; a row a minute for a day, then
the maximum of ten minutes, until the audit's retention ends.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from audit.api.answers import LagPoint, LagSeries
from audit.store.database import changed
from audit.store.entries.chunks import NameNumbering
from audit.store.folding.columns import cut

MINUTE: Final = 60_000
MOST_SERIES: Final = 200
_MOST_POINTS: Final = 400  # of a series in an answer
_MOST_SHOWN: Final = 12  # series of an answer
_DAY: Final = 86_400_000
_COARSE: Final = 10 * MINUTE
_SUM: Final = ""  # the name of the sum of a kind

AGENT: Final = "agent"
GROUP: Final = "group"
FILES: Final = "files"

_AGENTS: Final = """
SELECT cluster, coalesce(text, ''), sum(lag_bytes) FROM agents LEFT JOIN names ON names.id = host
    WHERE lag_bytes > 0 GROUP BY cluster, host
"""
_KEEP: Final = """
INSERT INTO lags VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET amount = max(amount, excluded.amount),
    behind = max(behind, excluded.behind)
"""
_THINNED: Final = """
INSERT INTO lags SELECT series, time - time % ?3, max(amount), max(behind) FROM lags
    WHERE time >= ?1 AND time < ?2 GROUP BY 1, 2
ON CONFLICT DO UPDATE SET amount = max(amount, excluded.amount),
    behind = max(behind, excluded.behind)
"""
_SERIES: Final = """
SELECT id, kind, topic, name FROM lag_series
    WHERE ?1 IN ('', cluster) AND (name = '' OR (kind = 'agent' AND name = ?3)
        OR (kind <> 'agent' AND topic = ?2))
"""
_POINTS: Final = """
SELECT series, time - time % ?4 AS slot, max(amount), max(behind) FROM lags
    WHERE series IN (SELECT value FROM json_each(?1)) AND time >= ?2 AND time < ?3
    GROUP BY series, slot ORDER BY series, slot
"""


class MeasuredLag(NamedTuple):
    """A measured lag. `behind` is in milliseconds, -1 if unknown; `name` is a host, group or
    destination."""

    kind: str
    cluster: str
    topic: str
    name: str
    amount: int
    behind: int = -1


class LagsQuery(NamedTuple):
    """A query for the lags of a topic or a host."""

    cluster: str
    topic: str
    host: str
    from_time: int
    to_time: int


class LagsOverTime(NamedTuple):
    """Series of lags. `measured`: for each kind, the slots of `step` milliseconds in which it was
    measured."""

    step: int
    measured: dict[str, list[int]]
    series: list[LagSeries]


def agent_lags(connection: sqlite3.Connection) -> list[MeasuredLag]:
    """Returns lags by host, from the latest report of each agent."""
    return [
        MeasuredLag(AGENT, cluster, "", host, amount)
        for cluster, host, amount in connection.execute(_AGENTS)
    ]


def keep(
    connection: sqlite3.Connection,
    numbers: NameNumbering,
    time: int,
    measured_kinds: Iterable[tuple[str, str]],
    lags: Iterable[MeasuredLag],
) -> None:
    """Stores lags. `measured_kinds`: each measured kind with its cluster."""
    lags_by_kind: dict[tuple[str, str], list[MeasuredLag]] = {kind: [] for kind in measured_kinds}
    for lag in lags:
        if lag.amount > 0 and (lag.kind, lag.cluster) in lags_by_kind:
            lags_by_kind[lag.kind, lag.cluster].append(lag)
    slot = time - time % MINUTE
    rows = []
    for (kind, cluster), kind_lags in lags_by_kind.items():
        kind_lags.sort(key=lambda lag: -lag.amount)
        total = sum(lag.amount for lag in kind_lags)
        worst_delay = max((lag.behind for lag in kind_lags), default=-1)
        for lag in (
            MeasuredLag(kind, cluster, "", _SUM, total, worst_delay),
            *kind_lags[:MOST_SERIES],
        ):
            (series_id,) = numbers.of([cut(lag.name)], kind, cluster, cut(lag.topic))
            rows.append((series_id, slot, lag.amount, lag.behind))
    connection.executemany(_KEEP, rows)


def lags(connection: sqlite3.Connection, query: LagsQuery) -> LagsOverTime:
    """Returns lags over time, the series with the greatest lag first."""
    finest_step = _COARSE if query.from_time < _thinned(connection) else MINUTE
    step = -((query.from_time - query.to_time) // _MOST_POINTS // finest_step) * finest_step
    series = {
        number: (kind, topic, name)
        for number, kind, topic, name in connection.execute(
            _SERIES, (query.cluster, query.topic, query.host)
        )
    }
    points: dict[int, list[LagPoint]] = defaultdict(list)
    times = str(list(series)), query.from_time, query.to_time, step
    for number, *point in connection.execute(_POINTS, times):
        points[number].append(LagPoint(*point))
    named_series = [number for number in points if series[number][2] != _SUM]
    named_series.sort(
        key=lambda number: (-max(point.amount for point in points[number]), series[number])
    )
    measured_times: dict[str, set[int]] = defaultdict(set)
    for number, series_points in points.items():
        if series[number][2] == _SUM:
            measured_times[series[number][0]].update(point.time for point in series_points)
    return LagsOverTime(
        step,
        {kind: sorted(times) for kind, times in measured_times.items()},
        [_series(series[number], points[number]) for number in named_series[:_MOST_SHOWN]],
    )


def _series(identity: tuple[str, str, str], points: Sequence[LagPoint]) -> LagSeries:
    kind, topic, name = identity
    return LagSeries(kind=kind, topic=topic, name=name, points=list(points))


def _thinned(connection: sqlite3.Connection) -> int:
    """Returns the time before which rows are ten minutes apart."""
    rows = connection.execute("SELECT value FROM meta WHERE name = 'lags_thinned'").fetchall()
    return int(rows[0][0]) if rows else 0


def expire(connection: sqlite3.Connection, now: int, before: int) -> int:
    """Deletes and thins out old rows, and returns the number of deleted rows."""
    count = changed(connection, "DELETE FROM lags WHERE time < ?", (before,))
    begin, end = _thinned(connection), (now - _DAY) // _COARSE * _COARSE
    if end > begin:
        connection.execute(_THINNED, (begin, end, _COARSE))
        count += changed(
            connection,
            "DELETE FROM lags WHERE time >= ? AND time < ? AND time % ? <> 0",
            (begin, end, _COARSE),
        )
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('lags_thinned', ?)", (end,))
    return count + changed(
        connection,
        "DELETE FROM lag_series WHERE NOT EXISTS (SELECT 1 FROM lags WHERE series = lag_series.id)",
    )
