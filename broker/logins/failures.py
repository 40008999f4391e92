"""Logins that failed: how long who failed waits for the answer, and who is not looked at any more.

Rule 1: a refusal is held back: a tenth of a second at first, then twice as long with each further
        one of the same address or the same user, up to some seconds. As time passes, failures count
        for less. A login that is right is never held back: nobody can lock out somebody else.
Rule 2: of an address so many refusals are held back at a time. Further attempts of that address
        are refused unseen, so that many connections at once do not guess faster than one.
Rule 3: what is remembered is bounded; who failed longest ago is forgotten first.

An IPv6 address stands for its /64, which is what one customer has.
"""

import asyncio
import math
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from ground.networks import network_of

FIRST_DELAY: Final = 0.1
LONGEST_DELAY: Final = 5.0
_LONGEST_PAUSE: Final = 0.5  # who else has that address has to wait, too
_FREE: Final = 5.0  # failures that cost the first delay alone
_HALF_LIFE: Final = 60.0  # seconds in which a failure comes to count half
_MOST_REMEMBERED: Final = 10_000
MOST_HELD_OF_ADDRESS: Final = 50
_MOST_HELD: Final = 2_000


class Scores:
    """How often somebody failed, lately."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._scores: OrderedDict[str, tuple[float, float]] = OrderedDict()  # and when that was so

    def add(self, who: str) -> None:
        self._scores[who] = self.of(who) + 1.0, self._clock()
        self._scores.move_to_end(who)
        if len(self._scores) > _MOST_REMEMBERED:
            self._scores.popitem(last=False)

    def of(self, who: str) -> float:
        score, then = self._scores.get(who, (0.0, 0.0))
        return score * math.exp2((then - self._clock()) / _HALF_LIFE) if score else 0.0


def delay(score: float) -> float:
    """How long somebody waits who has failed so often."""
    return min(LONGEST_DELAY, FIRST_DELAY * math.exp2(max(0.0, min(score, 100.0) - _FREE)))


class Failures:
    """Belongs to the event loop, whose `clock` it goes by."""

    def __init__(
        self,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._sleep = sleep
        self._addresses = Scores(clock)
        self._users = Scores(clock)
        self._held: Counter[str] = Counter()
        self._held_in_all = 0

    def is_swamped(self, host: str) -> bool:
        """Whether so much of that address is held back that no more is looked at."""
        return self._held[network_of(host)] >= MOST_HELD_OF_ADDRESS

    def pause(self, host: str) -> float:
        """Between two passwords of that address that are hashed, in seconds."""
        score = self._addresses.of(network_of(host))
        return min(delay(score), _LONGEST_PAUSE) if score > _FREE else 0.0

    async def hold(self, host: str, user: str) -> None:
        """Count a failure, and return when it may be told."""
        address = network_of(host)
        self._addresses.add(address)
        score = self._addresses.of(address)
        if user:
            self._users.add(user[:256])
            score = max(score, self._users.of(user[:256]))
        if self._held_in_all >= _MOST_HELD or self.is_swamped(host):
            return
        self._held[address] += 1
        self._held_in_all += 1
        try:
            await self._sleep(delay(score))
        finally:
            self._held_in_all -= 1
            self._held[address] -= 1
            if not self._held[address]:
                del self._held[address]
