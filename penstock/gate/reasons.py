"""The reasons why a gate fails, as values.

A server that does not answer is such a reason: silence is not consent.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

_NAMED: Final = 5  # names listed of one kind


class Trouble(IntEnum):
    """The kind of a reason, whose value is the exit code. If there are several kinds, the first in
    this order counts."""

    NEW = 3  # a fault that the audit or a broker did not report before
    SILENCE = 4  # a server gives no answer, or none that can be understood
    WAITING = 1  # it may still pass


class Reason(NamedTuple):
    """A reason to wait. `about` names the part of the gate that has it: brokers, canary or
    audit."""

    about: str
    trouble: Trouble
    words: str


class Check(Protocol):
    """One part of the gate."""

    about: str

    def look(self) -> Sequence[Reason]:
        """Checks once, and returns the reasons why the check fails; none if it passes."""

    def close(self) -> None: ...


def worst(reasons: Sequence[Reason]) -> Trouble:
    order = list(Trouble)
    return min((reason.trouble for reason in reasons), key=order.index)


def some(names: Sequence[str]) -> str:
    """Returns the first few names, and the number of the remaining ones."""
    further_count = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {further_count:,} more" if further_count > 0 else "")
