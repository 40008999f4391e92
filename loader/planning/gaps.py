"""What should be read next and is not there: what a run fails for, or passes over and writes down.

A topic that was made anew is never read on at the old offset, nor a log that parts from the one
that was read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from loader.errors import GapError


class Why(StrEnum):
    RETENTION = "retention"  # deleted before it was loaded
    RECREATED = "recreated"  # the topic of that name is another one now
    TRUNCATED = "truncated"  # the log has lost what was loaded from it, or holds something else
    VANISHED = "vanished"  # no such topic or partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The offsets from `first` on, below `end`; `end` is -1 where nobody knows it. If it is
    accepted, `again` offsets that may have been read before are read once more. Where batches have
    told that the log is another one, `was` is the one that was read, and `found` what is there."""

    topic: str
    partition: int
    first: int
    end: int
    why: Why
    again: int = 0
    was: str = ""
    found: str = ""

    def __str__(self) -> str:
        name, last = f"{self.topic}-{self.partition}", self.end - 1
        match self.why:
            case Why.RETENTION:
                return f"{name}: offsets {self.first} to {last} were deleted before they were read"
            case Why.RECREATED:
                return (
                    f"{name}: the topic was deleted and made anew; "
                    f"of the old one, offsets from {self.first} on were not loaded"
                )
            case Why.TRUNCATED:
                parted = f": the last batch that was read is {self.was}; in its place: {self.found}"
                again = (
                    f"; how much of the rest is the same nobody can tell: all {self.again:,} "
                    "offsets that are there are to be read again, and rows without a source and "
                    "number, or of a source that is forgotten, will be there twice"
                )
                return (
                    f"{name}: offsets {self.first} to {last} were loaded, and the log has lost "
                    f"them since, or holds something else there{parted if self.was else ''}"
                    f"{again if self.again else ''}"
                )
            case Why.VANISHED:
                return (
                    f"{name} does not exist any more; offsets from {self.first} on were not loaded"
                )


def refusal(gaps: Sequence[object], remedy: str) -> GapError:
    """The error to raise: one line, whichever number of gaps there are."""
    more = f" (and {len(gaps) - 1} more gaps)" if len(gaps) > 1 else ""
    return GapError(f"{gaps[0]}{more}. {remedy}")
