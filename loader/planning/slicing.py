"""Divides ranges of partitions into slices for tasks."""

from collections.abc import Sequence

import msgspec

from loader.values.tables import Slice


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """The records that a run reads from one partition: from `first` on, to the end of the batch
    that contains or precedes `end`."""

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
    """Slices of about this many offsets each."""
    return slices(ranges, [-(-range_.offsets // offsets) for range_ in ranges])


def slices(
    ranges: Sequence[Range], counts: Sequence[int], *, from_within: bool = False
) -> tuple[Slice, ...]:
    """This many slices of each range, of equal size. With `from_within`, every slice may begin
    within a batch, otherwise only the first of a range.

    Partitions alternate, so that concurrent tasks read from different leaders. The slices of a
    partition have ascending numbers.
    """
    ranges_in_turn = [
        (range_, turn, count)
        for turn in range(max(counts, default=0))
        for range_, count in zip(ranges, counts, strict=True)
        if turn < count
    ]
    return tuple(
        Slice(
            number=number,
            topic=range_.topic,
            topic_id=range_.topic_id,
            cluster=range_.cluster,
            partition=range_.partition,
            first=range_.first + range_.offsets * turn // count,
            end=range_.first + range_.offsets * (turn + 1) // count,
            from_within=from_within or not turn,
        )
        for number, (range_, turn, count) in enumerate(ranges_in_turn)
    )


def share(amounts: Sequence[int], limit: int) -> list[int]:
    """Distributes at most `limit` fairly: in equal shares, but none larger than its amount."""
    shares = [0] * len(amounts)
    indexes = sorted(range(len(amounts)), key=lambda index: amounts[index])
    for position, index in enumerate(indexes):
        # The rest have at least this amount, and share what is left.
        shares[index] = min(amounts[index], limit // (len(indexes) - position))
        limit -= shares[index]
    return shares
