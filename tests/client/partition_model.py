"""A model of a partition and its network: the broker's rules, and every possible failure.

The rules of sequences are the broker's own (`broker.storage.state.producers`), which are Kafka's.
Requests of a connection arrive in order, as do their answers. When a connection breaks, its answers
are lost; its pending requests may still be served at any later time.
"""

from collections import deque

import msgspec

from broker.storage.errors import SequenceError
from broker.storage.state.producers import ProducerStates
from client.producing.delivery import Batch, Stamped, TopicPartition
from wire.errors import ErrorCode
from wire.messages.produce import PartitionProduceResponse
from wire.record_batches.batch import BatchHeader, read_header
from wire.record_batches.records import Record, build_batch

TARGET = TopicPartition("t", 0)


def batch_of(number: int, records: int = 1) -> Batch:
    """A batch with unique bytes."""
    messages = [Record(offset, number, None, b"%d" % number) for offset in range(records)]
    return Batch(TARGET, build_batch(messages, leader_epoch=-1))


def answer(code: ErrorCode, base_offset: int = -1) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=0, error_code=code, base_offset=base_offset)


class PartitionModel(msgspec.Struct):
    """The log of one partition, and the state of its producers."""

    offsets: dict[Batch, int] = {}
    twice: list[Batch] = []
    end: int = 0
    producers: ProducerStates = msgspec.field(default_factory=ProducerStates)
    newest: dict[int, tuple[BatchHeader, int]] = {}  # by producer id

    def append(self, batch: Stamped) -> PartitionProduceResponse:
        header = read_header(batch.data)
        try:
            known = self.producers.check(header)
        except SequenceError as error:
            return answer(error.code)
        if known is not None:
            return answer(ErrorCode.none, known)
        if batch.batch in self.offsets:
            self.twice.append(batch.batch)
        self.offsets[batch.batch] = self.end
        self._remember(header)
        return answer(ErrorCode.none, self.offsets[batch.batch])

    def append_and_fail(self, batch: Stamped, code: ErrorCode) -> PartitionProduceResponse:
        """Append the batch, and answer with an error."""
        written = self.append(batch)
        return answer(code) if written.error_code is ErrorCode.none else written

    def restart(self) -> None:
        """Like Apache Kafka's broker, keep only the last batch of each producer."""
        self.producers.clear()
        for header, offset in self.newest.values():
            self.producers.record(header, offset, 0)

    def forget(self) -> None:
        """Expire the producers."""
        self.producers.clear()
        self.newest.clear()

    def rival(self) -> None:
        """Write under a newer epoch of every producer ID."""
        for header, _ in list(self.newest.values()):
            epoch = header.producer_epoch + 1
            self._remember(header._replace(producer_epoch=epoch, base_sequence=0))

    def _remember(self, header: BatchHeader) -> None:
        self.producers.record(header, self.end, 0)
        self.newest[header.producer_id] = header, self.end
        self.end += header.record_count


class Network(msgspec.Struct):
    """The current connection, and pending requests of earlier ones."""

    requests: deque[Stamped] = msgspec.field(default_factory=deque)
    answers: deque[tuple[Stamped, PartitionProduceResponse]] = msgspec.field(default_factory=deque)
    stale: deque[Stamped] = msgspec.field(default_factory=deque)

    def breaks(self) -> list[Stamped]:
        """Break the connection; the pending requests, oldest first."""
        lost = [batch for batch, _ in self.answers] + list(self.requests)
        self.stale.extend(self.requests)
        self.requests, self.answers = deque(), deque()
        return lost
