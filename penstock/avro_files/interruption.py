"""Ctrl-C and SIGTERM: at once while something is waited for, and not in the middle of a block."""

import signal
from types import FrameType, TracebackType
from typing import Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """No error, and nobody's to catch but who looks after the file."""


class Interruption:
    """As a context it has the signals. `told` is the one that came."""

    def __init__(self) -> None:
        self.told: int | None = None
        self.waits = False  # and may be called away

    @property
    def exit_code(self) -> int:
        """As shells have it."""
        return 0 if self.told is None else 128 + self.told

    def __enter__(self) -> Self:
        # What was started in the background may have been told to take no notice.
        heard = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        self._before = {each: signal.signal(each, self._tell) for each in heard}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _tell(self, number: int, _: FrameType | None) -> None:
        self.told = number
        if self.waits:
            self.waits = False
            raise Interrupted
