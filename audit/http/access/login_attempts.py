"""Limits failed logins: each further failure, by password or token, doubles the wait.

Rule 1: failures count by address and by user. The first few cost nothing; then the pause doubles.
Rule 2: guessing a user's password does not lock the user out: at an address from which the user has
        logged in before, failures at other addresses do not count.
Rule 3: a success clears the user's failures and not the address's, so that a login of one's own
        does not speed up guessing.
Rule 4: the record is bounded, and expires.

Times are passed in. Belongs to the event loop.
"""

from collections import Counter, OrderedDict
from typing import Final

import msgspec

from ground.network.networks import network_of

FREE: Final = 4  # failures that cost nothing
LONGEST_S: Final = 300.0
FORGOTTEN_S: Final = 1_800.0
MOST: Final = 10_000
MOST_AT_ONCE: Final = 4  # of one address

_Key = tuple[str, str]


class _Mistakes(msgspec.Struct):
    count: int
    until: float  # attempts before this time are rejected
    last: float


class Tries:
    def __init__(self) -> None:
        self._mistakes: OrderedDict[_Key, _Mistakes] = OrderedDict()
        self._known: OrderedDict[_Key, None] = OrderedDict()  # users with addresses of their logins
        self._under_way: Counter[str] = Counter()

    def pause(self, address: str, user: str, now: float) -> float:
        """Returns the seconds until the next attempt; 0 if one is allowed now."""
        network = network_of(address)
        keys = [("address", network)]
        if user and (user, network) not in self._known:
            keys.append(("user", user))
        pause = max(self._left(key, now) for key in keys)
        return pause or float(self._under_way[network] >= MOST_AT_ONCE)

    def begin(self, address: str) -> None:
        self._under_way[network_of(address)] += 1

    def end(self, address: str, user: str, now: float, *, right: bool | None) -> None:
        """Ends an attempt. `right`: whether the password or token was correct; None if the check
        itself failed."""
        network = network_of(address)
        self._under_way[network] -= 1
        if not self._under_way[network]:
            del self._under_way[network]
        if right:
            self._mistakes.pop(("user", user), None)
            self._known[user, network] = None
            self._known.move_to_end((user, network))
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        elif right is False:
            self._note(("address", network), now)
            if user:
                self._note(("user", user), now)

    def _left(self, key: _Key, now: float) -> float:
        mistakes = self._mistakes.get(key)
        return max(0.0, mistakes.until - now) if mistakes else 0.0

    def _note(self, key: _Key, now: float) -> None:
        mistakes = self._mistakes.pop(key, None)
        if mistakes is None or now - mistakes.last > FORGOTTEN_S:
            mistakes = _Mistakes(0, now, now)
        mistakes.count += 1
        mistakes.last = now
        if mistakes.count > FREE:
            mistakes.until = now + min(2.0 ** min(mistakes.count - FREE, 30), LONGEST_S)
        self._mistakes[key] = mistakes
        while len(self._mistakes) > MOST:
            self._mistakes.popitem(last=False)
