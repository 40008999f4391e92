"""When a load that is repeated runs: at the multiples of a time since midnight, in UTC. Pure.

Times are seconds since 1970. What is repeated divides a day, or is whole days: so the multiples
since midnight are those since 1970, and every day has the same.
"""

import re
from typing import Final

DAY: Final = 86_400

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": DAY}
_EVERY: Final = re.compile(r"([1-9][0-9]{0,8})([smhd]?)")


def parse_every(text: str) -> int:
    """`1h`, `30m`, `1d`, `90s`, or plain seconds. Raises ValueError."""
    found = _EVERY.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no time such as 30m, 1h, 1d, or 900 for seconds")
    every = int(found[1]) * _UNITS[found[2]]
    if DAY % every and every % DAY:
        raise ValueError(f"{text!r} neither divides a day nor is whole days")
    return every


def next_run(now: float, every: int) -> int:
    """The first time after now."""
    return (int(now // every) + 1) * every


def missed(began: float, ended: float, every: int) -> int:
    """How many times passed while a run was under way."""
    return int(ended // every) - int(began // every)
