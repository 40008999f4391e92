"""What became of each record of one log, as far as it was done or read.

A record is known by its offset, its time and what it says: an offset alone is given again where a
log has lost its end. That it was there is known from its acknowledgement, or from reading the log;
that it is gone, from a later reading that came to the log's end; that a load has passed it, from
its having been there when one began that came through.
"""

from collections.abc import Iterable

import msgspec

from tests.campaigns.reading import Record


class Kept(msgspec.Struct):
    """One record, and what became of it."""

    record: Record
    others: bool = False  # another producer's, to whom it was acknowledged
    stands: bool = True  # it was there when the log was last read
    times: int = 1  # that it came there: a log that lost its end may be sent the same again
    loaded: bool = False  # it was there when a load began that came through
    perhaps_loaded: bool = False  # when one began that did not, and may have read it

    def __str__(self) -> str:
        one = self.record
        return f"offset {one.offset}, {one.text[:40].rstrip()!r}"


class History:
    """The records of one log, those included that are gone."""

    def __init__(self) -> None:
        self._kept: dict[Record, Kept] = {}

    @property
    def records(self) -> list[Kept]:
        return list(self._kept.values())

    def acknowledged(self, record: Record) -> None:
        """Another producer's; an agent's records are known from reading alone."""
        self._kept.setdefault(record, Kept(record)).others = True

    def read(self, records: Iterable[Record]) -> None:
        """All that is in the log now."""
        there = set(records)
        for each in there:
            self._kept.setdefault(each, Kept(each))
        for record, kept in self._kept.items():
            kept.times += record in there and not kept.stands
            kept.stands = record in there

    def standing(self) -> list[Kept]:
        """What a load that begins now will find."""
        return [each for each in self._kept.values() if each.stands]
