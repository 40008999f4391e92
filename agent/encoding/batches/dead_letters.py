"""Encodes lines that could not become events as events of the dead-letter topic. Pure."""

from collections.abc import Sequence
from typing import Final

from agent.accounting.cuts import DeadLine
from agent.accounting.runs import Run
from agent.encoding.batches.framing import Stretch
from agent.encoding.batches.pieces import Piece
from agent.encoding.batches.plan import SourceHeader, TopicPlan, path_bytes
from ground.varints import VARINTS
from schemas.bodies.primitives import sized

MOST_RAW: Final = 64 * 1024

_AROUND: Final = 1_024  # of a dead letter, besides its own texts
_LONGEST_REASON: Final = 1_000


def dead_piece(
    source: SourceHeader, plan: TopicPlan, dead: Sequence[DeadLine], first_seq: int
) -> Piece:
    """The dead letters of one source (at least one), numbered from `first_seq` on."""
    frame = source.dead_frame(plan)
    bodies = [_body(dead_line, source, plan) for dead_line in dead]
    stretch = Stretch(
        frame,
        times=[dead_line.time for dead_line in dead],
        seqs=range(first_seq, first_seq + len(dead)),
        positions=[dead_line.position for dead_line in dead],
        bodies=bodies,
    )
    end = max(dead_line.position + dead_line.size for dead_line in dead)
    run = Run(source.id, first_seq, len(dead), dead[0].position, end, len(dead))
    overhead = len(frame.identity) + 40
    return Piece(run, stretch, overhead, stretch.total + len(dead) * overhead)


def _body(dead: DeadLine, source: SourceHeader, plan: TopicPlan) -> bytes:
    path = path_bytes(source.path)
    reason = dead.reason[:_LONGEST_REASON].encode("utf-8", "replace")
    texts = len(path) + len(plan.topic) + len(reason) + len(source.identity(plan.host))
    room = min(MOST_RAW, plan.most_dead_bytes - texts - _AROUND)
    raw_bytes = dead.raw[: max(room, 0)]
    return b"".join(
        (
            sized(plan.topic.encode()),
            sized(reason),
            sized(raw_bytes),
            VARINTS[dead.position],
            sized(path),
            VARINTS[-1 if dead.size == len(raw_bytes) else dead.size],
        )
    )
