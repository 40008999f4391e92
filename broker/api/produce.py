"""Produce (key 0), versions 3–9.

A batch is checked (header, CRC, size, timestamps, and that its records can be read), and appended
as it came. acks=0 gets no answer, and an error closes its connection, as in Kafka. acks=1 is
answered once the batch is written. acks=all is answered once it is committed: flushed by all
replicas in sync, or when the request's time is over; meanwhile the client's next requests are
served, and answered in their order. A batch that is too large to be looked through at once is left
to `LargeChecks`, and meanwhile its client's next requests wait.

Not here: transactions (refused), batches older than format v2 (refused). Where there is one replica
the time-out of a request is not looked at: it is answered when its flush is over.

Specified in docs/replication-spec.md: `Produce` (R4).
"""

import asyncio
import time
from collections.abc import Coroutine, Set
from dataclasses import dataclass
from functools import partial
from typing import Final

from broker.authorization import Authorization, denial
from broker.complaints import Complaints
from broker.connection import Connection, Reply
from broker.errors import ApiError
from broker.metrics import BrokerMetrics
from broker.partition import Partition
from broker.partitions import Partitions
from broker.storage.errors import StorageError
from wire.acls import Operation, ResourceType
from wire.batch import CONTROL, TRANSACTIONAL, BatchHeader, check_batch, stamp_append_time
from wire.errors import BatchError, ErrorCode
from wire.large_batches import LargeBatch, unpack_large, walk_large
from wire.produce import PartitionBatch, PartitionResult, ProduceRequest, response_frame
from wire.record_check import NATIVE, RecordCheck
from wire.requests import RequestHeader

_ALL: Final = -1
_NOT_ACCEPTED: Final = CONTROL | TRANSACTIONAL
UNPACKED_LIMIT: Final = 64 * 1024 * 1024  # what compaction will unpack as well
# What is no larger may lie in the buffer that all connections receive into.
_SHARED_BUFFER: Final = 64 * 1024
_LONGEST_TIMEOUT_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Needs:
    partitions: Partitions
    record_check: RecordCheck
    large_checks: "LargeChecks"
    complaints: Complaints
    metrics: BrokerMetrics
    authorization: Authorization


def serve(
    needs: Needs,
    connection: Connection,
    header: RequestHeader,
    request: ProduceRequest,
    began: float,
) -> None:
    """Append what was sent, and answer as `acks` asks. `began` is when the request was there."""
    if request.acks not in {_ALL, 0, 1}:
        code, why = ErrorCode.invalid_required_acks, "acks is -1, 0 or 1"
    elif request.transactional_id is not None:
        code = ErrorCode.transactional_id_authorization_failed
        why = "transactions are not supported"
    else:
        _Work(needs, connection, header, request, began=began).serve()
        return
    work = _Work(needs, connection, header, request, began=began)
    work.results = [
        PartitionResult(batch.topic, batch.partition, code, message=why)
        for batch in request.batches
    ]
    work.answer(None)


class _Work:
    """One request, batch by batch. `results` says what became of each so far."""

    __slots__ = (
        "_acks", "_batches", "_began", "_connection", "_denied", "_header", "_needs", "_now_ms",
        "_timeout_ms", "_uncommitted", "results",
    )  # fmt: skip

    def __init__(
        self,
        needs: Needs,
        connection: Connection,
        header: RequestHeader,
        request: ProduceRequest,
        *,
        began: float,
    ) -> None:
        self._needs = needs
        self._connection = connection
        self._header = header
        _, self._acks, self._timeout_ms, self._batches = request
        self._began = began
        self._now_ms = time.time_ns() // 1_000_000
        self._denied: Set[str] = frozenset()  # topics that it may not write to
        if needs.authorization.is_on:
            topics = {batch.topic for batch in self._batches}
            self._denied = needs.authorization.denied_topics(
                connection.caller, Operation.WRITE, topics
            )
        self.results: list[PartitionResult] = []
        # Which of them are to be committed, up to which offset.
        self._uncommitted: list[tuple[int, Partition, int]] = []

    def serve(self) -> None:
        """Append all and answer, now or later."""
        for batch in self._batches:
            if not self._append(batch):
                self._batches = kept(self._batches[len(self.results) :])
                reply = self._connection.reply(exclusive=True)
                self._needs.large_checks.begin(self._serve_later(reply))
                return
        self.answer(None)

    async def _serve_later(self, reply: Reply) -> None:
        """From the first batch on that is too large to be looked through at once."""
        try:
            for batch in self._batches:
                if self._append(batch):
                    continue
                error = await self._look_through(batch)
                if not self._connection.open:
                    return  # nobody waits for it, and its memory is somebody else's by now
                if error is None:
                    self._append(batch, is_checked=True)
                else:
                    self._refuse(batch, error)
                    del error  # its traceback holds what was unpacked
        except Exception as bug:  # noqa: BLE001 -- it must not leave its client waiting
            connection = self._connection
            self._needs.complaints.request_failed(
                connection.caller.host, f"client={connection.peer}", bug
            )
            connection.close("error='internal error'")
            return
        self.answer(reply)

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
        if self._denied and topic in self._denied:
            self._refuse(batch, denial(Operation.WRITE, ResourceType.TOPIC, topic))
            return True
        try:
            partition = needs.partitions.find(topic, index)
            header = _checked(partition, view, acks, now_ms)
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
        if acks == _ALL and last_offset >= partition.log.exposed_offset:
            self._uncommitted.append((len(self.results), partition, last_offset + 1))
        append_time = now_ms if partition.stamps_append_time else -1
        start_offset = partition.log.start_offset
        self.results.append(
            PartitionResult(topic, index, ErrorCode.none, base_offset, append_time, start_offset)
        )
        return True

    def _refuse(self, batch: PartitionBatch, error: ApiError | BatchError | StorageError) -> None:
        self._needs.metrics.rejected(error.code)
        if error.code is ErrorCode.invalid_record:
            # Who sends such a thing is broken, and may not say so itself.
            self._needs.complaints.batch_refused(
                self._connection.caller.host, batch.topic, batch.partition, error.code, str(error)
            )
        self.results.append(
            PartitionResult(batch.topic, batch.partition, error.code, message=str(error))
        )

    def answer(self, reply: Reply | None) -> None:
        """All batches are appended or refused: say so, in `reply` or at once."""
        needs, connection, results = self._needs, self._connection, self.results
        if self._uncommitted:
            reply = reply or connection.reply()
            answer = _Answer(needs.metrics, reply, self._header, results, self._began)
            answer.wait(self._uncommitted, self._timeout_ms)
            return
        if self._acks == 0:
            if failed := next((result for result in results if result.code), None):
                why = f"acks=0 and {failed.message}"
                connection.close(f"error={why:.200}", like="acks=0")
            elif reply is not None:
                reply.send([])
        else:
            _, version, correlation_id = self._header
            frame = response_frame(version, correlation_id, results, connection.throttle_ms)
            if reply is None:
                connection.send([frame])
            else:
                reply.send([frame])
        needs.metrics.request("Produce", time.perf_counter() - self._began)


def _checked(partition: Partition, view: memoryview | None, acks: int, now_ms: int) -> BatchHeader:
    """The header of a batch that may be appended if its records may; else raise why it may not."""
    if partition.unavailable is not None or not partition.leads:
        partition.check_leader()
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
    if acks == _ALL and partition.min_insync_replicas > partition.in_sync:
        raise ApiError(
            ErrorCode.not_enough_replicas,
            f"not enough replicas are in sync: {partition.in_sync} of "
            f"{len(partition.info.replicas)}, min.insync.replicas is "
            f"{partition.min_insync_replicas}",
        )
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


class _Answer:
    """The answer to a request with acks=all, given when its batches are committed."""

    __slots__ = ("_began", "_header", "_metrics", "_open", "_reply", "_results", "_timer")

    def __init__(
        self,
        metrics: BrokerMetrics,
        reply: Reply,
        header: RequestHeader,
        results: list[PartitionResult],
        began: float,
    ) -> None:
        self._metrics = metrics
        self._reply = reply
        self._header = header
        self._results = results
        self._began = began
        self._open: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, uncommitted: list[tuple[int, Partition, int]], timeout_ms: int) -> None:
        self._open = {position for position, _, _ in uncommitted}
        if any(partition.followers is not None for _, partition, _ in uncommitted):
            seconds = min(max(timeout_ms, 0), _LONGEST_TIMEOUT_MS) / 1000
            self._timer = asyncio.get_running_loop().call_later(seconds, self._time_is_over)
        for position, partition, end_offset in uncommitted:
            partition.when_committed(end_offset, partial(self._committed, position))

    def _committed(self, position: int, code: ErrorCode) -> None:
        if position not in self._open:
            return  # it has been said that the time is over
        if code:
            self._refuse(position, code, "the batch could not be committed")
        self._open.discard(position)
        if not self._open:
            self._send()

    def _time_is_over(self) -> None:
        for position in self._open:
            self._refuse(position, ErrorCode.request_timed_out, "not yet on all replicas in sync")
        self._open.clear()
        self._send()

    def _refuse(self, position: int, code: ErrorCode, message: str) -> None:
        result = self._results[position]
        self._results[position] = result._replace(code=code, base_offset=-1, message=message)

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        _, version, correlation_id = self._header
        throttle = self._reply.connection.throttle_ms
        self._reply.send([response_frame(version, correlation_id, self._results, throttle)])
        self._metrics.request("Produce", time.perf_counter() - self._began)


def kept(batches: list[PartitionBatch]) -> list[PartitionBatch]:
    """The batches, in memory that is theirs as long as their connection waits for them."""
    return [
        batch._replace(records=memoryview(bytearray(batch.records)))
        if batch.records is not None and len(batch.records) <= _SHARED_BUFFER
        else batch
        for batch in batches
    ]


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
