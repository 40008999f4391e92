"""Batches between the journal and their acknowledgement: each as the shipping thread has it, and
all together for other threads, as numbers and bytes.

A batch that took the place of another counts as that one, so that a number is not open any more
only once everything that it stood for is acknowledged. The ledger's batches make nobody wait, and
have no origin.
"""

import threading
from collections import defaultdict
from collections.abc import Container

import msgspec

from agent.journal.state import Numbers
from agent.parcels import BatchKind, Outgoing
from client.delivery import Batch, Stamped
from client.log_search import BatchLocation
from client.stamping import stamped


class Sending(msgspec.Struct, eq=False):
    """One of them. `origin` is the number of the batch that it goes back to, if it took the place
    of another.

    It has `numbers` from when they are written down until it is certain that the log has nothing
    with them. `taken`: the leader has called it its own without saying where it is. `place` is
    where it lies, once it is acknowledged: the journal is told in order, as what is looked for
    after a crash must not lie before what it calls acknowledged.
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
        """Byte for byte, under its numbers."""
        assert self.numbers is not None
        return stamped(self.batch, self.numbers.identity, self.numbers.base_sequence)


def origin_of(sending: Sending) -> int | None:
    """None for the ledger's, for which nobody waits."""
    return None if sending.outgoing.kind is BatchKind.LEDGER else sending.origin


class InFlight:
    """Any thread."""

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
        """Of one topic, or of all."""
        with self._changed:
            numbers = self._open.values() if topic is None else [self._open.get(topic, {})]
            return min((min(each) for each in numbers if each), default=None)

    def bytes(self, besides: Container[str] = ()) -> int:
        """Of all topics but these, without the ledger's."""
        with self._changed:
            all_bytes = sum(size for topic, size in self._bytes.items() if topic not in besides)
            return all_bytes - self._free_bytes

    def in_flight(self, topic: str) -> tuple[int, int]:
        """Batches and bytes."""
        with self._changed:
            return self._batches[topic], self._bytes[topic]

    def wait(self, seconds: float) -> None:
        """Until something is acknowledged, or `wake`."""
        with self._changed:
            self._changed.wait(seconds)

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
