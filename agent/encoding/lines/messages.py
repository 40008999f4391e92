"""Groups lines into the messages that become events: one line, or several, such as a stack trace.

Rule: in whatever pieces a file is read, the same messages come of it. So whether a line belongs to
a message depends only on the bytes from the beginning of the message on.

A message of several lines ends before the line that begins the next one. It also ends when it has
`max_lines`, and before a line that would make it longer than a line may be: that line begins a
message of its own.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from agent.configuration.lines import Multiline
from agent.encoding.lines.encodings import Lines
from agent.encoding.lines.faults import LineFault
from agent.encoding.lines.patterns import is_found
from agent.encoding.lines.stack_traces import CONTINUATIONS


class Origin(msgspec.Struct):
    """The stream, time and attributes of a message in a container's file, and its lines' positions.

    `within`: it begins in a section that another message has opened (`containers`).
    """

    stream: str
    time: str
    attrs: dict[str, object] | None
    spans: list[tuple[int, int]]
    fault: LineFault | None = None
    within: bool = False


class Messages(msgspec.Struct):
    """Messages as columns. `bodies` are UTF-8; `positions` also has the end of the last message.

    `counts` are the numbers of lines in the file; None if every message has one. Only containers
    have `origins`, since there messages may be interleaved. The rest may begin with a message that
    may continue (`unfinished`), or an incomplete line (`half`).
    """

    bodies: list[bytes]
    positions: list[int]
    counts: list[int] | None = None
    origins: list[Origin] | None = None
    unfinished: bool = False
    half: bool = False

    @classmethod
    def of(cls, lines: Lines) -> "Messages":
        return cls(lines.bodies, lines.positions, half=lines.rest > 0)

    @property
    def lines(self) -> int:
        return len(self.bodies) if self.counts is None else sum(self.counts)

    def count(self, at: int) -> int:
        return 1 if self.counts is None else self.counts[at]

    def spans(self, at: int) -> list[tuple[int, int]]:
        if self.origins is not None:
            return self.origins[at].spans
        return [(self.positions[at], self.positions[at + 1])]

    def size(self, at: int) -> int:
        return sum(end - start for start, end in self.spans(at))

    def first(self, lines: int) -> "Messages":
        """The messages of about the first `lines` lines: at least one, and only whole sections,
        whose messages cannot be separated."""
        if lines >= self.lines:
            return self
        count = self._whole(lines)
        return replace(
            self,
            bodies=self.bodies[:count],
            positions=self.positions[: count + 1],
            counts=None if self.counts is None else self.counts[:count],
            origins=None if self.origins is None else self.origins[:count],
            unfinished=False,
            half=False,
        )

    def _whole(self, lines: int) -> int:
        line_count = count = 0
        for index in range(len(self.bodies)):
            if index and (self.origins is None or not self.origins[index].within):
                if line_count > lines:
                    return count or index
                count = index
            line_count += self.count(index)
        return count or len(self.bodies)


_WHITE: tuple[bytes, ...] = (b" ", b"\t")


class Grouping:
    def __init__(self, multiline: Multiline, most_bytes: int, unit: int) -> None:
        self._begins = _begins(multiline)
        self._most_lines = multiline.max_lines
        self._most_bytes = most_bytes
        self._unit = unit

    def begins(self, body: bytes) -> bool:
        return self._begins(body)

    def messages(self, lines: Lines, *, final: bool) -> Messages:
        """Groups lines into messages. `final`: no line follows, or none has arrived within the
        timeout."""
        ends = [end - self._unit for end in lines.positions[1:]]
        if lines.unfinished:
            ends[-1] += self._unit
        first_indexes = self.firsts(
            [self._begins(body) for body in lines.bodies], lines.positions[:-1], ends
        )
        is_held = False
        if first_indexes and not final:
            end_position = lines.positions[-1] + lines.begun if lines.begun else 0
            first = first_indexes[-1]
            is_held = self.may_go_on(
                len(lines.bodies) - first, end_position - lines.positions[first]
            )
        bounds = first_indexes if is_held else [*first_indexes, len(lines.bodies)]
        return Messages(
            [b"\n".join(lines.bodies[first:end]) for first, end in pairwise(bounds)],
            [lines.positions[bound] for bound in bounds],
            [end - first for first, end in pairwise(bounds)],
            unfinished=is_held,
            half=lines.rest > 0,
        )

    def may_go_on(self, lines: int, size: int) -> bool:
        """Whether a message of this many lines may continue with another line, after which it would
        have `size` bytes."""
        return lines < self._most_lines and size <= self._most_bytes

    def firsts(
        self, begins: Sequence[bool], starts: Sequence[int], ends: Sequence[int]
    ) -> list[int]:
        """The indexes of the lines that begin a message."""
        first_indexes: list[int] = []
        for index, is_first in enumerate(begins):
            if (
                is_first
                or not first_indexes
                or index - first_indexes[-1] >= self._most_lines
                or ends[index] - starts[first_indexes[-1]] > self._most_bytes
            ):
                first_indexes.append(index)
        return first_indexes


def _begins(multiline: Multiline) -> Callable[[bytes], bool]:
    if multiline.indentation:
        return lambda body: not body.startswith(_WHITE)
    continuation = CONTINUATIONS[multiline.language] if multiline.language else ""
    pattern = re.compile(multiline.start or multiline.continuation or continuation)
    at_start = bool(multiline.start)
    return lambda body: is_found(pattern, body.decode()) is at_start
