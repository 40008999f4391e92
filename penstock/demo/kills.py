"""The times at which the demonstration kills programs, drawn from a seed, so that runs can be
repeated. Pure.
"""

import random
from typing import Final, NamedTuple

KILLED: Final = ("agent", "mirror", "broker")
MOST_SEED: Final = 2**32 - 1
_FIRST: Final = 0.1  # shares of the time in which applications write
_LAST: Final = 0.9


class Kill(NamedTuple):
    """A kill of a program; `after` is the time since the start of the applications."""

    after: float  # seconds
    program: str

    @property
    def words(self) -> str:
        return f"the {self.program} after {self.after:.1f} s"


def kills_of(seed: int, seconds: float) -> tuple[Kill, ...]:
    """Returns one kill of each program, in order of time."""
    rng = random.Random(seed)  # noqa: S311 not for secrets
    kills = (Kill(rng.uniform(_FIRST, _LAST) * seconds, program) for program in KILLED)
    return tuple(sorted(kills))
