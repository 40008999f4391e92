"""Agents: what they say of themselves, who is expected to ship to a topic and up to when everything
of theirs is acknowledged, and all of them a page at a time, with other writers of the ledger.

What they say is kept so that the order in which entries come does not matter. The meaning is that
of ledger/agents.py. Of an agent is kept its newest heartbeat for all topics, and of each topic that
it named when that was, and the newest heartbeat that names it with a time. An entry that names
topics names all of them. `until` of a topic is what was said last of the two; what was said for all
counts only for topics that had been named by then.

A topic that an agent has not named again is waited for, but only for `LEFT_MILLIS` in which the
agent was heard; a host that was retired is not expected to say anything of later times, until it is
heard of again. A host of the inventory that names no topics and was never heard is expected to ship
to any, from the time on at which it came into the inventory.

An agent is retired, or silent if it was not heard for too long, or behind if one of its topics is
more than `_BEHIND` after when it was heard last, or ok. What is too long, is told by its own pace:
an agent is heard once in each window, however idle it is, or as seldom as its entries were so far.
A host of the inventory that was never heard is `never`. All of them are looked at for every page: a
fleet is some ten thousand.
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
from audit.api.attribution import said_by
from audit.api.queries import AgentsQuery, order, pattern
from audit.configuration.config import AuditConfig
from audit.picture import ExpectedAgent, TopicKey
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
    lists = entries.body.field("heartbeats")
    beats = lists.flatten()
    if not len(beats):
        return
    agent = entries.of_tier("agent")
    entry = parents(lists)
    at = np.flatnonzero(agent[entry])
    if len(at) < len(beats):
        beats, entry = beats.take(at), entry[at]
    until = np.clip(numbers(beats.field("until")), 0, entries.latest)
    named = numbers(pc.list_value_length(beats.field("topics"))) > 0
    _keep_agents(chunk, entry, numbers(beats.field("lag_bytes")), until, ~named)
    at = np.flatnonzero(named)
    if len(at):
        version = texts(beats.field("program_version").take(at)).take(np.arange(len(at)))
        _keep_names(chunk, entry[at], version)
        _keep_topics(chunk, entry, until, beats.field("topics"))


def _keep_agents(
    chunk: Chunk, entry: Numbers, lag_bytes: Numbers, until: Numbers, unnamed: Mask
) -> None:
    entries = chunk.entries
    together = grouped(chunk.journal[entry], then=(entries.seq[entry],))
    last = together.last()
    (journals,) = together.keys
    all_seq, all_until = _of_all_topics(chunk, journals, entry[unnamed], until[unnamed])
    chunk.connection.executemany(
        _BEAT,
        zip(
            journals.tolist(),
            [chunk.cluster] * len(last),
            chunk.host[entry[last]].tolist(),
            entries.seq[entry[last]].tolist(),
            together.most(entries.time[entry]).tolist(),
            lag_bytes[last].tolist(),
            all_seq.tolist(),
            all_until.tolist(),
            strict=True,
        ),
    )


def _of_all_topics(
    chunk: Chunk, journals: Numbers, entry: Numbers, until: Numbers
) -> tuple[Numbers, Numbers]:
    """Of each journal the newest entry that says a time for all topics, -1 if there is none, and
    the least that it says."""
    by_entry = grouped(entry)
    least = by_entry.least(until)
    (rows,) = by_entry.keys
    rows, least = rows[least > 0], least[least > 0]
    seq = chunk.entries.seq[rows]
    together = grouped(chunk.journal[rows], then=(seq,))
    last = together.last()
    at = np.searchsorted(journals, together.keys[0])
    found = np.full(len(journals), -1), np.zeros(len(journals), np.int64)
    found[0][at], found[1][at] = seq[last], least[last]
    return found


def _keep_names(chunk: Chunk, entry: Numbers, version: list[str]) -> None:
    entries = chunk.entries
    together = grouped(chunk.journal[entry], then=(entries.seq[entry],))
    last = together.last()
    (journals,) = together.keys
    seqs = entries.seq[entry[last]].tolist()
    times = entries.time[entry[last]].tolist()
    chunk.connection.executemany(_NAMED, zip(journals.tolist(), seqs, times, strict=True))
    versions = [version[row] for row in last.tolist()]
    chunk.connection.executemany(_VERSION, zip(journals.tolist(), seqs, versions, strict=True))


def _keep_topics(chunk: Chunk, entry: Numbers, until: Numbers, topics: pa.ListArray) -> None:
    beat = parents(topics)
    names = texts(topics.flatten())
    name = np.array(chunk.topic_names(names.values), np.int64)[names.codes]
    row = entry[beat]
    seq, time, journal = chunk.entries.seq[row], chunk.entries.time[row], chunk.journal[row]
    together = grouped(name, journal, then=(seq,))
    last = together.last()
    keys = [key.tolist() for key in together.keys]
    rows = zip(
        *keys, together.least(seq).tolist(), seq[last].tolist(), time[last].tolist(), strict=True
    )
    chunk.connection.executemany(_TOPIC, rows)
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO journal_topics VALUES (?, ?)", zip(*keys, strict=True)
    )
    positive = np.flatnonzero(until[beat] > 0)
    together = grouped(name[positive], journal[positive], then=(seq[positive],))
    last = positive[together.last()]
    chunk.connection.executemany(
        _UNTIL,
        zip(
            *(key.tolist() for key in together.keys),
            seq[last].tolist(),
            until[beat[last]].tolist(),
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
_RENEWED: Final = """
SELECT text FROM agent_topics JOIN agents USING (journal) JOIN names ON names.id = agents.host
    WHERE name = ? GROUP BY text HAVING count(*) > 1
"""


def expected_agents(
    connection: sqlite3.Connection, key: TopicKey, name: int, now: int, expected_millis: int
) -> list[ExpectedAgent]:
    retired = Retired(connection, key.cluster)
    rows = connection.execute(_AGENTS, (name, now - expected_millis))
    found = [
        ExpectedAgent(agent, host, until, heard, retired.until(host, agent, heard))
        for agent, host, until, heard in rows
    ]
    found += [
        ExpectedAgent("", host, since, 0, retired.until(host, "", 0))
        for host, since in connection.execute(_NEVER, (key.topic, name))
    ]
    return found


def renewed_hosts(connection: sqlite3.Connection, name: int) -> frozenset[str]:
    """Of which more than one agent has shipped to a topic: each but the last had its data directory
    deleted."""
    rows = connection.execute(_RENEWED, (name,))
    return frozenset(host for (host,) in rows)


class Retired:
    """Hosts that were taken out of service, and their agents."""

    def __init__(self, connection: sqlite3.Connection, cluster: str) -> None:
        self.by_host: dict[tuple[str, str], tuple[int, int, str]] = {}
        for host, agent, since, time, reason, operator in connection.execute(
            "SELECT host, agent, since, time, reason, operator FROM retired WHERE cluster = ?"
            " ORDER BY time, since",
            (cluster,),
        ):
            self.by_host[host, agent] = since, time, said_by(reason or "retired", operator, time)

    def until(self, host: str, agent: str, heard: int) -> int | None:
        """Up to when something is expected; None if there is no such time."""
        said = self.statement(host, agent, heard)
        return min(since for since, _ in said) if said else None

    def statement(self, host: str, agent: str, heard: int) -> list[tuple[int, str]]:
        """Since when, and why and by whom, as long as nothing was heard afterwards."""
        if not self.by_host:
            return []
        found = {self.by_host.get((host, "")), self.by_host.get((host, agent))}
        return [(each[0], each[2]) for each in found if each and each[1] >= heard]


_BEHIND: Final = 180_000
_PACES: Final = 2.5  # in which nothing was heard: the last may have been under way
_ORDER: Final = ("never", "silent", "behind", "ok", "retired")

_SORTS: Final[dict[str, Callable[[AgentRow], Any]]] = {
    "state": lambda row: _ORDER.index(row.state),
    "host": lambda row: row.host,
    "lag": lambda row: row.lag_bytes,
    "heard": lambda row: row.heard,
    "until": lambda row: row.until,
}
_Found = tuple[int, AgentRow]  # with the number of its journal
_ROWS: Final = f"""
SELECT agents.journal, journals.journal, agents.cluster, coalesce(text, ''), heard,
    coalesce((SELECT min({UNTIL}) FROM agent_topics WHERE agent_topics.journal = agents.journal
        AND (last_named >= named_seq OR heard - agent_topics.last_time < {LEFT_MILLIS})), 0),
    lag_bytes, version, max(0, last_time - first_time) / max(1, entries - 1)
    FROM agents JOIN journals ON journals.id = agents.journal
    LEFT JOIN names ON names.id = agents.host WHERE heard >= ?
"""  # noqa: S608


class SilencePatience(NamedTuple):
    """How long who keeps silent is waited for. Without `window_millis` the pace of an agent does
    not matter, only `silent_millis` does; with it, who keeps silent for longer than he ever did is
    silent before that."""

    now: int
    silent_millis: int
    expected_millis: int
    window_millis: int = 0

    def with_one_heard_every(self, millis: int) -> int:
        usual = int(_PACES * max(self.window_millis, millis))
        return min(self.silent_millis, usual) if self.window_millis else self.silent_millis


def patience(config: AuditConfig, now: int, *, by_pace: bool) -> SilencePatience:
    """As it is configured."""
    return SilencePatience(
        now,
        int(config.alerts.silent * 1000),
        int(config.expected * 1000),
        config.window * 1000 if by_pace else 0,
    )


def agents(
    connection: sqlite3.Connection, query: AgentsQuery, patience: SilencePatience
) -> AgentsAnswer:
    rows = _all(connection, query, patience)
    counted = Counter(row.state for _, row in rows)
    if query.state:
        rows = [each for each in rows if each[1].state == query.state]
    name, down = order(query.sort, _SORTS)
    rows.sort(key=lambda each: (each[1].host, each[1].agent))
    rows.sort(key=lambda each: _SORTS[name](each[1]), reverse=down)
    shown = query.cut(rows)
    topics = _topics(connection, [number for number, _ in shown])
    (expected,) = connection.execute("SELECT count(DISTINCT host) FROM inventory").fetchone()
    return AgentsAnswer(
        by_state={each: counted[each] for each in _ORDER},
        page=query.of(len(rows)),
        items=[replace(row, topics=topics[number]) for number, row in shown],
        expected_hosts=expected,
    )


def by_agent(
    connection: sqlite3.Connection, cluster: str, patience: SilencePatience
) -> dict[str, AgentRow]:
    """Those of a cluster that were ever heard, without their topics."""
    rows = _all(connection, AgentsQuery(cluster=cluster), patience)
    return {row.agent: row for number, row in rows if number >= 0}


def first_to_think_of(agents: Iterable[AgentRow]) -> AgentRow | None:
    """The one whose state is worst."""
    return min(agents, key=lambda row: (_ORDER.index(row.state), row.heard), default=None)


def _all(
    connection: sqlite3.Connection, query: AgentsQuery, patience: SilencePatience
) -> list[_Found]:
    """Whatever their state."""
    where, values = "", list[int | str]([patience.now - patience.expected_millis])
    if query.cluster:
        where, values = " AND agents.cluster = ?", [*values, query.cluster]
    if query.search:
        where += " AND (text LIKE ? ESCAPE '\\' OR journals.journal LIKE ? ESCAPE '\\')"
        values += [pattern(query.search)] * 2
    retired = {
        each: Retired(connection, each)
        for (each,) in connection.execute("SELECT DISTINCT cluster FROM retired")
    }
    rows: list[_Found] = []
    for number, agent, cluster, host, heard, until, lag, version, pace in connection.execute(
        _ROWS + where, values
    ):
        reason = _reason(retired.get(cluster), host, agent, heard)
        silent_before = patience.now - patience.with_one_heard_every(pace)
        state = _state(reason, heard, until, silent_before)
        row = AgentRow(agent, host, cluster, version, [], lag, heard, until, state, reason or "")
        rows.append((number, row))
    return [*rows, *((-1, each) for each in _never(connection, retired, query))]


def _state(reason: str | None, heard: int, until: int, silent_before: int) -> str:
    if reason is not None:
        return "retired"
    if heard < silent_before:
        return "silent"
    return "behind" if until < heard - _BEHIND else "ok"


def _reason(retired: Retired | None, host: str, agent: str, heard: int) -> str | None:
    said = retired.statement(host, agent, heard) if retired else []
    return said[0][1] if said else None


def _never(
    connection: sqlite3.Connection, retired: dict[str, Retired], query: AgentsQuery
) -> list[AgentRow]:
    """Hosts of the inventory that nobody has heard of."""
    found = []
    cluster = query.cluster
    for (host,) in connection.execute(
        "SELECT DISTINCT host FROM inventory WHERE host LIKE ? ESCAPE '\\' AND host NOT IN"
        " (SELECT text FROM agents JOIN names ON names.id = agents.host)",
        (pattern(query.search),),
    ):
        asked = [retired[cluster]] if cluster in retired else list(retired.values())
        reasons = [each for some in asked if (each := _reason(some, host, "", 0)) is not None]
        state, reason = ("retired", reasons[0]) if reasons else ("never", "")
        found.append(AgentRow("", host, cluster, "", [], -1, -1, 0, state, reason))
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
