"""Decides when a log is flushed: at the end of this turn, after `flush.ms`, or when the disk is
idle.

A log with producers that wait for acknowledgements is flushed at once. Other messages are flushed
after `flush.messages` or `flush.ms`; and if a consumer waits for them, as soon as the disk is idle.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from broker.replicas.flusher import Flusher

_LONGEST_TIMER: Final = 1e6  # seconds; Kafka writes "never" as 2⁶³−1

Reader = Callable[[], None]


class FlushTiming:
    """The timing of one log's flushes; calls `flush` when one is due. Belongs to the event loop."""

    __slots__ = (
        "_flush", "_flusher", "_loop", "_messages", "_readers", "_seconds", "_soon", "_timer",
        "_when_idle", "records",
    )  # fmt: skip

    def __init__(
        self, loop: asyncio.AbstractEventLoop, flusher: Flusher[Any], flush: Callable[[], None]
    ) -> None:
        self.records = 0  # appended since the last flush began
        self._loop = loop
        self._flusher = flusher
        self._flush = flush
        self._messages = 0
        self._seconds = 0.0
        self._soon = False
        self._timer: asyncio.TimerHandle | None = None
        self._when_idle = False
        self._readers: set[Reader] = set()

    def configure(self, messages: int, milliseconds: int) -> None:
        self._messages = messages
        self._seconds = min(milliseconds / 1000, _LONGEST_TIMER)

    @property
    def is_due(self) -> bool:
        """Whether the unflushed records have reached their limit."""
        return self.records >= self._messages

    def appended(self, records: int) -> None:
        """Counts records that a client has appended, and for whose flush no request waits yet."""
        self.records += records
        if self.is_due:
            self.soon()
        elif not self._soon:
            self.later()

    def soon(self) -> None:
        """Flushes at the end of this turn of the event loop, with everything that arrives in it."""
        if not self._soon:
            self._soon = True
            self._loop.call_soon(self._flush)

    def later(self) -> None:
        """Flushes after `flush.ms`, or when a consumer waits and the disk is idle."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._flush)
        if self._readers and not self._when_idle:
            self._when_idle = True
            self._flusher.when_idle(self._on_idle)

    def _on_idle(self) -> None:
        self._when_idle = False
        if self._readers:
            self._flush()

    def reached(self) -> None:
        self._soon = False
        self.cancel()

    def cancel(self) -> None:
        """Cancels the timer until something is appended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def reads(self, reader: Reader) -> None:
        """Adds a consumer that waits for more than is on disk."""
        self._readers.add(reader)
        if self.records:
            self.later()

    def reads_no_more(self, reader: Reader) -> None:
        self._readers.discard(reader)
