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
    lost_indexes = {offset: index for index, offset in enumerate(offsets) if has(losers, offset)}
    if not lost_indexes:
        return decoded
    dead_letters = [
        Dead(
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            COLLISION,
            f"another event has source {decoded.sources[lost_indexes[record.offset]]}"
            f" and seq {decoded.seqs[lost_indexes[record.offset]]}",
            split(record.value or b"")[0],
        )
        for record in records(data)
        if record.offset in lost_indexes
    ]
    kept_rows = pa.array(
        [row for row, offset in enumerate(offsets) if offset not in lost_indexes], pa.int64()
    )
    return replace(
        decoded,
        rows=rows.take(kept_rows) if len(kept_rows) else None,
        times=decoded.times.take(kept_rows),
        sources=decoded.sources.take(kept_rows),
        seqs=decoded.seqs.take(kept_rows),
        dead=tuple(sorted((*decoded.dead, *dead_letters), key=lambda letter: letter.offset)),
    )
