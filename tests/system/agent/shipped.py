"""What lies in a topic: its batches as the log has them, its events as any reader would.

Read through `client` and decoded with the schemas in the registry; which agent, file and line an
event came from is what its own header says.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.fetcher import Fetcher
from client.offsets import End, start_offsets
from schemas.envelope import Decoder
from schemas.registry_client import RegistryClient
from wire.batch import BatchHeader
from wire.records import records

PATIENCE = 60.0


class Event(NamedTuple):
    """A record, decoded; `timestamp` is the record's, `time` the header's."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    time: int
    host: str
    app: str
    source: str
    seq: int
    position: int
    value: Mapping[str, Any]  # all fields, the header among them


class Stored(NamedTuple):
    """A batch as it lies in the log: its header has the CRC and the offsets."""

    partition: int
    header: BatchHeader


class Topic:
    """Reads along; `events` and `batches` hold all that was read, by partition in log order."""

    def __init__(
        self,
        brokers: Brokers,
        registry: RegistryClient,
        topic: str,
        *,
        starts: Mapping[int, int] | None = None,
    ) -> None:
        """From the beginning, or from the offsets of `starts` on."""
        self.name = topic
        self.batches: list[Stored] = []
        self.events: list[Event] = []
        self._brokers = brokers
        self._decoder = Decoder(registry.schema)
        self._positions = dict(starts or {})
        self._fetcher: Fetcher | None = None

    def close(self) -> None:
        if self._fetcher is not None:
            self._fetcher.close()

    def poll(self, seconds: float) -> None:
        """Takes what arrives within this time."""
        if self._fetcher is None:
            found = self._brokers.topic(self.name)
            starts = {each.index: self._positions.get(each.index, 0) for each in found.partitions}
            self._fetcher = Fetcher(self._brokers, self.name, starts)
        for batch in self._fetcher.poll(seconds):
            self.batches.append(Stored(batch.partition, batch.header))
            for record in records(batch.data):
                assert record.value is not None, f"{self.name}: no value at {record.offset}"
                value = self._decoder.decode(record.value)
                header = value["header"]
                self.events.append(
                    Event(
                        batch.partition,
                        record.offset,
                        record.timestamp,
                        record.key,
                        header["time"],
                        header["host"],
                        header["app"],
                        header["source"],
                        header["seq"],
                        header["position"],
                        value,
                    )
                )

    def read_to_end(self) -> "Topic":
        """Until all is read that is there now, in partitions of today."""
        found = self._brokers.topic(self.name)
        wanted = range(len(found.partitions))
        ends = start_offsets(self._brokers, self.name, wanted, End())
        if self._fetcher is not None:
            for partition in wanted:
                # One that was added since.
                self._fetcher.positions.setdefault(partition, 0)
        deadline = time.monotonic() + PATIENCE
        self.poll(0.0)
        assert self._fetcher is not None
        while any(self._fetcher.positions[each] < ends[each] for each in wanted):
            assert time.monotonic() < deadline, f"{self.name}: cannot be read to its end"
            self.poll(0.5)
        return self

    def wait_for(self, condition: Callable[[], bool], *, within: float, what: str) -> None:
        """Reads until it holds; says how much was read if it does not. The time begins anew with
        whatever arrives: how long many events take is the machine's matter."""
        within = max(within, PATIENCE)
        deadline = time.monotonic() + within
        while not condition():
            if time.monotonic() > deadline:
                read = f"{len(self.events)} events of {self.name} read"
                raise TimeoutError(f"not within {within:g} s of the last event: {what}; {read}")
            before = len(self.events)
            self.poll(0.2)
            if len(self.events) > before:
                deadline = time.monotonic() + within

    def wait_for_count(self, count: int, *, within: float = 20) -> None:
        self.wait_for(lambda: len(self.events) >= count, within=within, what=f"{count} events")

    @property
    def messages(self) -> list[str]:
        """The messages of lines of plain text, in the order of the log."""
        return [event.value["message"] for event in self.events]

    def of_sources(self) -> dict[str, list[Event]]:
        """The events by source, in log order."""
        found: dict[str, list[Event]] = {}
        for event in sorted(self.events):
            found.setdefault(event.source, []).append(event)
        return found


def ends_of(brokers: Brokers, topic: str) -> dict[int, int]:
    """Where each partition ends now."""
    wanted = range(len(brokers.topic(topic).partitions))
    return start_offsets(brokers, topic, wanted, End())


@contextmanager
def cluster(bootstrap: str) -> Iterator[Brokers]:
    """A client that survives a broker's restart."""
    with Brokers(Bootstrap.of(bootstrap), patience_seconds=PATIENCE) as brokers:
        yield brokers
