"""Searches untrusted text with the operator's regular expressions.

Python's expressions backtrack: the time of `\\w+@` grows with the square of the text's length, that
of `(a+)+$` exponentially. Therefore no pattern gets more than `MOST_CHARACTERS` at once. Against
the second kind only a better pattern helps.
"""

import re
from typing import Final

MOST_CHARACTERS: Final = 16 * 1024


def is_found(pattern: re.Pattern[str], text: str) -> bool:
    """Whether the pattern matches in the first `MOST_CHARACTERS` characters of the text."""
    return pattern.search(text, 0, MOST_CHARACTERS) is not None
