"""Produce requests of the mirror: batches of another cluster's log, which keep their offsets.

A request is recognized by its transactional id, `penstock-mirror`. The client needs WRITE on that
id and on the topic, which must be marked as a copy (`penstock.mirror.of`). The records of a
partition are one or more batches as the source returned them to a Fetch, of any kind: compressed,
transactional, control. Batches that the copy already has are compared, batches that follow its end
are appended (`broker.storage.mirrored_batches`), and the request is answered when all is committed,
as with any acks=all. What was appended before an error stays: a retry finds it there.

Errors, for each partition:

    INVALID_RECORD                  differs: …  the copy has another batch there. Final
    OUT_OF_ORDER_SEQUENCE_NUMBER    gap: …      the batch begins after the log's end
    POLICY_VIOLATION                            the topic is no copy
    CORRUPT_MESSAGE                             a batch contradicts its header

A gap is accepted if the copy is compacted, if `penstock.mirror.accept.gap` names it, and before the
very first batch: the log then begins there.

More than a few batches are compared and appended in pieces, in turns with other requests; only this
client's next requests wait for that.

Not here: checks of timestamps, of max.message.bytes and of producers' sequences: the source made
them. Records are not inspected.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Final

from broker.access.authorization import denial
from broker.api.appending import ALL, Appending, Needs, check_in_sync, kept
from broker.connections.connection import Connection
from broker.errors import ApiError
from broker.replicas.partition import Partition
from broker.storage.errors import StorageError
from broker.storage.mirrored_batches import SourceRun, count_known, first_offset, source_runs
from wire.acls import Operation, ResourceType
from wire.errors import BatchError, ErrorCode
from wire.framing.requests import RequestHeader
from wire.mirrored import ACCEPT_GAP, MIRROR_ID, MIRROR_OF
from wire.produce import PartitionBatch, ProduceRequest

_AT_ONCE: Final = 256 * 1024  # bytes


def serve(
    needs: Needs,
    connection: Connection,
    header: RequestHeader,
    request: ProduceRequest,
    began: float,
) -> None:
    """Appends missing batches, and answers once all are committed. `began` is the request's arrival
    time."""
    work = _Work(needs, connection, header, request, began=began)
    rights = needs.authorization.of(connection.caller)
    if request.acks != ALL:
        work.refuse_all(ErrorCode.invalid_required_acks, "a mirror must produce with acks=-1")
    elif rights.refuses(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, MIRROR_ID):
        work.refuse_all(
            ErrorCode.transactional_id_authorization_failed,
            str(denial(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, MIRROR_ID)),
        )
    else:
        work.serve()


class _Work(Appending):
    __slots__ = ()

    def serve(self) -> None:
        """Serves a small request at once, a large one in pieces."""
        size = sum(len(batch.records) for batch in self._batches if batch.records is not None)
        if size <= _AT_ONCE and not any(map(self._begins, self._batches)):
            for batch in self._batches:
                self._take_at_once(batch)
            self.answer(None)
            return
        self._batches = kept(self._batches)
        reply = self._connection.reply(exclusive=True)
        self._needs.large_checks.begin(self._worked_on(self._serve_in_pieces(), reply))

    def _begins(self, batch: PartitionBatch) -> bool:
        """Whether a log is to begin with this batch, at an offset above 0."""
        try:
            partition = self._found(batch)
        except (ApiError, StorageError):
            return False  # it is rejected when its turn comes
        return partition.log.end_offset == 0 and first_offset(batch.records) > 0

    def _take_at_once(self, batch: PartitionBatch) -> None:
        try:
            partition = self._found(batch)
            for _ in self._pieces(partition, batch):
                pass
        except (ApiError, BatchError, StorageError) as error:
            self._refuse(batch, error)

    async def _serve_in_pieces(self) -> bool:
        """Serve it in turns; returns whether the client still waits."""
        connection = self._connection
        for batch in self._batches:
            try:
                partition = self._found(batch)
                if self._begins(batch):
                    await self._begin(partition, batch)
                    _check(partition)  # another broker may lead by now
                if not connection.open:
                    return False  # its memory has been reused by now
                for _ in self._pieces(partition, batch):
                    await asyncio.sleep(0)
                    if not connection.open:
                        return False
            except (ApiError, BatchError, StorageError) as error:
                self._refuse(batch, error)
        self._batches = []
        connection.serve_on()
        return True

    async def _begin(self, partition: Partition, batch: PartitionBatch) -> None:
        """Begin the log at the offset of the first batch, once that has been checked."""
        assert batch.records is not None
        run = next(source_runs(batch.records))
        await partition.begin_anew(run.headers[0].base_offset)

    def _found(self, batch: PartitionBatch) -> Partition:
        """The partition, if the mirror may write to it."""
        topic, index, _ = batch
        if self._is_denied(topic):
            raise denial(Operation.WRITE, ResourceType.TOPIC, topic)
        partition = self._needs.partitions.find(topic, index)
        _check(partition)
        return partition

    def _pieces(self, partition: Partition, batch: PartitionBatch) -> Iterator[None]:
        """Compare and append; every yield lets other requests take their turn."""
        if not batch.records:
            raise BatchError(
                ErrorCode.invalid_record, "the request has no record batch for the partition"
            )
        end_offset = 0
        for run in source_runs(batch.records):
            if end_offset:
                yield
                _check(partition)
            self._take(partition, run)
            end_offset = run.headers[-1].next_offset
        self._accept(batch, partition, first_offset(batch.records), end_offset)

    def _take(self, partition: Partition, run: SourceRun) -> None:
        headers, batch_start = run.headers, 0
        known_count = 0
        if headers[0].base_offset < partition.log.end_offset:
            read_batches = partial(partition.read_for_follower, client=self._connection.peer)
            known_count = count_known(
                partition.log, read_batches, headers, compacts=partition.compacts
            )
        for index, header in enumerate(headers):
            end = batch_start + header.size
            if index >= known_count:
                _check_follows(partition, header.base_offset)
                view = run.data[batch_start:end]
                partition.append(
                    view, header, self._now_ms, self._connection.peer, keeps_offset=True
                )
            batch_start = end


def _check(partition: Partition) -> None:
    partition.check_leader()
    if partition.mirror_of is None:
        raise ApiError(
            ErrorCode.policy_violation,
            f"{partition.topic} is not a copy of another cluster's topic (topic config "
            f"{MIRROR_OF}): the mirror may not write to it",
        )
    check_in_sync(partition)


def _check_follows(partition: Partition, base_offset: int) -> None:
    """Raise if appending would leave a gap that is not allowed."""
    end_offset = partition.log.end_offset
    if (
        base_offset == end_offset
        or partition.compacts
        or partition.config.accepts_gap(partition.index, end_offset, base_offset)
    ):
        return
    raise ApiError(
        ErrorCode.out_of_order_sequence_number,
        f"gap: the log ends at {end_offset}, the batch begins at {base_offset}; the topic config "
        f"{ACCEPT_GAP} may allow {partition.index}:{end_offset}-{base_offset}",
    )
