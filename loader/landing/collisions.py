"""Turns events that lost a collision into dead letters.

Two events of a topic collide if they have the same source and seq, but different content. The
driver decides which of them becomes a row (loader/run/collisions.py), and passes the offsets of the
others to the tasks.
"""

from typing import Final

import pyarrow as pa
from msgspec.structs import replace

from ground.intervals import Intervals, has
from loader.decoding.decoded import COLLISION, Dead, Decoded
from schemas.envelope import split
from wire.record_batches.records import records

_OFFSET: Final = "_offset"


def without_losers(decoded: Decoded, data: memoryview, losers: Intervals) -> Decoded:
    """The decoded batch without the rows at these offsets, which become dead letters."""
    rows = decoded.rows
    if rows is None or decoded.sources is None or decoded.seqs is None:
        return decoded
    offsets = rows.column(_OFFSET).to_pylist()
    lost = {offset: place for place, offset in enumerate(offsets) if has(losers, offset)}
    if not lost:
        return decoded
    dead = [
        Dead(
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            COLLISION,
            f"another event has source {decoded.sources[lost[record.offset]]}"
            f" and seq {decoded.seqs[lost[record.offset]]}",
            split(record.value or b"")[0],
        )
        for record in records(data)
        if record.offset in lost
    ]
    kept = pa.array([row for row, offset in enumerate(offsets) if offset not in lost], pa.int64())
    return replace(
        decoded,
        rows=rows.take(kept) if len(kept) else None,
        times=decoded.times.take(kept),
        sources=decoded.sources.take(kept),
        seqs=decoded.seqs.take(kept),
        dead=tuple(sorted((*decoded.dead, *dead), key=lambda letter: letter.offset)),
    )
