"""Reads a short stretch of a partition for display: the batches as in the log, including damaged
ones.

Rule 1: the pieces cover all offsets from the first one on, in order; each says what stands there.
Rule 2: at most `most_bytes` are received, whatever the broker sends. Of a batch that is longer the
        beginning is received, which says up to which offset it goes; then the connection is closed.
Rule 3: it reads what consumers see: no transaction that is open, aborted ones only as gaps.

Nothing is retried or kept: who looks at it can ask again.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from enum import StrEnum
from typing import Final

import msgspec
from crc32c import crc32c

from client.connection.brokers import Brokers
from client.connection.connection import BrokerConnection
from client.connection.conversation import PendingResponse, fresh_memory
from client.errors import ConnectionLost, check
from client.producing.delivery import TopicPartition
from client.reading.committed import READ_COMMITTED, Committed
from client.reading.offsets import offsets_of
from client.rights import on_topic
from wire.acls import Operation
from wire.errors import BatchError, ProtocolError
from wire.framing.requests import has_tagged_header, read_response
from wire.framing.slices import FileSlice
from wire.messages import fetch
from wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from wire.messages.list_offsets import EARLIEST, LATEST
from wire.record_batches.batch import (
    CRC_START,
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    headers,
    read_header,
)

_PORTION: Final = 256 * 1024  # of one answer
_OVERHEAD: Final = 4_096  # an answer's bytes around its batches
_BEGINNING: Final = 4_096  # what is received of an answer that is too long
_IDLE_ROUNDS: Final = 3  # brokers that throttle send answers without data


class Content(StrEnum):
    """The kind of content at some offsets."""

    RECORDS = "records"
    GAP = "gap"  # nothing: compaction removed it, or it is a transaction's marker, or aborted
    DAMAGED = "damaged"
    LONG = "long"  # longer than may be received


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """The content of offsets `first` to `end`, exclusive. `data` is the batch, or the received
    part; `size` is its length. `why` is the fault of the batch, or the reason why there is none."""

    first: int
    end: int
    content: Content
    data: memoryview = memoryview(b"")
    size: int = 0
    why: str = ""


class _TooLong(Exception):
    """Raised when an answer is too large to receive."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class _Room(msgspec.Struct):
    """The number of bytes of batches that may still be received."""

    left: int

    def take(self, size: int) -> memoryview:
        if size > self.left + _OVERHEAD:
            raise _TooLong(size)
        return fresh_memory(size)


class _Leader(msgspec.Struct, frozen=True):
    """A connection to the partition's leader, for these requests alone."""

    connection: BrokerConnection
    target: TopicPartition
    who: str

    def ask(self, offset: int, most: int, within: float) -> PendingResponse[FetchResponse]:
        fetch_partition = FetchPartition(
            partition=self.target.partition, fetch_offset=offset, partition_max_bytes=most
        )
        request = FetchRequest(
            max_wait=0,
            min_bytes=0,
            max_bytes=most,
            isolation_level=READ_COMMITTED,
            topics=(FetchTopic(topic=self.target.topic, partitions=(fetch_partition,)),),
        )
        return self.connection.send(fetch.API, request, within=within)

    def data(self, response: FetchResponse) -> PartitionData:
        check(response.error_code, f"fetch from {self.connection.address}")
        for topic in response.responses:
            for data in topic.partitions:
                needs = on_topic(self.who, self.target.topic, Operation.READ)
                check(data.error_code, str(self.target), needs=needs)
                return data
        # From a broker that throttles its clients.
        raise ConnectionLost(f"{self.connection.address}: no answer for {self.target}")

    def beginning(self, pending: PendingResponse[FetchResponse], size: int, offset: int) -> Piece:
        """Returns the first part of a batch that is too long. Zeros replace the rest, and decode as
        the end of the answer."""
        address = self.connection.address
        channel, _ = self.connection.hand_over()
        frame, received_bytes = fresh_memory(size), 0
        try:
            with channel:
                while received_bytes < _BEGINNING:  # it has more than that: there is no room for it
                    count = channel.recv_into(frame[received_bytes:_BEGINNING])
                    if count == 0:
                        raise ConnectionLost(f"{address}: the broker closed the connection")
                    received_bytes += count
            has_tags = has_tagged_header(pending.api, pending.version)
            _, body = read_response(frame.toreadonly(), tagged_header=has_tags)
            response = pending.api.decode_response(pending.version, body)
        except (OSError, ProtocolError) as error:
            raise ConnectionLost(f"{address}: {error}") from None
        view = _view(self.data(response))
        if len(view) < HEADER_SIZE:
            raise ConnectionLost(f"{address}: received an answer of {size:,} bytes without a batch")
        header = read_header(view)
        return Piece(
            first=offset,
            end=max(offset + 1, header.next_offset),
            content=Content.LONG,
            size=header.size,
            why=f"the batch has {header.size:,} bytes",
        )


def bounds(brokers: Brokers, target: TopicPartition) -> tuple[int, int]:
    """Returns the first offset of the log, and the first one that consumers do not see."""
    first_offset = offsets_of(brokers, {target: EARLIEST})[target]
    return first_offset, offsets_of(brokers, {target: LATEST}, committed=True)[target]


def pieces(
    brokers: Brokers, target: TopicPartition, first: int, end: int, *, most_bytes: int, until: float
) -> Generator[Piece, None, None]:
    """Yields the contents from `first` up to `end`, until enough was received or the monotonic
    clock shows `until`. The topic must be in the brokers' metadata. Raises ClientError."""
    topic = brokers.known.topic(target.topic, Operation.READ)
    room = _Room(most_bytes)
    leader_id = topic.partition(target.partition).leader
    position, idle_answers = first, 0
    with closing(brokers.connect(leader_id, memory=room.take)) as connection:
        leader = _Leader(connection, target, brokers.who)
        while position < end and room.left > 0 and idle_answers < _IDLE_ROUNDS:
            timeout = until - time.monotonic()
            if timeout <= 0:
                return
            pending_response = leader.ask(position, min(room.left, _PORTION), timeout)
            try:
                data = leader.data(connection.receive(pending_response))
            except _TooLong as error:
                if position == first:
                    yield leader.beginning(pending_response, error.size, position)
                return
            view, old_position = _view(data), position
            room.left -= len(view)
            for piece in _cut(view, position, end, Committed(data.aborted_transactions)):
                yield piece
                position = piece.end
            idle_answers = 0 if position > old_position else idle_answers + 1
    if position == first and idle_answers:  # as after the last record of a compacted log
        yield Piece(first=first, end=end, content=Content.GAP, why="the broker has nothing there")


def _view(data: PartitionData) -> memoryview:
    assert not isinstance(data.records, FileSlice)  # only the broker sends these
    return memoryview(data.records or b"")


def _cut(view: memoryview, position: int, end: int, committed: Committed) -> Iterator[Piece]:
    """The batches of one answer, from `position` on."""
    batches = list(headers(view))
    if view and not batches:
        yield _damaged(view, position, position + 1, "no whole batch")
        return
    for index, (start, header) in enumerate(batches):
        batch = view[start : start + header.size]
        next_offset = batches[index + 1][1].base_offset if index + 1 < len(batches) else end
        if position < header.base_offset < end:
            reason = "removed by compaction, or never written"
            yield Piece(first=position, end=header.base_offset, content=Content.GAP, why=reason)
            position = header.base_offset
        elif header.base_offset >= end:
            return
        if fault := _fault(header, batch):
            # What a damaged header says of its offsets is believed within what is around it.
            piece_end = max(position + 1, min(header.next_offset, next_offset))
            piece = _damaged(batch, position, piece_end, fault)
        elif header.next_offset <= position:
            continue
        else:
            piece = _piece(header, batch, position, committed)
        yield piece
        position = piece.end


def _piece(header: BatchHeader, batch: memoryview, position: int, committed: Committed) -> Piece:
    try:
        is_committed = committed.counts(header, batch)
    except BatchError as error:
        return _damaged(batch, position, header.next_offset, str(error))
    if is_committed:
        kind, reason = Content.RECORDS, ""
    else:
        kind, reason = Content.GAP, _why_nothing(header)
    return Piece(
        first=position,
        end=header.next_offset,
        content=kind,
        data=batch,
        size=header.size,
        why=reason,
    )


def _why_nothing(header: BatchHeader) -> str:
    if header.is_control:
        return "the end of a transaction"
    return "removed by compaction" if header.record_count <= 0 else "an aborted transaction"


def _fault(header: BatchHeader, batch: memoryview) -> str:
    if header.magic != MAGIC:
        return f"record format {header.magic}"
    actual_crc = crc32c(batch[CRC_START:])
    if actual_crc == header.crc:
        return ""
    return (
        f"bytes {CRC_START:,} to {len(batch):,} of the batch have the CRC {actual_crc:08x}, "
        f"and its header says {header.crc:08x}"
    )


def _damaged(batch: memoryview, first: int, end: int, why: str) -> Piece:
    return Piece(
        first=first, end=end, content=Content.DAMAGED, data=batch, size=len(batch), why=why
    )
