"""A partition's leader as a model: its log, what it remembers of producers, what it refuses.

The rules of sequences are the broker's own (`broker.storage.producers`), which are Kafka's.
"""

from collections.abc import Sequence

from agent.shipping.evidence import Evidence, says_absent
from broker.storage.errors import SequenceError
from broker.storage.producers import ProducerStates
from client.delivery import Batch, Stamped
from client.log_search import BatchLocation
from tests.client.partition_model import TARGET
from wire.batch import BatchHeader, read_header
from wire.errors import ErrorCode
from wire.messages.describe_producers import ProducerState
from wire.records import Record, build_batch, records

LARGE = 4  # records: refused


class Partition:
    """The log and the rules of sequences, with what a leader remembers."""

    def __init__(self) -> None:
        self.log: list[tuple[BatchHeader, list[int]]] = []
        self.end = 0
        self.producers = ProducerStates()

    def append(self, batch: Stamped) -> tuple[ErrorCode, int]:
        header = read_header(batch.data)
        if header.record_count >= LARGE:
            return ErrorCode.message_too_large, -1
        try:
            known = self.producers.check(header)
        except SequenceError as error:
            return error.code, -1
        if known is not None:
            return ErrorCode.none, known
        self.producers.record(header, self.end, 0)
        self.log.append((header._replace(base_offset=self.end), values(batch.batch)))
        self.end += header.record_count
        return ErrorCode.none, self.log[-1][0].base_offset

    def restart(self) -> None:
        """As Apache Kafka's broker: its snapshots hold only the last batch of each producer."""
        newest = {header.producer_id: header for header, _ in self.log}
        states = {each.producer_id for each in self.producers.describe()}
        self.producers.clear()
        for header in newest.values():
            if header.producer_id in states:
                self.producers.record(header, header.base_offset, 0)

    def rival(self) -> None:
        """Somebody else writes under an epoch of every id that we shall not come to."""
        for each in list(self.producers.describe()):
            header = self.log[0][0]._replace(
                producer_id=each.producer_id,
                producer_epoch=each.epoch + 100,
                base_sequence=0,
                base_offset=self.end,
                record_count=1,
                last_offset_delta=0,
            )
            self.producers.record(header, self.end, 0)
            self.log.append((header, []))
            self.end += 1

    def evidence(self, sent: Sequence[Stamped], offset: int) -> Evidence:
        states = {
            each.producer_id: ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                last_sequence=each.last_sequence,
            )
            for each in self.producers.describe()
        }
        wanted = {
            (*each.identity, each.base_sequence, each.batch.records): each
            for each in sent
            if not says_absent(states, each)
        }
        found = {}
        for header, _ in self.log:
            numbers = header.producer_id, header.producer_epoch, header.base_sequence
            each = wanted.get((*numbers, header.record_count))
            if each is not None and header.base_offset >= offset:
                found[each] = BatchLocation(header.base_offset, 0)
        return Evidence("", 1, states, found, offset, offset)


def values(batch: Batch) -> list[int]:
    return [int(each.value or b"") for each in records(batch.data)]


def batch_of(numbers: Sequence[int]) -> Batch:
    messages = [Record(at, 0, None, b"%d" % number) for at, number in enumerate(numbers)]
    return Batch(TARGET, build_batch(messages, leader_epoch=-1))
