"""A queue of many deadlines that are usually postponed before they are due.

Rule 1: postponing costs the same with one key and with thousands: only the deadline changes, and
        its entry in the heap is moved when it comes up.
Rule 2: the heap has at most twice as many entries as there are deadlines, plus a constant.
"""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_SPARE: Final = 64


class Deadlines(Generic[Key]):
    __slots__ = ("_count", "_deadlines", "_heap", "_queued")

    def __init__(self) -> None:
        self._deadlines: dict[Key, float] = {}
        self._queued: dict[Key, int] = {}  # the number of its entry; all other entries are void
        self._heap: list[tuple[float, int, Key]] = []
        self._count = 0
        # The time of a key's entry is never later than its deadline.

    def __len__(self) -> int:
        return len(self._deadlines)

    def put(self, key: Key, at: float) -> None:
        """Sets the key's deadline, earlier or later than before."""
        old_deadline = self._deadlines.get(key)
        self._deadlines[key] = at
        if old_deadline is None or at < old_deadline:
            self._push(key, at)

    def discard(self, key: Key) -> None:
        if self._deadlines.pop(key, None) is not None:
            del self._queued[key]
            self._shrink()

    def clear(self) -> None:
        self._deadlines.clear()
        self._queued.clear()
        self._heap.clear()

    def next_time(self) -> float | None:
        heap = self._heap
        while heap:
            deadline, queue_number, key = heap[0]
            if self._queued.get(key) != queue_number:
                heappop(heap)
            elif self._deadlines[key] > deadline:
                heappop(heap)
                self._push(key, self._deadlines[key])
            else:
                return deadline
        return None

    def take(self, now: float) -> Key | None:
        """Removes and returns the key with the earliest deadline; None if no deadline has come."""
        at = self.next_time()
        if at is None or at > now:
            return None
        _, _, key = heappop(self._heap)
        del self._deadlines[key], self._queued[key]
        return key

    def _push(self, key: Key, at: float) -> None:
        self._count += 1
        self._queued[key] = self._count
        heappush(self._heap, (at, self._count, key))
        self._shrink()

    def _shrink(self) -> None:
        if len(self._heap) > 2 * len(self._deadlines) + _SPARE:
            self._heap = [entry for entry in self._heap if self._queued.get(entry[2]) == entry[1]]
            heapify(self._heap)
