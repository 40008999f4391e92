"""Up to when everything of a topic was acknowledged: what an agent's heartbeat says. Pure.

A mark is set at a time at which all files of the topic were looked at, at the sizes that they had
then. It goes through three states, and the next one is set when it is through:

    waiting to be read       until every source was read up to its size, or is gone
    waiting for the journal  until what was read lies in journalled batches
    waiting to be answered   until those batches, and all before them, are acknowledged

Then whatever was there to be read at that time is acknowledged. So a topic that is never idle has
heartbeats as well, and one that stands still has none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agent.runs import SourceId


@dataclass(slots=True)
class Mark:
    """One time of one topic, on its way to be a heartbeat."""

    millis: int
    unread: dict[SourceId, int] = field(default_factory=dict)
    number: int | None = None  # that of the last batch that matters, once all is journalled


class Heartbeat:
    """The heartbeat of one topic."""

    def __init__(self) -> None:
        self.until = -1  # milliseconds; -1: nothing can be said yet
        self._mark: Mark | None = None

    @property
    def wants_mark(self) -> bool:
        return self._mark is None

    def mark(self, millis: int, sizes: Mapping[SourceId, int]) -> None:
        """All files were looked at, and had these sizes."""
        self._mark = Mark(millis, dict(sizes))

    def read(self, position: Callable[[SourceId], int | None]) -> bool:
        """How far each source was read, None if it is gone. True if the journal is waited for."""
        if self._mark is None or self._mark.number is not None:
            return False
        unread = self._mark.unread
        for source in list(unread):
            reached = position(source)
            if reached is None or reached >= unread[source]:
                del unread[source]
        return not unread

    def journalled(self, number: int) -> None:
        """All that was read lies in batches up to this one."""
        if self._mark is not None and not self._mark.unread:
            self._mark.number = number

    def acknowledged(self, oldest_open: int | None) -> None:
        """Batches before this one are acknowledged; all of them, if it is None."""
        mark = self._mark
        if mark is None or mark.number is None:
            return
        if oldest_open is None or oldest_open > mark.number:
            self.until = max(self.until, mark.millis)
            self._mark = None
