"""Fetch sessions (KIP-227): requests state only changes, and responses have only partitions with
news.

Rule 1: a partition of a session is looked at when its client has changed its request, when the
        partition has reported a change, and while it has more data than was returned. So a fetch
        that finds nothing costs the same with one partition and with thousands. Changes that
        partitions do not report, such as removed segments, are found by looking at all of them once
        a minute.
Rule 2: partitions to be looked at form a queue. One that has returned records goes to its end, so
        that each comes first at some time.
Rule 3: the number of sessions is bounded, and that of all their partitions. If there is no more
        room, a session that was not used for two minutes gives way; then one of the client that has
        the most, as long as that client keeps at least as much as the new session's client gets;
        then, as in Kafka, an older and smaller one of the same client. Followers precede all
        clients, and give way to none. A client without room is served without a session.
Rule 4: a session belongs to the principal that opened it, or to its address if there are no logins.
        For others it does not exist. Of two requests in the same session, the later one is
        answered.

Belongs to the event loop. A crash loses all sessions: clients begin new ones.
"""

import secrets
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from broker.errors import ApiError
from wire.errors import ErrorCode
from wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

NO_SESSION: Final = 0
NO_EPOCH: Final = -1  # in a request without a session
FIRST_EPOCH: Final = 0  # in a request for a new session

_MOST_SESSIONS: Final = 1_000
_MOST_PARTITIONS: Final = 100_000
_IDLE_SECONDS: Final = 120.0
_LOOK_AT_ALL_SECONDS: Final = 60.0
_ALL_ARE_ASKED_SECONDS: Final = 1.0
_LAST: Final = 2**31 - 1
_NOT_TOLD: Final = -1

Told = Callable[[], None]
Owner = tuple[str, str]
"""The principal, and the address if the principal is anonymous."""


class Watched(Protocol):
    """The operations of a partition that sessions need. Any of them may call back."""

    def watch(self, callback: Told, *, reads: bool = False) -> None:
        """Calls back whenever more is exposed, or the partition's state changes. A client that
        `reads` waits for messages, not only for state."""
        ...

    def unwatch(self, callback: Told) -> None: ...

    def watch_end(self, callback: Told) -> None: ...

    def unwatch_end(self, callback: Told) -> None: ...


class Waiting(Protocol):
    """A fetch in a session that waits for enough data."""

    def wake(self) -> None:
        """Called when enough data may be available."""
        ...

    def wake_later(self) -> None:
        """Called when there is news that is not urgent."""
        ...

    def end(self, code: ErrorCode) -> None:
        """Ends the fetch with this error as the only response."""
        ...


class SessionPartition:
    """The client's request for one partition, and the result that the client was sent last.

    The partition calls it back once: then it is to be looked at, and not called back before.
    """

    __slots__ = ("_session", "_watched", "high_watermark", "start_offset", "topic", "wanted")

    def __init__(self, session: "FetchSession", topic: str, wanted: FetchPartition) -> None:
        self.topic = topic
        self.wanted = wanted
        self.high_watermark = self.start_offset = _NOT_TOLD
        self._session = session
        self._watched: Watched | None = None

    def __call__(self) -> None:
        self.unwatch()
        self._session.look_at(self)
        if self._session.waiting is not None:
            self._session.waiting.wake()

    def _exposed(self) -> None:
        """A follower has the exposed records already, and need only learn that they are exposed;
        appended records wake it anyway."""
        if self._watched is not None:
            self._watched.unwatch(self._exposed)
        self._session.look_at(self)
        if self._session.waiting is not None:
            self._session.waiting.wake_later()

    def watch(self, partition: Watched) -> None:
        if self._watched is not partition:
            self.unwatch()
            self._watched = partition
        if self._session.is_followers:
            partition.watch_end(self)
            partition.watch(self._exposed)
        else:
            partition.watch(self, reads=True)

    def unwatch(self) -> None:
        partition, self._watched = self._watched, None
        if partition is None:
            return
        if self._session.is_followers:
            partition.unwatch_end(self)
            partition.unwatch(self._exposed)
        else:
            partition.unwatch(self)

    def has_news(self, data: PartitionData) -> bool:
        """Returns whether this result is news for the client."""
        return (
            bool(data.records)
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.start_offset
            or data.error_code is not ErrorCode.none
            or data.preferred_read_replica >= 0
            or data.diverging_epoch.epoch >= 0
        )

    def tell(self, data: PartitionData) -> None:
        """Records the result that the client gets. The end of an error is news, too."""
        is_failed = data.error_code is not ErrorCode.none
        self.high_watermark = _NOT_TOLD if is_failed else data.high_watermark
        self.start_offset = data.log_start_offset


class FetchSession:
    """One session. `id` is NO_SESSION after its end; `epoch` is that of the next request.

    `rights` are the ACLs by which the client's permissions were last checked.
    """

    __slots__ = (
        "_all_at", "_asked_at", "_row", "epoch", "id", "opened_at", "owner", "partitions",
        "replica_id", "rights", "used_at", "waiting",
    )  # fmt: skip

    def __init__(self, owner: Owner, replica_id: int, now: float) -> None:
        self.id = NO_SESSION
        self.epoch = FIRST_EPOCH + 1
        self.owner = owner
        self.replica_id = replica_id
        self.opened_at = self.used_at = self._all_at = self._asked_at = now
        self.partitions: dict[tuple[str, int], SessionPartition] = {}
        self.rights: object = None
        self.waiting: Waiting | None = None
        self._row: dict[SessionPartition, None] = {}  # to be looked at

    @property
    def is_followers(self) -> bool:
        return self.replica_id >= 0

    @property
    def to_look_at(self) -> tuple[SessionPartition, ...]:
        return tuple(self._row)

    def look_at(self, partition: SessionPartition) -> None:
        self._row.setdefault(partition)

    def look_at_all(self) -> None:
        for entry in self.partitions.values():
            self._row.setdefault(entry)

    def want(self, topics: Iterable[FetchTopic]) -> None:
        partitions, row = self.partitions, self._row
        for topic in topics:
            name = topic.topic
            for fetch_partition in topic.partitions:
                session_partition = partitions.get((name, fetch_partition.partition))
                if session_partition is None:
                    session_partition = SessionPartition(self, name, fetch_partition)
                    partitions[name, fetch_partition.partition] = session_partition
                else:
                    session_partition.wanted = fetch_partition
                row.setdefault(session_partition)

    def forget(self, topics: Iterable[ForgottenTopic]) -> None:
        for topic in topics:
            for index in topic.partitions:
                session_partition = self.partitions.pop((topic.topic, index), None)
                if session_partition is not None:
                    session_partition.unwatch()
                    self._row.pop(session_partition, None)

    def answered(self, partition: SessionPartition, data: PartitionData) -> None:
        """Notes that the partition was read, and that the client gets this result if it is news."""
        partition.tell(data)
        if data.records:
            self._row.pop(partition, None)
            self._row[partition] = None

    def rest(self, partition: SessionPartition, watched: Watched) -> None:
        """Skips a partition without more data until it calls back."""
        self._row.pop(partition, None)
        partition.watch(watched)

    def used(self, now: float) -> None:
        self.used_at = now
        if now - self._all_at > _LOOK_AT_ALL_SECONDS:
            self._all_at = now
            self.look_at_all()

    def asks_for_all(self, now: float) -> bool:
        """Returns whether all partitions of the session are due to be read again. A request covers
        all of them, named or not: those not named continue at their positions."""
        if now - self._asked_at < _ALL_ARE_ASKED_SECONDS:
            return False
        self._asked_at = now
        return True

    def close(self) -> None:
        for entry in self.partitions.values():
            entry.unwatch()
        self.partitions.clear()
        self._row.clear()

    def end_waiting(self, code: ErrorCode) -> None:
        waiting_fetch, self.waiting = self.waiting, None
        if waiting_fetch is not None:
            waiting_fetch.end(code)


class _Client:
    """The sessions of one owner, the most recently used last."""

    __slots__ = ("partitions", "sessions")

    def __init__(self) -> None:
        self.sessions: dict[int, FetchSession] = {}
        self.partitions = 0


def _random_id() -> int:
    return secrets.randbelow(_LAST) + 1


class FetchSessions:
    def __init__(
        self,
        now: Callable[[], float],
        *,
        most_sessions: int = _MOST_SESSIONS,
        most_partitions: int = _MOST_PARTITIONS,
        new_id: Callable[[], int] = _random_id,
    ) -> None:
        self._now = now
        self._most_sessions = most_sessions
        self._most_partitions = most_partitions
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}  # the most recently used last
        self._clients: dict[Owner, _Client] = {}
        self._followers = _Client()
        self.partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, owner: Owner) -> FetchSession | None:
        """Opens a session in which all partitions are due to be read; returns None if there is no
        room."""
        session = FetchSession(owner, request.replica_id, self._now())
        session.want(request.topics)
        size = len(session.partitions)
        if not size or not self._make_room(session, 1, size):
            return None
        while session.id in self._sessions or session.id == NO_SESSION:
            session.id = self._new_id()
        self._sessions[session.id] = session
        client = self._client(session)
        client.sessions[session.id] = session
        self._grow(client, size)
        return session

    def resume(self, request: FetchRequest, owner: Owner) -> FetchSession:
        """Applies the request to its session, which then expects the next epoch. The session ends,
        and its `id` becomes NO_SESSION, if it has no partition left, or if the added partitions do
        not fit."""
        session_id, epoch = request.session_id, request.session_epoch
        session = self._of(session_id, owner)
        if session is None or session.replica_id != request.replica_id:
            raise ApiError(
                ErrorCode.fetch_session_id_not_found, f"unknown fetch session {session_id}"
            )
        if epoch != session.epoch:
            raise ApiError(
                ErrorCode.invalid_fetch_session_epoch,
                f"fetch session {session_id} is at epoch {session.epoch}, the request at {epoch}",
            )
        session.end_waiting(ErrorCode.invalid_fetch_session_epoch)
        session.epoch = epoch + 1 if epoch < _LAST else FIRST_EPOCH + 1
        old_count = len(session.partitions)
        session.want(request.topics)
        session.forget(request.forgotten_topics_data)
        added_count = len(session.partitions) - old_count
        client = self._client(session)
        for sessions in (self._sessions, client.sessions):
            sessions[session_id] = sessions.pop(session_id)
        session.used(self._now())
        if session.partitions and (added_count <= 0 or self._make_room(session, 0, added_count)):
            self._grow(client, added_count)
        else:
            self._remove(session, old_count)
        return session

    def close(self, session_id: int, owner: Owner) -> None:
        """Ends the session, as its owner requests."""
        session = self._of(session_id, owner)
        if session is not None:
            self._take(session)

    def _of(self, session_id: int, owner: Owner) -> FetchSession | None:
        session = self._sessions.get(session_id)
        return session if session is not None and session.owner == owner else None

    def _client(self, session: FetchSession) -> _Client:
        if session.is_followers:
            return self._followers
        return self._clients.setdefault(session.owner, _Client())

    def _grow(self, client: _Client, partitions: int) -> None:
        client.partitions += partitions
        self.partitions += partitions

    def _take(self, session: FetchSession) -> None:
        self._remove(session, len(session.partitions))
        session.end_waiting(ErrorCode.fetch_session_id_not_found)
        session.close()

    def _remove(self, session: FetchSession, size: int) -> None:
        client = self._client(session)
        del self._sessions[session.id], client.sessions[session.id]
        session.id = NO_SESSION
        self._grow(client, -size)
        if not client.sessions and not session.is_followers:
            del self._clients[session.owner]

    # Room

    def _make_room(self, new: FetchSession, sessions: int, partitions: int) -> bool:
        """Make room for this many; False if no session may give way."""
        while (
            len(self._sessions) + sessions > self._most_sessions
            or self.partitions + partitions > self._most_partitions
        ):
            evicted_session = self._victim(new, sessions, partitions)
            if evicted_session is None:
                return False
            self._take(evicted_session)
        return True

    def _victim(self, new: FetchSession, sessions: int, partitions: int) -> FetchSession | None:
        now = self._now()
        oldest_session = next(iter(self._sessions.values()), None)
        if (
            oldest_session is not None
            and oldest_session is not new
            and now - oldest_session.used_at > _IDLE_SECONDS
        ):
            return oldest_session
        client = self._followers if new.is_followers else self._clients.get(new.owner, _Client())
        largest_client = max(self._clients.values(), key=self._share, default=client)
        if largest_client is not client:
            evicted_session = next(iter(largest_client.sessions.values()))
            remainder = self._share(largest_client, -1, -len(evicted_session.partitions))
            if new.is_followers or remainder >= self._share(client, sessions, partitions):
                return evicted_session
        size = len(new.partitions)
        return min(
            (
                session
                for session in client.sessions.values()
                if session is not new
                and now - session.opened_at > _IDLE_SECONDS
                and len(session.partitions) <= size
            ),
            key=lambda session: len(session.partitions),
            default=None,
        )

    def _share(self, client: _Client, sessions: int = 0, partitions: int = 0) -> float:
        return max(
            (len(client.sessions) + sessions) / self._most_sessions,
            (client.partitions + partitions) / self._most_partitions,
        )
