"""Finds the name that a misspelled one probably stands for.

The work is bounded, as names come from outside: it grows with their number and their lengths.
"""

from collections.abc import Iterable
from typing import Final

from ground.printable import one_line

_SIMILAR: Final = 0.65  # topic/topics 0.91, shp/shop 0.86, wbe/web 0.67, agents/changes 0.62
_LONGEST: Final = 100
_MOST_NAMES: Final = 2_000


def did_you_mean(name: str, names: Iterable[str], *, most: int = 1) -> str:
    """Returns the most similar names, for the end of a message; empty if no name is similar."""
    # It is not needed for help and completion, and takes a tenth of their time.
    from difflib import get_close_matches  # noqa: PLC0415

    candidates = [candidate for candidate in names if len(candidate) <= _LONGEST]
    if len(name) > _LONGEST or len(candidates) > _MOST_NAMES:
        return ""
    matches = get_close_matches(name, candidates, most, _SIMILAR)
    return f"; did you mean {' or '.join(map(one_line, matches))}?" if matches else ""
