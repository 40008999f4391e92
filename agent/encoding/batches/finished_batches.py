"""Makes finished batches from the pieces of one partition, each with its runs. Pure.

A batch that compresses so badly that it exceeds the topic's limit is halved until its parts fit.
"""

from collections.abc import Callable, Iterator, Sequence

from agent.accounting.parcels import BatchKind, Outgoing
from agent.accounting.runs import Run
from agent.configuration.config import BatchCompression
from agent.encoding.batches.batch_division import cut_into_batches
from agent.encoding.batches.pieces import Piece, joined_runs
from agent.encoding.batches.plan import TopicPlan
from agent.encoding.batches.record_batch import build, delay_counts, window_counts
from client.producing.delivery import Batch, TopicPartition


def batches_of(
    kind: BatchKind,
    target: TopicPartition,
    pieces: Sequence[Piece],
    plan: TopicPlan,
    *,
    now_millis: int,
    number: Callable[[], int],
) -> tuple[list[Outgoing], list[Run]]:
    """Returns the batches, and the runs without events, which belong to no batch."""
    most_bytes = plan.most_dead_bytes if kind is BatchKind.DEAD_LETTERS else plan.most_batch_bytes
    compression = plan.batches.compression
    target_bytes = plan.batches.bytes
    if compression is BatchCompression.NONE:
        # An even share may be half as much again.
        target_bytes = min(target_bytes, most_bytes * 2 // 3)
    batches: list[Outgoing] = []
    eventless: list[Run] = []
    for batch_pieces in cut_into_batches(pieces, plan.window_millis, target_bytes):
        for batch, inner_runs in _within(target, batch_pieces, compression, most_bytes):
            runs = joined_runs([piece.run for piece in inner_runs if piece.run is not None])
            eventless += [run for run in runs if not run.events]
            if batch is None:
                continue
            stretches = [piece.stretch for piece in inner_runs if piece.stretch is not None]
            batches.append(
                Outgoing(
                    number(),
                    kind,
                    batch,
                    tuple(run for run in runs if run.events),
                    window_counts(stretches, plan.window_millis),
                    delay_counts(stretches, now_millis),
                    window_millis=plan.window_millis,
                )
            )
    return batches, eventless


def _within(
    target: TopicPartition, pieces: list[Piece], compression: BatchCompression, most: int
) -> Iterator[tuple[Batch | None, list[Piece]]]:
    stretches = [piece.stretch for piece in pieces if piece.stretch is not None]
    if not stretches:
        yield None, pieces
        return
    batch = build(target, stretches, compression)
    if batch.size <= most or batch.records == 1:
        yield batch, pieces
        return
    for half in _halves(pieces):
        yield from _within(target, half, compression, most)


def _halves(pieces: list[Piece]) -> tuple[list[Piece], list[Piece]]:
    """Divides two events or more into halves that both have events."""
    middle = sum(map(len, pieces)) // 2
    event_count = 0
    for index, piece in enumerate(pieces):
        if event_count + len(piece) > middle:
            if event_count == middle:
                return pieces[:index], pieces[index:]
            first, rest = piece.divided(middle - event_count)
            return [*pieces[:index], first], [rest, *pieces[index + 1 :]]
        event_count += len(piece)
    raise AssertionError("the batch has fewer events than were counted")
