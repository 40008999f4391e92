"""A partition that is copied: its progress and its lag. No I/O.

position   the next offset to request from the source
copied     the copy's end, flushed by all in-sync replicas
end        the source's end, as last reported
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

import msgspec

from client.reading.fetch_session import Key
from wire.record_batches.batch import BatchHeader

_SMOOTHING: Final = 0.2  # weight of the latest sample in the average size of a message


class Stage(StrEnum):
    """The stages of copying a partition."""

    WAITING = "waiting"  # to be resumed, now or after a pause
    COPYING = "copying"
    STOPPED = "stopped"  # until an operator acts; looked at again periodically
    PAUSED = "paused"


class CopiedPartition(msgspec.Struct, eq=False):
    """The progress of a partition. Belongs to the event loop; other threads read single fields."""

    here: Key  # at the target
    there: Key  # at the source
    compacts: bool = False
    opened: Callable[[memoryview], str] | None = None  # returns why batches must not be copied
    stage: Stage = Stage.WAITING
    trouble: str = ""  # why it is not being copied
    position: int = -1
    copied: int = -1
    end: int = -1
    hungry: bool = False  # the last response was full
    needs: int = 0  # size of a batch that did not fit
    has_gap: bool = False  # the source's next batch begins after the copy's end
    turn: int = 0  # how often it has been resumed
    alone: bool = False  # it held up others, and has a separate lane until it progresses
    bytes: int = 0
    batches: int = 0
    messages: int = 0
    stops: int = 0
    _size: float = 0.0  # average size of a message
    _mark: tuple[float, int] = (0.0, -1)  # time, and the source's end then

    @property
    def name(self) -> str:
        return f"{self.here[0]}-{self.here[1]}"

    @property
    def lag(self) -> int:
        """The number of messages that the target lacks; of offsets, if the source compacts."""
        return max(0, self.end - self.copied) if self.copied >= 0 else 0

    @property
    def lag_bytes(self) -> int:
        """The approximate size of the lag, from the recent size of messages."""
        return int(self.lag * self._size)

    def lag_seconds(self, now: float) -> float:
        """An upper bound on how long the oldest missing message has been known."""
        known_since, end = self._mark
        return now - known_since if self.lag and end > self.copied else 0.0

    def heard(self, end: int, now: float) -> None:
        """Notes the end of the source's log."""
        self.end = max(self.end, end)
        self._note(now)

    def taken(self, next_offset: int) -> None:
        """Notes that data up to this offset is on its way to the target."""
        self.position = next_offset

    def written(self, next_offset: int, headers: list[BatchHeader], size: int, now: float) -> None:
        """Notes that the target has data up to this offset."""
        messages = sum(header.record_count for header in headers)
        self.copied = max(self.copied, next_offset)
        self.bytes += size
        self.batches += len(headers)
        self.messages += messages
        if messages:
            message_size = size / messages
            self._size += (message_size - self._size) * (_SMOOTHING if self._size else 1.0)
        self._note(now)

    def _note(self, now: float) -> None:
        _, end = self._mark
        if self.copied >= end:
            self._mark = now, self.end
