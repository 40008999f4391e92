"""A lane: copies the partitions that share a leader at the source and a leader at the target.

    fetch ─▶ response in a buffer ─▶ cut ─▶ Produce of the same bytes ─▶ buffer free
      ▲ the next fetch is in flight meanwhile, as long as a buffer is free

Rule 1: one fetch is in flight at the source, in an incremental session
(client/reading/fetch_session.py).
        The target has as many Produces in flight as there are buffers, in order.
Rule 2: a partition is fetched further before the target has answered. If the target refuses a
        batch, later ones in flight do not count: the partition leaves the lane, and both sides are
        asked where to resume (resume_points.py). Duplicate writes are harmless: the target
        compares.
Rule 3: a stall stays within its lane. A broker that does not answer holds up the partitions that it
        leads, and a partition that held up others gets a separate lane until it progresses.
Rule 4: partitions with much to fetch share the size of a response; the others may have a sixteenth
        each. A batch larger than a share is requested with its size.

After a connection error all partitions leave the lane, and resume.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from client.connection.addresses import Address
from client.connection.bootstrap import Access
from client.connection.conversation import fresh_memory
from client.connection.leader_connection import LeaderConnection
from client.errors import ClientError, refusal
from client.patience import Pauses
from client.reading.fetch_session import FetchPosition, FetchSession, Key
from mirror.partitions.bandwidth import Bandwidth
from mirror.partitions.buffers import AnswerBuffer, AnswerBuffers
from mirror.partitions.partition import CopiedPartition
from mirror.partitions.refusal_texts import refusal_text
from mirror.partitions.target_writer import Answered, TargetWriter
from mirror.partitions.whole_batches import Cut
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.framing.slices import FileSlice
from wire.messages import fetch
from wire.messages.fetch import FetchResponse, PartitionData
from wire.messages.produce import PartitionProduceResponse
from wire.record_batches.batch import BatchHeader

log = logging.getLogger(__name__)

CLIENT_ID: Final = "penstock-mirror"
_CONSUMER: Final = -1
_WAIT_S: Final = 0.5  # long poll at the source
_ANSWER_S: Final = 30.0
_SHARES: Final = 16
_AT_ONCE: Final = 64  # partitions of a response handled in one turn of the loop
_SESSION_ERRORS: Final = frozenset(
    {ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch}
)


class Way(NamedTuple):
    """A pair of brokers; `aside` marks the lane for partitions that held up others."""

    source: int
    target: int
    aside: bool = False


class LaneSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings shared by all lanes."""

    source: Access
    target: Access
    writing: Callable[[], TargetWriter]  # creates the writer of a lane
    bandwidth: Bandwidth
    buffers: int
    buffer_bytes: int


class LaneEvents(msgspec.Struct, frozen=True):
    """Callbacks of a lane, on the event loop."""

    lost: Callable[[CopiedPartition, str, ErrorCode], None]  # left the lane; may resume
    stopped: Callable[[CopiedPartition, str], None]  # left the lane; a retry is useless
    written: Callable[[CopiedPartition, Sequence[BatchHeader]], None]


class _Piece(NamedTuple):
    """Data of one partition on its way to the target."""

    partition: CopiedPartition
    turn: int
    cut: Cut


class Lane:
    """Copies partitions between two leaders. Belongs to the event loop."""

    def __init__(
        self,
        way: Way,
        addresses: tuple[Address, Address],
        settings: LaneSettings,
        events: LaneEvents,
    ) -> None:
        self.way = way
        self.addresses = addresses
        self.trouble = ""  # the reason if nothing is copied
        self.heard_at = 0.0  # time of the source's last response
        self._settings = settings
        self._events = events
        self._buffers = AnswerBuffers(settings.buffers, settings.buffer_bytes)
        self._receiving: AnswerBuffer | None = None
        self._writing = settings.writing()
        self._asking = FetchSession(_CONSUMER, settings.buffer_bytes, self._writing.isolation_level)
        self._partitions: dict[Key, CopiedPartition] = {}  # by their names at the source
        self._epochs: dict[Key, int] = {}
        self._changed = asyncio.Event()
        self._pauses = Pauses()
        self._loop = asyncio.get_running_loop()
        self._writes: set[asyncio.Task[None]] = set()
        self._running = self._loop.create_task(self._run())

    def __len__(self) -> int:
        return len(self._partitions)

    def __contains__(self, partition: CopiedPartition) -> bool:
        return self._partitions.get(partition.there) is partition

    def add(self, partition: CopiedPartition, leader_epoch: int) -> None:
        """Starts copying a partition from its position, in this leader epoch of the source."""
        partition.turn += 1
        self._partitions[partition.there] = partition
        self._epochs[partition.there] = leader_epoch
        self._want(partition)

    def remove(self, partition: CopiedPartition) -> None:
        """Stops copying a partition; its data in flight is ignored."""
        if partition in self:
            del self._partitions[partition.there], self._epochs[partition.there]
            self._asking.leave_out(partition.there)
            self._changed.set()

    async def close(self) -> None:
        """Stops the lane; data in flight may or may not arrive."""
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running

    # Both brokers

    async def _run(self) -> None:
        while True:
            try:
                await self._copy()
            except ClientError as error:
                self._failed(str(error))
            except Exception as error:  # a bug: a retry may succeed
                log.exception("copying failed lane=%d-%d", self.way.source, self.way.target)
                self._failed(repr(error))
            else:
                continue
            await asyncio.sleep(self._pauses.next())

    async def _copy(self) -> None:
        """Copy as long as both connections and their logins last."""
        settings, (source_at, target_at) = self._settings, self.addresses
        source = target = None
        await self._wait_for_partitions()
        try:
            source = await LeaderConnection.open(
                source_at, CLIENT_ID, settings.source, self._received_into
            )
            target = await LeaderConnection.open(target_at, CLIENT_ID, settings.target)
            self._asking.begin()
            while not (source.is_spent or target.is_spent):
                await self._exchange(source, target)
            await self._all_written()
        finally:
            for connection in (source, target):
                if connection is not None:
                    connection.close()
            await self._all_written()

    def _received_into(self, size: int) -> memoryview:
        """Memory for a response; before the first fetch, fresh memory."""
        return fresh_memory(size) if self._receiving is None else self._receiving(size)

    async def _exchange(self, source: LeaderConnection, target: LeaderConnection) -> None:
        """One fetch; its data is put on its way to the target."""
        await self._wait_for_partitions()
        target.check()
        await self._bandwidth()
        buffer = await self._buffers.take()
        is_handed_over = False
        try:
            self._receiving = buffer
            request = self._asking.request(int(_WAIT_S * 1000))
            answer = await source.ask(fetch.API, request, _WAIT_S + _ANSWER_S)
            code = self._asking.answered(answer)
            if code is ErrorCode.none:
                self.heard_at = self._loop.time()
                pieces = await self._take(answer)
                self._succeeded()
                if pieces:
                    self._write(pieces, target, buffer)
                    is_handed_over = True
            elif code not in _SESSION_ERRORS or request.session_epoch == 0:
                raise refusal(f"fetch from {self.addresses[0]}", code)
        finally:
            self._receiving = None
            if not is_handed_over:
                self._buffers.give_back(buffer)

    async def _wait_for_partitions(self) -> None:
        while not self._asking.wants_any:
            self._changed.clear()
            await self._changed.wait()

    async def _bandwidth(self) -> None:
        bandwidth = self._settings.bandwidth
        wait = bandwidth.wait_s(self._loop.time())
        while wait > 0:
            await asyncio.sleep(wait)
            wait = bandwidth.wait_s(self._loop.time())

    # The source

    async def _take(self, answer: FetchResponse) -> list[_Piece]:
        pieces = []
        responses = ((topic.topic, data) for topic in answer.responses for data in topic.partitions)
        for number, (topic, data) in enumerate(responses, 1):
            key = topic, data.partition_index
            partition, fetch_position = self._partitions.get(key), self._asking.requested(key)
            if (
                partition is not None
                and fetch_position is not None
                and fetch_position.offset == partition.position
            ):
                piece = self._piece(partition, data)
                if piece is not None:
                    pieces.append(piece)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return pieces

    def _piece(self, partition: CopiedPartition, data: PartitionData) -> _Piece | None:
        if data.error_code is not ErrorCode.none:
            code, who = data.error_code, self._settings.source.who
            reason = refusal_text(code, who, partition.there[0], Operation.READ)
            self._lose(partition, f"the source says: {reason}", code)
            return None
        now = self._loop.time()
        partition.heard(data.high_watermark, now)
        records = data.records
        assert not isinstance(records, FileSlice)  # used only for sending
        if not records:
            if partition.hungry:
                partition.hungry = False
                self._want(partition)
            return None
        self._settings.bandwidth.used(len(records), now)
        cut = self._writing.cut(partition, data)
        if partition.opened is not None and (fault := partition.opened(cut.data)):
            self._stop(partition, fault)
            return None
        fetch_position = self._asking.requested(partition.there)
        is_full = fetch_position is not None and 2 * len(records) >= fetch_position.max_bytes
        partition.hungry, partition.needs = is_full, cut.needs
        has_moved = cut.next_offset > partition.position
        if has_moved:
            partition.taken(cut.next_offset)
        if cut.gap is not None:
            partition.has_gap = True
            self._lose(partition, f"gap: {cut.gap}", ErrorCode.offset_out_of_range)
        elif cut.fault:
            self._stop(partition, cut.fault)
        else:
            self._want(partition)
        return _Piece(partition, partition.turn, cut) if has_moved else None

    def _want(self, partition: CopiedPartition) -> None:
        share = self._settings.bandwidth.portion(self._share(partition))
        key = partition.there
        fetch_position = FetchPosition(
            leader_epoch=self._epochs[key],
            offset=partition.position,
            last_epoch=-1,
            log_start=-1,
            max_bytes=max(share, partition.needs),
        )
        self._asking.want(key, fetch_position)
        self._changed.set()

    def _share(self, partition: CopiedPartition) -> int:
        limit = self._settings.buffer_bytes
        if not partition.hungry:
            return limit // min(_SHARES, max(1, len(self._partitions)))
        hungry_count = sum(partition.hungry for partition in self._partitions.values())
        return limit // min(_SHARES, max(1, hungry_count))

    # The target

    def _write(
        self, pieces: Sequence[_Piece], target: LeaderConnection, buffer: AnswerBuffer
    ) -> None:
        """Send after the earlier pieces. Takes over the buffer, unless it raises."""
        pending_result = self._writing.put(
            [(piece.partition, piece.cut) for piece in pieces], target
        )
        write_task = self._loop.create_task(self._written(pieces, pending_result, buffer))
        self._writes.add(write_task)
        write_task.add_done_callback(self._writes.discard)

    async def _written(
        self,
        pieces: Sequence[_Piece],
        pending_result: Awaitable[Answered],
        buffer: AnswerBuffer,
    ) -> None:
        results: Answered = {}
        trouble = "no answer from the target"
        try:
            results = await pending_result
        except ClientError as error:
            trouble = str(error)
        finally:
            self._buffers.give_back(buffer)
        now = self._loop.time()
        for number, (partition, turn, cut) in enumerate(pieces, 1):
            result = results.get(partition.here)
            if result is not None and result.error_code is ErrorCode.none:
                size = len(cut.data)
                partition.written(cut.next_offset, cut.headers, size, now)
                self._events.written(partition, cut.headers)
            elif turn != partition.turn:
                pass  # it has resumed since
            elif result is None:
                self._lose(partition, trouble, ErrorCode.network_exception)
            else:
                self._refused(partition, result)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def _refused(self, partition: CopiedPartition, result: PartitionProduceResponse) -> None:
        code, who = result.error_code, self._settings.target.who
        reason = refusal_text(
            code, who, partition.here[0], Operation.WRITE, message=result.error_message
        )
        if code in _FINAL:
            self._stop(partition, f"the target refused: {reason}")
        else:
            partition.alone = partition.alone or code is ErrorCode.request_timed_out
            self._lose(partition, f"the target says: {reason}", code)

    async def _all_written(self) -> None:
        """Wait until everything in flight is answered, or never will be."""
        if self._writes:
            await asyncio.wait(tuple(self._writes))

    # Removals

    def _lose(self, partition: CopiedPartition, reason: str, code: ErrorCode) -> None:
        if partition in self:
            self.remove(partition)
            self._events.lost(partition, reason, code)

    def _stop(self, partition: CopiedPartition, reason: str) -> None:
        if partition in self:
            self.remove(partition)
            self._events.stopped(partition, reason)

    def _failed(self, reason: str) -> None:
        if reason != self.trouble:
            log.warning(
                "lane failed source=%d target=%d reason=%r",
                *(self.way.source, self.way.target, reason),
            )
        self.trouble = reason
        for partition in tuple(self._partitions.values()):
            self._lose(partition, reason, ErrorCode.network_exception)

    def _succeeded(self) -> None:
        self.trouble = ""
        self._pauses.reset()


_FINAL: Final = frozenset(
    {
        ErrorCode.invalid_record,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.policy_violation,
        ErrorCode.message_too_large,
        ErrorCode.unsupported_for_message_format,
    }
)
