"""What a server refuses at its door: counted, and in the log a line a minute for each address.

Whoever is refused asks again, thousands of times a second if he likes: a line for the first of a
kind, and how many there were when the next is due. Belongs to one event loop.
"""

import logging
from collections import Counter, OrderedDict
from typing import Final

PERIOD_S: Final = 60.0
MOST: Final = 200  # addresses and reasons that are remembered

_LONGEST: Final = 200

log = logging.getLogger(__name__)


class Refusals:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._said: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()
        self._others: tuple[float, int] = (float("-inf"), 0)

    def say(self, why: str, address: str, user: str, what: str, now: float) -> None:
        """`user` is somebody who is known, or nobody: people type passwords in place of names."""
        self.counts[why] += 1
        said_at, since = self._said.get((why, address), (float("-inf"), 0))
        is_new = (why, address) not in self._said
        if is_new and len(self._said) >= MOST:
            self._drop(now)
        if is_new and len(self._said) >= MOST:  # a crowd: one line for all of it
            said_at, since = self._others
            due = now - said_at >= PERIOD_S
            self._others = (now, 0) if due else (said_at, since + 1)
        else:
            due = now - said_at >= PERIOD_S
            self._said[why, address] = (now, 0) if due else (said_at, since + 1)
        if due:
            log.warning(
                "refused why=%r address=%s user=%s asked=%s before=%d",
                *(why, address, user or "-", ascii(what[:_LONGEST]), since),
            )

    def _drop(self, now: float) -> None:
        for key in [key for key, (at, _) in self._said.items() if now - at >= PERIOD_S]:
            del self._said[key]
