"""Being told to stop: Ctrl-C, SIGTERM, or the terminal is closed. Counted, as the second is meant.

That a terminal is closed is told twice, by the shell and by the kernel, and nobody meant the second
time: SIGHUP counts only where nothing was asked before.

Whoever waits for one is woken when a child has ended, too: the agent must be back at once.

A context, on the main thread; the handlers that were there before are there again after it.
"""

import signal
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequests:
    """`times` is how often so far."""

    def __init__(self) -> None:
        self.times = 0
        self._came: SimpleQueue[int] = SimpleQueue()  # which a handler may write to
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup
            self._before[number] = signal.signal(number, self._take)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, self._child_has_ended)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, seconds: float) -> None:
        """So long, or until the next request, or the end of a child."""
        with suppress(Empty):
            self._came.get(timeout=seconds)

    def _take(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP and self.times:
            return
        self.times += 1
        self._came.put(number)

    def _child_has_ended(self, number: int, _: FrameType | None) -> None:
        self._came.put(number)
