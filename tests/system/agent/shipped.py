"""The contents of a topic: batches as in the log, and events as any reader sees them.

It reads through `client` and decodes with the registry's schemas; an event's header names its
agent, file and line.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NamedTuple

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.reading.fetcher import Fetcher
from client.reading.offsets import End, start_offsets
from harness.processes.waiting import wait_until
from schemas.envelope import Decoder
from schemas.registry_client import RegistryClient
from wire.record_batches.batch import CRC_START, BatchHeader
from wire.record_batches.records import records

PATIENCE = 60.0
WITHIN = 180.0


class Event(NamedTuple):
    """A decoded record; `timestamp` is the record's, `time` the header's."""

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
    """A batch in the log; its header has the CRC and the offsets. `digest` is the SHA-256 of what
    the CRC covers."""

    partition: int
    header: BatchHeader
    digest: bytes


class Content:
    """Events or claims by partition, in log order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches: list[Stored] = []
        self.events: list[Event] = []

    @property
    def messages(self) -> list[str]:
        """The messages of plain text lines, in log order."""
        return [event.value["message"] for event in self.events]

    def of_sources(self) -> dict[str, list[Event]]:
        """The events by source, in log order."""
        found: dict[str, list[Event]] = {}
        for event in sorted(self.events):
            found.setdefault(event.source, []).append(event)
        return found


class Topic(Content):
    """A reader of a topic that keeps up with it."""

    def __init__(
        self,
        brokers: Brokers,
        registry: RegistryClient,
        topic: str,
        *,
        starts: Mapping[int, int] | None = None,
    ) -> None:
        """Reads from the beginning, or from the offsets in `starts`."""
        super().__init__(topic)
        self._brokers = brokers
        self._decoder = Decoder(registry.schema)
        self._positions = dict(starts or {})
        self._fetcher: Fetcher | None = None

    def close(self) -> None:
        if self._fetcher is not None:
            self._fetcher.close()

    def poll(self, seconds: float) -> None:
        """Read what arrives within this time."""
        if self._fetcher is None:
            found = self._brokers.topic(self.name)
            starts = {each.index: self._positions.get(each.index, 0) for each in found.partitions}
            self._fetcher = Fetcher(self._brokers, self.name, starts)
        for batch in self._fetcher.poll(seconds):
            digest = sha256(bytes(batch.data)[CRC_START:]).digest()
            self.batches.append(Stored(batch.partition, batch.header, digest))
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
        """Read to the current ends of the current partitions."""
        found = self._brokers.topic(self.name)
        wanted = range(len(found.partitions))
        ends = start_offsets(self._brokers, self.name, wanted, End())
        if self._fetcher is not None:
            for partition in wanted:
                # One that was added since.
                self._fetcher.positions.setdefault(partition, 0)
        self.poll(0.0)
        fetcher = self._fetcher
        assert fetcher is not None

        def is_read() -> bool:
            if all(fetcher.positions[each] >= ends[each] for each in wanted):
                return True
            self.poll(0.5)
            return False

        wait_until(is_read, within=WITHIN, what=f"{self.name} is read to its end", every=0)
        return self

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Read until the condition holds; an error says how much was read."""

        def holds() -> bool:
            if not condition():
                self.poll(0.2)
            return condition()

        try:
            wait_until(holds, within=WITHIN, what=what, every=0)
        except TimeoutError as error:
            error.add_note(f"{len(self.events)} events of {self.name} read")
            raise

    def wait_for_count(self, count: int) -> None:
        self.wait_for(lambda: len(self.events) >= count, f"{count} events")

    def wait_for_message(self, message: str) -> None:
        self.wait_for(lambda: message in self.messages, f"{message!r} arrives")


def ends_of(brokers: Brokers, topic: str) -> dict[int, int]:
    """The current end of each partition."""
    wanted = range(len(brokers.topic(topic).partitions))
    return start_offsets(brokers, topic, wanted, End())


@contextmanager
def cluster(bootstrap: str) -> Iterator[Brokers]:
    """A client that survives a broker's restart."""
    with Brokers(Bootstrap.of(bootstrap), patience_seconds=PATIENCE) as brokers:
        yield brokers
