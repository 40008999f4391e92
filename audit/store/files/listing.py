"""Lists a topic's hosts and files in pages, those with faults first.

Details are read only for the hosts and files of the page.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection
from typing import Any

import numpy as np
from msgspec.structs import replace

from audit.api.answers import HostRow, Hosts, SourceRow, Sources
from audit.api.queries import HostsQuery, SourcesQuery, pattern
from audit.reconciling.findings import State
from audit.store.files.arrivals import Arrivals
from audit.store.files.shipped_stretches import MISSING, stretches_of
from audit.store.folding.keyed_intervals import pairs_of
from audit.store.partitions.commit_logs import OF_SOURCES
from ground.intervals import Intervals, merged, minus, size, upto


def hosts(connection: sqlite3.Connection, topic: int, query: HostsQuery) -> Hosts:
    """Returns a page of hosts. Their missing events are in the findings."""
    clause, values = "", list[int | str]([topic])
    if query.search:
        clause, values = " AND text LIKE ? ESCAPE '\\'", [topic, pattern(query.search)]
    ((total,),) = connection.execute(
        f"SELECT count(*) FROM topic_hosts JOIN names ON names.id = host WHERE topic = ?{clause}",  # noqa: S608
        values,
    ).fetchall()
    rows = connection.execute(
        "WITH suspects AS (SELECT host, count(*) AS files FROM sources"  # noqa: S608
        "  WHERE topic = ?1 AND suspect = 1 GROUP BY host)"
        " SELECT topic_hosts.host, text, coalesce(files, 0) FROM topic_hosts"
        " JOIN names ON names.id = topic_hosts.host"
        f" LEFT JOIN suspects ON suspects.host = topic_hosts.host WHERE topic = ?1{clause}"
        " ORDER BY 3 DESC, 2 LIMIT ? OFFSET ?",
        (*values, query.size, query.skipped),
    ).fetchall()
    pending_numbers = {number for number, _, is_suspect in rows if is_suspect}
    if _are_loaders_behind(connection, topic):
        pending_numbers |= _not_landed(
            connection, topic, {number for number, *_ in rows} - pending_numbers
        )
    return Hosts(
        page=query.of(total),
        items=[
            _host(connection, topic, number, host, _state(number in pending_numbers))
            for number, host, _ in rows
        ],
    )


def paths(connection: sqlite3.Connection, sources: Collection[str]) -> dict[str, str]:
    """Returns the known paths of sources."""
    rows = connection.execute(
        "SELECT source, text FROM sources JOIN names ON names.id = path"
        " WHERE source IN (SELECT value FROM json_each(?)) AND text <> ''",
        (json.dumps(list(sources)),),
    )
    return dict(rows.fetchall())


def _state(pending: object) -> State:
    """Returns complete or pending; faults are for the judge."""
    return State.PENDING if pending else State.COMPLETE


def _are_loaders_behind(connection: sqlite3.Connection, topic: int) -> bool:
    """Whether a loader of the topic is behind what other tiers have claimed."""
    ends_by_partition: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for partition, _, kind, end_offset in connection.execute(
        "SELECT partition, tier, kind, max(upto) FROM claimed JOIN tiers ON tiers.id = tier"
        " WHERE topic = ? AND (topic, tier) NOT IN replaced GROUP BY partition, tier",
        (topic,),
    ):
        ends_by_partition[partition]["files" if kind == "hdfs" else "log"].append(end_offset)
    loader_count = max((len(ends["files"]) for ends in ends_by_partition.values()), default=0)
    return any(
        max(ends["log"], default=0)
        > (min(ends["files"]) if len(ends["files"]) == loader_count and ends["files"] else 0)
        for ends in ends_by_partition.values()
        if loader_count
    )


def _not_landed(connection: sqlite3.Connection, topic: int, hosts: set[int]) -> set[int]:
    """Returns those of these hosts that have shipped events beyond the landed end of a file."""
    rows = connection.execute(
        "SELECT host, id, shipped FROM sources"
        " WHERE topic = ? AND host IN (SELECT value FROM json_each(?))",
        (topic, str(sorted(hosts))),
    ).fetchall()
    landed_by_source = _landed(connection, str([number for _, number, _ in rows]))
    return {
        host
        for host, number, packed_seqs in rows
        if any(end > upto(landed_by_source.get(number, ())) for _, end in pairs_of(packed_seqs))
    }


def _host(
    connection: sqlite3.Connection, topic: int, number: int, host: str, state: State
) -> HostRow:
    rows = connection.execute(
        "SELECT events, lost_bytes, filtered, dead, last,"
        " (SELECT min(events) FROM landed WHERE source = sources.id"
        "  AND (topic, tier) NOT IN replaced),"
        " (SELECT journal FROM journals WHERE id = agent)"
        " FROM sources WHERE topic = ? AND host = ?",
        (topic, number),
    ).fetchall()
    shipped_events, lost_lines, filtered_lines, dead_lines = (
        sum(row[column] for row in rows) for column in range(4)
    )
    landed_counts = [row[5] for row in rows if row[5] is not None]
    return HostRow(
        host=host,
        agents=sorted({row[6] for row in rows if row[6]}),
        files=len(rows),
        shipped=shipped_events,
        landed=sum(landed_counts) if landed_counts else -1,
        missing=0,
        lost_bytes=lost_lines,
        filtered=filtered_lines,
        dead=dead_lines,
        last=max((row[4] for row in rows), default=-1),
        state=state,
    )


def _missing(shipped: Intervals, landed: Intervals | None) -> Intervals:
    """Returns what is missing below the landed end."""
    if not landed:
        return ()
    landed_end = upto(landed)
    return minus(
        tuple((first, min(end, landed_end)) for first, end in shipped if first < landed_end), landed
    )


def sources(connection: sqlite3.Connection, topic: int, name: int, query: SourcesQuery) -> Sources:
    clause, values = "topic = ?", list[int | str]([topic])
    if query.host:
        clause += " AND host = (SELECT id FROM names WHERE text = ?)"
        values.append(query.host)
    if query.sources:
        clause += " AND source IN (SELECT value FROM json_each(?))"
        values.append(json.dumps(query.sources.split(",")))
    if query.search:
        clause += (
            " AND (source LIKE ? ESCAPE '\\' OR path IN"
            " (SELECT id FROM names WHERE text LIKE ? ESCAPE '\\'))"
        )
        values += [pattern(query.search)] * 2
    ((total,),) = connection.execute(
        f"SELECT count(*) FROM sources WHERE {clause}",  # noqa: S608
        values,
    ).fetchall()
    rows = connection.execute(
        "SELECT id, source, (SELECT text FROM names WHERE id = path),"  # noqa: S608
        " (SELECT journal FROM journals WHERE id = agent),"
        " (SELECT text FROM names WHERE id = host),"
        " shipped, position, EXISTS (SELECT 1 FROM finished WHERE source = sources.source"
        f"  AND name = {int(name)}), lost_bytes, filtered, dead, last, suspect"
        f" FROM sources WHERE {clause} ORDER BY suspect DESC, id DESC LIMIT ? OFFSET ?",
        (*values, query.size, query.skipped),
    ).fetchall()
    landed_by_source = _landed(connection, str([row[0] for row in rows]))
    missing_bytes = _stretches(connection, topic, {row[0] for row in rows if row[-1]})
    gone_sources = _gone(connection, name)
    items = [
        replace(
            _source(row, landed_by_source.get(row[0]), missing_bytes.get(row[0], [])),
            gone=row[1] in gone_sources,
        )
        for row in rows
    ]
    if not query.sources:
        return Sources(page=query.of(total), items=items)
    ids = {row[1]: row[0] for row in rows}
    arrivals = Arrivals(connection, topic, name, ids)
    return Sources(
        page=query.of(total),
        items=[_with_arrival(row, ids[row.source], arrivals) for row in items],
        destinations=arrivals.destinations,
    )


def _with_arrival(row: SourceRow, number: int, arrivals: Arrivals) -> SourceRow:
    end = arrivals.end_of(row.source)
    is_lacking = number in arrivals.lacking
    return replace(
        row,
        state=_state(is_lacking or row.state is State.PENDING),
        events=end.events,
        size=end.size,
        unread=end.unread,
        waits=arrivals.waits_of(row.source, number, size(tuple(row.shipped))),
    )


def _gone(connection: sqlite3.Connection, name: int) -> set[str]:
    """Returns files that vanished, were truncated or overwritten, and were not read to the end."""
    rows = connection.execute(
        "SELECT source FROM unwatched WHERE name = ?1"
        " AND traces IN ('vanished', 'truncated', 'overwritten')"
        " AND source <> '' AND NOT EXISTS (SELECT 1 FROM finished"
        "  WHERE finished.source = unwatched.source AND finished.name = ?1"
        "  AND size > unwatched.position)",
        (name,),
    )
    return {source for (source,) in rows}


def _source(
    row: tuple[Any, ...], landed: Intervals | None, lost: list[tuple[int, int]]
) -> SourceRow:
    _, source, path, agent, host, packed, position, finished_events, *rest = row
    lost_bytes, filtered_lines, dead_lines, last_time, is_suspect = rest
    shipped_seqs = pairs_of(packed)
    return SourceRow(
        source=source,
        path=path or "",
        agent=agent or "",
        host=host or "",
        shipped=list(shipped_seqs),
        landed=list(landed or ()),
        missing=list(_missing(shipped_seqs, landed)),
        missing_bytes=lost,
        position=position,
        finished=bool(finished_events),
        lost_bytes=lost_bytes,
        filtered=filtered_lines,
        dead=dead_lines,
        last=last_time,
        state=_state(is_suspect),
        words=[],
    )


def _landed(connection: sqlite3.Connection, ids: str) -> dict[int, Intervals]:
    """Returns what landed of each source, at the destination that has least of it."""
    landed_by_source: dict[int, Intervals] = {}
    for number, intervals in connection.execute(
        "SELECT source, intervals FROM landed"  # noqa: S608
        " WHERE source IN (SELECT value FROM json_each(?))"
        f"{OF_SOURCES} ORDER BY source, events DESC",
        (ids,),
    ):
        landed_by_source[number] = pairs_of(intervals)
    return landed_by_source


def _stretches(
    connection: sqlite3.Connection, topic: int, ids: set[int]
) -> dict[int, list[tuple[int, int]]]:
    """Returns the missing bytes of these files."""
    bytes_by_source: dict[int, list[tuple[int, int]]] = defaultdict(list)
    if not ids:
        return bytes_by_source
    rows = connection.execute(
        "SELECT stretches FROM details WHERE topic = ? AND kind = ?", (topic, MISSING)
    )
    missing_stretches = stretches_of(rows)
    chosen_stretches = missing_stretches[
        np.isin(missing_stretches["source"], np.array(sorted(ids), np.int64))
    ]
    for number, first, end in chosen_stretches[["source", "position", "end_position"]].tolist():
        if 0 <= first < end:
            bytes_by_source[number].append((first, end))
    return {number: list(merged(intervals)) for number, intervals in bytes_by_source.items()}
