"""Produce (key 0), versions 3–9.

A batch is checked (header, CRC, size, timestamps, readable records) and appended as it came. acks=0
gets no answer, and an error closes its connection, as in Kafka. acks=1 is answered once the batch
is written. acks=all is answered once it is committed (flushed by all in-sync replicas) or the
request times out; meanwhile the client's next requests are served, and answered in their order. A
batch too large to be checked at once goes to `LargeChecks`, and its client's next requests wait.

The mirror's requests are recognized by their transactional id, and go to `mirrored_produce`.

Not here: transactions (rejected), batches older than format v2 (rejected). With a single replica
the request's timeout is ignored: the answer comes when the flush is over.

Specified in docs/replication-spec.md: `Produce` (R4).
"""

import asyncio
import time
from collections.abc import Coroutine
from typing import Final

from broker.access.authorization import denial
from broker.api import mirrored_produce
from broker.api.appending import ALL, Appending, Needs, check_in_sync, kept
from broker.connections.connection import Connection
from broker.errors import ApiError
from broker.replicas.partition import Partition
from broker.storage.errors import StorageError
from wire.acls import Operation, ResourceType
from wire.errors import BatchError, ErrorCode
from wire.framing.requests import RequestHeader
from wire.mirrored import MIRROR_ID
from wire.produce import PartitionBatch, ProduceRequest
from wire.record_batches.batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    check_batch,
    stamp_append_time,
)
from wire.record_batches.large_batches import LargeBatch, unpack_large, walk_large
from wire.record_batches.record_check import NATIVE, RecordCheck

_NOT_ACCEPTED: Final = CONTROL | TRANSACTIONAL
_OF_A_TURN: Final = 64  # batches: where there are many, one is seldom more than a few kilobytes
UNPACKED_LIMIT: Final = 64 * 1024 * 1024  # the limit that compaction will unpack too


def serve(
    needs: Needs,
    connection: Connection,
    header: RequestHeader,
    request: ProduceRequest,
    began: float,
) -> None:
    """Appends the batches, and answers as `acks` demands. `began` is the request's arrival time."""
    if request.transactional_id == MIRROR_ID:
        mirrored_produce.serve(needs, connection, header, request, began)
        return
    work = _Work(needs, connection, header, request, began=began)
    if request.acks not in {ALL, 0, 1}:
        work.refuse_all(ErrorCode.invalid_required_acks, "acks must be -1, 0 or 1")
    elif request.transactional_id is not None:
        work.refuse_all(
            ErrorCode.transactional_id_authorization_failed, "transactions are not supported"
        )
    else:
        work.serve()


class _Work(Appending):
    __slots__ = ()

    def serve(self) -> None:
        """Appends all batches and answers, now or later."""
        for index, batch in enumerate(self._batches):
            if index == _OF_A_TURN or not self._append(batch):
                self._batches = kept(self._batches[index:])
                reply = self._connection.reply(exclusive=True)
                self._needs.large_checks.begin(self._worked_on(self._serve_later(), reply))
                return
        self.answer(None)

    async def _serve_later(self) -> bool:
        """Serve the rest, from the first batch that is too large, or of many, to check at once."""
        start_time = time.perf_counter()
        for index, batch in enumerate(self._batches):
            if not index % _OF_A_TURN:
                self._seconds += time.perf_counter() - start_time
                await self._needs.turns.next()
                if not self._connection.open:
                    return False
                start_time = time.perf_counter()
            if self._append(batch):
                continue
            error = await self._look_through(batch)
            if not self._connection.open:
                return False  # the client has gone, and the memory is reused by now
            if error is None:
                self._append(batch, is_checked=True)
            else:
                self._refuse(batch, error)
                del error  # its traceback holds the unpacked records
            start_time = time.perf_counter()
        self._seconds += time.perf_counter() - start_time
        return True

    async def _look_through(self, batch: PartitionBatch) -> ApiError | BatchError | None:
        """The error in the batch's records, if there is one."""
        assert batch.records is not None
        try:
            partition = self._needs.partitions.find(batch.topic, batch.partition)
            await self._needs.large_checks.check(batch.records, keyed=partition.compacts)
        except (ApiError, BatchError) as error:
            return error
        return None

    def _append(self, batch: PartitionBatch, *, is_checked: bool = False) -> bool:
        """Append or reject a batch; False if it is too large to be checked at once."""
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
            appended_batch = partition.append(view, header, now_ms, self._connection.peer)
        except (ApiError, BatchError, StorageError) as error:
            self._refuse(batch, error)
            return True
        base_offset, last_offset, _ = appended_batch
        append_time = now_ms if partition.stamps_append_time else -1
        self._accept(batch, partition, base_offset, last_offset + 1, append_time)
        return True

    def _check_producer(self, producer_id: int) -> None:
        """Raise unless the producer id belongs to this client."""
        principal = self._connection.caller.principal
        if not self._needs.producer_ids.belongs(producer_id, principal):
            raise ApiError(
                ErrorCode.unknown_producer_id,
                f"producer id {producer_id} was not assigned to {principal} by this cluster",
            )


def _checked(partition: Partition, view: memoryview | None, acks: int, now_ms: int) -> BatchHeader:
    """The header of a batch that is valid apart from its records; raises if it is not."""
    if partition.unavailable is not None or not partition.leads:
        partition.check_leader()
    if partition.mirror_of is not None:
        raise ApiError(
            ErrorCode.policy_violation,
            f"the topic is a copy of {partition.mirror_of.place}, and only the mirror may write "
            "to it; penstock mirror promote opens it",
        )
    if view is None:
        raise BatchError(
            ErrorCode.invalid_record, "the request has no record batch for the partition"
        )
    if len(view) > partition.max_message_bytes:
        raise ApiError(
            ErrorCode.message_too_large,
            f"the batch has {len(view)} bytes, at most {partition.max_message_bytes} are allowed",
        )
    header = check_batch(view)
    if header.attributes & _NOT_ACCEPTED:
        raise BatchError(
            ErrorCode.invalid_record, "control and transactional batches are not accepted"
        )
    if acks == ALL:
        check_in_sync(partition)
    # Without a producer's timestamp, or where the broker sets it, there is nothing to compare.
    if header.base_timestamp >= 0 and not partition.stamps_append_time:
        _check_timestamps(partition, header.base_timestamp, header.max_timestamp, now_ms)
    return header


def _check_timestamps(partition: Partition, base: int, latest: int, now_ms: int) -> None:
    earliest_timestamp = now_ms - partition.timestamp_before_max_ms
    latest_timestamp = now_ms + partition.timestamp_after_max_ms
    if base < earliest_timestamp or latest > latest_timestamp:
        raise ApiError(
            ErrorCode.invalid_timestamp,
            f"timestamps {base} to {latest} are not between {earliest_timestamp} "
            f"and {latest_timestamp}",
        )


class LargeChecks:
    """Checks the records of large batches on a thread, off the event loop.

    One at a time, so that at most one is in memory unpacked. It is unpacked and walked over on a
    thread, which releases the interpreter lock. With aiokafka's parser alone (`NATIVE` is false),
    the records are checked piece by piece on the event loop, in turns with everything else: a
    thread that parsed them would hold the lock, and so stall the loop, for longer.

    Belongs to the event loop. `at_once` checks small batches.
    """

    def __init__(self, at_once: RecordCheck) -> None:
        self._at_once = at_once
        self._one = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def check(self, batch: memoryview, *, keyed: bool) -> None:
        header = check_batch(batch)
        async with self._one:
            if NATIVE:
                await asyncio.to_thread(walk_large, batch, header, UNPACKED_LIMIT, keyed=keyed)
                return
            plain_batch = await asyncio.to_thread(unpack_large, batch, header, UNPACKED_LIMIT)
            large_batch = LargeBatch(plain_batch, header, keyed=keyed, allows=self._at_once.allows)
            for _ in large_batch.check():
                await asyncio.sleep(0)
