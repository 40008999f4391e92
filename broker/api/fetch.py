"""Fetch (key 1), versions 4–12.

Batches are not touched: a response is a few bytes around slices of segment files. Consumers get
exposed batches, followers everything that the leader has: whole batches, and at least one if there
is one, however large. With less than `min_bytes` the request waits, without polling, until there is
enough or `max_wait` is over. Permissions are checked at every look, so revoking one ends a wait.

A client with a session (KIP-227, `broker.replication.sessions`) names all partitions once, and from
then on gets only what is new. A follower fetches from its flushed end. If a client states the epoch
of its last record, and that record is not in this log, it is told where that epoch ended here
(`diverging_epoch`). A consumer that states its rack is redirected to a replica there that is in
sync and has caught up as far (KIP-392); this broker serves such consumers as a follower too.

Not here: transactions (both isolation levels see the same; a copy that holds some is refused to
consumers that ask for committed messages only, UNSUPPORTED_VERSION), topic ids (version 13).

Specified in docs/replication-spec.md: `ServeFetch` (R8).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Set
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from broker.access.authorization import Authorization
from broker.api.offset_for_leader_epoch import end_of_epoch
from broker.connections.caller import ANONYMOUS, Caller
from broker.connections.connection import Connection, Reply
from broker.connections.large_requests import InTurns
from broker.errors import ApiError
from broker.monitoring.metrics import BrokerMetrics
from broker.replicas.open_files import NoRoom, OpenLogs
from broker.replicas.partition import Partition
from broker.replicas.partitions import Partitions
from broker.replication.sessions import (
    FIRST_EPOCH,
    NO_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchSessions,
    Owner,
    SessionPartition,
)
from broker.replication.throttle import Throttle
from broker.storage.errors import OffsetOutOfRange, StorageError
from broker.storage.state.epochs import NO_EPOCH as NOT_KNOWN
from cluster.view import ClusterView
from wire.acls import THE_CLUSTER, Operation, ResourceType
from wire.errors import ErrorCode
from wire.framing.primitives import Part
from wire.framing.slices import FileSlice
from wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

Encode = Callable[[FetchResponse], list[Part]]

_LONGEST_WAIT_MS = 60_000
_LARGEST_RESPONSE = 64 * 1024 * 1024
_OF_A_TURN = 64  # topics, and partitions of one topic
_LEAST_PART = 4  # of one partition, sent to a follower at a time
_NEWS_WAITS_SECONDS = 0.05  # before a follower, which has the records, is told that more is exposed
_NO_LEADER: Final = LeaderIdAndEpoch()
_LED_OTHERWISE: Final = {
    ErrorCode.not_leader_or_follower,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.unknown_leader_epoch,
}


class Needs(msgspec.Struct, frozen=True):
    partitions: Partitions
    open_logs: OpenLogs
    loop: asyncio.AbstractEventLoop
    authorization: Authorization
    sessions: FetchSessions
    cluster: ClusterView
    metrics: BrokerMetrics
    throttle: Throttle


def serve(needs: Needs, connection: Connection, request: FetchRequest, encode: Encode) -> None:
    """Responds as soon as there is enough data, or after the client's maximum wait."""
    try:
        fetch = _begin(needs, connection, request)
    except ApiError as error:
        connection.send(encode(FetchResponse(error_code=error.code, responses=())))
        return
    fetch.look()
    if fetch.satisfied or request.max_wait <= 0:
        connection.send(encode(fetch.answer(connection)))
    else:
        _Parked(needs, fetch, connection.reply(exclusive=True), encode)


async def look_in_turns(
    needs: Needs, reply: Reply, request: FetchRequest, encode: Encode, work: InTurns
) -> FetchResponse | None:
    """Serves a request of many partitions in pieces; returns None if the answer comes later."""
    connection = reply.connection
    try:
        fetch = _begin(needs, connection, request)
    except ApiError as error:
        return FetchResponse(error_code=error.code, responses=())
    await work.do(fetch.looking())
    if fetch.satisfied or request.max_wait <= 0:
        return await work.do(fetch.answering(connection))
    _Parked(needs, fetch, reply, encode)
    return None


def _begin(needs: Needs, connection: Connection, request: FetchRequest) -> "_Fetch":
    owner = _owner(connection.caller)
    sessions = needs.sessions
    if request.session_epoch in {NO_EPOCH, FIRST_EPOCH}:
        if request.session_id != NO_SESSION:
            sessions.close(request.session_id, owner)
        return _WholeFetch(needs, request, connection)
    return _SessionFetch(needs, request, connection, sessions.resume(request, owner))


def _owner(caller: Caller) -> Owner:
    return caller.principal, caller.host if caller.principal == ANONYMOUS else ""


class _Look(NamedTuple):
    partition: Partition | None
    """None if it cannot be read here."""
    data: PartitionData
    rests: bool = False
    """There is nothing more to find before the partition changes."""
    no_room: bool = False
    """There is data that was not returned."""


class _Fetch(ABC):
    """One fetch request, read again whenever one of its partitions has new messages."""

    __slots__ = (
        "_caller", "_client", "_decided", "_denied", "_enough", "_needs", "_read", "_room",
        "request",
    )  # fmt: skip

    def __init__(self, needs: Needs, request: FetchRequest, connection: Connection) -> None:
        self._needs = needs
        self._client = connection.peer
        self._caller = connection.caller
        self._denied: Set[str] = frozenset()  # topics that the client may not read
        self.request = request
        self._enough = min(request.min_bytes, request.max_bytes, _LARGEST_RESPONSE)
        self._read: list[tuple[Partition, FileSlice]] = []
        self._decided = False  # an error does not wait
        if self._is_followers:
            self._note_progress()

    @property
    def _is_followers(self) -> bool:
        return self.request.replica_id >= 0

    @property
    def satisfied(self) -> bool:
        """Whether the data found by the last `look` can be sent without waiting for more."""
        return self._decided or sum(piece.length for _, piece in self._read) >= self._enough

    def look(self) -> None:
        self._begin_to_look()
        self._look()

    def _begin_to_look(self) -> None:
        self._read, self._decided = [], False
        self._room = min(self.request.max_bytes, _LARGEST_RESPONSE)

    @abstractmethod
    def _look(self) -> None: ...

    def looking(self) -> Generator[None, None, None]:
        """Does what `look` does, in pieces if there may be many partitions."""
        self.look()
        yield

    def answer(self, connection: Connection) -> FetchResponse:
        """Returns the response with the data found by the last `look`."""
        self._count(connection)
        return self._answer()

    def answering(self, connection: Connection) -> Generator[None, None, FetchResponse]:
        """Does what `answer` does, in pieces if there may be many partitions."""
        yield
        return self.answer(connection)

    def _count(self, connection: Connection) -> None:
        if self._is_followers:
            traffic = self._needs.metrics.replicas
            traffic.fetches += 1
            traffic.bytes_out += sum(piece.length for _, piece in self._read)
            moved_bytes = sum(
                piece.length for partition, piece in self._read if self._is_throttled(partition)
            )
            if moved_bytes:
                self._needs.throttle.used(moved_bytes, self._needs.loop.time())
        else:
            total = 0
            for partition, piece in self._read:
                partition.traffic.bytes_out += piece.length
                total += piece.length
            if connection.share is not None:
                connection.charge(connection.share.fetch, total)
        self._read = []

    @abstractmethod
    def _answer(self) -> FetchResponse: ...

    def wait(self, parked: "_Parked") -> None:
        """Registers for a wake-up by any change that can add data to the response."""
        self._read = []  # it is read again after the wait: until then it holds no files
        self._wait(parked)

    @abstractmethod
    def _wait(self, parked: "_Parked") -> None: ...

    @abstractmethod
    def leave(self, parked: "_Parked") -> None:
        """Cancels the wake-ups."""

    # The client

    def _denied_among(self, topics: Set[str]) -> Set[str]:
        authorization = self._needs.authorization
        if not authorization.is_on:
            return frozenset()
        if not self._is_followers:
            return authorization.denied_topics(self._caller, Operation.READ, topics)
        rights = authorization.of(self._caller)
        is_refused = rights.refuses(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, THE_CLUSTER)
        return topics if is_refused else frozenset()

    def _note_progress(self) -> None:
        """A follower has flushed everything before the offset that it fetches. Errors are reported
        when the request is looked at."""
        topics = self.request.topics
        denied_topics = self._denied_among({topic.topic for topic in topics})
        for topic in topics:
            if topic.topic not in denied_topics:
                for fetch_partition in topic.partitions:
                    self._note(topic.topic, fetch_partition)

    def _note(self, topic: str, wanted: FetchPartition) -> None:
        with suppress(ApiError, StorageError):
            partition = self._needs.partitions.find(topic, wanted.partition)
            self._check(partition, wanted.current_leader_epoch)
            if _history_of(partition, wanted) is None:
                partition.follower_fetched(self.request.replica_id, wanted.fetch_offset)

    # One partition

    def _look_at(self, topic: str, wanted: FetchPartition) -> _Look:
        if self._denied and topic in self._denied:
            return self._failed(topic, wanted, ErrorCode.topic_authorization_failed)
        try:
            partition = self._needs.partitions.find(topic, wanted.partition)
            self._check(partition, wanted.current_leader_epoch)
            if not self._is_followers:
                partition.check_isolation(self.request.isolation_level)
            return self._found(partition, wanted)
        except OffsetOutOfRange as error:
            return self._failed(topic, wanted, error.code, partition)
        except (ApiError, StorageError) as error:
            return self._failed(topic, wanted, error.code)

    def _check(self, partition: Partition, leader_epoch: int) -> None:
        """A consumer that states its rack was sent here. Followers must have a replica."""
        if self.request.rack_id and not self._is_followers:
            partition.check_available()
            partition.check_epoch(leader_epoch)
            return
        partition.check_leader(leader_epoch)
        replica_id, followers = self.request.replica_id, partition.followers
        if self._is_followers and (followers is None or not followers.knows(replica_id)):
            raise ApiError(
                ErrorCode.not_leader_or_follower,
                f"broker {replica_id} has no replica of {partition.topic}-{partition.index}",
            )

    def _found(self, partition: Partition, wanted: FetchPartition) -> _Look:
        """A client that must truncate, or fetch elsewhere, is told only that."""
        log, piece = partition.log, None
        diverging_epoch = _history_of(partition, wanted) if wanted.last_fetched_epoch >= 0 else None
        nearest_replica = -1 if diverging_epoch is not None else self._nearest(partition, wanted)
        is_served_here = diverging_epoch is None and nearest_replica < 0
        is_held_back = is_served_here and self._is_held_back(partition)
        if not is_served_here:
            self._decided = True
        elif not is_held_back:
            piece = self._slice(partition, wanted)
        end = log.end_offset if self._is_followers else log.exposed_offset
        has_more = piece is None and wanted.fetch_offset < end
        data = PartitionData(
            partition_index=wanted.partition,
            high_watermark=log.exposed_offset,
            last_stable_offset=log.exposed_offset,
            log_start_offset=log.start_offset,
            diverging_epoch=_SAME_HISTORY if diverging_epoch is None else diverging_epoch,
            preferred_read_replica=nearest_replica,
            records=b"" if piece is None else piece,
        )
        is_resting = is_served_here and piece is None and not has_more
        return _Look(partition, data, is_resting, is_served_here and has_more and not is_held_back)

    def _is_throttled(self, partition: Partition) -> bool:
        return self._is_followers and partition.sends_throttled_to(self.request.replica_id)

    def _is_held_back(self, partition: Partition) -> bool:
        """The partition is throttled: it is looked at again with the next request."""
        return (
            self._is_throttled(partition)
            and self._needs.throttle.wait_s(self._needs.loop.time()) > 0
        )

    def _slice(self, partition: Partition, wanted: FetchPartition) -> FileSlice | None:
        limit = max(0, min(self._room, wanted.partition_max_bytes))
        if self._is_throttled(partition):
            limit = self._needs.throttle.portion(limit)
        if self._read and (not limit or self._is_full or self._is_too_small(wanted)):
            return None
        read_batches = partition.read_for_follower if self._is_followers else partition.read
        try:
            piece = read_batches(wanted.fetch_offset, limit, self._client)
        except NoRoom:  # for its files: the client will ask again
            return None
        if piece is None or (piece.length > limit and self._read):
            return None  # only the first batch of a response may exceed the limit
        self._room -= piece.length
        self._read.append((partition, piece))
        return piece

    def _is_too_small(self, wanted: FetchPartition) -> bool:
        """Whether other partitions have left next to nothing of an answer to a follower. Each piece
        costs it a flush, so this partition is left out, and the next answer begins with it."""
        return self._is_followers and self._room < wanted.partition_max_bytes // _LEAST_PART

    @property
    def _is_full(self) -> bool:
        return len(self._read) >= self._needs.open_logs.a_response

    def _nearest(self, partition: Partition, wanted: FetchPartition) -> int:
        """The replica in the consumer's rack that it should fetch from; -1 for this one."""
        followers, rack = partition.followers, self.request.rack_id
        if not rack or followers is None or self._is_followers:
            return -1
        brokers = self._needs.cluster.snapshot.brokers
        if (own_broker := brokers.get(partition.broker_id)) is None or own_broker.rack == rack:
            return -1
        nearest_replica, highest_offset = -1, wanted.fetch_offset - 1
        for replica in partition.info.isr:
            broker = brokers.get(replica)
            if (
                broker is not None
                and broker.rack == rack
                and followers.knows(replica)
                and followers.offset_of(replica) > highest_offset
                and broker.reached_by(self._caller.listener) is not None
            ):
                nearest_replica, highest_offset = replica, followers.offset_of(replica)
        return nearest_replica

    def _failed(
        self,
        topic: str,
        wanted: FetchPartition,
        code: ErrorCode,
        partition: Partition | None = None,
    ) -> _Look:
        """An error, with the readable range if the partition is available."""
        self._decided = True
        leader = self._leader(topic, wanted.partition) if code in _LED_OTHERWISE else _NO_LEADER
        data = PartitionData(
            partition_index=wanted.partition,
            error_code=code,
            high_watermark=-1 if partition is None else partition.log.exposed_offset,
            log_start_offset=-1 if partition is None else partition.log.start_offset,
            current_leader=leader,
        )
        return _Look(None, data)

    def _leader(self, topic: str, index: int) -> LeaderIdAndEpoch:
        with suppress(ApiError):
            info = self._needs.partitions.find(topic, index).info
            return LeaderIdAndEpoch(leader_id=info.leader, leader_epoch=info.leader_epoch)
        topic_info = self._needs.cluster.snapshot.topics.get(topic)
        if topic_info is None or not 0 <= index < len(topic_info.partitions):
            return _NO_LEADER
        info = topic_info.partitions[index]
        return LeaderIdAndEpoch(leader_id=info.leader, leader_epoch=info.leader_epoch)


_SAME_HISTORY: Final = EpochEndOffset()


def _history_of(partition: Partition, wanted: FetchPartition) -> EpochEndOffset | None:
    """None if the histories agree, else the client's epoch's end. Raises `OffsetOutOfRange`."""
    log, offset = partition.log, wanted.fetch_offset
    if offset < log.start_offset:
        raise OffsetOutOfRange(f"offset {offset} is below the start offset, {log.start_offset}")
    if wanted.last_fetched_epoch < 0:
        if offset > log.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is above the end offset, {log.end_offset}")
        return None
    epoch, end_offset = end_of_epoch(partition, wanted.last_fetched_epoch)
    if epoch == NOT_KNOWN:
        raise OffsetOutOfRange(f"unknown last fetched epoch {wanted.last_fetched_epoch}")
    if epoch < wanted.last_fetched_epoch or end_offset < offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


class _WholeFetch(_Fetch):
    """A request that names all partitions, and whose response has all of them."""

    __slots__ = ("_looks", "_opens", "_owner", "_watched")

    def __init__(self, needs: Needs, request: FetchRequest, connection: Connection) -> None:
        super().__init__(needs, request, connection)
        self._opens = request.session_epoch == FIRST_EPOCH
        self._owner = _owner(connection.caller)
        self._looks: list[list[_Look]] = []  # by topic
        self._watched: list[Partition] = []

    def _look(self) -> None:
        for _ in self._looking():
            pass

    def looking(self) -> Generator[None, None, None]:
        self._begin_to_look()
        yield from self._looking()

    def _looking(self) -> Generator[None, None, None]:
        topics, look_at = self.request.topics, self._look_at
        self._decided = not topics
        self._looks = []
        for start in range(0, len(topics), _OF_A_TURN):
            if start:
                yield
            portion = topics[start : start + _OF_A_TURN]
            if self._needs.authorization.is_on:
                self._denied = self._denied_among({topic.topic for topic in portion})
            for topic in portion:
                looks: list[_Look] = []
                self._looks.append(looks)
                for fetch_partition in topic.partitions:
                    if len(looks) % _OF_A_TURN == _OF_A_TURN - 1:
                        yield
                    looks.append(look_at(topic.topic, fetch_partition))

    def answering(self, connection: Connection) -> Generator[None, None, FetchResponse]:
        self._count(connection)
        looks, self._looks = self._looks, []
        session_id = self._open(looks) if self._opens else NO_SESSION
        responses = []
        for response in self._responses(looks):
            responses.append(response)
            if not len(responses) % _OF_A_TURN:
                yield
        return FetchResponse(session_id=session_id, responses=tuple(responses))

    def _answer(self) -> FetchResponse:
        looks, self._looks = self._looks, []
        return FetchResponse(
            session_id=self._open(looks) if self._opens else NO_SESSION,
            responses=tuple(self._responses(looks)),
        )

    def _responses(self, looks: list[list[_Look]]) -> Iterator[FetchableTopicResponse]:
        for topic, topic_looks in zip(self.request.topics, looks, strict=True):
            yield FetchableTopicResponse(
                topic=topic.topic, partitions=tuple(look.data for look in topic_looks)
            )

    def _open(self, looks: Iterable[list[_Look]]) -> int:
        """Follower sessions have priority over all others: a client without the right gets none."""
        if self._is_followers and self._denied:
            return NO_SESSION
        request = self.request
        session = self._needs.sessions.open(request, self._owner)
        if session is None:
            return NO_SESSION
        session.rights = self._needs.authorization.acls
        for topic, topic_looks in zip(request.topics, looks, strict=True):
            for look in topic_looks:
                entry = session.partitions[topic.topic, look.data.partition_index]
                _tell(session, entry, look)
        return session.id

    def _wait(self, parked: "_Parked") -> None:
        looks, self._looks = self._looks, []
        if self._watched:
            return
        self._watched = [
            look.partition for topic_looks in looks for look in topic_looks if look.partition
        ]
        for partition in self._watched:
            if self._is_followers:
                partition.watch_end(parked.wake)
            else:
                partition.watch(parked.wake, reads=True)

    def leave(self, parked: "_Parked") -> None:
        for partition in self._watched:
            if self._is_followers:
                partition.unwatch_end(parked.wake)
            else:
                partition.unwatch(parked.wake)


class _SessionFetch(_Fetch):
    """A request within a session, whose response has only partitions with new data or a new
    state."""

    __slots__ = ("_looks", "_session")

    def __init__(
        self, needs: Needs, request: FetchRequest, connection: Connection, session: FetchSession
    ) -> None:
        super().__init__(needs, request, connection)
        self._session = session
        self._looks: list[tuple[SessionPartition, _Look]] = []
        if self._is_followers and session.asks_for_all(needs.loop.time()):
            self._note_all()

    def _note_all(self) -> None:
        """Note the progress of a follower in all partitions of its session: one without traffic is
        named only once, and may join the in-sync replicas at any time after that."""
        partitions = self._session.partitions
        denied_topics = self._denied_among({topic for topic, _ in partitions})
        for (topic, _), entry in tuple(partitions.items()):
            if topic not in denied_topics:
                self._note(topic, entry.wanted)

    def _look(self) -> None:
        session, self._looks = self._session, []
        if not session.partitions:
            self._decided = True
        if self._needs.authorization.is_on:
            self._look_at_rights()
        for entry in session.to_look_at:
            look = self._look_at(entry.topic, entry.wanted)
            self._looks.append((entry, look))
            if look.no_room and self._read:
                self._decided = True  # the next answer begins with it
                break

    def _look_at_rights(self) -> None:
        session, acls = self._session, self._needs.authorization.acls
        if session.rights is not acls:
            session.rights = acls
            session.look_at_all()
        self._denied = self._denied_among({entry.topic for entry in session.to_look_at})

    def _answer(self) -> FetchResponse:
        session = self._session
        looks, self._looks = self._looks, []
        data_by_topic: dict[str, list[PartitionData]] = {}
        for entry, look in looks:
            if entry.has_news(look.data):
                data_by_topic.setdefault(entry.topic, []).append(look.data)
            _tell(session, entry, look)
        if session.id == NO_SESSION:
            session.close()
        return FetchResponse(
            session_id=session.id,
            responses=tuple(
                FetchableTopicResponse(topic=topic, partitions=tuple(data))
                for topic, data in data_by_topic.items()
            ),
        )

    def _wait(self, parked: "_Parked") -> None:
        looks, self._looks = self._looks, []
        self._session.waiting = parked
        for entry, look in looks:
            if look.partition is not None:
                entry.watch(look.partition)
            if self._is_followers and entry.has_news(look.data):
                parked.wake_later()

    def leave(self, parked: "_Parked") -> None:
        if self._session.waiting is parked:
            self._session.waiting = None


def _tell(session: FetchSession, entry: SessionPartition, look: _Look) -> None:
    session.answered(entry, look.data)
    if look.rests and look.partition is not None:
        session.rest(entry, look.partition)


class _Parked:
    __slots__ = ("_due", "_encode", "_fetch", "_loop", "_reply", "_soon", "_timer")

    def __init__(self, needs: Needs, fetch: _Fetch, reply: Reply, encode: Encode) -> None:
        self._fetch = fetch
        self._reply = reply
        self._encode = encode
        self._loop = needs.loop
        self._soon = False
        reply.dropped = self._leave
        wait_seconds = min(fetch.request.max_wait, _LONGEST_WAIT_MS) / 1000
        self._due = self._loop.time() + wait_seconds
        self._timer = self._loop.call_at(self._due, self._finish)
        fetch.wait(self)

    def wake(self) -> None:
        """Reads the partitions again in the next turn of the event loop: several may get data in
        this turn."""
        if not self._soon:
            self._soon = True
            self._loop.call_soon(self._look)

    def wake_later(self) -> None:
        due_time = self._loop.time() + _NEWS_WAITS_SECONDS
        if due_time < self._due:
            self._due = due_time
            self._timer.cancel()
            self._timer = self._loop.call_at(due_time, self._finish)

    def end(self, code: ErrorCode) -> None:
        self._leave()
        self._reply.send(self._encode(FetchResponse(error_code=code, responses=())))

    def _look(self) -> None:
        self._soon = False
        if self._reply.parts is None and self._reply.connection.open:
            self._fetch.look()
            if self._fetch.satisfied:
                self._answer()
            else:
                self._fetch.wait(self)

    def _finish(self) -> None:
        self._fetch.look()
        self._answer()

    def _answer(self) -> None:
        self._leave()
        self._reply.send(self._encode(self._fetch.answer(self._reply.connection)))

    def _leave(self) -> None:
        # Otherwise the two would keep each other, and the reply's files, alive until collected.
        self._reply.dropped = None
        self._timer.cancel()
        self._fetch.leave(self)
