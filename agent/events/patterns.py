"""Regular expressions of the operator's, put before text that anybody may have written.

Python's expressions try again and again: one such as `\\w+@` takes time that grows with the square
of what it is given, and one such as `(a+)+$` with its power. Therefore no pattern is ever given
more than `MOST_CHARACTERS` at once. Against the second kind only a better pattern helps.
"""

import re
from typing import Final

MOST_CHARACTERS: Final = 16 * 1024


def is_found(pattern: re.Pattern[str], text: str) -> bool:
    """In the beginning of the text, where it is very long."""
    return pattern.search(text, 0, MOST_CHARACTERS) is not None
