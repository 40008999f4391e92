"""A caller of the batch producer that behaves like an agent, and the checks of its result.

It identifies each batch by the number in its records. It looks for unsettled batches in the log and
sends the missing ones again.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import ClientError
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import (
    Acknowledged,
    Batch,
    Event,
    Rejected,
    Stamped,
    TopicPartition,
    Unsettled,
)
from client.producing.shipping import ShippingLimits
from client.reading.fetcher import Fetcher
from client.reading.offsets import End, start_offsets
from wire.record_batches.batch import BatchHeader
from wire.record_batches.records import Record, build_batch, records

RECORDS = 3
PATIENCE = 60.0


def numbered_batch(target: TopicPartition, number: int, *, padding: int = 0) -> Batch:
    """Three records that contain the number."""
    value = b"%d " % number + b"x" * padding
    now = time.time_ns() // 1_000_000
    messages = [Record(at, now, None, value) for at in range(RECORDS)]
    return Batch(target, build_batch(messages, leader_epoch=-1))


def read_log(
    brokers: Brokers, target: TopicPartition
) -> list[tuple[BatchHeader, Sequence[Record]]]:
    """All batches of a partition."""
    (end,) = start_offsets(brokers, target.topic, [target.partition], End()).values()
    fetcher = Fetcher(brokers, target.topic, {target.partition: 0})
    found: list[tuple[BatchHeader, Sequence[Record]]] = []
    try:
        while fetcher.positions[target.partition] < end:
            found += [(batch.header, list(records(batch.data))) for batch in fetcher.poll(1)]
    finally:
        fetcher.close()
    return found


def numbers_in_log(brokers: Brokers, target: TopicPartition) -> list[int]:
    """The numbers of all complete batches in the log."""
    numbers: list[int] = []
    for _, found in read_log(brokers, target):
        said = {int((record.value or b"").split()[0]) for record in found}
        assert len(said) == 1
        assert len(found) == RECORDS
        numbers += said
    return numbers


class Shipper:
    """Ships numbered batches to the partitions of a topic in turn."""

    def __init__(
        self, bootstrap: Bootstrap, brokers: Brokers, topic: str, limits: ShippingLimits
    ) -> None:
        """Ships through `bootstrap`, and reads the log through `brokers`."""
        self.targets = [
            TopicPartition(topic, each.index) for each in brokers.topic(topic).partitions
        ]
        self.submitted = 0
        self._outstanding: set[Batch] = set()
        self.acknowledged: set[Batch] = set()
        self.unsettled: list[Unsettled] = []
        self.found = 0
        self.most_open = 0
        self._brokers = brokers
        self._open: dict[Batch, Stamped] = {}
        self._producer = BatchProducer(bootstrap, limits=limits, journal=self._write_down)

    def close(self) -> None:
        self._producer.close()

    def submit(self, count: int, *, padding: int = 0) -> None:
        """Submit `count` batches for each partition."""
        for _ in range(count):
            for target in self.targets:
                batch = numbered_batch(target, self.submitted, padding=padding)
                while not self._producer.submit(batch):
                    self.pump()
                self._outstanding.add(batch)
            self.submitted += 1

    def settle(self, besides: Collection[TopicPartition] = ()) -> None:
        """Wait until all batches are settled, except those of some partitions."""
        deadline = time.monotonic() + PATIENCE
        while any(batch.target not in besides for batch in self._outstanding):
            assert time.monotonic() < deadline, self._producer.troubles()
            self.pump()

    def troubles(self) -> Mapping[TopicPartition, ClientError]:
        return self._producer.troubles()

    def pump(self) -> None:
        self._producer.pump(0.5)
        for event in self._producer.collect():
            self._happened(event)

    def check(self) -> None:
        """Check that every batch is in the log once, in order."""
        for target in self.targets:
            assert numbers_in_log(self._brokers, target) == list(range(self.submitted)), target
        assert len(self.acknowledged) + self.found == self.submitted * len(self.targets)

    def _write_down(self, batches: Sequence[Stamped]) -> None:
        for batch in batches:
            assert self._open.get(batch.batch) is not batch, "shown twice"
            self._open[batch.batch] = batch
        for target in self.targets:
            still_open = [each for each in self._open if each.target == target]
            self.most_open = max(self.most_open, len(still_open))

    def _happened(self, event: Event) -> None:
        match event:
            case Acknowledged(batch):
                del self._open[batch]
                self._outstanding.remove(batch)
                assert batch not in self.acknowledged
                self.acknowledged.add(batch)
            case Rejected(batch, error):
                raise AssertionError(f"{batch.target}: {error}")
            case Unsettled(target, batches):
                self.unsettled.append(event)
                log = {_numbers(header) for header, _ in read_log(self._brokers, target)}
                for each in batches:
                    assert self._open.pop(each.batch) is each
                self._outstanding -= {each.batch for each in batches}
                absent = [each.batch for each in batches if _stamped_numbers(each) not in log]
                self.found += len(batches) - len(absent)
                self._producer.renew(target, first=absent)
                self._outstanding.update(absent)


@contextmanager
def shipping(
    bootstrap: Bootstrap, brokers: Brokers, topic: str, *, request_seconds: float = 10.0
) -> Iterator[Shipper]:
    """A shipper; checked at the end unless the test failed."""
    shipper = Shipper(bootstrap, brokers, topic, ShippingLimits(request_seconds=request_seconds))
    try:
        yield shipper
        shipper.settle()
        shipper.check()
    finally:
        shipper.close()


def _numbers(header: BatchHeader) -> tuple[int, int, int]:
    return header.producer_id, header.producer_epoch, header.base_sequence


def _stamped_numbers(batch: Stamped) -> tuple[int, int, int]:
    return *batch.identity, batch.base_sequence
