"""Fetch (key 1), versions 4–12.

Batches are not touched: a response is a few bytes around slices of segment files. What is returned
is exposed, whole batches, and at least one if there is one, however large. With less than
`min_bytes` the request waits, without polling, until enough is exposed or `max_wait` is over. What
the client may read is asked whenever it is looked at, so a right that is taken away ends a wait.

Not here: sessions (declined with session id 0), transactions (both isolation levels see the same),
fetching from followers, topic ids (version 13).
"""

import asyncio
from collections.abc import Callable, Set
from dataclasses import dataclass

from broker.authorization import Authorization
from broker.caller import Caller
from broker.connection import Connection, Reply
from broker.errors import ApiError
from broker.open_files import NoRoom, OpenLogs
from broker.partition import Partition
from broker.partitions import Partitions
from broker.storage.errors import StorageError
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from wire.primitives import Part
from wire.slices import FileSlice

Encode = Callable[[FetchResponse], list[Part]]

_LONGEST_WAIT_MS = 60_000
_LARGEST_RESPONSE = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Needs:
    partitions: Partitions
    open_logs: OpenLogs
    loop: asyncio.AbstractEventLoop
    authorization: Authorization


def serve(needs: Needs, connection: Connection, request: FetchRequest, encode: Encode) -> None:
    """Respond as soon as there is enough, or when the client has waited as long as it wants."""
    fetch = _Fetch(needs, request, connection.peer, connection.caller)
    response = fetch.respond()
    if fetch.satisfied or request.max_wait <= 0:
        fetch.count(connection)
        connection.send(encode(response))
    else:
        _Parked(needs, fetch, connection.reply(exclusive=True), encode)


class _Fetch:
    """One request, to be looked at again whenever one of its partitions exposes more."""

    __slots__ = ("_caller", "_client", "_decided", "_denied", "_needs", "_room", "read", "request")

    def __init__(self, needs: Needs, request: FetchRequest, client: str, caller: Caller) -> None:
        self._needs = needs
        self._client = client
        self._caller = caller
        self._denied: Set[str] = frozenset()  # topics that it may not read
        self.request = request
        self.read: list[tuple[Partition, FileSlice]] = []
        self._room = 0
        self._decided = False  # an error does not wait

    def respond(self) -> FetchResponse:
        """What can be returned now."""
        self.read, self._decided = [], False
        self._room = min(self.request.max_bytes, _LARGEST_RESPONSE)
        if self._needs.authorization.is_on:
            self._denied = self._denied_topics()
        return FetchResponse(
            responses=tuple(
                FetchableTopicResponse(
                    topic=topic.topic,
                    partitions=tuple(
                        self._partition(topic.topic, partition) for partition in topic.partitions
                    ),
                )
                for topic in self.request.topics
            )
        )

    @property
    def satisfied(self) -> bool:
        """Whether the last response need not wait for more."""
        enough = self.request.min_bytes
        return self._decided or sum(piece.length for _, piece in self.read) >= enough

    def partitions(self) -> list[Partition]:
        """All that the request names; `satisfied` has seen to it that they are here."""
        find = self._needs.partitions.find
        return [
            find(topic.topic, partition.partition)
            for topic in self.request.topics
            for partition in topic.partitions
        ]

    def count(self, connection: Connection) -> None:
        for partition, piece in self.read:
            partition.traffic.bytes_out += piece.length
        if connection.share is not None:
            total = sum(piece.length for _, piece in self.read)
            connection.charge(connection.share.fetch, total)

    def let_go(self) -> None:
        """Of the files that the last response is made of: whoever sends it holds them."""
        self.read = []

    def _denied_topics(self) -> Set[str]:
        topics = {topic.topic for topic in self.request.topics}
        authorization = self._needs.authorization
        if self.request.replica_id < 0:
            return authorization.denied_topics(self._caller, Operation.READ, topics)
        is_broker = authorization.of(self._caller).may_on_cluster(Operation.CLUSTER_ACTION)
        return frozenset() if is_broker else topics

    def _partition(self, topic: str, wanted: FetchPartition) -> PartitionData:
        if self._denied and topic in self._denied:
            self._decided = True
            return PartitionData(
                partition_index=wanted.partition,
                error_code=ErrorCode.topic_authorization_failed,
            )
        try:
            partition = self._needs.partitions.find(topic, wanted.partition)
            partition.check_leader(wanted.current_leader_epoch)
            piece = self._slice(partition, wanted)
        except (ApiError, StorageError) as error:
            self._decided = True
            return PartitionData(partition_index=wanted.partition, error_code=error.code)
        log = partition.log
        return PartitionData(
            partition_index=wanted.partition,
            high_watermark=log.exposed_offset,
            last_stable_offset=log.exposed_offset,
            log_start_offset=log.start_offset,
            records=b"" if piece is None else piece,
        )

    def _slice(self, partition: Partition, wanted: FetchPartition) -> FileSlice | None:
        limit = max(0, min(self._room, wanted.partition_max_bytes))
        if self.read and (not limit or len(self.read) >= self._needs.open_logs.a_response):
            return None
        try:
            piece = partition.read(wanted.fetch_offset, limit, self._client)
        except NoRoom:  # for its files: the client will ask again
            return None
        if piece is None or (piece.length > limit and self.read):
            return None  # only the first of a response may be larger than asked for
        self._room -= piece.length
        self.read.append((partition, piece))
        return piece


class _Parked:
    """A request that waits for data."""

    __slots__ = ("_encode", "_fetch", "_loop", "_partitions", "_reply", "_soon", "_timer")

    def __init__(self, needs: Needs, fetch: _Fetch, reply: Reply, encode: Encode) -> None:
        self._fetch = fetch
        self._reply = reply
        self._encode = encode
        self._loop = needs.loop
        self._soon = False
        self._partitions = fetch.partitions()
        fetch.let_go()  # it is read again when the wait is over
        for partition in self._partitions:
            partition.watch(self._exposed)
        reply.dropped = self._leave
        wait = min(fetch.request.max_wait, _LONGEST_WAIT_MS) / 1000
        self._timer = self._loop.call_later(wait, self._finish)

    def _exposed(self) -> None:
        """Many partitions may expose more in one turn of the loop: look once."""
        if not self._soon:
            self._soon = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._soon = False
        if self._reply.parts is None and self._reply.connection.open:
            response = self._fetch.respond()
            if self._fetch.satisfied:
                self._finish(response)
            else:
                self._fetch.let_go()

    def _finish(self, response: FetchResponse | None = None) -> None:
        self._leave()
        if response is None:
            response = self._fetch.respond()
        self._fetch.count(self._reply.connection)
        self._fetch.let_go()
        self._reply.send(self._encode(response))

    def _leave(self) -> None:
        # Or the two would hold each other, and the reply its files, until garbage is collected.
        self._reply.dropped = None
        self._timer.cancel()
        for partition in self._partitions:
            partition.unwatch(self._exposed)
