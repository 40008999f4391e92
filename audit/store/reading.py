"""All that is read from the database. Any thread; each has a connection of its own.

Every answer is of one moment, and lists are cut into pages by SQLite. What is `sort` may have a `-`
in front of it: the other way round. Pages are numbered from 1.
"""

from audit.picture import TopicKey, TopicPicture
from audit.store.rows import (
    Agents,
    Alert,
    ConsumerRow,
    Delays,
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
    """Open until it is closed."""

    def close(self) -> None:
        raise NotImplementedError

    def topics(self) -> list[TopicKey]:
        """All that are known, without those that are not judged (their names begin with `_`)."""
        raise NotImplementedError

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
        raise NotImplementedError

    def open_hours(self, key: TopicKey) -> list[int]:
        """Hours of which something is known and that were not judged complete, the oldest first."""
        raise NotImplementedError

    def hour_counts(self, from_hour: int) -> dict[TopicKey, dict[int, int]]:
        """Events by hour, as the first tier that counts has them."""
        raise NotImplementedError

    def states(self, from_hour: int) -> dict[TopicKey, str]:
        """The worst of each topic's hours."""
        raise NotImplementedError

    def topic_rows(
        self,
        *,
        from_hour: int,
        to_hour: int,
        cluster: str = "",
        search: str = "",
        state: str = "",
        sort: str = "state",
        page: int = 1,
        size: int = 50,
    ) -> Paged[TopicRow]:
        """Sorted by state, topic, events, missing, excess or agents."""
        raise NotImplementedError

    def hosts(
        self, key: TopicKey, *, search: str = "", page: int = 1, size: int = 50
    ) -> Paged[HostRow]:
        """Those with faults first."""
        raise NotImplementedError

    def sources(
        self, key: TopicKey, *, host: str = "", search: str = "", page: int = 1, size: int = 50
    ) -> Paged[SourceRow]:
        """Those with faults first."""
        raise NotImplementedError

    def agents(
        self,
        *,
        now: int,
        silent_millis: int,
        expected_millis: int,
        cluster: str = "",
        state: str = "",
        search: str = "",
        sort: str = "state",
        page: int = 1,
        size: int = 50,
    ) -> Agents:
        """Sorted by state, host, lag, heard or until."""
        raise NotImplementedError

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
        raise NotImplementedError

    def destinations(self) -> list[str]:
        raise NotImplementedError

    def hours(
        self, key: TopicKey, destination: str, *, from_time: int, to_time: int
    ) -> list[HourRow]:
        """The newest first."""
        raise NotImplementedError

    def delays(self, key: TopicKey, from_time: int, to_time: int) -> Delays:
        """Element 0 counts delays below a millisecond, element i those of 2^(i-1) up to 2^i."""
        raise NotImplementedError

    def flow(self, key: TopicKey, from_time: int, to_time: int) -> FlowRow:
        """Of what agents said between these times."""
        raise NotImplementedError

    def consumers(self, cluster: str = "") -> list[ConsumerRow]:
        raise NotImplementedError

    def journals(self, cluster: str = "", tier: str = "broker") -> list[JournalRow]:
        """Who writes entries, and when the last one was."""
        raise NotImplementedError

    def alerts(self, state: str = "", *, page: int = 1, size: int = 50) -> Paged[Alert]:
        """The newest first; `raised` or `resolved` only, if that is asked for."""
        raise NotImplementedError
