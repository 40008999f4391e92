"""Slows down failed logins: delays the refusals, and refuses further attempts from busy addresses
without checking them.

Rule 1: a refusal is delayed: a tenth of a second at first, doubled with each further failure of the
        same address or the same user, up to a few seconds. Failures count for less as time passes.
        A correct login is never delayed: no client can lock out another.
Rule 2: each address may have a bounded number of delayed refusals. Further attempts from it are
        refused without a look, so that many connections do not guess faster than one.
Rule 3: the memory is bounded; the oldest failures are forgotten first.

An IPv6 address stands for its /64, the usual prefix of one customer.
"""

import asyncio
import math
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from ground.network.networks import network_of

FIRST_DELAY: Final = 0.1
LONGEST_DELAY: Final = 5.0
_LONGEST_PAUSE: Final = 0.5  # other clients at that address have to wait, too
_FREE: Final = 5.0  # failures that cost only the first delay
_HALF_LIFE: Final = 60.0  # seconds after which a failure counts half
_MOST_REMEMBERED: Final = 10_000
MOST_HELD_OF_ADDRESS: Final = 50
_MOST_HELD: Final = 2_000


class Scores:
    """The recent failures of addresses or users, weighted by age."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._scores: OrderedDict[str, tuple[float, float]] = OrderedDict()  # with its time

    def add(self, who: str) -> None:
        self._scores[who] = self.of(who) + 1.0, self._clock()
        self._scores.move_to_end(who)
        if len(self._scores) > _MOST_REMEMBERED:
            self._scores.popitem(last=False)

    def of(self, who: str) -> float:
        score, score_time = self._scores.get(who, (0.0, 0.0))
        return score * math.exp2((score_time - self._clock()) / _HALF_LIFE) if score else 0.0


def delay(score: float) -> float:
    """Returns the delay of a refusal, given the score of recent failures."""
    return min(LONGEST_DELAY, FIRST_DELAY * math.exp2(max(0.0, min(score, 100.0) - _FREE)))


class Failures:
    """The failures of all addresses and users. Belongs to the event loop, and uses its `clock`."""

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
        """Returns whether the address has so many delayed refusals that further attempts are
        refused without a check."""
        return self._held[network_of(host)] >= MOST_HELD_OF_ADDRESS

    def pause(self, host: str) -> float:
        """Returns the pause between hashing two passwords of that address, in seconds."""
        score = self._addresses.of(network_of(host))
        return min(delay(score), _LONGEST_PAUSE) if score > _FREE else 0.0

    async def hold(self, host: str, user: str) -> None:
        """Counts a failure, and returns when its refusal may be sent."""
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
