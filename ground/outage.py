"""Something that does not work for a while: said once, tried again after pauses, said when over.

A broker that restarts is gone for many reasons, one after the other: they are one outage. What does
not pass by itself, as a right that is missing, is said whenever it is first met, though an outage
may have begun for something else: whoever cured that reads what is next.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from ground.chance import chance

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0
_MOST_SAID: Final = 10  # reasons in one outage


class Outage:
    """One at a time of one thing. Belongs to whoever does that thing, and says so in his log."""

    def __init__(
        self, log: logging.Logger, what: str, chance: Callable[[], float] = chance
    ) -> None:
        self._log = log
        self._what = what
        self._chance = chance
        self._began: float | None = None
        self._said: set[str] = set()  # in this outage
        self.why = ""  # it lasts, as of the last attempt
        self._pause = FIRST_PAUSE

    @property
    def seconds(self) -> float:
        """How long it has lasted; 0 while all is well."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def failed(self, error: Exception, *, passing: bool = True) -> float:
        """One more attempt did; how long to pause before the next. `passing`: it may be over by
        itself."""
        self.why = str(error)
        begins = self._began is None
        if begins:
            self._began = time.monotonic()
        if begins or (not passing and self._is_news(self.why)):
            self._said.add(self.why)
            self._log.warning("%s failed, trying again error=%r", self._what, self.why)
        pause = self._pause * (0.5 + self._chance() / 2)
        self._pause = min(LONGEST_PAUSE, self._pause * 2)
        return pause

    def over(self) -> None:
        """It works, again or still."""
        if self._began is not None:
            self._log.info("%s works again seconds=%.1f", self._what, self.seconds)
            self._began, self.why = None, ""
            self._said.clear()
        self._pause = FIRST_PAUSE

    def _is_news(self, why: str) -> bool:
        return why not in self._said and len(self._said) < _MOST_SAID
