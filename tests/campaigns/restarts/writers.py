"""`python -m tests.campaigns.restarts.writers PLAN`: the applications of one restart, in a process.

They write numbered lines, rotate their files when it is time, and keep a tally of what they wrote,
which is flushed to disk at the end: `PLAN.tally`. Commands come on stdin, one a line, and each is
answered by one line on stdout:

    write           begins to write
    signal-at T     the agent gets its signal at T, of the monotonic clock
    dead            it is gone, or frozen
    back T          it has been back since T
    stop            ends the writing, and the process
"""

import gzip
import os
import random
import selectors
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.campaigns.restarts.script import CHAIN, GAP_LINES, MOMENTS, ROTATING, Style, TopicPlan

TICK: Final = 0.1
FIRST_LINES: Final = 20  # of a file: more than the 1 KiB by which a copy is recognized
AROUND: Final = 3  # lines written in the moment before a rotation, and as many after it
QUIET: Final = 0.02  # of the files that are not rotated, how many get a line in a tick
PADDING: Final = "x" * 60


class TopicTally(msgspec.Struct, kw_only=True):
    """What was written for one topic: `streams` has the number of lines of each stream."""

    streams: dict[str, int] = {}
    gap: list[str] = []  # lines that are in no file, as `stream/number`
    rotated_at: float = 0.0  # monotonic; when the first of its files was
    rotated_by: float = 0.0  # when the last was


class Tally(msgspec.Struct, kw_only=True):
    topics: dict[str, TopicTally] = {}
    first_line: float = 0.0  # seconds since 1970
    last_line: float = 0.0


class Stream:
    """One log file of an application, through its rotations."""

    def __init__(self, topic: TopicPlan, number: int, tally: TopicTally, *, rotates: bool) -> None:
        self._topic = topic
        self._name = f"s{number}"
        self._tally = tally
        self._stem = topic.stem(number)
        self._generation = 1
        self._stem.parent.mkdir(parents=True, exist_ok=True)
        if rotates and topic.style is Style.CHAIN:
            self._make_older()
        self._fd = self._open()
        self.write(FIRST_LINES)

    @property
    def path(self) -> Path:
        if self._topic.style is Style.NEW_NAME:
            return Path(f"{self._stem}-{self._generation}.log")
        return Path(f"{self._stem}.log")

    def write(self, lines: int) -> None:
        self._append(self._fd, self._name, lines)

    def rotate(self) -> None:
        """Lines are written up to the last moment, and at once to the next file."""
        self.write(AROUND)
        _ROTATIONS[self._topic.style](self)
        self.write(AROUND)

    def close(self) -> None:
        os.close(self._fd)

    def rename(self, to: Path | None = None) -> None:
        """A daemon writes on into the renamed file until it is told to open a new one."""
        self.path.rename(to or self._numbered(1))
        self.write(AROUND)
        self._reopen()

    def shift(self) -> None:
        for number in range(CHAIN, 0, -1):
            self._numbered(number).rename(self._numbered(number + 1))
        self.rename()

    def date(self) -> None:
        self.rename(Path(f"{self.path}-{time.strftime('%Y%m%d', time.gmtime())}"))

    def go_on_elsewhere(self) -> None:
        self._generation += 1
        self._reopen()

    def copy_and_truncate(self) -> None:
        shutil.copyfile(self.path, self._numbered(1))
        if self._topic.gap:
            first = self._tally.streams[self._name]
            self.write(GAP_LINES)
            self._tally.gap += [f"{self._name}/{first + line}" for line in range(GAP_LINES)]
        os.truncate(self.path, 0)

    def rename_and_compress(self) -> None:
        self.rename()
        rotated, archive = self._numbered(1), Path(f"{self._numbered(1)}.gz")
        archive.write_bytes(gzip.compress(rotated.read_bytes()))
        rotated.unlink()

    def rename_and_delete(self) -> None:
        self.rename()
        self._numbered(1).unlink()

    def _numbered(self, number: int) -> Path:
        return Path(f"{self.path}.{number}")

    def _make_older(self) -> None:
        """They are of the topic if the pattern matches them."""
        for number in range(1, CHAIN + 1):
            fd = os.open(self._numbered(number), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            name = f"{self._name}.{number}"
            self._append(fd, name, FIRST_LINES)
            os.close(fd)
            if not self._topic.rotated_match:
                del self._tally.streams[name]

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _reopen(self) -> None:
        os.close(self._fd)
        self._fd = self._open()

    def _append(self, fd: int, name: str, lines: int) -> None:
        first = self._tally.streams.get(name, 0)
        numbers = range(first, first + lines)
        text = "".join(f"<{self._topic.name}/{name}/{number}> {PADDING}\n" for number in numbers)
        data = text.encode()
        written = os.write(fd, data)
        assert written == len(data), "a disk that is full is no rotation"
        self._tally.streams[name] = first + lines


_ROTATIONS: Final = {
    Style.RENAME: Stream.rename,
    Style.CHAIN: Stream.shift,
    Style.DATE: Stream.date,
    Style.NEW_NAME: Stream.go_on_elsewhere,
    Style.COPYTRUNCATE: Stream.copy_and_truncate,
    Style.GZIP: Stream.rename_and_compress,
    Style.DELETE: Stream.rename_and_delete,
}


class Writers:
    """All applications of a restart, on one thread."""

    def __init__(self, seed: int, topics: Sequence[TopicPlan], tally: Path) -> None:
        self._topics = topics
        self._path = tally
        self._chance = random.Random(seed)
        self.tally = Tally(topics={topic.name: TopicTally() for topic in topics})
        self.tally.first_line = time.time()
        self._busy: dict[str, list[Stream]] = {}
        self._quiet: list[Stream] = []
        for topic in topics:
            of_topic = self.tally.topics[topic.name]
            streams = [
                Stream(topic, number, of_topic, rotates=number < ROTATING)
                for number in range(topic.streams)
            ]
            self._busy[topic.name] = streams[:ROTATING]
            self._quiet += streams[ROTATING:]
        self._due: list[tuple[float, float]] = []
        self._is_writing = False

    def serve(self) -> None:
        """Returns after `stop`."""
        waiting = selectors.DefaultSelector()
        waiting.register(sys.stdin, selectors.EVENT_READ)
        next_tick = time.monotonic()
        os.set_blocking(sys.stdin.fileno(), False)
        received = b""
        while True:
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                self._rotate(self._due.pop(0)[1])
            if self._is_writing and now >= next_tick:
                self._write_a_little()
                next_tick = now + TICK
            until = [at for at, _ in self._due] + ([next_tick] if self._is_writing else [])
            if waiting.select(max(0.0, min(until) - time.monotonic()) if until else None):
                said = os.read(sys.stdin.fileno(), 65_536)
                if not said:
                    return
                *commands, received = (received + said).split(b"\n")
                for command in commands:
                    if not self._do(command.decode()):
                        return

    def _do(self, command: str) -> bool:
        verb, _, word = command.partition(" ")
        if verb == "write":
            self._is_writing = True
        elif verb == "signal-at":
            self._schedule(float(word), [each for each in MOMENTS if each < 0])
        elif verb == "dead":
            self._rotate(0.0)
        elif verb == "back":
            self._schedule(float(word), [each for each in MOMENTS if each > 0])
        elif verb == "stop":
            self._end()
        answer(verb)
        return verb != "stop"

    def _schedule(self, origin: float, moments: list[float]) -> None:
        self._due = sorted([*self._due, *((origin + each, each) for each in moments)])

    def _rotate(self, moment: float) -> None:
        for topic in self._topics:
            if topic.moment == moment:
                tally = self.tally.topics[topic.name]
                tally.rotated_at = time.monotonic()
                for stream in self._busy[topic.name]:
                    stream.rotate()
                tally.rotated_by = time.monotonic()

    def _write_a_little(self) -> None:
        for streams in self._busy.values():
            for stream in streams:
                stream.write(1)
        count = int(QUIET * len(self._quiet)) + 1
        for stream in self._chance.sample(self._quiet, min(count, len(self._quiet))):
            stream.write(1)

    def _end(self) -> None:
        self._is_writing = False
        for stream in [*self._quiet, *(each for few in self._busy.values() for each in few)]:
            stream.write(1)
            stream.close()
        self.tally.last_line = time.time()
        with self._path.open("wb") as file:
            file.write(msgspec.json.encode(self.tally))
            file.flush()
            os.fsync(file.fileno())


def answer(words: str) -> None:
    print(words, flush=True)


def main() -> None:
    path = Path(sys.argv[1])
    seed, topics = msgspec.json.decode(path.read_bytes(), type=tuple[int, list[TopicPlan]])
    writers = Writers(seed, topics, path.with_suffix(".tally"))
    answer("ready")
    writers.serve()


if __name__ == "__main__":
    main()
