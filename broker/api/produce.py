"""Produce (key 0), versions 3–9.

A batch is checked (header, CRC, size, timestamps, and that its records can be read), and appended
as it came. acks=0 gets no answer, and an error closes its connection, as in Kafka. acks=1 is
answered once the batch is written. acks=all is answered once it is committed: flushed by all
replicas in sync, or when the request's time is over; meanwhile the client's next requests are
served, and answered in their order. A batch that is too large to be looked through at once is left
to `LargeChecks`, and meanwhile its client's next requests wait.

What the mirror copies is told by its transactional id, and is `mirrored_produce`'s.

Not here: transactions (refused), batches older than format v2 (refused). Where there is one replica
the time-out of a request is not looked at: it is answered when its flush is over.

Specified in docs/replication-spec.md: `Produce` (R4).
"""

import asyncio
import time
from collections.abc import Coroutine
from typing import Final

from broker.api import mirrored_produce
from broker.api.appending import ALL, Appending, Needs, check_in_sync, kept
from broker.authorization import denial
from broker.connection import Connection
from broker.errors import ApiError
from broker.partition import Partition
from broker.storage.errors import StorageError
from wire.acls import Operation, ResourceType
from wire.batch import CONTROL, TRANSACTIONAL, BatchHeader, check_batch, stamp_append_time
from wire.errors import BatchError, ErrorCode
from wire.large_batches import LargeBatch, unpack_large, walk_large
from wire.mirrored import MIRROR_ID
from wire.produce import PartitionBatch, ProduceRequest
from wire.record_check import NATIVE, RecordCheck
from wire.requests import RequestHeader

_NOT_ACCEPTED: Final = CONTROL | TRANSACTIONAL
_OF_A_TURN: Final = 64  # batches: one is seldom more than a few kilobytes where there are many
UNPACKED_LIMIT: Final = 64 * 1024 * 1024  # what compaction will unpack as well


def serve(
    needs: Needs,
    connection: Connection,
    header: RequestHeader,
    request: ProduceRequest,
    began: float,
) -> None:
    """Append what was sent, and answer as `acks` asks. `began` is when the request was there."""
    if request.transactional_id == MIRROR_ID:
        mirrored_produce.serve(needs, connection, header, request, began)
        return
    work = _Work(needs, connection, header, request, began=began)
    if request.acks not in {ALL, 0, 1}:
        work.refuse_all(ErrorCode.invalid_required_acks, "acks is -1, 0 or 1")
    elif request.transactional_id is not None:
        work.refuse_all(
            ErrorCode.transactional_id_authorization_failed, "transactions are not supported"
        )
    else:
        work.serve()


class _Work(Appending):
    """A request of a producer's."""

    __slots__ = ()

    def serve(self) -> None:
        """Append all and answer, now or later."""
        for number, batch in enumerate(self._batches):
            if number == _OF_A_TURN or not self._append(batch):
                self._batches = kept(self._batches[number:])
                reply = self._connection.reply(exclusive=True)
                self._needs.large_checks.begin(self._worked_on(self._serve_later(), reply))
                return
        self.answer(None)

    async def _serve_later(self) -> bool:
        """From the first batch on that is too large to be looked through at once, or of many."""
        began = time.perf_counter()
        for number, batch in enumerate(self._batches):
            if not number % _OF_A_TURN:
                self._seconds += time.perf_counter() - began
                await self._needs.turns.next()
                if not self._connection.open:
                    return False
                began = time.perf_counter()
            if self._append(batch):
                continue
            error = await self._look_through(batch)
            if not self._connection.open:
                return False  # nobody waits for it, and its memory is somebody else's by now
            if error is None:
                self._append(batch, is_checked=True)
            else:
                self._refuse(batch, error)
                del error  # its traceback holds what was unpacked
            began = time.perf_counter()
        self._seconds += time.perf_counter() - began
        return True

    async def _look_through(self, batch: PartitionBatch) -> ApiError | BatchError | None:
        """Why the batch is to be refused, if it is."""
        assert batch.records is not None
        try:
            partition = self._needs.partitions.find(batch.topic, batch.partition)
            await self._needs.large_checks.check(batch.records, keyed=partition.compacts)
        except (ApiError, BatchError) as error:
            return error
        return None

    def _append(self, batch: PartitionBatch, *, is_checked: bool = False) -> bool:
        """Append a batch or refuse it; False if it is too large to be looked through at once."""
        needs, acks, now_ms = self._needs, self._acks, self._now_ms
        topic, index, view = batch
        if self._is_denied(topic):
            self._refuse(batch, denial(Operation.WRITE, ResourceType.TOPIC, topic))
            return True
        try:
            partition = needs.partitions.find(topic, index)
            header = _checked(partition, view, acks, now_ms)
            if header.producer_id >= 0:
                self._check_producer(header.producer_id)
            assert view is not None
            if not is_checked and not needs.record_check.check(
                view, header, partition.compacts, now_ms
            ):
                return False
            if partition.stamps_append_time:
                stamp_append_time(view, now_ms)
                header = header._replace(max_timestamp=now_ms)
            appended = partition.append(view, header, now_ms, self._connection.peer)
        except (ApiError, BatchError, StorageError) as error:
            self._refuse(batch, error)
            return True
        base_offset, last_offset, _ = appended
        append_time = now_ms if partition.stamps_append_time else -1
        self._accept(batch, partition, base_offset, last_offset + 1, append_time)
        return True

    def _check_producer(self, producer_id: int) -> None:
        """Raise unless it is this client's to number batches with."""
        principal = self._connection.caller.principal
        if not self._needs.producer_ids.belongs(producer_id, principal):
            raise ApiError(
                ErrorCode.unknown_producer_id,
                f"producer id {producer_id} was not given to {principal} by this cluster",
            )


def _checked(partition: Partition, view: memoryview | None, acks: int, now_ms: int) -> BatchHeader:
    """The header of a batch that may be appended if its records may; else raise why it may not."""
    if partition.unavailable is not None or not partition.leads:
        partition.check_leader()
    if partition.mirror_of is not None:
        raise ApiError(
            ErrorCode.policy_violation,
            f"the topic is a copy of {partition.mirror_of.place}: it is written by the mirror "
            "alone; penstock mirror promote opens it",
        )
    if view is None:
        raise BatchError(ErrorCode.invalid_record, "no record batch was sent")
    if len(view) > partition.max_message_bytes:
        raise ApiError(
            ErrorCode.message_too_large,
            f"the batch has {len(view)} bytes, {partition.max_message_bytes} are allowed",
        )
    header = check_batch(view)
    if header.attributes & _NOT_ACCEPTED:
        raise BatchError(
            ErrorCode.invalid_record, "control and transactional batches are not accepted"
        )
    if acks == ALL:
        check_in_sync(partition)
    # Where the producer gave no time, or the broker gives it, there is nothing to be compared.
    if header.base_timestamp >= 0 and not partition.stamps_append_time:
        _check_timestamps(partition, header.base_timestamp, header.max_timestamp, now_ms)
    return header


def _check_timestamps(partition: Partition, base: int, latest: int, now_ms: int) -> None:
    earliest_allowed = now_ms - partition.timestamp_before_max_ms
    latest_allowed = now_ms + partition.timestamp_after_max_ms
    if base < earliest_allowed or latest > latest_allowed:
        raise ApiError(
            ErrorCode.invalid_timestamp,
            f"timestamps {base} to {latest} are not between {earliest_allowed} "
            f"and {latest_allowed}",
        )


class LargeChecks:
    """Large batches, looked through beside everything else that a broker does.

    One at a time, so that at most one is in memory unpacked. It is unpacked and walked over on a
    thread, which does not hold the interpreter. Where there is only aiokafka's parser (`NATIVE` is
    false), the records are looked through piece by piece on the event loop, in turns with all who
    wait for it: a thread that parsed them would hold the interpreter, and so the loop, for longer.

    Belongs to the event loop. `at_once` is what looks through small ones.
    """

    def __init__(self, at_once: RecordCheck) -> None:
        self._at_once = at_once
        self._one = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Let the rest of a request be worked on."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def check(self, batch: memoryview, *, keyed: bool) -> None:
        """Raise `BatchError` if the batch's records are not what they must be."""
        header = check_batch(batch)
        async with self._one:
            if NATIVE:
                await asyncio.to_thread(walk_large, batch, header, UNPACKED_LIMIT, keyed=keyed)
                return
            plain = await asyncio.to_thread(unpack_large, batch, header, UNPACKED_LIMIT)
            large = LargeBatch(plain, header, keyed=keyed, allows=self._at_once.allows)
            for _ in large.check():
                await asyncio.sleep(0)
