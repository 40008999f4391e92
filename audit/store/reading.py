"""All that is read from the database. Any thread; each has a connection of its own.

Every answer is of one moment, and lists are cut into pages here. What is `sort` may have a `-` in
front of it: the other way round. Pages are numbered from 1.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Container, Iterator
from pathlib import Path

from audit.picture import TopicKey, TopicPicture
from audit.store import figures, files, fleet, loading, loads_tried, overview, pictures
from audit.store.opening import damage_said, open_for_reading
from audit.store.rows import (
    Agents,
    Alert,
    ConsumerRow,
    Delays,
    FailingLoad,
    FlowRow,
    HostRow,
    HourRow,
    JournalRow,
    LoadRow,
    Paged,
    SourceRow,
    TopicRow,
)


class Reading:
    """Open until it is closed. Everything raises StoreDamaged and StoreError."""

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
            return overview.topics(connection)

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
            return pictures.picture(
                connection,
                key,
                from_time,
                to_time,
                now,
                expected_millis=expected_millis,
                grace_millis=self._grace_millis,
                names=names,
            )

    def open_hours(self, key: TopicKey) -> list[int]:
        """Hours of which something is known and that were not judged complete, the oldest first."""
        with self._moment() as connection:
            return overview.open_hours(connection, pictures.Topic(connection, key).id)

    def faulty_hours(self, key: TopicKey) -> list[int]:
        """Hours that were judged to have faults that nobody has accepted, the oldest first."""
        with self._moment() as connection:
            return overview.faulty_hours(connection, pictures.Topic(connection, key).id)

    def hole_hours(self, key: TopicKey) -> set[int]:
        """About which entries are missing, or which nobody watched, whether anything else is known
        of them or not."""
        with self._moment() as connection:
            return pictures.hole_hours(pictures.Topic(connection, key))

    def hour_counts(self, from_hour: int) -> dict[TopicKey, dict[int, int]]:
        """Events by hour, as the first tier that counts has them."""
        with self._moment() as connection:
            return overview.hour_counts(connection, from_hour)

    def states(
        self, from_hour: int, to_hour: int, deleted: Container[TopicKey] = ()
    ) -> dict[TopicKey, str]:
        """The worst of each topic's hours; those that were deleted wait for nobody."""
        with self._moment() as connection:
            return overview.states(connection, from_hour, to_hour, deleted)

    def topic_rows(
        self,
        *,
        from_hour: int,
        to_hour: int,
        cluster: str = "",
        search: str = "",
        state: str = "",
        deleted: Container[TopicKey] = (),
        sort: str = "state",
        page: int = 1,
        size: int = 50,
    ) -> Paged[TopicRow]:
        """Sorted by state, topic, events, missing, excess or agents; those that were deleted wait
        for nobody."""
        with self._moment() as connection:
            return overview.topic_rows(
                connection,
                from_hour=from_hour,
                to_hour=to_hour,
                cluster=cluster,
                search=search,
                state=state,
                deleted=deleted,
                sort=sort,
                page=page,
                size=size,
            )

    def hosts(
        self, key: TopicKey, *, search: str = "", page: int = 1, size: int = 50
    ) -> Paged[HostRow]:
        """Those with faults first."""
        with self._moment() as connection:
            topic = pictures.Topic(connection, key)
            return files.hosts(connection, topic.id, search=search, page=page, size=size)

    def sources(
        self, key: TopicKey, *, host: str = "", search: str = "", page: int = 1, size: int = 50
    ) -> Paged[SourceRow]:
        """Those with faults first."""
        with self._moment() as connection:
            topic = pictures.Topic(connection, key)
            return files.sources(
                connection, topic.id, topic.name, host=host, search=search, page=page, size=size
            )

    def agents(
        self,
        *,
        now: int,
        silent_millis: int,
        expected_millis: int,
        window_millis: int = 0,
        cluster: str = "",
        state: str = "",
        search: str = "",
        sort: str = "state",
        page: int = 1,
        size: int = 50,
    ) -> Agents:
        """Sorted by state, host, lag, heard or until. With `window_millis`, who keeps silent for
        longer than he ever did is silent before `silent_millis`."""
        with self._moment() as connection:
            return fleet.agents(
                connection,
                now=now,
                silent_millis=silent_millis,
                window_millis=window_millis,
                expected_millis=expected_millis,
                cluster=cluster,
                state=state,
                search=search,
                sort=sort,
                page=page,
                size=size,
            )

    def loads(
        self,
        *,
        cluster: str = "",
        topic: str = "",
        destination: str = "",
        page: int = 1,
        size: int = 50,
    ) -> Paged[LoadRow]:
        """The newest first."""
        with self._moment() as connection:
            return loading.loads(
                connection,
                cluster=cluster,
                topic=topic,
                destination=destination,
                page=page,
                size=size,
            )

    def failing_loads(self) -> list[FailingLoad]:
        """Tables whose last load failed; what fails longest comes first."""
        with self._moment() as connection:
            return loads_tried.failing(connection)

    def destinations(self) -> list[str]:
        with self._moment() as connection:
            return loading.destinations(connection)

    def hours(
        self, key: TopicKey, destination: str, *, from_time: int, to_time: int
    ) -> list[HourRow]:
        """The newest first."""
        with self._moment() as connection:
            topic = pictures.Topic(connection, key)
            return loading.hours(
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
            return figures.delays(connection, topic.id, topic.tiers, from_time, to_time)

    def flow(self, key: TopicKey, from_time: int, to_time: int) -> FlowRow:
        """Of lines, in the window of the events that they were read with."""
        with self._moment() as connection:
            return figures.flow(connection, pictures.Topic(connection, key).id, from_time, to_time)

    def consumers(self, cluster: str = "") -> list[ConsumerRow]:
        with self._moment() as connection:
            return loading.consumers(connection, cluster)

    def journals(self, cluster: str = "", tier: str = "broker") -> list[JournalRow]:
        """Who writes entries, and when the last one was."""
        with self._moment() as connection:
            return fleet.journals(connection, cluster, tier)

    def alerts(self, state: str = "", *, page: int = 1, size: int = 50) -> Paged[Alert]:
        """The newest first; `raised` or `resolved` only, if that is asked for, or `untold`: those
        that are resolved, of which the webhook does not know."""
        with self._moment() as connection:
            return figures.alerts(connection, state, page, size)
