"""How often passwords and tokens may be tried: those who are wrong wait, longer each time.

Rule 1: by address, and by user. The first few mistakes cost nothing; then the pause doubles.
Rule 2: whoever tries to guess one user's password must not lock that user out: from an address from
        which he has logged in before, what others do to his name does not count.
Rule 3: a success makes the user's mistakes undone, not the address's: who has a login of his own
        guesses no faster for it.
Rule 4: what is remembered is bounded, and forgotten after a while.

Times are passed in. Belongs to the event loop.
"""

from collections import Counter, OrderedDict
from typing import Final

import msgspec

from ground.network.networks import network_of

FREE: Final = 4  # mistakes that cost nothing
LONGEST_S: Final = 300.0
FORGOTTEN_S: Final = 1_800.0
MOST: Final = 10_000
MOST_AT_ONCE: Final = 4  # of one address

_Key = tuple[str, str]


class _Mistakes(msgspec.Struct):
    count: int
    until: float  # before that, nothing is tried
    last: float


class Tries:
    def __init__(self) -> None:
        self._mistakes: OrderedDict[_Key, _Mistakes] = OrderedDict()
        self._known: OrderedDict[_Key, None] = OrderedDict()  # user and address that fit together
        self._under_way: Counter[str] = Counter()

    def pause(self, address: str, user: str, now: float) -> float:
        """How many seconds there are to wait; 0: it may be tried."""
        place = network_of(address)
        keys = [("address", place)]
        if user and (user, place) not in self._known:
            keys.append(("user", user))
        left = max(self._left(key, now) for key in keys)
        return left or float(self._under_way[place] >= MOST_AT_ONCE)

    def begin(self, address: str) -> None:
        self._under_way[network_of(address)] += 1

    def end(self, address: str, user: str, now: float, *, right: bool | None) -> None:
        """`right` is None if nobody knows, as it was not looked at after all."""
        place = network_of(address)
        self._under_way[place] -= 1
        if not self._under_way[place]:
            del self._under_way[place]
        if right:
            self._mistakes.pop(("user", user), None)
            self._known[user, place] = None
            self._known.move_to_end((user, place))
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        elif right is False:
            self._note(("address", place), now)
            if user:
                self._note(("user", user), now)

    def _left(self, key: _Key, now: float) -> float:
        found = self._mistakes.get(key)
        return max(0.0, found.until - now) if found else 0.0

    def _note(self, key: _Key, now: float) -> None:
        found = self._mistakes.pop(key, None)
        if found is None or now - found.last > FORGOTTEN_S:
            found = _Mistakes(0, now, now)
        found.count += 1
        found.last = now
        if found.count > FREE:
            found.until = now + min(2.0 ** min(found.count - FREE, 30), LONGEST_S)
        self._mistakes[key] = found
        while len(self._mistakes) > MOST:
            self._mistakes.popitem(last=False)
