"""The bytes written to files, and a check that a topic's events are exactly these.

An `Incarnation` is one life of a file: all bytes ever appended to it, across renames and copies.
Each of its lines begins with its name, which identifies its events. The bytes of an incarnation,
split where events begin, must be its events: nothing missing, repeated or changed, in order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.agent.shipped import Event
from tests.system.agent.writer import Numbered


class Violated(AssertionError):
    """A promise of the agent is broken."""


@dataclass(eq=False)
class Incarnation:
    """`cuts` are ends of events within lines, where a write ended and the next one came late. Bytes
    from `safe` on may be missing, since they were destroyed before they were surely read; None if
    none may be.
    """

    name: str
    data: bytearray = field(default_factory=bytearray)
    cuts: set[int] = field(default_factory=set)
    safe: int | None = None

    def line(self, number: int, padding: int = 0) -> bytes:
        return f"{self.name} {number} {'x' * padding}\n".encode()

    def append(self, data: bytes) -> bytes:
        """Record the data, and return it."""
        self.data += data
        if not data.endswith(b"\n"):
            self.cuts.add(len(self.data))
        return data


class LogFile:
    """A log file that an application writes to, and rotates by renaming it."""

    def __init__(self, path: Path, name: str = "") -> None:
        """The first life is called `name`, later ones have a number as well."""
        self.path = path
        self._name = name or path.stem
        self.lives = [Incarnation(self._name)]

    @property
    def life(self) -> Incarnation:
        """The current life."""
        return self.lives[-1]

    @property
    def lines(self) -> int:
        """The lines of all lives."""
        return sum(life.data.count(b"\n") for life in self.lives)

    @property
    def size(self) -> int:
        return sum(len(life.data) for life in self.lives)

    def write(self, count: int = 1, padding: int = 0) -> None:
        first = self.life.data.count(b"\n")
        numbers = range(first, first + count)
        self.append(b"".join(self.life.line(number, padding) for number in numbers))

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(self.life.append(data))

    def begin(self) -> None:
        """Start another life, in a file that another program has made room for."""
        self.lives.append(Incarnation(f"{self._name}{len(self.lives)}"))

    def rotate(self) -> None:
        self.path.rename(f"{self.path}.{len(self.lives)}")
        self.begin()


def check_one_partition(events: Iterable[Event]) -> None:
    """Each source in one partition, its seqs 0, 1, 2 … in the order of the log, its positions
    ascending, and every record with the time of its header."""
    next_seq: dict[str, int] = {}
    place: dict[str, tuple[int, int]] = {}
    for event in sorted(events):
        partition, position = place.get(event.source, (event.partition, -1))
        where = f"{event.source} at {event.partition}/{event.offset}"
        if partition != event.partition:
            raise Violated(f"{where}: before it was in partition {partition}")
        wanted = next_seq.get(event.source, 0)
        if event.seq != wanted:
            raise Violated(f"{where}: seq {event.seq} where {wanted} belongs")
        if event.position <= position:
            raise Violated(f"{where}: position {event.position} after {position}")
        if event.timestamp != event.time:
            raise Violated(f"{where}: timestamp {event.timestamp}, header.time {event.time}")
        next_seq[event.source] = wanted + 1
        place[event.source] = event.partition, event.position


def check_incarnations(
    of_sources: Mapping[str, Sequence[Event]],
    incarnations: Iterable[Incarnation],
    *,
    several_lines: bool = False,
) -> dict[str, Incarnation]:
    """Each incarnation is one source, whose events are its bytes; returns the sources. With
    `several_lines` an event may span lines.
    """
    by_name = {each.name: each for each in incarnations}
    found: dict[str, Incarnation] = {}
    for source, events in of_sources.items():
        name = events[0].value["message"].split(" ", 1)[0]
        incarnation = by_name.get(name)
        if incarnation is None:
            raise Violated(f"{source}: nobody wrote {events[0].value['message']!r}")
        if incarnation in found.values():
            raise Violated(f"{source}: {name} was shipped before, as another source")
        found[source] = incarnation
        _check_bytes(source, events, incarnation, several_lines=several_lines)
    for incarnation in by_name.values():
        written = incarnation.data and incarnation.safe != 0
        if written and incarnation not in found.values():
            raise Violated(f"{incarnation.name}: nothing of {len(incarnation.data)} bytes is there")
    return found


def end_of(event: Event, incarnation: Incarnation, *, several_lines: bool = False) -> int:
    """The end of an event without a successor."""
    data, start = bytes(incarnation.data), event.position
    lines = event.value["message"].count("\n") if several_lines else 0
    end = start
    for _ in range(lines + 1):
        newline = data.find(b"\n", end)
        end = newline + 1 if newline >= 0 else len(data)
    cut = start + len(event.value["message"].encode())
    return cut if cut in incarnation.cuts and cut < end else end


def _check_bytes(
    source: str, events: Sequence[Event], incarnation: Incarnation, *, several_lines: bool
) -> None:
    data = bytes(incarnation.data)
    starts = [event.position for event in events]
    if starts[0] != 0:
        raise Violated(f"{source}: {incarnation.name} begins at {starts[0]}")
    ends = [*starts[1:], end_of(events[-1], incarnation, several_lines=several_lines)]
    for event, start, end in zip(events, starts, ends, strict=True):
        where = f"{source}: {incarnation.name} {start} to {end}"
        raw = data[start:end]
        if event.value["message"] != text_of(raw):
            raise Violated(f"{where} is {text_of(raw)!r}, not {event.value['message']!r}")
        if not raw.endswith(b"\n") and end not in incarnation.cuts:
            raise Violated(f"{where} ends within a line")
        if not several_lines and b"\n" in raw[:-1]:
            raise Violated(f"{where} has several lines")
    if ends[-1] != len(data) and (incarnation.safe is None or ends[-1] < incarnation.safe):
        raise Violated(f"{source}: {incarnation.name} ends at {ends[-1]} of {len(data)}")


def text_of(raw: bytes) -> str:
    """The message of an event, from the bytes of its lines."""
    text = raw.decode(errors="replace")
    return text.removesuffix("\n").removesuffix("\r")


def check_numbered(events: Iterable[Event], lines: Numbered, count: int) -> None:
    """Lines 0 to count - 1 occur once each, unchanged; those of one source are in order and
    contiguous.
    """
    numbers: Counter[int] = Counter()
    last: dict[str, tuple[int, int]] = {}
    for event in sorted(events):
        message = event.value["message"]
        name, number_text, _ = message.split(" ", 2)
        if name != lines.writer:
            continue
        number = int(number_text)
        if message != lines.message(number):
            raise Violated(f"{name}: line {number} was changed: {message!r}")
        if lines.since is not None and event.time != lines.since + number:
            raise Violated(f"{name}: line {number} is of {event.time}")
        before, end = last.get(event.source, (number - 1, 0))
        if number != before + 1:
            raise Violated(f"{event.source}: line {number} after {before}")
        if event.position != end:
            raise Violated(f"{event.source}: line {number} at {event.position}, not at {end}")
        last[event.source] = number, end + len(lines.line(number)) + 1
        numbers[number] += 1
    twice = sorted(number for number, times in numbers.items() if times > 1)
    if twice:
        raise Violated(f"{lines.writer}: {len(twice)} lines are there twice: {twice[:10]}")
    missing = sorted(set(range(count)) - numbers.keys())
    if missing:
        raise Violated(f"{lines.writer}: {len(missing)} of {count} are missing: {missing[:10]}")
    if len(numbers) > count:
        raise Violated(f"{lines.writer}: line {max(numbers)} was never written")
