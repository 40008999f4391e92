"""Batches in flight, between the journal and their acknowledgement: as objects of the shipping
thread, and as numbers and bytes for other threads.

A replacement counts under the number of its original, so that a number is open until everything it
stood for is acknowledged. Nothing waits for the ledger's batches, so they have no origin.
"""

import threading
from collections import defaultdict
from collections.abc import Container

import msgspec

from agent.accounting.parcels import BatchKind, Outgoing
from agent.journal.state import Numbers
from client.producing.delivery import Batch, Stamped
from client.producing.stamping import stamped
from client.reading.log_search import BatchLocation


class Sending(msgspec.Struct, eq=False):
    """A batch in flight. `origin` is its own number, or that of the batch that it has replaced.

    It has `numbers` from when they are journalled until it is certain that the log has no batch
    with them. `taken`: the leader has acknowledged it without an offset. `place` is its location,
    once it is acknowledged: acknowledgements are journalled in order, since after a crash batches
    are searched only after the last one.
    """

    outgoing: Outgoing
    origin: int
    numbers: Numbers | None = None
    taken: bool = False
    place: BatchLocation | None = None

    @property
    def batch(self) -> Batch:
        return self.outgoing.batch

    def as_sent(self) -> Stamped:
        """The batch with its numbers, byte for byte as sent."""
        assert self.numbers is not None
        return stamped(self.batch, self.numbers.identity, self.numbers.base_sequence)


def origin_of(sending: Sending) -> int | None:
    """The origin of a batch; None for the ledger's batches, which do not delay anything."""
    return None if sending.outgoing.kind is BatchKind.LEDGER else sending.origin


class InFlight:
    """Counts batches in flight. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: defaultdict[str, dict[int, int]] = defaultdict(dict)  # by topic
        self._batches: defaultdict[str, int] = defaultdict(int)  # by topic
        self._bytes: defaultdict[str, int] = defaultdict(int)
        self._free_bytes = 0  # the ledger's

    def add(self, origin: int | None, topic: str, size: int) -> None:
        with self._changed:
            self._batches[topic] += 1
            self._bytes[topic] += size
            if origin is None:
                self._free_bytes += size
            else:
                self._open[topic][origin] = self._open[topic].get(origin, 0) + 1

    def remove(self, origin: int | None, topic: str, size: int) -> None:
        with self._changed:
            self._batches[topic] -= 1
            self._bytes[topic] -= size
            if origin is None:
                self._free_bytes -= size
            elif self._open[topic][origin] > 1:
                self._open[topic][origin] -= 1
            else:
                del self._open[topic][origin]
            self._changed.notify_all()

    def oldest(self, topic: str | None = None) -> int | None:
        """The smallest open number of one topic, or of all."""
        with self._changed:
            numbers_by_topic = self._open.values() if topic is None else [self._open.get(topic, {})]
            return min((min(numbers) for numbers in numbers_by_topic if numbers), default=None)

    def bytes(self, besides: Container[str] = ()) -> int:
        """The bytes in flight of all topics except these and the ledger."""
        with self._changed:
            total_bytes = sum(size for topic, size in self._bytes.items() if topic not in besides)
            return total_bytes - self._free_bytes

    def in_flight(self, topic: str) -> tuple[int, int]:
        with self._changed:
            return self._batches[topic], self._bytes[topic]

    def wait(self, seconds: float) -> None:
        """Waits for an acknowledgement, `wake`, or the timeout."""
        with self._changed:
            self._changed.wait(seconds)

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
