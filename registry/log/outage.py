"""Something that does not work for a while: said once, tried again after pauses, said when over."""

import logging
import time
from collections.abc import Callable
from typing import Final

from ground.chance import chance

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0

log = logging.getLogger(__name__)


class Outage:
    """One at a time of one thing. Belongs to whoever does that thing."""

    def __init__(self, what: str, chance: Callable[[], float] = chance) -> None:
        self._what = what
        self._chance = chance
        self._began: float | None = None
        self.why = ""  # it lasts, as of the last attempt
        self._pause = FIRST_PAUSE

    @property
    def seconds(self) -> float:
        """How long it has lasted; 0 while all is well."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def failed(self, error: Exception) -> float:
        """One more attempt did; how long to pause before the next."""
        self.why = str(error)
        if self._began is None:
            self._began = time.monotonic()
            log.warning("%s failed, trying again error=%r", self._what, str(error))
        pause = self._pause * (0.5 + self._chance() / 2)
        self._pause = min(LONGEST_PAUSE, self._pause * 2)
        return pause

    def over(self) -> None:
        """It works, again or still."""
        if self._began is not None:
            log.info("%s works again seconds=%.1f", self._what, self.seconds)
            self._began, self.why = None, ""
        self._pause = FIRST_PAUSE
