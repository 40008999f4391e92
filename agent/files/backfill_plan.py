"""The plan of a backfill as values, which the agent's status has."""

from enum import StrEnum
from typing import Final

import msgspec

MOST_LISTED: Final = 1_000
MOST_UNLISTED: Final = 50_000


class ArchiveState(StrEnum):
    READING = "reading"
    WAITS = "waits"  # for a writer, or for a file that is still followed
    NEXT = "next"  # is read in its turn, unless its lines were read before
    SKIPPED = "skipped"  # is not read
    READ = "read"  # or its lines were read from another file


class ArchiveStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An archive. `position` is that of the reader in the content, `unpacked_bytes` and
    `compressed_bytes` are those that were unpacked, and that they were unpacked from."""

    path: str
    size: int
    millis: int  # its time of modification
    state: ArchiveState
    why: str = ""  # it waits or is skipped, or was not read to its end
    source: str = ""
    events: int = 0  # and dead letters, made of its lines; 0 if those were read from another file
    position: int = 0
    unpacked_bytes: int = 0
    compressed_bytes: int = 0
    bytes_per_second: float = 0.0  # of the content, since this process began to read it
    read_millis: int = 0  # when it was read to its end


class ArchiveTotal(msgspec.Struct, frozen=True, kw_only=True):
    state: ArchiveState
    archives: int
    bytes: int


class BackfillPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The archives of an input: totals, and `MOST_LISTED` of them; those to be read come first.
    `unlisted`: the sources of others that were read, with the time when that was, at most
    `MOST_UNLISTED`."""

    totals: tuple[ArchiveTotal, ...] = ()
    archives: tuple[ArchiveStatus, ...] = ()
    unlisted: tuple[tuple[str, int], ...] = ()

    def total(self, *states: ArchiveState) -> tuple[int, int]:
        """The number of archives in these states, and their bytes."""
        totals = [total for total in self.totals if total.state in states]
        return sum(total.archives for total in totals), sum(total.bytes for total in totals)
