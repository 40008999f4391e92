"""What is to become events: a line each, or several that belong together.

Rule: whatever is cut off a file's bytes, the same messages come of them. So it depends on nothing
but the bytes from the beginning of a message on whether a line still belongs to it.
"""

from dataclasses import dataclass, replace

from agent.events.encodings import Lines
from agent.events.faults import Fault


@dataclass(slots=True)
class Origin:
    """Of a message in a container's file: what stands beside it there, and where its lines are.

    `within`: it begins in a section that another message has opened (`pieces`).
    """

    stream: str
    time: str
    attrs: dict[str, object] | None
    spans: list[tuple[int, int]]
    fault: Fault | None = None
    within: bool = False


@dataclass(slots=True)
class Messages:
    """`bodies` are UTF-8; `positions` has one more, where the last ends.

    `counts` are lines in the file; None if each has one. `origins` are there with containers only:
    there messages may lie in each other. `held` bytes follow: `unfinished` a message that may go
    on, `half` a line without its end.
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
        """Those made of the first `lines` lines: whole sections, and one at least."""
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
        taken = count = 0
        for at in range(len(self.bodies)):
            if at and (self.origins is None or not self.origins[at].within):
                if taken > lines:
                    return count or at
                count = at
            taken += self.count(at)
        return count or len(self.bodies)
