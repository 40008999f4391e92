"""The messages of a topic, from a place on, in the order of each partition.

No group: whoever wants all partitions reads all partitions.
"""

from collections.abc import Collection, Iterator
from types import TracebackType
from typing import NamedTuple, Self

from client.brokers import Brokers
from client.errors import Corrupt
from client.fetcher import FetchedBatch, Fetcher
from client.offsets import End, Start, start_offsets
from wire.acls import Operation
from wire.errors import BatchError
from wire.records import Record, records


class ConsumerRecord(NamedTuple):
    """A record and where it is."""

    partition: int
    record: Record


class Consumer:
    """Reads a topic that exists; `partitions` limits it to some."""

    def __init__(
        self,
        brokers: Brokers,
        topic: str,
        start: Start,
        partitions: Collection[int] | None = None,
        *,
        to_end: bool = False,
    ) -> None:
        """With `to_end` it reads what is there now, and ends."""
        found = brokers.topic(topic, Operation.READ)
        wanted = range(len(found.partitions)) if partitions is None else partitions
        for partition in wanted:
            found.partition(partition)
        self._starts = start_offsets(brokers, topic, wanted, start)
        self._ends = start_offsets(brokers, topic, wanted, End()) if to_end else None
        self._fetcher = Fetcher(brokers, topic, self._starts)
        self._forget_finished()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._fetcher.close()

    @property
    def finished(self) -> bool:
        """Whether all is read that was to be read."""
        return not self._fetcher.positions

    def poll(self, seconds: float) -> Iterator[ConsumerRecord]:
        """The messages that arrive next; none if that takes longer than `seconds`."""
        for batch in self._fetcher.poll(seconds):
            yield from self._messages(batch)
        self._forget_finished()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """All messages as they come: until the end that was asked for, or for ever."""
        while not self.finished:
            yield from self.poll(1.0)

    def _messages(self, batch: FetchedBatch) -> Iterator[ConsumerRecord]:
        if batch.header.is_control:
            return
        start = self._starts[batch.partition]
        end = self._ends[batch.partition] if self._ends is not None else None
        try:
            for record in records(batch.data):
                if record.offset >= start and (end is None or record.offset < end):
                    yield ConsumerRecord(batch.partition, record)
        except BatchError as error:
            name = f"{self._fetcher.topic}-{batch.partition}"
            raise Corrupt(f"{name}, offset {batch.header.base_offset}: {error}") from None

    def _forget_finished(self) -> None:
        if self._ends is not None:
            for partition, end in self._ends.items():
                if self._fetcher.positions.get(partition, 0) >= end:
                    self._fetcher.forget(partition)
