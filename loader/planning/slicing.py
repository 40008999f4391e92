"""Ranges of partitions, divided into what single tasks read."""

from collections.abc import Sequence

import msgspec

from loader.tables import Slice


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """What one run reads of one partition: the records from `first` on, to the end of the batch
    that `end` lies in or behind."""

    topic: str
    topic_id: str
    cluster: str
    partition: int
    first: int
    end: int

    @property
    def offsets(self) -> int:
        return self.end - self.first


def divide(ranges: Sequence[Range], offsets: int) -> tuple[Slice, ...]:
    """Slices of about so many offsets."""
    return slices(ranges, [-(-each.offsets // offsets) for each in ranges])


def slices(
    ranges: Sequence[Range], counts: Sequence[int], *, from_within: bool = False
) -> tuple[Slice, ...]:
    """So many of each range, equally large. With `from_within`, not only the first slice of a range
    begins within a batch if need be, but every one.

    Partitions take turns, so that tasks that run at the same time ask different leaders. The
    slices of one partition have ascending numbers.
    """
    in_turn = [
        (each, turn, count)
        for turn in range(max(counts, default=0))
        for each, count in zip(ranges, counts, strict=True)
        if turn < count
    ]
    return tuple(
        Slice(
            number=number,
            topic=each.topic,
            topic_id=each.topic_id,
            cluster=each.cluster,
            partition=each.partition,
            first=each.first + each.offsets * turn // count,
            end=each.first + each.offsets * (turn + 1) // count,
            from_within=from_within or not turn,
        )
        for number, (each, turn, count) in enumerate(in_turn)
    )


def share(amounts: Sequence[int], limit: int) -> list[int]:
    """At most `limit` of all together: everyone gets the same, and nobody more than it has."""
    shares = [0] * len(amounts)
    ascending = sorted(range(len(amounts)), key=lambda index: amounts[index])
    for place, index in enumerate(ascending):
        # Those behind have at least as much: what is left over goes to them.
        shares[index] = min(amounts[index], limit // (len(ascending) - place))
        limit -= shares[index]
    return shares
