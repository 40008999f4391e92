"""Lines that somebody wrote, crossed off where they are found: exactly, and in little memory.

A line is awaited in the log and in the store. Whoever finds it there (a consumer of the topic, a
reader of the store) crosses it off, once; what is found and not awaited was there before, or was
never written. At the end, what is still awaited was lost. So only what is under way is held,
however long the run is.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.campaigns.reading import (
    Message,
    NotToTheEnd,
    Record,
    Schemas,
    landed_files,
    record_of,
    rows_of,
)
from tests.system.crash import Worker

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


_EVERY: Final = 10.0
_MERGED: Final = "part-merged-"


class LogReader(Worker):
    """A consumer of all partitions, from the beginning: what it is shown is crossed off."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, registry: int, awaited: Awaited
    ) -> None:
        super().__init__("log reader")
        self.numbers = Numbers()
        self._awaited = awaited
        self._schemas = Schemas(registry)
        self._assigned = [TopicPartition(topic, each, 0) for each in range(partitions)]
        self._options = {
            "bootstrap.servers": bootstrap,
            "group.id": "soak",
            "enable.auto.commit": False,
            "check.crcs": True,
            # What it has not read yet must be there: retention keeps it for long.
            "auto.offset.reset": "error",
            "log_level": 0,
        }

    def work(self) -> None:
        consumer = Consumer(self._options)
        try:
            consumer.assign(self._assigned)
            while not self.stopping:
                for message in consumer.consume(1000, 0.5):
                    error = message.error()
                    if error is None:
                        self._note(Message(message.offset(), 0, message.value() or b""))
                    elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                        raise KafkaException(error)
        finally:
            consumer.close()

    def _note(self, message: Message) -> None:
        """A registry that is frozen just now does not answer, and that of another cluster may not
        have been given the schema yet."""
        while True:
            with suppress(NotToTheEnd):
                record = record_of(message, self._schemas)
                if record.source or self.stopping:
                    break
            if self._stop_asked.wait(1.0):
                record = Record(message.offset, "", -1, -1, "a record of which no schema is known")
                break
        self.numbers.note(record.source, record.seq)
        self._awaited.find([record.text])


class StoreReader(Worker):
    """What has landed, a file at a time, each once; and whether files stay as they were. When an
    hour is complete, one that begins with `part-merged-` has what was in smaller ones that go."""

    def __init__(self, root: Path, topic: str, awaited: Awaited) -> None:
        super().__init__("store reader")
        self._root, self._topic = root, topic
        self._awaited = awaited
        self._known: dict[Path, tuple[int, int]] = {}
        self._lines: dict[Path, list[int]] = {}  # of each file, by their hashes
        self._hours: defaultdict[Path, set[int]] = defaultdict(set)

    def work(self) -> None:
        while not self._stop_asked.wait(_EVERY):
            self.read()

    def read(self) -> None:
        for path in landed_files(self._root, self._topic):
            if path not in self._known:
                self._known[path] = _state(path)
                self._note(path, [each.text for each in rows_of(path)])

    def _note(self, path: Path, lines: Sequence[str]) -> None:
        hour = self._hours[path.parent]
        is_merged = path.name.startswith(_MERGED)
        self._awaited.find(each for each in lines if not (is_merged and hash(each) in hour))
        self._lines[path] = [hash(each) for each in lines]
        hour.update(self._lines[path])

    def objections(self) -> Iterator[str]:
        there = [path for path in self._known if path.exists()]
        for path in there:
            if _state(path) != self._known[path]:
                yield f"in the store: {path.name} is not what it was when it was read"
        for hour, lines in self._hours.items():
            left = Counter(
                each for path in there if path.parent == hour for each in self._lines[path]
            )
            if left.keys() != lines:
                gone = len(lines - left.keys())
                yield f"in the store: {gone} lines of {hour.name} are gone again"
            if again := sum(count - 1 for count in left.values()):
                yield f"in the store: {again} lines of {hour.name} are in two files"


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns
