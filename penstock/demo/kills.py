"""When the demonstration kills which program: drawn from a seed, so that a run can be repeated.
Pure. The moments differ, and so does their order; how long a restart takes does not depend on it.
"""

import random
from typing import Final, NamedTuple

KILLED: Final = ("agent", "mirror", "broker")
MOST_SEED: Final = 2**32 - 1
_FIRST: Final = 0.1  # shares of the time in which applications write
_LAST: Final = 0.9


class Kill(NamedTuple):
    """A program, and how long after the applications began it is killed."""

    after: float  # seconds
    program: str

    @property
    def words(self) -> str:
        return f"the {self.program} after {self.after:.1f} s"


def kills_of(seed: int, seconds: float) -> tuple[Kill, ...]:
    """Each program once, in the order in which they are killed."""
    chance = random.Random(seed)  # noqa: S311 not for secrets
    drawn = (Kill(chance.uniform(_FIRST, _LAST) * seconds, program) for program in KILLED)
    return tuple(sorted(drawn))
