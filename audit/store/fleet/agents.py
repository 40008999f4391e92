"""Stores agents' heartbeats: the agents that are expected to ship to a topic, and the time up to
which each has acknowledged everything. Also lists all agents in pages, with other writers of the
ledger.

Heartbeats are kept so that the order of entries does not matter, with the meaning of
ledger/agents.py: for each agent its newest heartbeat for all topics; for each topic that it named,
when, and the newest heartbeat that names it with a time. An entry that names topics names all of
them. `until` of a topic is the later report of the two; one for all topics counts only for topics
named by then.

A topic that an agent no longer names is waited for only until the agent has been heard for another
`LEFT_MILLIS`. A retired host is not expected to report later times, until it is heard again. A host
of the inventory without topics that was never heard is expected to ship to all topics, from its
addition to the inventory on.

An agent is `retired`; or `silent` if it was not heard for too long; or `behind` if one of its
topics is more than `_BEHIND` behind its latest entry; or `ok`. Too long depends on its pace: an
agent is heard once in each window, however idle, or as seldom as its entries were so far. A silent
one whose data directory another agent of its host has used since is `replaced_by` that. An agent
whose clock is wrong was heard when its newest entry came, and its topics may be behind that clock's
time. A host of the inventory that was never heard is `never`. All agents are read for every page,
as a fleet has some ten thousand.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from audit.api.answers import AgentRow, AgentsAnswer
from audit.api.queries import AgentsQuery, order, pattern
from audit.clusters.clocks import Clocks
from audit.configuration.config import AuditConfig
from audit.reconciling.authors import with_author
from audit.reconciling.picture import ExpectedAgent, TopicKey
from audit.store.entries import journal_keys
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import Numbers, numbers, parents, texts
from audit.store.folding.keyed_intervals import Mask, grouped
from audit.store.rows import JournalRow
from ledger.agents import LEFT_MILLIS

_BEAT: Final = """
INSERT INTO agents VALUES (?, ?, ?, ?, ?, ?, '', -1, -1, -1, ?, ?)
ON CONFLICT DO UPDATE SET
    host = CASE WHEN excluded.seq > seq THEN excluded.host ELSE host END,
    lag_bytes = CASE WHEN excluded.seq > seq THEN excluded.lag_bytes ELSE lag_bytes END,
    heard = max(heard, excluded.heard), seq = max(seq, excluded.seq),
    all_until = CASE WHEN excluded.all_seq > all_seq THEN excluded.all_until ELSE all_until END,
    all_seq = max(all_seq, excluded.all_seq)
"""
_VERSION: Final = """
UPDATE agents SET version_seq = ?2, version = ?3 WHERE journal = ?1 AND version_seq < ?2
"""
_NAMED: Final = """
UPDATE agents SET named_seq = ?2, named_time = ?3 WHERE journal = ?1 AND named_seq < ?2
"""
_TOPIC: Final = """
INSERT INTO agent_topics VALUES (?, ?, ?, ?, ?, -1, 0)
ON CONFLICT DO UPDATE SET first_named = min(first_named, excluded.first_named),
    last_time = CASE WHEN excluded.last_named > last_named THEN excluded.last_time
        ELSE last_time END,
    last_named = max(last_named, excluded.last_named)
"""
_UNTIL: Final = """
UPDATE agent_topics SET said_seq = ?3, until = ?4 WHERE name = ?1 AND journal = ?2 AND said_seq < ?3
"""


def keep(chunk: Chunk) -> None:
    entries = chunk.entries
    list_column = entries.body.field("heartbeats")
    beats = list_column.flatten()
    if not len(beats):
        return
    is_agent = entries.of_tier("agent")
    entry = parents(list_column)
    row_ids = np.flatnonzero(is_agent[entry])
    if len(row_ids) < len(beats):
        beats, entry = beats.take(row_ids), entry[row_ids]
    until = np.clip(numbers(beats.field("until")), 0, entries.latest)
    has_topics = numbers(pc.list_value_length(beats.field("topics"))) > 0
    _keep_agents(chunk, entry, numbers(beats.field("lag_bytes")), until, ~has_topics)
    row_ids = np.flatnonzero(has_topics)
    if len(row_ids):
        version = texts(beats.field("program_version").take(row_ids)).take(np.arange(len(row_ids)))
        _keep_names(chunk, entry[row_ids], version)
        _keep_topics(chunk, entry, until, beats.field("topics"))


def _keep_agents(
    chunk: Chunk, entry: Numbers, lag_bytes: Numbers, until: Numbers, unnamed: Mask
) -> None:
    entries = chunk.entries
    grouping = grouped(chunk.journal[entry], then=(entries.seq[entry],))
    last_rows = grouping.last()
    (journals,) = grouping.keys
    all_seq, all_until = _of_all_topics(chunk, journals, entry[unnamed], until[unnamed])
    chunk.connection.executemany(
        _BEAT,
        zip(
            journals.tolist(),
            [chunk.cluster] * len(last_rows),
            chunk.host[entry[last_rows]].tolist(),
            entries.seq[entry[last_rows]].tolist(),
            grouping.most(entries.time[entry]).tolist(),
            lag_bytes[last_rows].tolist(),
            all_seq.tolist(),
            all_until.tolist(),
            strict=True,
        ),
    )


def _of_all_topics(
    chunk: Chunk, journals: Numbers, entry: Numbers, until: Numbers
) -> tuple[Numbers, Numbers]:
    """Returns, for each journal, the newest entry with a time for all topics, -1 if there is none,
    and its least time."""
    entry_grouping = grouped(entry)
    least_times = entry_grouping.least(until)
    (rows,) = entry_grouping.keys
    rows, least_times = rows[least_times > 0], least_times[least_times > 0]
    seq = chunk.entries.seq[rows]
    grouping = grouped(chunk.journal[rows], then=(seq,))
    last_rows = grouping.last()
    row_ids = np.searchsorted(journals, grouping.keys[0])
    newest_values = np.full(len(journals), -1), np.zeros(len(journals), np.int64)
    newest_values[0][row_ids], newest_values[1][row_ids] = seq[last_rows], least_times[last_rows]
    return newest_values


def _keep_names(chunk: Chunk, entry: Numbers, version: list[str]) -> None:
    entries = chunk.entries
    grouping = grouped(chunk.journal[entry], then=(entries.seq[entry],))
    last_rows = grouping.last()
    (journals,) = grouping.keys
    seqs = entries.seq[entry[last_rows]].tolist()
    times = entries.time[entry[last_rows]].tolist()
    chunk.connection.executemany(_NAMED, zip(journals.tolist(), seqs, times, strict=True))
    versions = [version[row] for row in last_rows.tolist()]
    chunk.connection.executemany(_VERSION, zip(journals.tolist(), seqs, versions, strict=True))


def _keep_topics(chunk: Chunk, entry: Numbers, until: Numbers, topics: pa.ListArray) -> None:
    beats = parents(topics)
    names = texts(topics.flatten())
    name_ids = np.array(chunk.topic_names(names.values), np.int64)[names.codes]
    entry_rows = entry[beats]
    seq, time, journal = (
        chunk.entries.seq[entry_rows],
        chunk.entries.time[entry_rows],
        chunk.journal[entry_rows],
    )
    grouping = grouped(name_ids, journal, then=(seq,))
    last_rows = grouping.last()
    keys = [key.tolist() for key in grouping.keys]
    rows = zip(
        *keys,
        grouping.least(seq).tolist(),
        seq[last_rows].tolist(),
        time[last_rows].tolist(),
        strict=True,
    )
    chunk.connection.executemany(_TOPIC, rows)
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO journal_topics VALUES (?, ?)", zip(*keys, strict=True)
    )
    positive_rows = np.flatnonzero(until[beats] > 0)
    grouping = grouped(name_ids[positive_rows], journal[positive_rows], then=(seq[positive_rows],))
    last_rows = positive_rows[grouping.last()]
    chunk.connection.executemany(
        _UNTIL,
        zip(
            *(key.tolist() for key in grouping.keys),
            seq[last_rows].tolist(),
            until[beats[last_rows]].tolist(),
            strict=True,
        ),
    )


UNTIL: Final = """
CASE WHEN all_seq > said_seq AND all_seq >= first_named THEN all_until ELSE until END
"""
_AGENTS: Final = f"""
SELECT journals.journal, coalesce(text, ''), {UNTIL}, heard FROM agent_topics
    JOIN agents USING (journal) JOIN journals ON journals.id = agent_topics.journal
    LEFT JOIN names ON names.id = agents.host
    WHERE agent_topics.name = ?1 AND heard >= ?2
    AND (last_named >= named_seq OR heard - agent_topics.last_time < {LEFT_MILLIS})
    ORDER BY journals.journal
"""  # noqa: S608
_NEVER: Final = """
SELECT host, min(since) FROM (
SELECT host, since FROM inventory WHERE topic = ?1 AND host NOT IN (
    SELECT text FROM agent_topics JOIN agents USING (journal) JOIN names ON names.id = agents.host
    WHERE agent_topics.name = ?2)
UNION SELECT host, since FROM inventory WHERE topic = '' AND host NOT IN (
    SELECT text FROM agents JOIN names ON names.id = agents.host)
) GROUP BY host ORDER BY host
"""
_NEVER_HEARD: Final = """
SELECT host, min(since) FROM inventory WHERE host NOT IN (
    SELECT text FROM agents JOIN names ON names.id = agents.host) GROUP BY host
"""
_RENEWED: Final = """
SELECT text FROM agent_topics JOIN agents USING (journal) JOIN names ON names.id = agents.host
    WHERE name = ? GROUP BY text HAVING count(*) > 1
"""


def expected_agents(
    connection: sqlite3.Connection, key: TopicKey, name: int, now: int, expected_millis: int
) -> list[ExpectedAgent]:
    retirements = Retired(connection, key.cluster)
    rows = connection.execute(_AGENTS, (name, now - expected_millis))
    expected_agents = [
        ExpectedAgent(agent, host, until, heard, retirements.until(host, agent, heard))
        for agent, host, until, heard in rows
    ]
    expected_agents += [
        ExpectedAgent("", host, since, 0, retirements.until(host, "", 0))
        for host, since in connection.execute(_NEVER, (key.topic, name))
    ]
    return expected_agents


def done_until(
    connection: sqlite3.Connection, clusters: Iterable[str], heard_since: int
) -> dict[str, int]:
    """Returns, by cluster, the time up to which all expected agents have shipped everything. A host
    that has never reported counts up to the time when it was added to the inventory."""
    retirements = {cluster: Retired(connection, cluster) for cluster in clusters}
    agents = [
        (cluster, host, agent, heard, until)
        for _, agent, cluster, host, heard, until, *_ in connection.execute(_ROWS, (heard_since,))
        if cluster in retirements
    ]
    agents += [
        (cluster, host, "", 0, since)
        for host, since in connection.execute(_NEVER_HEARD)
        for cluster in retirements
    ]
    done_until: dict[str, int] = {}
    for cluster, host, agent, heard, until in agents:
        required_until = retirements[cluster].until(host, agent, heard)
        if required_until is None or until < required_until:
            done_until[cluster] = min(until, done_until.get(cluster, until))
    return done_until


def renewed_hosts(connection: sqlite3.Connection, name: int) -> frozenset[str]:
    """Returns hosts with several agents that shipped to a topic. Every data directory except the
    last is assumed to have been deleted."""
    rows = connection.execute(_RENEWED, (name,))
    return frozenset(host for (host,) in rows)


class Retired:
    """The hosts that were taken out of service, and their agents."""

    def __init__(self, connection: sqlite3.Connection, cluster: str) -> None:
        self.by_host: dict[tuple[str, str], tuple[int, int, str]] = {}
        for host, agent, since, time, reason, operator in connection.execute(
            "SELECT host, agent, since, time, reason, operator FROM retired WHERE cluster = ?"
            " ORDER BY time, since",
            (cluster,),
        ):
            self.by_host[host, agent] = (
                since,
                time,
                with_author(reason or "retired", operator, time),
            )

    def until(self, host: str, agent: str, heard: int) -> int | None:
        """Returns the time up to which events are expected; None if the agent is not retired."""
        statements = self.statement(host, agent, heard)
        return min(since for since, _ in statements) if statements else None

    def statement(self, host: str, agent: str, heard: int) -> list[tuple[int, str]]:
        """Returns the times, reasons and operators of an agent's retirements, except those after
        which the agent was heard from."""
        if not self.by_host:
            return []
        entries = {self.by_host.get((host, "")), self.by_host.get((host, agent))}
        return [(entry[0], entry[2]) for entry in entries if entry and entry[1] >= heard]


_BEHIND: Final = 180_000
_PACES: Final = 2.5  # intervals without an entry: the last entry may be in transit
_ORDER: Final = ("never", "silent", "behind", "ok", "retired")

_SIGNATURES: Final = (journal_keys.SIGNED, journal_keys.UNSIGNED, journal_keys.REJECTED)

_SORTS: Final[dict[str, Callable[[AgentRow], Any]]] = {
    "state": lambda row: _ORDER.index(row.state),
    "host": lambda row: row.host,
    "lag": lambda row: row.lag_bytes,
    "heard": lambda row: row.heard,
    "until": lambda row: row.until,
}
_NumberedRow = tuple[int, AgentRow]  # with its journal's id
_ROWS: Final = f"""
SELECT agents.journal, journals.journal, agents.cluster, coalesce(text, ''), heard,
    coalesce((SELECT min({UNTIL}) FROM agent_topics WHERE agent_topics.journal = agents.journal
        AND (last_named >= named_seq OR heard - agent_topics.last_time < {LEFT_MILLIS})), 0),
    lag_bytes, version, max(0, last_time - first_time) / max(1, entries - 1), first_time
    FROM agents JOIN journals ON journals.id = agents.journal
    LEFT JOIN names ON names.id = agents.host WHERE heard >= ?
"""  # noqa: S608


class SilencePatience(NamedTuple):
    """The limits after which an agent counts as silent: after `silent_millis` or, with
    `window_millis`, earlier, once its silence is unusual for its pace. `clocks` has the clocks that
    are wrong."""

    now: int
    silent_millis: int
    expected_millis: int
    window_millis: int = 0
    clocks: Clocks = Clocks()

    def millis_for_pace(self, millis: int) -> int:
        usual_millis = int(_PACES * max(self.window_millis, millis))
        return min(self.silent_millis, usual_millis) if self.window_millis else self.silent_millis


def patience(config: AuditConfig, now: int, clocks: Clocks, *, by_pace: bool) -> SilencePatience:
    """Returns how long agents may be silent before they count as missing. `by_pace`: also takes
    each agent's usual pace into account."""
    return SilencePatience(
        now,
        int(config.alerts.silent * 1000),
        int(config.expected * 1000),
        config.window * 1000 if by_pace else 0,
        clocks,
    )


def agents(
    connection: sqlite3.Connection, query: AgentsQuery, patience: SilencePatience
) -> AgentsAnswer:
    rows = _with_signatures(connection, query, _all(connection, query, patience))
    counts = Counter(row.state for _, row in rows)
    signature_counts = Counter(row.signature for _, row in rows)
    if query.state:
        rows = [row for row in rows if row[1].state == query.state]
    if query.signature:
        rows = [row for row in rows if row[1].signature == query.signature]
    name, is_descending = order(query.sort, _SORTS)
    rows.sort(key=lambda row: (row[1].host, row[1].agent))
    rows.sort(key=lambda row: _SORTS[name](row[1]), reverse=is_descending)
    shown_rows = query.cut(rows)
    topics = _topics(connection, [number for number, _ in shown_rows])
    (expected_hosts,) = connection.execute("SELECT count(DISTINCT host) FROM inventory").fetchone()
    return AgentsAnswer(
        by_state={state: counts[state] for state in _ORDER},
        page=query.of(len(rows)),
        items=[replace(row, topics=topics[number]) for number, row in shown_rows],
        expected_hosts=expected_hosts,
        by_signature={state: signature_counts[state] for state in _SIGNATURES},
    )


def _with_signatures(
    connection: sqlite3.Connection, query: AgentsQuery, rows: list[_NumberedRow]
) -> list[_NumberedRow]:
    """Adds whether the agents' statements are signed."""
    states = {
        (row.cluster, row.journal): row.state
        for row in journal_keys.signed_journals(connection, query.cluster)
    }
    return [
        (number, replace(row, signature=states.get((row.cluster, row.agent), "")))
        for number, row in rows
    ]


def by_agent(
    connection: sqlite3.Connection, cluster: str, patience: SilencePatience
) -> dict[str, AgentRow]:
    """Returns all agents of a cluster that were ever heard from, by id, without their topics."""
    rows = _all(connection, AgentsQuery(cluster=cluster), patience)
    return {row.agent: row for number, row in rows if number >= 0}


def worst_agent(agents: Iterable[AgentRow]) -> AgentRow | None:
    """Returns the agent with the worst state."""
    return min(agents, key=lambda row: (_ORDER.index(row.state), row.heard), default=None)


def _all(
    connection: sqlite3.Connection, query: AgentsQuery, patience: SilencePatience
) -> list[_NumberedRow]:
    """Returns agents in all states."""
    condition, values = "", list[int | str]([patience.now - patience.expected_millis])
    if query.cluster:
        condition, values = " AND agents.cluster = ?", [*values, query.cluster]
    if query.search:
        condition += " AND (text LIKE ? ESCAPE '\\' OR journals.journal LIKE ? ESCAPE '\\')"
        values += [pattern(query.search)] * 2
    retirements = {
        cluster_name: Retired(connection, cluster_name)
        for (cluster_name,) in connection.execute("SELECT DISTINCT cluster FROM retired")
    }
    rows: list[_NumberedRow] = []
    begun: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)  # by cluster and host
    for number, agent, cluster, host, heard, until, lag, version, pace, began in connection.execute(
        _ROWS + condition, values
    ):
        begun[cluster, host].append((began, agent))
        reason = _reason(retirements.get(cluster), host, agent, heard)
        silent_before = patience.now - patience.millis_for_pace(pace)
        came, own_time = heard, heard
        if (error := patience.clocks.error(cluster, agent)) is not None:
            came = max(heard, error.came)
            own_time = error.came + min(0, error.ahead)  # later times count as the time they came
        state = _state(reason, came, until, own_time=own_time, silent_before=silent_before)
        row = AgentRow(agent, host, cluster, version, [], lag, came, until, state, reason or "")
        rows.append((number, row))
    rows = [
        (number, _with_successor(connection, row, begun[row.cluster, row.host]))
        if row.state == "silent" and len(begun[row.cluster, row.host]) > 1
        else (number, row)
        for number, row in rows
    ]
    return [*rows, *((-1, row) for row in _never(connection, retirements, query))]


def _with_successor(
    connection: sqlite3.Connection, row: AgentRow, begun: list[tuple[int, str]]
) -> AgentRow:
    """Names the agent that has replaced a silent one of its host: the last of those that began
    after it was heard, and have its data directory, if both are known."""
    later_agents = [agent for began, agent in sorted(begun) if began > row.heard]
    directories = dict(
        connection.execute(
            "SELECT name, json_extract(CAST(statement AS TEXT), '$.disks[0].label') FROM health"
            " WHERE cluster = ? AND kind = 'agent' AND host = ?",
            (row.cluster, row.host),
        )
    )
    own_directory = directories.get(row.agent)
    for agent in reversed(later_agents):
        if None in {own_directory, directories.get(agent)} or own_directory == directories[agent]:
            return replace(row, replaced_by=agent)
    return row


def _state(reason: str | None, heard: int, until: int, *, own_time: int, silent_before: int) -> str:
    if reason is not None:
        return "retired"
    if heard < silent_before:
        return "silent"
    return "behind" if until < own_time - _BEHIND else "ok"


def _reason(retired: Retired | None, host: str, agent: str, heard: int) -> str | None:
    statements = retired.statement(host, agent, heard) if retired else []
    return statements[0][1] if statements else None


def _never(
    connection: sqlite3.Connection, retired: dict[str, Retired], query: AgentsQuery
) -> list[AgentRow]:
    """Returns hosts of the inventory that were never heard."""
    rows = []
    cluster = query.cluster
    for (host,) in connection.execute(
        "SELECT DISTINCT host FROM inventory WHERE host LIKE ? ESCAPE '\\' AND host NOT IN"
        " (SELECT text FROM agents JOIN names ON names.id = agents.host)",
        (pattern(query.search),),
    ):
        cluster_retirements = [retired[cluster]] if cluster in retired else list(retired.values())
        reasons = [
            text
            for cluster_retirement in cluster_retirements
            if (text := _reason(cluster_retirement, host, "", 0)) is not None
        ]
        state, reason = ("retired", reasons[0]) if reasons else ("never", "")
        rows.append(AgentRow("", host, cluster, "", [], -1, -1, 0, state, reason))
    return rows


def _topics(connection: sqlite3.Connection, journals: list[int]) -> dict[int, list[str]]:
    topics: dict[int, list[str]] = defaultdict(list)
    for journal, topic in connection.execute(
        "SELECT agent_topics.journal, topic FROM agent_topics JOIN agents USING (journal)"
        " JOIN topic_names ON topic_names.id = name WHERE last_named >= named_seq"
        " AND agent_topics.journal IN (SELECT value FROM json_each(?)) ORDER BY topic",
        (str(journals),),
    ):
        topics[journal].append(topic)
    return topics


def journals(connection: sqlite3.Connection, cluster: str, tier: str) -> list[JournalRow]:
    rows = connection.execute(
        "SELECT cluster, journal, tier, coalesce(text, ''), entries, last_time FROM journals"
        " LEFT JOIN names ON names.id = host WHERE tier = ? AND (? = '' OR cluster = ?)"
        " AND seen IS NOT NULL ORDER BY cluster, 4, journal",
        (tier, cluster, cluster),
    )
    return [JournalRow(*row) for row in rows]
