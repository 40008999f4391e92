"""Fetches raw record batches of a topic's partitions: the lower half of a consumer.

One fetch to each leader is in flight at any time, on its own connection: the next bytes arrive
while the last are processed, and a long poll delays no other request. A position moves past a batch
exactly when the batch is returned. If a leader has moved or a broker is briefly gone, its
partitions are fetched again after a pause.

Batches' CRCs are checked here, their records are not.
"""

import select
import time
from collections.abc import Mapping
from typing import Final

import msgspec
from crc32c import crc32c

from client.connection.brokers import Brokers
from client.connection.connection import REQUEST_SECONDS, BrokerConnection
from client.connection.conversation import PendingResponse
from client.errors import ClientError, ConnectionLost, Corrupt, ErrorCode, Refused, check
from client.rights import on_topic
from wire.acls import Operation
from wire.framing.slices import FileSlice
from wire.messages import fetch
from wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from wire.record_batches.batch import CRC_START, MAGIC, BatchHeader, headers

MAX_WAIT_MS: Final = 500
MAX_BYTES: Final = 16 * 1024 * 1024
PARTITION_MAX_BYTES: Final = 4 * 1024 * 1024


class FetchedBatch(msgspec.Struct, frozen=True):
    """One batch of a partition with its parsed header; its CRC matches."""

    partition: int
    header: BatchHeader
    data: memoryview


class _Fetch(msgspec.Struct, frozen=True):
    """The fetch in flight on one connection."""

    pending: PendingResponse[FetchResponse]
    partitions: tuple[int, ...]
    positions: Mapping[int, int]


class Fetcher:
    """Reads partitions of one topic from given positions on."""

    def __init__(
        self,
        brokers: Brokers,
        topic: str,
        positions: Mapping[int, int],
        *,
        held_ms: int = MAX_WAIT_MS,
    ) -> None:
        """`held_ms` is how long a broker without new data holds a fetch."""
        self.topic = topic
        self.positions = dict(positions)
        self.ends: dict[int, int] = {}  # high watermarks in the latest responses
        self._brokers = brokers
        self._held_ms = held_ms
        self._connections: dict[int, BrokerConnection] = {}
        self._under_way: dict[int, _Fetch] = {}  # by leader
        self._patience = brokers.patience()
        self._leaders_known = False
        self._turn = 0

    def poll(self, seconds: float) -> list[FetchedBatch]:
        """Returns the next batches; none if none arrives within `seconds`."""
        batches: list[FetchedBatch] = []
        try:
            self._ask()
            for leader in self._answered(seconds):
                self._receive(leader, batches)
            # The next fetch is in flight while the caller processes these.
            self._ask()
        except ClientError as error:
            self._leaders_known = False
            for leader, connection in list(self._connections.items()):
                if connection.closed:
                    del self._connections[leader]
                    self._under_way.pop(leader, None)
            # A permanent error is raised by the next poll, after these batches.
            if not batches:
                self._patience.wait(error)
        return batches

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def begin(self, partition: int, position: int) -> None:
        """Reads this partition from the position on, whatever was requested before."""
        self.positions[partition] = position

    def forget(self, partition: int) -> None:
        """Stops reading this partition."""
        self.positions.pop(partition, None)

    def _ask(self) -> None:
        """Sends a fetch to every leader that has none in flight."""
        requested_partitions = {
            index for sent_fetch in self._under_way.values() for index in sent_fetch.partitions
        }
        idle_partitions = [
            partition for partition in self.positions if partition not in requested_partitions
        ]
        if not idle_partitions:
            return
        if not self._leaders_known:
            self._brokers.refresh([self.topic])
            self._leaders_known = True
        for leader, led_partitions in self._brokers.leaders(
            self.topic, idle_partitions, Operation.READ
        ).items():
            if leader in self._under_way:
                continue
            if leader not in self._connections:
                self._connections[leader] = self._brokers.connect(leader)
            # The first partition may fill the response, so they take turns at being first.
            self._turn += 1
            first_index = self._turn % len(led_partitions)
            partitions = (*led_partitions[first_index:], *led_partitions[:first_index])
            pending_response = self._connections[leader].send(fetch.API, self._request(partitions))
            requested_positions = {partition: self.positions[partition] for partition in partitions}
            self._under_way[leader] = _Fetch(pending_response, partitions, requested_positions)

    def _request(self, partitions: tuple[int, ...]) -> FetchRequest:
        fetch_partitions = tuple(
            FetchPartition(
                partition=partition,
                fetch_offset=self.positions[partition],
                partition_max_bytes=PARTITION_MAX_BYTES,
            )
            for partition in partitions
        )
        return FetchRequest(
            max_wait=self._held_ms,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            topics=(FetchTopic(topic=self.topic, partitions=fetch_partitions),),
        )

    def _answered(self, seconds: float) -> list[int]:
        """Returns the leaders whose responses begin to arrive within this time."""
        leaders_by_connection = {self._connections[leader]: leader for leader in self._under_way}
        ready, _, _ = select.select(list(leaders_by_connection), [], [], seconds)
        now = time.monotonic()
        for connection, leader in leaders_by_connection.items():
            if connection not in ready and now > self._under_way[leader].pending.deadline:
                connection.close()
                raise ConnectionLost(
                    f"{connection.address}: no answer within {REQUEST_SECONDS:g} s"
                )
        return [leaders_by_connection[connection] for connection in ready]

    def _receive(self, leader: int, batches: list[FetchedBatch]) -> None:
        sent_fetch = self._under_way.pop(leader)
        connection = self._connections[leader]
        response = connection.receive(sent_fetch.pending, at_least=REQUEST_SECONDS)
        check(response.error_code, f"fetch from {connection.address}")
        for data in (part for topic in response.responses for part in topic.partitions):
            requested_position = sent_fetch.positions.get(data.partition_index)
            if (
                requested_position is not None
                and self.positions.get(data.partition_index) == requested_position
            ):
                is_first = data.partition_index == sent_fetch.partitions[0]
                self._take(data, batches, must_have_one=is_first)
        self._patience.reset()

    def _take(
        self, data: PartitionData, batches: list[FetchedBatch], *, must_have_one: bool
    ) -> None:
        partition = data.partition_index
        name = f"{self.topic}-{partition}"
        position = self.positions[partition]
        if data.error_code is ErrorCode.offset_out_of_range:
            raise Refused(
                name, data.error_code, f"offset {position} is not, or no longer, in the log"
            )
        needs = on_topic(self._brokers.who, self.topic, Operation.READ)
        check(data.error_code, name, needs=needs)
        self.ends[partition] = data.high_watermark
        assert not isinstance(data.records, FileSlice)  # only the broker sends these
        view = memoryview(data.records or b"")
        has_whole_batch = False
        for start, header in headers(view):
            has_whole_batch = True
            batch = view[start : start + header.size]
            if header.magic != MAGIC:
                raise Corrupt(f"{name}, offset {header.base_offset}: record format {header.magic}")
            if crc32c(batch[CRC_START:]) != header.crc:
                raise Corrupt(f"{name}, offset {header.base_offset}: the CRC does not match")
            if header.next_offset > position:
                batches.append(FetchedBatch(partition, header, batch))
                self.positions[partition] = position = header.next_offset
        # A response may be cut within a batch, but not within its first one.
        if view and must_have_one and not has_whole_batch:
            raise Corrupt(f"{name}, offset {position}: no complete record batch")
