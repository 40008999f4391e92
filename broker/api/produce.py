"""Produce (key 0), versions 3–9.

A batch is checked (header, CRC, size, timestamps), appended, and never looked into, except in a
compacted topic, where every record must have a key. acks=0 gets no answer, and an error closes its
connection, as in Kafka. acks=1 is answered once the batch is written. acks=all is answered once it
is flushed; meanwhile the client's next requests are served, and answered in their order.

Not here: transactions (refused), batches older than format v2 (refused), throttling. The time-out
of a request is not looked at: it is answered when its flush is over, or its client gives up.
"""

import time
from functools import partial
from typing import TYPE_CHECKING

from broker.connection import Connection, Reply
from broker.errors import ApiError
from broker.metrics import BrokerMetrics
from broker.partition import Partition
from broker.storage.errors import StorageError
from wire.batch import BatchHeader, check_batch, stamp_append_time
from wire.errors import BatchError, ErrorCode
from wire.produce import PartitionResult, ProduceRequest, response_frame
from wire.records import records
from wire.requests import RequestHeader

if TYPE_CHECKING:
    from broker.broker import Broker

_ALL = -1
_UNPACKED_LIMIT = 64 * 1024 * 1024  # what compaction will unpack as well


def serve(
    broker: "Broker",
    connection: Connection,
    header: RequestHeader,
    request: ProduceRequest,
    began: float,
) -> None:
    """Append what was sent, and answer as `acks` asks. `began` is when the request was there."""
    results, unflushed = _append_all(broker, request)
    if request.acks == 0:
        if failed := next((result for result in results if result.code), None):
            connection.close(f"error={'acks=0 and ' + str(failed.message):.200}")
    elif unflushed:
        _Answer(broker.metrics, connection.reply(), header, results, began).wait(unflushed)
        return
    else:
        frame = response_frame(header.api_version, header.correlation_id, results)
        connection.send([frame])
    broker.metrics.request("Produce", time.perf_counter() - began)


def _append_all(
    broker: "Broker", request: ProduceRequest
) -> tuple[list[PartitionResult], list[tuple[int, Partition, int]]]:
    """What became of each batch, and which of them are to be flushed up to which offset."""
    if request.acks not in {_ALL, 0, 1}:
        return _refuse_all(request, ErrorCode.invalid_required_acks, "acks is -1, 0 or 1"), []
    if request.transactional_id is not None:
        code = ErrorCode.transactional_id_authorization_failed
        return _refuse_all(request, code, "transactions are not supported"), []
    now_ms = time.time_ns() // 1_000_000
    results: list[PartitionResult] = []
    unflushed: list[tuple[int, Partition, int]] = []
    for batch in request.batches:
        try:
            partition = broker.partitions.find(batch.topic, batch.partition)
            view, header = _checked(partition, batch.records, request.acks, now_ms)
            appended = partition.append(view, header, now_ms)
        except (ApiError, BatchError, StorageError) as error:
            broker.metrics.rejected(error.code)
            results.append(
                PartitionResult(batch.topic, batch.partition, error.code, message=str(error))
            )
            continue
        end_offset = appended.last_offset + 1
        if request.acks == _ALL and end_offset > partition.log.flushed_offset:
            unflushed.append((len(results), partition, end_offset))
        results.append(
            PartitionResult(
                batch.topic,
                batch.partition,
                ErrorCode.none,
                appended.base_offset,
                now_ms if partition.stamps_append_time else -1,
                partition.log.start_offset,
            )
        )
    return results, unflushed


def _checked(
    partition: Partition, view: memoryview | None, acks: int, now_ms: int
) -> tuple[memoryview, BatchHeader]:
    """A batch that may be appended, with its header; else raise why it may not."""
    partition.check_available()
    if view is None:
        raise BatchError(ErrorCode.invalid_record, "no record batch was sent")
    if len(view) > partition.max_message_bytes:
        raise ApiError(
            ErrorCode.message_too_large,
            f"the batch has {len(view)} bytes, {partition.max_message_bytes} are allowed",
        )
    header = check_batch(view)
    if header.is_control or header.is_transactional:
        raise BatchError(
            ErrorCode.invalid_record, "control and transactional batches are not accepted"
        )
    if acks == _ALL and partition.min_insync_replicas > 1:
        raise ApiError(
            ErrorCode.not_enough_replicas,
            f"1 replica is in sync, min.insync.replicas is {partition.min_insync_replicas}",
        )
    if partition.compacts and any(record.key is None for record in records(view, _UNPACKED_LIMIT)):
        raise BatchError(ErrorCode.invalid_record, "a compacted topic needs a key in every record")
    if partition.stamps_append_time:
        stamp_append_time(view, now_ms)
        return view, header._replace(max_timestamp=now_ms)
    _check_timestamps(partition, header.base_timestamp, header.max_timestamp, now_ms)
    return view, header


def _check_timestamps(partition: Partition, base: int, latest: int, now_ms: int) -> None:
    if base < 0:  # the producer gave no time
        return
    earliest_allowed = now_ms - partition.timestamp_before_max_ms
    latest_allowed = now_ms + partition.timestamp_after_max_ms
    if base < earliest_allowed or latest > latest_allowed:
        raise ApiError(
            ErrorCode.invalid_timestamp,
            f"timestamps {base} to {latest} are not between {earliest_allowed} "
            f"and {latest_allowed}",
        )


def _refuse_all(request: ProduceRequest, code: ErrorCode, message: str) -> list[PartitionResult]:
    return [
        PartitionResult(batch.topic, batch.partition, code, message=message)
        for batch in request.batches
    ]


class _Answer:
    """The answer to a request with acks=all, given when its partitions have been flushed."""

    __slots__ = ("_began", "_header", "_left", "_metrics", "_reply", "_results")

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
        self._left = 0

    def wait(self, unflushed: list[tuple[int, Partition, int]]) -> None:
        self._left = len(unflushed)
        for position, partition, end_offset in unflushed:
            partition.when_flushed(end_offset, partial(self._flushed, position))

    def _flushed(self, position: int, code: ErrorCode) -> None:
        if code:
            self._results[position] = self._results[position]._replace(
                code=code, base_offset=-1, message="the batch could not be flushed"
            )
        self._left -= 1
        if self._left == 0:
            _, version, correlation_id = self._header
            self._reply.send([response_frame(version, correlation_id, self._results)])
            self._metrics.request("Produce", time.perf_counter() - self._began)
