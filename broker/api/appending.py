"""The common part of Produce and mirrored Produce: appends batches and decides when to answer.

Each batch is appended or rejected on its own. acks=all is answered once all of them are committed
(flushed by all in-sync replicas), or when the request times out.
"""

import asyncio
import time
from collections.abc import Coroutine
from functools import partial
from typing import Final, Protocol

import msgspec

from broker.access.authorization import Authorization, Rights
from broker.access.producer_ids import ProducerIds
from broker.connections.complaints import Complaints
from broker.connections.connection import Connection, Reply
from broker.connections.large_requests import Turns
from broker.errors import ApiError
from broker.monitoring.metrics import BrokerMetrics
from broker.replicas.partition import Partition
from broker.replicas.partitions import Partitions
from broker.storage.errors import OtherBatch, StorageError
from wire.acls import Operation, ResourceType
from wire.errors import BatchError, ErrorCode
from wire.framing.frame_memory import SHARED_BUFFER
from wire.framing.requests import RequestHeader
from wire.produce import PartitionBatch, PartitionResult, ProduceRequest, response_frame
from wire.record_batches.record_check import RecordCheck

ALL: Final = -1  # the acks of a client that waits for the commit
_LONGEST_TIMEOUT_MS: Final = 3_600_000
_WORTH_A_LINE: Final = frozenset({ErrorCode.invalid_record, ErrorCode.unknown_producer_id})


class BatchChecks(Protocol):
    """Checks the records of large batches on a thread, off the event loop."""

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Serves the rest of a request in a task."""

    async def check(self, batch: memoryview, *, keyed: bool) -> None:
        """Raises `BatchError` if the batch's records are invalid."""


class Needs(msgspec.Struct, frozen=True):
    partitions: Partitions
    record_check: RecordCheck
    large_checks: BatchChecks
    complaints: Complaints
    metrics: BrokerMetrics
    authorization: Authorization
    producer_ids: ProducerIds
    turns: Turns


class Appending:
    """Appends the batches of one request, one by one. `results` has the outcomes so far."""

    __slots__ = (
        "_acks", "_batches", "_began", "_connection", "_denied", "_header", "_needs", "_now_ms",
        "_rights", "_seconds", "_timeout_ms", "_uncommitted", "results",
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
        self._rights: Rights | None = None  # where partitions are looked up
        if needs.authorization.is_on:
            self._rights = needs.authorization.of(connection.caller)
        self._denied: dict[str, bool] = {}  # topics looked up so far
        self._seconds = 0.0  # spent on work done in turns
        self.results: list[PartitionResult] = []
        # The partitions to be committed, and up to which offset.
        self._uncommitted: list[tuple[int, Partition, int]] = []

    def _is_denied(self, topic: str) -> bool:
        """Whether this client may not write to the topic. A denial is logged once a request."""
        if self._rights is None:
            return False
        is_denied = self._denied.get(topic)
        if is_denied is None:
            is_denied = self._rights.refuses(Operation.WRITE, ResourceType.TOPIC, topic)
            self._denied[topic] = is_denied
        return is_denied

    def refuse_all(self, code: ErrorCode, why: str) -> None:
        self.results = [
            PartitionResult(batch.topic, batch.partition, code, message=why)
            for batch in self._batches
        ]
        self.answer(None)

    async def _worked_on(self, work: Coroutine[None, None, bool], reply: Reply) -> None:
        """Await work that is done in turns, then answer if the client still waits."""
        try:
            if not await work:
                return
            if (share := self._connection.share) is not None:
                self._connection.charge(share.request, self._seconds * 100)
        except Exception as bug:  # noqa: BLE001 -- it must not leave its client waiting
            connection = self._connection
            self._needs.complaints.request_failed(
                connection.caller.host, f"client={connection.peer}", bug
            )
            connection.close("error='internal error'")
            return
        self.answer(reply)

    def _accept(
        self,
        batch: PartitionBatch,
        partition: Partition,
        base_offset: int,
        end_offset: int,
        append_time: int = -1,
    ) -> None:
        """The batch is in the log, between these offsets."""
        if self._acks == ALL and end_offset > partition.log.exposed_offset:
            self._uncommitted.append((len(self.results), partition, end_offset))
        elif self._acks != ALL:
            partition.acknowledged = max(partition.acknowledged, end_offset)
        start_offset = partition.log.start_offset
        topic, index, _ = batch
        self.results.append(
            PartitionResult(topic, index, ErrorCode.none, base_offset, append_time, start_offset)
        )

    def _refuse(self, batch: PartitionBatch, error: ApiError | BatchError | StorageError) -> None:
        self._needs.metrics.rejected(error.code)
        if error.code in _WORTH_A_LINE or isinstance(error, OtherBatch):
            # Who sends such a thing is broken, or pretends to be another, and says nothing of it.
            self._needs.complaints.batch_refused(
                self._connection.caller.host, batch.topic, batch.partition, error.code, str(error)
            )
        record = error.record if isinstance(error, BatchError) else None
        self.results.append(
            PartitionResult(
                batch.topic, batch.partition, error.code, message=str(error), record=record
            )
        )

    def answer(self, reply: Reply | None) -> None:
        """Answers, in `reply` or at once, when all batches are appended or rejected."""
        needs, connection, results = self._needs, self._connection, self.results
        if self._uncommitted:
            reply = reply or connection.reply()
            answer = _Answer(needs.metrics, reply, self._header, results, self._began)
            answer.wait(self._uncommitted, self._timeout_ms)
            return
        if self._acks == 0:
            if failure := next((result for result in results if result.code), None):
                reason = f"acks=0 and {failure.message}"
                connection.close(f"error={reason:.200}", like="acks=0")
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


def check_in_sync(partition: Partition) -> None:
    """Raises ApiError if too few replicas are in sync for acks=all."""
    if partition.min_insync_replicas > partition.in_sync:
        raise ApiError(
            ErrorCode.not_enough_replicas,
            f"not enough in-sync replicas: {partition.in_sync} of {len(partition.info.replicas)}, "
            f"min.insync.replicas is {partition.min_insync_replicas}",
        )


class _Answer:
    """The answer to a request with acks=all, sent when its batches are committed."""

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
            self._timer = asyncio.get_running_loop().call_later(seconds, self._time_out)
        for position, partition, end_offset in uncommitted:
            partition.when_committed(end_offset, partial(self._committed, position))

    def _committed(self, position: int, code: ErrorCode) -> None:
        if position not in self._open:
            return  # the timeout has already been reported
        if code:
            self._refuse(position, code, "the batch was not committed")
        self._open.discard(position)
        if not self._open:
            self._send()

    def _time_out(self) -> None:
        for position in self._open:
            self._refuse(
                position, ErrorCode.request_timed_out, "not yet flushed by all in-sync replicas"
            )
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
    """Returns the batches for use after the connection has reused its shared buffer: copies small
    ones, which may be in that buffer."""
    return [
        batch._replace(records=memoryview(bytearray(batch.records)))
        if batch.records is not None and len(batch.records) <= SHARED_BUFFER
        else batch
        for batch in batches
    ]
