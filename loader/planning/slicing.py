"""Ranges of partitions, divided into what single tasks read."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from loader.tables import Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
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
    """Slices of about so many offsets, those of one partition equally large.

    Partitions take turns, so that tasks that run at the same time ask different leaders. The
    slices of one partition have ascending numbers.
    """
    by_range = [_pieces(each, offsets) for each in ranges]
    rounds = max(map(len, by_range), default=0)
    in_turn = [
        (each, *pieces[turn])
        for turn in range(rounds)
        for each, pieces in zip(ranges, by_range, strict=True)
        if turn < len(pieces)
    ]
    return tuple(
        Slice(
            number=number,
            topic=each.topic,
            topic_id=each.topic_id,
            cluster=each.cluster,
            partition=each.partition,
            first=first,
            end=end,
            from_within=first == each.first,
        )
        for number, (each, first, end) in enumerate(in_turn)
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


def _pieces(each: Range, offsets: int) -> list[tuple[int, int]]:
    count = -(-each.offsets // offsets)
    edges = [each.first + each.offsets * at // count for at in range(count)] + [each.end]
    return list(pairwise(edges))
