"""Why a gate stays shut, as values.

What cannot be asked is a reason like any other: a gate that takes silence for consent is none.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

_NAMED: Final = 5  # of many alike


class Trouble(IntEnum):
    """What kind of reason it is; the values are exit codes. Of several, the first here is told."""

    NEW = 3  # the audit, or a broker, says something that it did not say before
    SILENCE = 4  # somebody does not answer, or not so that it can be understood
    WAITING = 1  # it may still come


class Reason(NamedTuple):
    """`about` is the part of the gate: brokers, canary or audit."""

    about: str
    trouble: Trouble
    words: str


class Check(Protocol):
    """One part of the gate."""

    about: str

    def look(self) -> Sequence[Reason]:
        """Asks once. Nothing: it holds now."""

    def close(self) -> None: ...


def worst(reasons: Sequence[Reason]) -> Trouble:
    order = list(Trouble)
    return min((reason.trouble for reason in reasons), key=order.index)


def some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
