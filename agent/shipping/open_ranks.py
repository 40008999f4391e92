"""What is on its way, for other threads than the shipping one: which numbers, how many bytes.

A batch that took the place of another counts as that one, so that a number is not open any more
only once everything that it stood for is acknowledged. The ledger's batches make nobody wait, and
have no rank.
"""

import threading
from collections import defaultdict
from collections.abc import Container


class OpenRanks:
    """Any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: defaultdict[str, dict[int, int]] = defaultdict(dict)  # by topic
        self._batches: defaultdict[str, int] = defaultdict(int)  # by topic
        self._bytes: defaultdict[str, int] = defaultdict(int)
        self._free_bytes = 0  # the ledger's

    def add(self, rank: int | None, topic: str, size: int) -> None:
        with self._changed:
            self._batches[topic] += 1
            self._bytes[topic] += size
            if rank is None:
                self._free_bytes += size
            else:
                self._open[topic][rank] = self._open[topic].get(rank, 0) + 1

    def remove(self, rank: int | None, topic: str, size: int) -> None:
        with self._changed:
            self._batches[topic] -= 1
            self._bytes[topic] -= size
            if rank is None:
                self._free_bytes -= size
            elif self._open[topic][rank] > 1:
                self._open[topic][rank] -= 1
            else:
                del self._open[topic][rank]
            self._changed.notify_all()

    def oldest(self, topic: str | None = None) -> int | None:
        """Of one topic, or of all."""
        with self._changed:
            ranks = self._open.values() if topic is None else [self._open.get(topic, {})]
            return min((min(each) for each in ranks if each), default=None)

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
