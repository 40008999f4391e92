"""One partition that is copied: how far it is, and how far behind. No I/O.

position   what the source is asked for next
copied     up to where the target has it, flushed by all in sync
end        where the source ends, as it said last
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

import msgspec

from client.fetch_session import Key
from wire.batch import BatchHeader

_SMOOTHING: Final = 0.2  # how much the last answer counts, of bytes a message


class Stage(StrEnum):
    """Where a partition is on its way."""

    WAITING = "waiting"  # to be looked at: now, or after a pause
    COPYING = "copying"
    STOPPED = "stopped"  # until somebody does something about it; looked at again now and then
    PAUSED = "paused"


class CopiedPartition(msgspec.Struct, eq=False):
    """Belongs to the event loop; other threads read single fields."""

    here: Key  # at the target
    there: Key  # at the source
    compacts: bool = False
    opened: Callable[[memoryview], str] | None = None  # says why batches are not to be copied
    stage: Stage = Stage.WAITING
    trouble: str = ""  # why it is not copied just now
    position: int = -1
    copied: int = -1
    end: int = -1
    hungry: bool = False  # the last answer was full
    needs: int = 0  # bytes of a batch that did not fit
    has_gap: bool = False  # the source's next batch does not begin where the copy ends
    turn: int = 0  # how often it has begun to be copied
    alone: bool = False  # it held up others, and has to show that it does so no more
    bytes: int = 0
    batches: int = 0
    messages: int = 0
    stops: int = 0
    _size: float = 0.0  # of a message, about
    _mark: tuple[float, int] = (0.0, -1)  # when the source was seen to end there

    @property
    def name(self) -> str:
        return f"{self.here[0]}-{self.here[1]}"

    @property
    def lag(self) -> int:
        """Messages of the source that the target lacks; offsets, where the source compacts."""
        return max(0, self.end - self.copied) if self.copied >= 0 else 0

    @property
    def lag_bytes(self) -> int:
        """About, by what messages have taken lately."""
        return int(self.lag * self._size)

    def lag_seconds(self, now: float) -> float:
        """For how long the oldest message that is missing has been known to be there, at most."""
        since, end = self._mark
        return now - since if self.lag and end > self.copied else 0.0

    def heard(self, end: int, now: float) -> None:
        """The source says that it ends there."""
        self.end = max(self.end, end)
        self._note(now)

    def taken(self, next_offset: int) -> None:
        """On its way to the target up to there."""
        self.position = next_offset

    def written(self, next_offset: int, headers: list[BatchHeader], size: int, now: float) -> None:
        """The target has it up to there."""
        messages = sum(header.record_count for header in headers)
        self.copied = max(self.copied, next_offset)
        self.bytes += size
        self.batches += len(headers)
        self.messages += messages
        if messages:
            latest = size / messages
            self._size += (latest - self._size) * (_SMOOTHING if self._size else 1.0)
        self._note(now)

    def _note(self, now: float) -> None:
        _, end = self._mark
        if self.copied >= end:
            self._mark = now, self.end
