"""Counts refused requests, and logs at most one line a minute for each address and reason.

A refused client may retry thousands of times a second. The first refusal of a kind is logged, and
the number since when the next line is due. Belongs to one event loop.
"""

import logging
from collections import Counter, OrderedDict
from typing import Final

PERIOD_S: Final = 60.0
MOST: Final = 200  # remembered pairs of address and reason

_LONGEST: Final = 200

log = logging.getLogger(__name__)


class Refusals:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._logged: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()
        self._others: tuple[float, int] = (float("-inf"), 0)

    def say(self, why: str, address: str, user: str, what: str, now: float) -> None:
        """Counts a refusal, and logs it if due. `user` must be a known user or empty: people type
        passwords in place of names."""
        self.counts[why] += 1
        logged_at, unlogged_count = self._logged.get((why, address), (float("-inf"), 0))
        is_new = (why, address) not in self._logged
        if is_new and len(self._logged) >= MOST:
            self._drop(now)
        if is_new and len(self._logged) >= MOST:  # too many: one line for all of them
            logged_at, unlogged_count = self._others
            is_due = now - logged_at >= PERIOD_S
            self._others = (now, 0) if is_due else (logged_at, unlogged_count + 1)
        else:
            is_due = now - logged_at >= PERIOD_S
            self._logged[why, address] = (now, 0) if is_due else (logged_at, unlogged_count + 1)
        if is_due:
            log.warning(
                "refused why=%r address=%s user=%s asked=%s before=%d",
                *(why, address, user or "-", ascii(what[:_LONGEST]), unlogged_count),
            )

    def _drop(self, now: float) -> None:
        for key in [key for key, (time, _) in self._logged.items() if now - time >= PERIOD_S]:
            del self._logged[key]
