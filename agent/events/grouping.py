"""Several lines that are one event, such as a stack trace.

An event ends before the line that begins the next one. It ends as well when it has `max_lines`, and
before a line with which it would be longer than a line may be: what follows is an event of its own.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from agent.config_lines import Multiline
from agent.events.encodings import Lines
from agent.events.messages import Messages
from agent.events.patterns import is_found

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
        """`final`: nothing more has come for long."""
        ends = [end - self._unit for end in lines.positions[1:]]
        if lines.unfinished:
            ends[-1] += self._unit
        firsts = self.firsts(
            [self._begins(body) for body in lines.bodies], lines.positions[:-1], ends
        )
        held = False
        if firsts and not final:
            after = lines.positions[-1] + lines.begun if lines.begun else 0
            first = firsts[-1]
            held = self.may_go_on(len(lines.bodies) - first, after - lines.positions[first])
        bounds = firsts if held else [*firsts, len(lines.bodies)]
        return Messages(
            [b"\n".join(lines.bodies[first:end]) for first, end in pairwise(bounds)],
            [lines.positions[each] for each in bounds],
            [end - first for first, end in pairwise(bounds)],
            unfinished=held,
            half=lines.rest > 0,
        )

    def may_go_on(self, lines: int, size: int) -> bool:
        """Whether an event of so many lines may, if the line behind it reaches to `size` so far."""
        return lines < self._most_lines and size <= self._most_bytes

    def firsts(
        self, begins: Sequence[bool], starts: Sequence[int], ends: Sequence[int]
    ) -> list[int]:
        """The lines with which events begin."""
        found: list[int] = []
        for at, begin in enumerate(begins):
            if (
                begin
                or not found
                or at - found[-1] >= self._most_lines
                or ends[at] - starts[found[-1]] > self._most_bytes
            ):
                found.append(at)
        return found


def _begins(multiline: Multiline) -> Callable[[bytes], bool]:
    if multiline.indentation:
        return lambda body: not body.startswith(_WHITE)
    pattern = re.compile(multiline.start or multiline.continuation)
    at_start = bool(multiline.start)
    return lambda body: is_found(pattern, body.decode()) is at_start
