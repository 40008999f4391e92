"""Finds entries that are missing, by the numbers that journald gives them. Pure.

journald numbers all entries of a host, whatever file they are in. From systemd 254 on, entries say
their number and what it counts (`__SEQNUM`, `__SEQNUM_ID`); there a gap proves how many entries are
missing. Earlier releases have the number only in the cursor, and may leave numbers out when they
start, so that a gap is only a reason to look whether the entry before it still exists.
"""

from collections.abc import Mapping

import msgspec

from agent.system_journal.export_format import Entry

_ONE_FOR_ALL = ""


class Gap(msgspec.Struct, frozen=True):
    """Missing numbers between two entries; `first` is 0 if the number of missing entries is
    unknown, since the numbering started over."""

    first: int
    last: int
    is_exact: bool

    @property
    def count(self) -> int:
        return self.last - self.first + 1 if self.first else -1


class Numbering:
    """The last number of the current numbering, by its name."""

    def __init__(self, last: Mapping[str, int]) -> None:
        self.last = dict(last)

    def gap_before(self, entry: Entry) -> Gap | None:
        """The gap between the entries before and this one. Changes nothing."""
        if not entry.number:
            return None
        last = self.last.get(_key(entry))
        if last is None:
            started_over = entry.is_exact and any(self.last)
            return Gap(0, 0, is_exact=True) if started_over else None
        if entry.number <= last + 1:
            return None
        return Gap(last + 1, entry.number - 1, is_exact=entry.is_exact)

    def take(self, entry: Entry) -> None:
        if entry.number:
            self.last = {_key(entry): entry.number}

    def has_passed(self, entry: Entry) -> bool:
        """Whether this entry was taken, or a later one of its numbering."""
        return 0 < entry.number <= self.last.get(_key(entry), 0)


def _key(entry: Entry) -> str:
    # Before systemd 254, the files of a host count together, each under its own name.
    return entry.numbering if entry.is_exact else _ONE_FOR_ALL
