"""Record batches of a topic's partitions, as they lie in the log: the raw half of consuming.

One fetch is under way with each leader at any time, on a connection of its own: the next bytes
travel while the last ones are worked on, and nobody else waits behind a long poll. A position moves
past a batch exactly when the batch is handed out. A partition whose leader has moved, or whose
broker is gone for a moment, is asked for again after a pause.

A batch's CRC is checked here; its records are not looked at.
"""

import select
import time
from collections.abc import Mapping
from typing import Final

import msgspec
from crc32c import crc32c

from client.brokers import Brokers
from client.connection import REQUEST_SECONDS, BrokerConnection
from client.conversation import PendingResponse
from client.errors import ClientError, ConnectionLost, Corrupt, ErrorCode, Refused, check
from client.rights import on_topic
from wire.acls import Operation
from wire.batch import CRC_START, MAGIC, BatchHeader, headers
from wire.messages import fetch
from wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from wire.slices import FileSlice

MAX_WAIT_MS: Final = 500
MAX_BYTES: Final = 16 * 1024 * 1024
PARTITION_MAX_BYTES: Final = 4 * 1024 * 1024


class FetchedBatch(msgspec.Struct, frozen=True):
    """One batch of a partition; its header is read and its CRC right."""

    partition: int
    header: BatchHeader
    data: memoryview


class _Fetch(msgspec.Struct, frozen=True):
    """What is under way on one connection."""

    pending: PendingResponse[FetchResponse]
    partitions: tuple[int, ...]
    positions: Mapping[int, int]


class Fetcher:
    """Reads partitions of one topic from their positions on."""

    def __init__(
        self,
        brokers: Brokers,
        topic: str,
        positions: Mapping[int, int],
        *,
        held_ms: int = MAX_WAIT_MS,
    ) -> None:
        """`held_ms`: for how long a broker that has nothing new does not answer."""
        self.topic = topic
        self.positions = dict(positions)
        self.ends: dict[int, int] = {}  # high watermarks, as of the last answers
        self._brokers = brokers
        self._held_ms = held_ms
        self._connections: dict[int, BrokerConnection] = {}
        self._under_way: dict[int, _Fetch] = {}  # by leader
        self._patience = brokers.patience()
        self._leaders_known = False
        self._turn = 0

    def poll(self, seconds: float) -> list[FetchedBatch]:
        """The batches that arrive next; none if that takes longer than `seconds`."""
        batches: list[FetchedBatch] = []
        try:
            self._ask()
            for leader in self._answered(seconds):
                self._receive(leader, batches)
            # Before the caller works on these, the next ones are on their way.
            self._ask()
        except ClientError as error:
            self._leaders_known = False
            for leader, connection in list(self._connections.items()):
                if connection.closed:
                    del self._connections[leader]
                    self._under_way.pop(leader, None)
            # A final error comes back with the next poll, after what came before it.
            if not batches:
                self._patience.wait(error)
        return batches

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def begin(self, partition: int, position: int) -> None:
        """Wants this partition, from there on, whatever was asked for before."""
        self.positions[partition] = position

    def forget(self, partition: int) -> None:
        """Wants nothing more of this partition."""
        self.positions.pop(partition, None)

    def _ask(self) -> None:
        """Puts a fetch on its way to every leader that has none."""
        asked = {partition for each in self._under_way.values() for partition in each.partitions}
        idle = [partition for partition in self.positions if partition not in asked]
        if not idle:
            return
        if not self._leaders_known:
            self._brokers.refresh([self.topic])
            self._leaders_known = True
        for leader, led in self._brokers.leaders(self.topic, idle, Operation.READ).items():
            if leader in self._under_way:
                continue
            if leader not in self._connections:
                self._connections[leader] = self._brokers.connect(leader)
            # The first partition may fill the answer: each is the first in its turn.
            self._turn += 1
            first = self._turn % len(led)
            partitions = (*led[first:], *led[:first])
            pending = self._connections[leader].send(fetch.API, self._request(partitions))
            asked_for = {partition: self.positions[partition] for partition in partitions}
            self._under_way[leader] = _Fetch(pending, partitions, asked_for)

    def _request(self, partitions: tuple[int, ...]) -> FetchRequest:
        wanted = tuple(
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
            topics=(FetchTopic(topic=self.topic, partitions=wanted),),
        )

    def _answered(self, seconds: float) -> list[int]:
        """The leaders whose answer begins to arrive within this time."""
        waiting = {self._connections[leader]: leader for leader in self._under_way}
        ready, _, _ = select.select(list(waiting), [], [], seconds)
        now = time.monotonic()
        for connection, leader in waiting.items():
            if connection not in ready and now > self._under_way[leader].pending.deadline:
                connection.close()
                raise ConnectionLost(f"{connection.address}: no answer in {REQUEST_SECONDS:g} s")
        return [waiting[connection] for connection in ready]

    def _receive(self, leader: int, batches: list[FetchedBatch]) -> None:
        under_way = self._under_way.pop(leader)
        connection = self._connections[leader]
        answer = connection.receive(under_way.pending, within=REQUEST_SECONDS)
        check(answer.error_code, f"fetch from {connection.address}")
        for data in (part for topic in answer.responses for part in topic.partitions):
            asked_for = under_way.positions.get(data.partition_index)
            if asked_for is not None and self.positions.get(data.partition_index) == asked_for:
                first = data.partition_index == under_way.partitions[0]
                self._take(data, batches, must_have_one=first)
        self._patience.reset()

    def _take(
        self, data: PartitionData, batches: list[FetchedBatch], *, must_have_one: bool
    ) -> None:
        partition = data.partition_index
        name = f"{self.topic}-{partition}"
        position = self.positions[partition]
        if data.error_code is ErrorCode.offset_out_of_range:
            raise Refused(name, data.error_code, f"offset {position} is not there (any more)")
        needs = on_topic(self._brokers.who, self.topic, Operation.READ)
        check(data.error_code, name, needs=needs)
        self.ends[partition] = data.high_watermark
        assert not isinstance(data.records, FileSlice)  # those only leave
        view = memoryview(data.records or b"")
        found = False
        for start, header in headers(view):
            found = True
            batch = view[start : start + header.size]
            if header.magic != MAGIC:
                raise Corrupt(f"{name}, offset {header.base_offset}: format {header.magic}")
            if crc32c(batch[CRC_START:]) != header.crc:
                raise Corrupt(f"{name}, offset {header.base_offset}: the CRC does not match")
            if header.next_offset > position:
                batches.append(FetchedBatch(partition, header, batch))
                self.positions[partition] = position = header.next_offset
        # An answer may break off within a batch, but not within its very first one.
        if view and must_have_one and not found:
            raise Corrupt(f"{name}, offset {position}: no whole record batch")
