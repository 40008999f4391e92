"""Lines that somebody wrote, crossed off where they are found: exactly, and in little memory.

A line is awaited in the log and in the store. Whoever finds it there crosses it off, once; what is
found and not awaited was there before, or was never written. At the end, what is still awaited was
lost. So only what is under way is held, however long the run is.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

_SHOWN: Final = 3


class Awaited:
    """At one place. Any thread."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.found = 0
        self._awaited: set[str] = set()
        self._unexpected: list[str] = []
        self._lock = threading.Lock()

    def expect(self, lines: Iterable[str]) -> None:
        with self._lock:
            self._awaited.update(lines)

    def find(self, lines: Iterable[str]) -> None:
        with self._lock:
            for line in lines:
                self.found += 1
                if line in self._awaited:
                    self._awaited.remove(line)
                else:
                    self._unexpected.append(line)

    @property
    def left(self) -> int:
        return len(self._awaited)

    def objections(self) -> Iterator[str]:
        for what, lines in (
            ("lost", sorted(self._awaited)),
            ("there twice, or never written", self._unexpected),
        ):
            if lines:
                some = "; ".join(lines[:_SHOWN])
                yield f"in {self.where}: {len(lines)} lines {what}: {some}"


class Tally:
    """Of all lines of a run."""

    def __init__(self) -> None:
        self.log = Awaited("the log")
        self.store = Awaited("the store")
        self.written = 0

    def write(self, lines: list[str]) -> None:
        """They are about to be: whoever finds them soon must know."""
        for place in (self.log, self.store):
            place.expect(lines)
        self.written += len(lines)

    def objections(self) -> Iterator[str]:
        yield from self.log.objections()
        yield from self.store.objections()
        for place in (self.log, self.store):
            if place.found != self.written:
                yield f"in {place.where}: {place.found} lines of {self.written}"


class Numbers:
    """Those that sources give their events: each once. Of a source, what has no hole is one."""

    def __init__(self) -> None:
        self.doubled: list[tuple[str, int]] = []
        self._next: defaultdict[str, int] = defaultdict(int)
        self._beyond: defaultdict[str, set[int]] = defaultdict(set)

    def note(self, source: str, number: int) -> None:
        beyond = self._beyond[source]
        if number < self._next[source] or number in beyond:
            self.doubled.append((source, number))
            return
        beyond.add(number)
        while self._next[source] in beyond:
            beyond.remove(self._next[source])
            self._next[source] += 1
        if not beyond:
            del self._beyond[source]

    def objections(self) -> Iterator[str]:
        if self.doubled:
            some = "; ".join(map(str, self.doubled[:_SHOWN]))
            yield f"in the log: {len(self.doubled)} numbers of sources twice: {some}"
