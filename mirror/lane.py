"""A lane: the partitions that one broker leads at the source and one broker at the target.

    fetch ─▶ answer in a buffer ─▶ cut ─▶ Produce of the same bytes ─▶ buffer free
      ▲ the next fetch is under way meanwhile, as long as a buffer is free

Rule 1: one fetch is under way at the source, in an incremental session (client/fetch_session.py).
        The target has as many Produces as there are buffers, in order.
Rule 2: a partition is fetched on before the target has answered. If it refuses something, what came
        behind that counts for nothing: the partition leaves the lane, and somebody asks both sides
        where it is (beginnings.py). Written twice does no harm: the target compares.
Rule 3: what is stuck stays in its lane. A broker that does not answer holds up those partitions
        that it leads, and a partition that held up others has a lane beside, until it has shown
        that it moves.
Rule 4: partitions that have much to fetch share what an answer may hold; the others may have a
        sixteenth each. A batch that is larger than a share is asked for by its size.

After an error of a connection all partitions of the lane leave it, and come again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from client.addresses import Address
from client.bootstrap import Access
from client.conversation import fresh_memory
from client.errors import ClientError, refusal
from client.fetch_session import FetchSession, Key, Wanted
from client.leader_connection import LeaderConnection
from client.patience import Pauses
from mirror.bandwidth import Bandwidth
from mirror.batches import Cut
from mirror.buffers import AnswerBuffer, AnswerBuffers
from mirror.partition import CopiedPartition
from mirror.said import said
from mirror.writing import Answered, Writing
from wire.acls import Operation
from wire.batch import BatchHeader
from wire.errors import ErrorCode
from wire.messages import fetch
from wire.messages.fetch import FetchResponse, PartitionData
from wire.messages.produce import PartitionProduceResponse
from wire.slices import FileSlice

log = logging.getLogger(__name__)

CLIENT_ID: Final = "penstock-mirror"
_CONSUMER: Final = -1
_WAIT_S: Final = 0.5  # that the source may wait for something new
_ANSWER_S: Final = 30.0
_SHARES: Final = 16
_AT_ONCE: Final = 64  # partitions of an answer, in one turn of the loop
_SESSION_ERRORS: Final = frozenset(
    {ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch}
)


class Way(NamedTuple):
    """From which broker to which; `aside` for partitions that held up others."""

    source: int
    target: int
    aside: bool = False


class LaneSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all lanes have in common."""

    source: Access
    target: Access
    writing: Callable[[], Writing]  # of one lane
    bandwidth: Bandwidth
    buffers: int
    buffer_bytes: int


class LaneEvents(msgspec.Struct, frozen=True):
    """Whom a lane tells what happens; called on the event loop."""

    lost: Callable[[CopiedPartition, str, ErrorCode], None]  # it has left the lane
    stopped: Callable[[CopiedPartition, str], None]  # the same, and trying again is of no use
    written: Callable[[CopiedPartition, Sequence[BatchHeader]], None]


class _Piece(NamedTuple):
    """Of one partition, on its way to the target."""

    partition: CopiedPartition
    turn: int
    cut: Cut


class Lane:
    """See the module. Belongs to the event loop."""

    def __init__(
        self,
        way: Way,
        addresses: tuple[Address, Address],
        settings: LaneSettings,
        events: LaneEvents,
    ) -> None:
        self.way = way
        self.addresses = addresses
        self.trouble = ""  # why nothing moves here
        self.heard_at = 0.0  # the source's last answer
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
        """Copy it from its position on, in this epoch of the source's leader."""
        partition.turn += 1
        self._partitions[partition.there] = partition
        self._epochs[partition.there] = leader_epoch
        self._want(partition)

    def remove(self, partition: CopiedPartition) -> None:
        """What is under way of it counts for nothing."""
        if partition in self:
            del self._partitions[partition.there], self._epochs[partition.there]
            self._asking.leave_out(partition.there)
            self._changed.set()

    async def close(self) -> None:
        """Ends it; what is under way may arrive or not."""
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
            except Exception as error:  # a bug of ours: another try may well succeed
                log.exception("copying failed lane=%d-%d", self.way.source, self.way.target)
                self._failed(repr(error))
            else:
                continue
            await asyncio.sleep(self._pauses.next())

    async def _copy(self) -> None:
        """As long as both connections last, and the logins."""
        settings, (source_at, target_at) = self._settings, self.addresses
        source = target = None
        await self._something_to_ask()
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
        """What is said before the first fetch, too."""
        return fresh_memory(size) if self._receiving is None else self._receiving(size)

    async def _exchange(self, source: LeaderConnection, target: LeaderConnection) -> None:
        """One fetch, and the Produce of what it brings put on its way."""
        await self._something_to_ask()
        target.check()
        await self._bandwidth()
        buffer = await self._buffers.take()
        is_written = False
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
                    is_written = True
            elif code not in _SESSION_ERRORS or request.session_epoch == 0:
                raise refusal(f"fetch from {self.addresses[0]}", code)
        finally:
            self._receiving = None
            if not is_written:
                self._buffers.give_back(buffer)

    async def _something_to_ask(self) -> None:
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
        of_all = ((each.topic, data) for each in answer.responses for data in each.partitions)
        for number, (topic, data) in enumerate(of_all, 1):
            key = topic, data.partition_index
            partition, asked = self._partitions.get(key), self._asking.asked(key)
            if partition is not None and asked is not None and asked.offset == partition.position:
                found = self._found(partition, data)
                if found is not None:
                    pieces.append(found)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return pieces

    def _found(self, partition: CopiedPartition, data: PartitionData) -> _Piece | None:
        if data.error_code is not ErrorCode.none:
            code, who = data.error_code, self._settings.source.who
            why = said(code, who, partition.there[0], Operation.READ)
            self._lose(partition, f"the source says: {why}", code)
            return None
        now = self._loop.time()
        partition.heard(data.high_watermark, now)
        records = data.records
        assert not isinstance(records, FileSlice)  # those only leave
        if not records:
            if partition.hungry:
                partition.hungry = False
                self._want(partition)
            return None
        self._settings.bandwidth.used(len(records), now)
        found = self._writing.cut(partition, data)
        if partition.opened is not None and (fault := partition.opened(found.data)):
            self._stop(partition, fault)
            return None
        asked = self._asking.asked(partition.there)
        full = asked is not None and 2 * len(records) >= asked.max_bytes
        partition.hungry, partition.needs = full, found.needs
        moves = found.next_offset > partition.position
        if moves:
            partition.taken(found.next_offset)
        if found.gap is not None:
            partition.has_gap = True
            self._lose(partition, f"gap: {found.gap}", ErrorCode.offset_out_of_range)
        elif found.fault:
            self._stop(partition, found.fault)
        else:
            self._want(partition)
        return _Piece(partition, partition.turn, found) if moves else None

    def _want(self, partition: CopiedPartition) -> None:
        share = self._settings.bandwidth.portion(self._share(partition))
        key = partition.there
        wanted = Wanted(
            leader_epoch=self._epochs[key],
            offset=partition.position,
            last_epoch=-1,
            log_start=-1,
            max_bytes=max(share, partition.needs),
        )
        self._asking.want(key, wanted)
        self._changed.set()

    def _share(self, partition: CopiedPartition) -> int:
        most = self._settings.buffer_bytes
        if not partition.hungry:
            return most // min(_SHARES, max(1, len(self._partitions)))
        hungry = sum(each.hungry for each in self._partitions.values())
        return most // min(_SHARES, max(1, hungry))

    # The target

    def _write(
        self, pieces: Sequence[_Piece], target: LeaderConnection, buffer: AnswerBuffer
    ) -> None:
        """On its way behind what was written before. The buffer is this one's from then on, if it
        is."""
        answered = self._writing.put([(each.partition, each.cut) for each in pieces], target)
        writing = self._loop.create_task(self._written(pieces, answered, buffer))
        self._writes.add(writing)
        writing.add_done_callback(self._writes.discard)

    async def _written(
        self,
        pieces: Sequence[_Piece],
        answered: Awaitable[Answered],
        buffer: AnswerBuffer,
    ) -> None:
        results: Answered = {}
        trouble = "the target did not say what became of it"
        try:
            results = await answered
        except ClientError as error:
            trouble = str(error)
        finally:
            self._buffers.give_back(buffer)
        now = self._loop.time()
        for number, (partition, turn, found) in enumerate(pieces, 1):
            result = results.get(partition.here)
            if result is not None and result.error_code is ErrorCode.none:
                size = len(found.data)
                partition.written(found.next_offset, found.headers, size, now)
                self._events.written(partition, found.headers)
            elif turn != partition.turn:
                pass  # it has begun anew since
            elif result is None:
                self._lose(partition, trouble, ErrorCode.network_exception)
            else:
                self._refused(partition, result)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def _refused(self, partition: CopiedPartition, result: PartitionProduceResponse) -> None:
        code, who = result.error_code, self._settings.target.who
        why = said(code, who, partition.here[0], Operation.WRITE, message=result.error_message)
        if code in _FINAL:
            self._stop(partition, f"the target refuses it: {why}")
        else:
            partition.alone = partition.alone or code is ErrorCode.request_timed_out
            self._lose(partition, f"the target says: {why}", code)

    async def _all_written(self) -> None:
        """Whatever was on its way has an answer, or never will."""
        if self._writes:
            await asyncio.wait(tuple(self._writes))

    # Partitions that leave

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
                "nothing is copied source=%d target=%d reason=%r",
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
