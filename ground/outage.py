"""An outage: reported once, retried after pauses, reported when over.

A restarting broker fails for many reasons in a row, which are one outage. A permanent error, such
as a missing right, is reported when it first occurs, even within an outage that began for another
reason: an operator who has fixed that needs to see the next.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from ground.randomness import chance

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0
_MOST_REPORTED: Final = 10  # reasons in one outage


class Outage:
    """The outages of one operation, reported in its owner's log."""

    def __init__(
        self, log: logging.Logger, what: str, chance: Callable[[], float] = chance
    ) -> None:
        self._log = log
        self._what = what
        self._chance = chance
        self._began: float | None = None
        self._reported: set[str] = set()  # reasons in this outage
        self.why = ""  # the last attempt's error
        self._pause = FIRST_PAUSE

    @property
    def seconds(self) -> float:
        """The duration so far; 0 if there is no outage."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def failed(self, error: Exception, *, passing: bool = True) -> float:
        """Records a failed attempt; returns the pause before the next one. `passing` means that the
        error may be temporary."""
        self.why = str(error)
        is_new = self._began is None
        if is_new:
            self._began = time.monotonic()
        if is_new or (not passing and self._is_news(self.why)):
            self._reported.add(self.why)
            self._log.warning("%s failed, trying again error=%r", self._what, self.why)
        pause = self._pause * (0.5 + self._chance() / 2)
        self._pause = min(LONGEST_PAUSE, self._pause * 2)
        return pause

    def over(self) -> None:
        """Ends the outage, since an attempt has succeeded."""
        if self._began is not None:
            self._log.info("%s works again seconds=%.1f", self._what, self.seconds)
            self._began, self.why = None, ""
            self._reported.clear()
        self._pause = FIRST_PAUSE

    def _is_news(self, why: str) -> bool:
        return why not in self._reported and len(self._reported) < _MOST_REPORTED
