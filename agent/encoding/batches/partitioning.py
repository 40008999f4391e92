"""Distributes events over partitions, by the input's `partition_by`. Pure except for randomness.

    agent       all to the partition of this agent
    source      all of a source to one partition, by its id
    random      all that is packed together to one random partition
    field:NAME  each by its key, like Kafka's clients

If the events of a source go to several partitions, no batch can name the bytes that it was made of,
so the run becomes a statement of its own.
"""

from collections.abc import Mapping, Sequence

import msgspec

from agent.accounting.runs import Run
from agent.encoding.batches.framing import Stretch
from agent.encoding.batches.pieces import Piece, joined_runs
from agent.encoding.batches.plan import SourceHeader, TopicPlan
from client.producing.keys import partition_of
from ground.randomness import any_below


class Spread(msgspec.Struct, frozen=True):
    """The pieces of each partition, in order, and the runs of events that were spread by key."""

    partitions: dict[int, list[Piece]] = {}
    runs: list[Run] = []


def spread_out(pieces: Mapping[SourceHeader, Sequence[Piece]], plan: TopicPlan) -> Spread:
    spread = Spread()
    random_partition = any_below(plan.partitions)
    for source, source_pieces in pieces.items():
        by_key = source.partition_by.startswith("field:") and plan.partitions > 1
        if by_key:
            spread.runs.extend(
                joined_runs(
                    [
                        piece_with_run.run
                        for piece_with_run in source_pieces
                        if piece_with_run.run is not None
                    ]
                )
            )
            for piece in source_pieces:
                for partition, part in _by_key(piece, plan.partitions):
                    spread.partitions.setdefault(partition, []).append(part)
            continue
        match source.partition_by:
            case "source":
                partition = partition_of(source.id.encode(), plan.partitions)
            case "random":
                partition = random_partition
            case _:
                partition = plan.partition
        spread.partitions.setdefault(partition, []).extend(source_pieces)
    return spread


def _by_key(piece: Piece, partitions: int) -> list[tuple[int, Piece]]:
    stretch = piece.stretch
    if stretch is None:
        return []
    assert stretch.keys is not None
    indexes: dict[int, list[int]] = {}
    for index, key in enumerate(stretch.keys):
        indexes.setdefault(partition_of(key, partitions), []).append(index)
    parts = ((partition, stretch.chosen(own_indexes)) for partition, own_indexes in indexes.items())
    return [
        (partition, Piece(None, part, piece.overhead, _size(part, piece.overhead)))
        for partition, part in parts
    ]


def _size(part: Stretch, overhead: int) -> int:
    return part.total + len(part) * overhead
