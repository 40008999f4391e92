"""Cuts: the events, dead letters and counts that a reader makes of a piece of a file.

Every byte that a `Cut` consumed belongs to an event or is excepted, and so does every line: the
events have `consumed` bytes less those of `excepted`, and `lines` lines.
"""

from typing import Final

import msgspec

from agent.accounting.alterations import Altered
from agent.accounting.runs import Excepted, Fate

MOST_RAW: Final = 64 * 1024  # bytes of a line that a dead letter carries


class Events(msgspec.Struct, frozen=True, eq=False):
    """Consecutive events of one source, as columns.

    For plain schemas (`schema_fit.is_plain`), a body is the message as UTF-8, otherwise the Avro of
    the fields after the header. `times` is one number if all events have the same time.
    """

    times: list[int] | int
    positions: list[int]
    bodies: list[bytes]
    keys: list[bytes] | None = None


class DeadLine(msgspec.Struct, frozen=True):
    """A line that could not become an event, redacted. `size` is its size in the file."""

    position: int
    size: int
    raw: bytes
    reason: str
    time: int


class Cut(msgspec.Struct, frozen=True, eq=False):
    """The result of cutting the first `consumed` bytes of a chunk. The caller passes the remaining
    bytes again, followed by more.

    wait      if something incomplete is left: the seconds without growth after which the caller may
              pass it as `final`; otherwise 0
    skipping  the rest of a line that was too long continues: the caller passes this with the next
              chunk, and does not remember positions until then
    clamped   the number of events whose time was out of range, and set to the bound
    altered   the events' text that differs from the file
    looks     the encoding that the text looks like, if that is not the input's
    """

    consumed: int
    events: Events | None = None
    dead: list[DeadLine] = []
    excepted: tuple[Excepted, ...] = ()
    lines: int = 0
    wait: float = 0.0
    skipping: bool = False
    clamped: int = 0
    altered: tuple[Altered, ...] = ()
    looks: str = ""


class ExceptedTally:
    """Counts lines and bytes that did not become events, by fate and reason."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Fate, str], list[int]] = {}

    def add(self, fate: Fate, reason: str, lines: int, size: int) -> None:
        counts = self._counts.setdefault((fate, reason), [0, 0])
        counts[0] += lines
        counts[1] += size

    def excepted(self) -> tuple[Excepted, ...]:
        return tuple(
            Excepted(fate, lines, size, reason)
            for (fate, reason), (lines, size) in self._counts.items()
        )

    @property
    def lines(self) -> int:
        return sum(lines for lines, _ in self._counts.values())
