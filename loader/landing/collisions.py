"""Events that lost a collision become dead letters.

A collision is two events of one topic with the same source and seq, and other content. Which of
them becomes a row is settled by the driver (loader/run/collisions.py); a task is told the offsets
of the others.
"""

from typing import Final

import pyarrow as pa
from msgspec.structs import replace

from ground.intervals import Intervals, has
from loader.decoding.decoded import COLLISION, Dead, Decoded
from schemas.envelope import split
from wire.records import records

_OFFSET: Final = "_offset"


def without_losers(decoded: Decoded, data: memoryview, losers: Intervals) -> Decoded:
    """What was made of this batch, less the rows at these offsets, which are dead."""
    rows = decoded.rows
    if rows is None or decoded.sources is None or decoded.seqs is None:
        return decoded
    offsets = rows.column(_OFFSET).to_pylist()
    lost = {offset: place for place, offset in enumerate(offsets) if has(losers, offset)}
    if not lost:
        return decoded
    dead = [
        Dead(
            each.offset,
            each.timestamp,
            each.key,
            each.value,
            COLLISION,
            f"another event has source {decoded.sources[lost[each.offset]]}"
            f" and seq {decoded.seqs[lost[each.offset]]}",
            split(each.value or b"")[0],
        )
        for each in records(data)
        if each.offset in lost
    ]
    kept = pa.array([place for place, each in enumerate(offsets) if each not in lost], pa.int64())
    return replace(
        decoded,
        rows=rows.take(kept) if len(kept) else None,
        times=decoded.times.take(kept),
        sources=decoded.sources.take(kept),
        seqs=decoded.seqs.take(kept),
        dead=tuple(sorted((*decoded.dead, *dead), key=lambda each: each.offset)),
    )
