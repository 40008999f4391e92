"""What was made of a piece of a file: events column by column, dead letters, and the count of both.

Every byte that a `Cut` consumed is that of an event or is excepted, and so is every line: the bytes
of the events are `consumed` less those of `excepted`, and `lines` are theirs.
"""

from typing import Final

import msgspec

from agent.alterations import Altered
from agent.runs import Excepted, Fate

MOST_RAW: Final = 64 * 1024  # bytes of a line that a dead letter carries


class Events(msgspec.Struct, frozen=True, eq=False):
    """Consecutive events of one source. No object for each.

    A body is the message as UTF-8, for schemas that are plain (`schema_fit.is_plain`), otherwise
    the Avro of the fields behind the header. `times` is one number where all are the same.
    """

    times: list[int] | int
    positions: list[int]
    bodies: list[bytes]
    keys: list[bytes] | None = None


class DeadLine(msgspec.Struct, frozen=True):
    """A line that became no event, redacted. `size` is how many bytes of the file it stands for."""

    position: int
    size: int
    raw: bytes
    reason: str
    time: int


class Cut(msgspec.Struct, frozen=True, eq=False):
    """What became of the first `consumed` bytes of a chunk; the rest is given again, with more.

    wait      if something incomplete is left: after how many seconds without growth `final` may be
              said of it; otherwise 0
    skipping  the rest of a line that was too long goes on: to be said with the next chunk, and
              positions until then are not to be remembered
    clamped   how many events had a time that is not believed, and was put on the bound
    altered   what of the events' text is not what the file has
    looks     the encoding that the text looks like, if that is another one than the input's
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
    """Counts lines and bytes that became no events, by what became of them and why."""

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
