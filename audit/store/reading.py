"""All that is read from the database. Any thread; each has a connection of its own.

Every answer is of one moment. What is asked comes as one value and goes down as it is; what comes
up is shown as it is, but for what only judges can say.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator
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
from audit.picture import TopicKey, TopicPicture
from audit.programs import Program
from audit.store.database import damage_said, open_for_reading
from audit.store.files import listing
from audit.store.fleet import agents, health, lags, marks
from audit.store.fleet.agents import SilencePatience
from audit.store.fleet.lags import LagsAsked, LagsOverTime, MeasuredLag
from audit.store.fleet.marks import MarksAsked
from audit.store.partitions import origins
from audit.store.rows import Alert, JournalRow, LoadEnd, TopicShare
from audit.store.statements import altered_text, loads, scrubs, shares
from audit.store.topics import pictures, topics
from audit.store.topics.topics import Delays, FaultyTopic, Overview

_ALERTS: Final = """
SELECT kind, cluster, topic, host, words, raised, resolved, hour, finding, since
    FROM alerts WHERE {} ORDER BY raised DESC, kind, cluster, topic, host, hour DESC
    LIMIT ? OFFSET ?
"""
_STANDING: Final = "resolved < 0"
_STATES: Final = {None: "1", "raised": _STANDING, "resolved": "resolved >= 0"}


class StoreReading:
    """Open until it is closed. Everything raises StoreDamaged and AuditStoreError."""

    def __init__(self, path: Path, grace_millis: int) -> None:
        self._path = path
        self._grace_millis = grace_millis
        self._mine = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Nobody reads any more."""
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

    def topics(self) -> list[TopicKey]:
        """All that are known, without those that are not judged (their names begin with `_`)."""
        with self._moment() as connection:
            return topics.topics(connection)

    def retired(self) -> frozenset[TopicKey]:
        """Of which nothing is expected any more, as operators say."""
        with self._moment() as connection:
            return topics.retired(connection)

    def picture(
        self,
        key: TopicKey,
        from_time: int,
        to_time: int,
        now: int,
        *,
        expected_millis: int,
        names: bool = True,
    ) -> TopicPicture:
        """What judges need to know. Without `names` there are no sources in it."""
        with self._moment() as connection:
            asked = pictures.Asked(
                from_time, to_time, now, expected_millis, self._grace_millis, names
            )
            return pictures.picture(connection, key, asked)

    def origin(self, key: TopicKey) -> TopicKey | None:
        """What it is a copy of, if it is one."""
        with self._moment() as connection:
            found = origins.origins(connection, pictures.Topic(connection, key).id)
            return found[0] if found else None

    def open_hours(self, key: TopicKey) -> list[int]:
        """Hours of which something is known and that were not judged complete, the oldest first."""
        with self._moment() as connection:
            return topics.open_hours(connection, pictures.Topic(connection, key).id)

    def faulty_hours(self, key: TopicKey) -> list[int]:
        """Hours that were judged to have faults that nobody has accepted, the oldest first."""
        with self._moment() as connection:
            return topics.faulty_hours(connection, pictures.Topic(connection, key).id)

    def hole_hours(self, key: TopicKey) -> set[int]:
        """About which entries are missing, or which nobody watched, whether anything else is known
        of them or not."""
        with self._moment() as connection:
            return pictures.hole_hours(pictures.Topic(connection, key))

    def hour_counts(self, from_hour: int) -> dict[TopicKey, dict[int, int]]:
        """Events by hour, as the first tier that counts has them."""
        with self._moment() as connection:
            return topics.hour_counts(connection, from_hour)

    def overview(
        self, query: TopicsQuery, to_hour: int, is_deleted: Callable[[TopicKey], bool]
    ) -> Overview:
        """Those that were deleted wait for nobody."""
        with self._moment() as connection:
            return topics.overview(connection, query, to_hour, is_deleted)

    def faulty_topics(self, cluster: str, from_hour: int, to_hour: int) -> list[FaultyTopic]:
        """Of one cluster, or of all."""
        with self._moment() as connection:
            return topics.faulty_topics(connection, cluster, from_hour, to_hour)

    def hosts(self, key: TopicKey, query: HostsQuery) -> Hosts:
        """Those with faults first."""
        with self._moment() as connection:
            return listing.hosts(connection, pictures.Topic(connection, key).id, query)

    def sources(self, key: TopicKey, query: SourcesQuery) -> Sources:
        """Those with faults first."""
        with self._moment() as connection:
            topic = pictures.Topic(connection, key)
            return listing.sources(connection, topic.id, topic.name, query)

    def paths(self, sources: Collection[str]) -> dict[str, str]:
        """The files that these sources are, as far as their agents named them."""
        with self._moment() as connection:
            return listing.paths(connection, sources)

    def agents(self, query: AgentsQuery, patience: SilencePatience) -> AgentsAnswer:
        with self._moment() as connection:
            return agents.agents(connection, query, patience)

    def agents_of(self, cluster: str, patience: SilencePatience) -> dict[str, AgentRow]:
        """Those that were ever heard, by their id."""
        with self._moment() as connection:
            return agents.by_agent(connection, cluster, patience)

    def loads(self, query: LoadsQuery) -> Loads:
        """The newest first."""
        with self._moment() as connection:
            return loads.loads(connection, query)

    def load_ends(self) -> list[LoadEnd]:
        """How the last load of each table ended, as loaders say."""
        with self._moment() as connection:
            return loads.ends(connection)

    def failing_loads(self) -> list[FailingLoad]:
        """Tables whose last load failed; what fails longest comes first."""
        with self._moment() as connection:
            return loads.failing(connection)

    def hours(
        self, key: TopicKey, destination: str, *, from_time: int, to_time: int
    ) -> list[HourRow]:
        """The newest first."""
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
        """Element 0 counts delays below a millisecond, element i those of 2^(i-1) up to 2^i."""
        with self._moment() as connection:
            topic = pictures.Topic(connection, key)
            return topics.delays(connection, topic.id, topic.tiers, from_time, to_time)

    def flow(self, key: TopicKey, from_time: int, to_time: int) -> Flow:
        """Of lines, in the window of the events that they were read with."""
        with self._moment() as connection:
            return topics.flow(connection, pictures.Topic(connection, key).id, from_time, to_time)

    def remarks(
        self, key: TopicKey, from_time: int, to_time: int
    ) -> tuple[list[AlteredTotal], list[Remark]]:
        """What of its text is not what the files have: by kind, and by file."""
        with self._moment() as connection:
            topic = pictures.Topic(connection, key).id
            return altered_text.remarks(connection, topic, from_time, to_time)

    def altered_since(self, from_time: int) -> list[tuple[str, str, str, int, int]]:
        """Of all topics: cluster, topic, kind, lines and count."""
        with self._moment() as connection:
            return altered_text.totals(connection, from_time)

    def shares(self, from_time: int) -> list[TopicShare]:
        """Of all topics, the lines since then: all, dead letters, altered ones."""
        with self._moment() as connection:
            return shares.shares(connection, from_time)

    def delays_by_hour(self, key: TopicKey, from_time: int, to_time: int) -> dict[int, Delays]:
        """As `delays`, of each hour that has any, in their order."""
        with self._moment() as connection:
            topic = pictures.Topic(connection, key)
            return topics.delays_by_hour(connection, topic.id, topic.tiers, from_time, to_time)

    def lags(self, asked: LagsAsked) -> LagsOverTime:
        """As this audit measured them."""
        with self._moment() as connection:
            return lags.lags(connection, asked)

    def agent_lags(self) -> list[MeasuredLag]:
        """Of all hosts that have any, now."""
        with self._moment() as connection:
            return lags.agent_lags(connection)

    def marks(self, asked: MarksAsked) -> list[Mark]:
        """What changed, the newest first."""
        with self._moment() as connection:
            return marks.marks(connection, asked)

    def checks(self, key: TopicKey) -> LogChecks:
        """When brokers last read its logs again."""
        with self._moment() as connection:
            return scrubs.checks(connection, pictures.Topic(connection, key).id)

    def consumers(self, cluster: str = "") -> list[ConsumerRow]:
        with self._moment() as connection:
            return loads.consumers(connection, cluster)

    def journals(self, cluster: str = "", tier: str = "broker") -> list[JournalRow]:
        """Who writes entries, and when the last one was."""
        with self._moment() as connection:
            return agents.journals(connection, cluster, tier)

    def programs(self, heard_since: int) -> list[Program]:
        """With their latest statements of health, without those of retired hosts."""
        with self._moment() as connection:
            return health.programs(connection, heard_since)

    def alerts(self, query: AlertsQuery) -> tuple[ListPage, list[Alert]]:
        """The newest first."""
        where = _STATES[query.state]
        with self._moment() as connection:
            ((total,),) = connection.execute(
                f"SELECT count(*) FROM alerts WHERE {where}"  # noqa: S608
            ).fetchall()
            return query.of(total), _alerts(connection, where, query.size, query.skipped)

    def raised_alerts(self, most: int) -> list[Alert]:
        """Those that stand, at most so many."""
        with self._moment() as connection:
            return _alerts(connection, _STANDING, most, 0)


def _alerts(connection: sqlite3.Connection, where: str, most: int, skipped: int) -> list[Alert]:
    rows = connection.execute(_ALERTS.format(where), (most, skipped))
    return [Alert._make(row) for row in rows]
