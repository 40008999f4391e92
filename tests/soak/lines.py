"""Who writes the lines of a long run, and who finds them again while it goes on: applications whose
rotated files go when they are shipped, a consumer of the topic, and a reader of the store."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from harness.agent_process import AgentProcess
from tests.cluster_pipeline.application import Application
from tests.soak.tally import Awaited, Numbers, Tally
from tests.system.crash import Worker
from tests.witness.reading import Message, NotToTheEnd, Schemas, landed_files, record_of, rows_of

_KEPT: Final = 6  # rotated files of each name
_EVERY: Final = 2.0
_MERGED: Final = "part-merged-"


class ShippedFiles(Worker):
    """Which files the agents have had acknowledged to their ends, by what they say of them."""

    def __init__(self, agents: Sequence[AgentProcess]) -> None:
        super().__init__("shipped files")
        self._agents = agents
        self._shipped: dict[str, int] = {}  # by path, up to where

    def to_the_end(self, path: Path) -> bool:
        return self._shipped.get(str(path), -1) >= path.stat().st_size

    def forget(self, path: Path) -> None:
        self._shipped.pop(str(path), None)

    def work(self) -> None:
        while not self._stop_asked.wait(_EVERY):
            for agent in self._agents:
                status = agent.status()
                for each in status["files"] if status else ():
                    self._shipped[each["path"]] = each["acknowledged"]


class LongApplication(Application):
    """Its lines are in the tally alone; of its rotated files the last stay, and any that is not
    shipped."""

    def __init__(
        self,
        directory: Path,
        hosts: Sequence[str],
        seed: int,
        tally: Tally,
        shipped: Callable[[], ShippedFiles],
    ) -> None:
        super().__init__(directory, hosts, seed)
        self._tally = tally
        self._shipped = shipped
        self._old: defaultdict[tuple[str, str], deque[Path]] = defaultdict(deque)

    def note(self, host: str, lines: list[str]) -> None:
        self._tally.write(lines)

    def rotated(self, host: str, path: Path) -> None:
        old = self._old[host, path.stem.partition("-")[0]]
        old.append(path)
        shipped = self._shipped()
        while len(old) > _KEPT and shipped.to_the_end(old[0]):
            gone = old.popleft()
            gone.unlink()
            shipped.forget(gone)


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
        while True:
            try:
                record = record_of(message, self._schemas)
                break
            except NotToTheEnd:  # A registry that is frozen just now does not answer.
                if self._stop_asked.wait(1.0):
                    raise
        self.numbers.note(record.source, record.seq)
        self._awaited.find([record.text])


class StoreReader:
    """What has landed, a file at a time, each once; and whether files stay as they were. When an
    hour is complete, one that begins with `part-merged-` has what was in smaller ones that go."""

    def __init__(self, root: Path, topic: str, awaited: Awaited) -> None:
        self._root, self._topic = root, topic
        self._awaited = awaited
        self._known: dict[Path, tuple[int, int]] = {}
        self._lines: dict[Path, list[int]] = {}  # of each file, by their hashes
        self._hours: defaultdict[Path, set[int]] = defaultdict(set)

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
