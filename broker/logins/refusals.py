"""Remembers logins that are refused again and again, by user and address, for the ledger: so that
the audit can say why an agent is silent.

Rule 1: refusals count as lasting if there were some, over some time, and the last is recent. A
        password that was mistyped once is only in the broker's log.
Rule 2: a login of that user from that address ends them.
Rule 3: the memory is bounded: the pair that was refused longest ago is forgotten first. Few are
        reported, those of known users first, as anybody can make up the others.

Belongs to the event loop.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from ledger.health import Problem, ProblemKind

_OF_KNOWN_USERS: Final = "wrong password"
MOST_REPORTED: Final = 8
_MOST_REMEMBERED: Final = 1_000
_LONGEST_USER: Final = 100
_FEW: Final = 3  # refusals
_LASTS_S: Final = 20.0  # from the first to the last
_RECENT_S: Final = 120.0


class _Refusals(msgspec.Struct):
    """The refusals of one user from one address. Times are in seconds since 1970."""

    first: float
    last: float
    count: int
    why: str


class RefusedLogins:
    """All refusals of a broker."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._refusals: OrderedDict[tuple[str, str], _Refusals] = OrderedDict()

    def add(self, user: str, host: str, why: str) -> None:
        now, key = self._clock(), (user[:_LONGEST_USER], host)
        refusals = self._refusals.get(key)
        if refusals is None or now - refusals.last > _RECENT_S:
            refusals = self._refusals[key] = _Refusals(now, now, 0, why)
        refusals.last, refusals.why = now, why
        refusals.count += 1
        self._refusals.move_to_end(key)
        if len(self._refusals) > _MOST_REMEMBERED:
            self._refusals.popitem(last=False)

    def admitted(self, user: str, host: str) -> None:
        self._refusals.pop((user[:_LONGEST_USER], host), None)

    @property
    def problems(self) -> list[Problem]:
        """The lasting refusals."""
        now = self._clock()
        lasting = [
            (refusals.why != _OF_KNOWN_USERS, refusals.first, key, refusals)
            for key, refusals in self._refusals.items()
            if refusals.count >= _FEW
            and refusals.last - refusals.first >= _LASTS_S
            and abs(now - refusals.last) <= _RECENT_S  # the clock may be set
        ]
        return [
            Problem(
                ProblemKind.LOGINS, f"{user} from {host}".strip(), refusals.why, int(first * 1000)
            )
            for _, first, (user, host), refusals in sorted(lasting, key=lambda entry: entry[:3])[
                :MOST_REPORTED
            ]
        ]
