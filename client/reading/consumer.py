"""Reads the messages of a topic from a position on, in the order of each partition.

Without a group: every consumer reads all partitions it asked for.
"""

from collections.abc import Collection, Iterator
from types import TracebackType
from typing import NamedTuple, Self

from client.connection.brokers import Brokers
from client.errors import Corrupt
from client.reading.fetcher import FetchedBatch, Fetcher
from client.reading.offsets import End, Start, start_offsets
from wire.acls import Operation
from wire.errors import BatchError
from wire.record_batches.records import Record, records


class ConsumerRecord(NamedTuple):
    """A record and its partition."""

    partition: int
    record: Record


class Consumer:
    """Reads a topic that exists, or only some of its `partitions`."""

    def __init__(
        self,
        brokers: Brokers,
        topic: str,
        start: Start,
        partitions: Collection[int] | None = None,
        *,
        to_end: bool = False,
    ) -> None:
        """With `to_end` it reads up to the current end, and stops."""
        metadata = brokers.topic(topic, Operation.READ)
        selected_partitions = range(len(metadata.partitions)) if partitions is None else partitions
        for partition in selected_partitions:
            metadata.partition(partition)
        self._starts = start_offsets(brokers, topic, selected_partitions, start)
        self._ends = start_offsets(brokers, topic, selected_partitions, End()) if to_end else None
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
        """Whether everything up to the end was read."""
        return not self._fetcher.positions

    def poll(self, seconds: float) -> Iterator[ConsumerRecord]:
        """Yields the next messages; none if none arrives within `seconds`."""
        for batch in self._fetcher.poll(seconds):
            yield from self._messages(batch)
        self._forget_finished()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yields messages as they arrive: up to the end with `to_end`, otherwise forever."""
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
