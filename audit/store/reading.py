"""Reads the database from any thread; each thread has a connection of its own.

Each answer is a snapshot. Queries are passed down, and answers passed up, unchanged, except for
what only the judge knows.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from audit.api.answers import (
    AgentRow,
    AgentsAnswer,
    AlteredTotal,
    ConsumerRow,
    FailingLoad,
    Flow,
    Hosts,
    HourRow,
    JournalFault,
    JournalKey,
    ListPage,
    Loads,
    LogChecks,
    Mark,
    Remark,
    Sources,
)
from audit.api.queries import (
    AgentsQuery,
    AlertsQuery,
    HostsQuery,
    LoadsQuery,
    SourcesQuery,
    TopicsQuery,
)
from audit.programs import Program
from audit.reconciling.findings import Kinds
from audit.reconciling.picture import TopicKey, TopicPicture
from audit.store.database import damage_said, open_for_reading
from audit.store.entries import journal_keys, reservations
from audit.store.entries.journal_keys import SignedJournal
from audit.store.entries.reservations import Writers
from audit.store.files import listing
from audit.store.fleet import agents, heads, health, lags, marks
from audit.store.fleet.agents import SilencePatience
from audit.store.fleet.heads import KnownAgent
from audit.store.fleet.lags import LagsOverTime, LagsQuery, MeasuredLag
from audit.store.fleet.marks import MarksQuery
from audit.store.partitions import commit_logs, comparisons, event_hours, origins
from audit.store.rows import Alert, JournalRow, LoadEnd, TopicShare
from audit.store.statements import altered_text, loads, scrubs, shares
from audit.store.topics import pictures, topics
from audit.store.topics.topics import Delays, FaultyTopic, Overview
from ground.intervals import Intervals

_ALERTS: Final = """
SELECT kind, cluster, topic, host, words, raised, resolved, hour, finding, since
    FROM alerts WHERE {} ORDER BY raised DESC, kind, cluster, topic, host, hour DESC
    LIMIT ? OFFSET ?
"""
_STANDING: Final = "resolved < 0"
_STATES: Final = {None: "1", "raised": _STANDING, "resolved": "resolved >= 0"}


class StoreReading:
    """The database, open for reading. All methods raise StoreDamaged and AuditStoreError."""

    def __init__(self, path: Path, grace_millis: int) -> None:
        self._path = path
        self._grace_millis = grace_millis
        self._mine = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Closes all connections. No thread may be reading."""
        with self._lock:
            while self._all:
                self._all.pop().close()

    @contextlib.contextmanager
    def _moment(self) -> Iterator[sqlite3.Connection]:
        with damage_said(self._path):
            connection: sqlite3.Connection | None = getattr(self._mine, "connection", None)
            if connection is None:
                connection = self._mine.connection = open_for_reading(self._path)
                with self._lock:
                    self._all.append(connection)
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    def accepted_topics(self) -> frozenset[tuple[str, str]]:
        """Returns the clusters and names of topics with faults that operators have accepted."""
        with self._moment() as connection:
            return topics.accepted_names(connection)

    def accepted_in(self, cluster: str, topic: str, hour: int) -> Kinds:
        """Returns the faults of an hour that operators have accepted, by kind."""
        with self._moment() as connection:
            return topics.accepted_in(connection, cluster, topic, hour)

    def topics(self) -> list[TopicKey]:
        """Returns all known topics that are judged; topics whose names begin with `_` are not."""
        with self._moment() as connection:
            return topics.topics(connection)

    def retired(self) -> frozenset[TopicKey]:
        """Returns the topics that operators have retired."""
        with self._moment() as connection:
            return topics.retired(connection)

    def retired_roots(self, key: TopicKey) -> list[str]:
        """Returns the retired roots of a topic, each with the reason and operator."""
        with self._moment() as connection:
            return commit_logs.retired_roots(connection, pictures.Topic(connection, key).id)

    def picture(
        self,
        key: TopicKey,
        from_time: int,
        to_time: int,
        now: int,
        *,
        expected_millis: int,
        names: bool = True,
        is_deleted: bool = False,
    ) -> TopicPicture:
        """Returns the picture to judge, which includes sources if `names` is set. `is_deleted`: the
        cluster lacks the topic, so everything that no loader has read by now is lost."""
        with self._moment() as connection:
            query = pictures.PictureQuery(
                from_time, to_time, now, expected_millis, self._grace_millis, names, is_deleted
            )
            return pictures.picture(connection, key, query)

    def signed(self, key: TopicKey, offsets: Mapping[int, Intervals]) -> bool:
        """Whether agents have signed digests of any of these offsets, by partition."""
        with self._moment() as connection:
            return comparisons.signed(connection, pictures.Topic(connection, key).id, offsets)

    def origin(self, key: TopicKey) -> TopicKey | None:
        """Returns the topic that this one is a copy of; None if it is not a copy."""
        with self._moment() as connection:
            keys = origins.origins(connection, pictures.Topic(connection, key).id)
            return keys[0] if keys else None

    def open_hours(self, key: TopicKey) -> list[int]:
        """Returns the known hours that were not judged complete, the oldest first."""
        with self._moment() as connection:
            return topics.open_hours(connection, pictures.Topic(connection, key).id)

    def first_awaited(self, key: TopicKey, hour: int) -> int:
        """Returns when events of an hour that a destination has not landed were first reported; -1
        if there are none."""
        with self._moment() as connection:
            return event_hours.first_awaited(connection, pictures.Topic(connection, key).id, hour)

    def faulty_hours(self, key: TopicKey) -> list[int]:
        """Returns the hours with unaccepted faults, the oldest first."""
        with self._moment() as connection:
            return topics.faulty_hours(connection, pictures.Topic(connection, key).id)

    def hole_hours(self, key: TopicKey) -> set[int]:
        """Returns the hours that missing entries or unwatched periods may affect, including hours
        that are not yet known."""
        with self._moment() as connection:
            return pictures.hole_hours(pictures.Topic(connection, key))

    def hour_counts(self, from_hour: int) -> dict[TopicKey, dict[int, int]]:
        """Returns the number of events in each hour, from the first tier that has counted them."""
        with self._moment() as connection:
            return topics.hour_counts(connection, from_hour)

    def overview(
        self, query: TopicsQuery, to_hour: int, is_deleted: Callable[[TopicKey], bool]
    ) -> Overview:
        """Returns a page of the list of topics. Deleted topics are not pending."""
        with self._moment() as connection:
            return topics.overview(connection, query, to_hour, is_deleted)

    def faulty_topics(self, cluster: str, from_hour: int, to_hour: int) -> list[FaultyTopic]:
        """Returns the topics with faults, of one cluster or all."""
        with self._moment() as connection:
            return topics.faulty_topics(connection, cluster, from_hour, to_hour)

    def hosts(self, key: TopicKey, query: HostsQuery) -> Hosts:
        """Returns a topic's hosts, those with faults first."""
        with self._moment() as connection:
            return listing.hosts(connection, pictures.Topic(connection, key).id, query)

    def sources(self, key: TopicKey, query: SourcesQuery) -> Sources:
        """Returns a topic's files, those with faults first."""
        with self._moment() as connection:
            topic = pictures.Topic(connection, key)
            return listing.sources(connection, topic.id, topic.name, query)

    def paths(self, sources: Collection[str]) -> dict[str, str]:
        """Returns the paths of sources that agents have reported."""
        with self._moment() as connection:
            return listing.paths(connection, sources)

    def agents(self, query: AgentsQuery, patience: SilencePatience) -> AgentsAnswer:
        with self._moment() as connection:
            return agents.agents(connection, query, patience)

    def agents_of(self, cluster: str, patience: SilencePatience) -> dict[str, AgentRow]:
        """Returns all agents that were ever heard from, by id."""
        with self._moment() as connection:
            return agents.by_agent(connection, cluster, patience)

    def heads(self, cluster: str) -> list[KnownAgent]:
        """Returns all agents of a cluster with their newest signed heartbeats, by host."""
        with self._moment() as connection:
            return heads.known_agents(connection, cluster)

    def agents_done(self, clusters: Collection[str], heard_since: int) -> dict[str, int]:
        """Returns, by cluster, the time up to which all agents have shipped everything."""
        with self._moment() as connection:
            return agents.done_until(connection, clusters, heard_since)

    def loads(self, query: LoadsQuery) -> Loads:
        """Returns loads, the newest first."""
        with self._moment() as connection:
            return loads.loads(connection, query)

    def load_ends(self) -> list[LoadEnd]:
        """Returns the result of each table's last load."""
        with self._moment() as connection:
            return loads.ends(connection)

    def load_advice(self, key: TopicKey) -> dict[str, str]:
        """Returns, by destination, the advice in a topic's last load on how to load the topic."""
        with self._moment() as connection:
            return loads.advice(connection, key.cluster, key.topic)

    def failing_loads(self) -> list[FailingLoad]:
        """Returns tables whose last load failed, those that have been failing longest first."""
        with self._moment() as connection:
            return loads.failing(connection)

    def hours(
        self, key: TopicKey, destination: str, *, from_time: int, to_time: int
    ) -> list[HourRow]:
        """Returns the hours of a table, the newest first."""
        with self._moment() as connection:
            topic = pictures.Topic(connection, key)
            return loads.hours(
                connection,
                topic.id,
                topic.name,
                destination=destination,
                from_time=from_time,
                to_time=to_time,
            )

    def delays(self, key: TopicKey, from_time: int, to_time: int) -> Delays:
        """Returns counts of delays by tier: element 0 counts delays below a millisecond, element i
        delays from 2^(i-1) to 2^i milliseconds."""
        with self._moment() as connection:
            topic = pictures.Topic(connection, key)
            return topics.delays(connection, topic.id, topic.tiers, from_time, to_time)

    def flow(self, key: TopicKey, from_time: int, to_time: int) -> Flow:
        """Returns the outcome of lines, by the windows of the events with which they were read."""
        with self._moment() as connection:
            return topics.flow(connection, pictures.Topic(connection, key).id, from_time, to_time)

    def remarks(
        self, key: TopicKey, from_time: int, to_time: int
    ) -> tuple[list[AlteredTotal], list[Remark]]:
        """Returns altered text: totals by kind, and remarks by file."""
        with self._moment() as connection:
            topic = pictures.Topic(connection, key).id
            return altered_text.remarks(connection, topic, from_time, to_time)

    def writers(self, key: TopicKey, from_time: int, to_time: int) -> list[Writers]:
        """Returns the journals that are about a topic in a period, by tier, and how many of them
        are unsigned."""
        with self._moment() as connection:
            topic = pictures.Topic(connection, key)
            return reservations.writers(connection, topic.name, from_time, to_time)

    def altered_since(self, from_time: int) -> list[tuple[str, str, str, int, int]]:
        """Returns the altered text of all topics: cluster, topic, kind, lines and count."""
        with self._moment() as connection:
            return altered_text.totals(connection, from_time)

    def shares(self, from_time: int) -> list[TopicShare]:
        """Returns the shares of dead letters and altered lines of all topics since this time."""
        with self._moment() as connection:
            return shares.shares(connection, from_time)

    def delays_by_hour(self, key: TopicKey, from_time: int, to_time: int) -> dict[int, Delays]:
        """Returns counts of delays by hour, in ascending order."""
        with self._moment() as connection:
            topic = pictures.Topic(connection, key)
            return topics.delays_by_hour(connection, topic.id, topic.tiers, from_time, to_time)

    def lags(self, query: LagsQuery) -> LagsOverTime:
        """Returns the lags that this audit measured."""
        with self._moment() as connection:
            return lags.lags(connection, query)

    def agent_lags(self) -> list[MeasuredLag]:
        """Returns the current lags of agents."""
        with self._moment() as connection:
            return lags.agent_lags(connection)

    def marks(self, query: MarksQuery) -> list[Mark]:
        """Returns marks on the time axis, the newest first."""
        with self._moment() as connection:
            return marks.marks(connection, query)

    def checks(self, key: TopicKey) -> LogChecks:
        """Returns when brokers last scrubbed the topic's logs."""
        with self._moment() as connection:
            return scrubs.checks(connection, pictures.Topic(connection, key).id)

    def consumers(self, cluster: str = "") -> list[ConsumerRow]:
        with self._moment() as connection:
            return loads.consumers(connection, cluster)

    def journals(self, cluster: str = "", tier: str = "broker") -> list[JournalRow]:
        """Returns the journals of a tier, with their last entries."""
        with self._moment() as connection:
            return agents.journals(connection, cluster, tier)

    def journal_keys(self, cluster: str = "") -> list[JournalKey]:
        """Returns the journals of one cluster or all, with their keys."""
        with self._moment() as connection:
            return journal_keys.journal_keys(connection, cluster)

    def signed_journals(self, cluster: str = "") -> list[SignedJournal]:
        """Returns whether the journals of one cluster or all are signed."""
        with self._moment() as connection:
            return journal_keys.signed_journals(connection, cluster)

    def proof_faults(self, cluster: str = "", since: int = 0) -> list[JournalFault]:
        """Returns faults of entries' signatures that were noticed since this time, the newest
        first."""
        with self._moment() as connection:
            return journal_keys.faults(connection, cluster, since)

    def programs(self, heard_since: int) -> list[Program]:
        """Returns programs with their latest health reports, except those on retired hosts."""
        with self._moment() as connection:
            return health.programs(connection, heard_since)

    def alerts(self, query: AlertsQuery) -> tuple[ListPage, list[Alert]]:
        """Returns alerts, the newest first."""
        condition = _STATES[query.state]
        with self._moment() as connection:
            ((total,),) = connection.execute(
                f"SELECT count(*) FROM alerts WHERE {condition}"  # noqa: S608
            ).fetchall()
            return query.of(total), _alerts(connection, condition, query.size, query.skipped)

    def raised_alerts(self, most: int) -> list[Alert]:
        """Returns at most `most` unresolved alerts."""
        with self._moment() as connection:
            return _alerts(connection, _STANDING, most, 0)


def _alerts(connection: sqlite3.Connection, where: str, most: int, skipped: int) -> list[Alert]:
    rows = connection.execute(_ALERTS.format(where), (most, skipped))
    return [Alert._make(row) for row in rows]
