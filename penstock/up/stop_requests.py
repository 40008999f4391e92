"""Counts requests to stop: Ctrl-C, SIGTERM, or a closed terminal. The second request kills.

Both the shell and the kernel report a closed terminal, so SIGHUP counts only as the first request.

`wait` also returns when a child has ended, as the agent must be restarted at once.

A context for the main thread, which restores the earlier handlers.
"""

import signal
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequests:
    """Requests to stop, made by signals. `times` is their number so far."""

    def __init__(self) -> None:
        self.times = 0
        self._signals: SimpleQueue[int] = SimpleQueue()  # which a handler may write to
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for signal_number in _SIGNALS:
            if signal_number is signal.SIGHUP and signal.getsignal(signal_number) is signal.SIG_IGN:
                continue  # nohup
            self._before[signal_number] = signal.signal(signal_number, self._take)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, self._child_has_ended)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for signal_number, handler in self._before.items():
            signal.signal(signal_number, handler)

    def wait(self, seconds: float) -> None:
        """Waits for the next request, the end of a child, or the timeout."""
        with suppress(Empty):
            self._signals.get(timeout=seconds)

    def _take(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP and self.times:
            return
        self.times += 1
        self._signals.put(number)

    def _child_has_ended(self, number: int, _: FrameType | None) -> None:
        self._signals.put(number)
