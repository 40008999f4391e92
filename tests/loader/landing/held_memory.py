"""Lands a partition much larger than its memory, and prints what that took: run by a test.

python -m tests.loader.landing.held_memory MEMORY_BYTES UNPACKED_BYTES HOURS
"""

import random
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from loader.decoding.decoded import Decoded
from loader.landing.task import Landing
from loader.values.tables import HOUR_MILLIS
from tests.loader.landing.decoded_batches import START, a_header, a_slice, a_spec

ROWS = 4000  # of a batch
TEXT = 200  # bytes of a row


def batches(hours: int) -> Iterator[Decoded]:
    """Without end. Of one hour each is in order; of more, each row is of any of them."""
    drawn = random.Random(1)
    texts = [
        pa.array([f"{drawn.getrandbits(TEXT * 4):0{TEXT}x}" for _ in range(ROWS)]) for _ in range(4)
    ]
    sources = pa.repeat("agent/1", ROWS)
    offset = 0
    while True:
        offsets = pa.array(range(offset, offset + ROWS), pa.int64())
        late = [drawn.randrange(hours) * HOUR_MILLIS for _ in range(ROWS)]
        times = pa.array([START + each for each in late], pa.int64())
        rows = pa.RecordBatch.from_arrays(
            [texts[offset // ROWS % 4], times, sources, offsets, offsets],
            names=["text", "time", "source", "seq", "_offset"],
        )
        yield Decoded(rows, times, sources, offsets)
        offset += ROWS


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def highest() -> int:
    """What `resource` says begins with the size of whoever started this process."""
    status = Path("/proc/self/status").read_text()
    (line,) = (each for each in status.splitlines() if each.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def measure(memory_bytes: int, unpacked: int, hours: int) -> tuple[int, int]:
    """Bytes of memory at most, beyond those before it began, and of all pieces."""
    made = batches(hours)
    first = next(made)
    assert first.rows is not None
    wanted = unpacked // first.rows.nbytes
    landing = Landing(a_slice(end=wanted * ROWS), a_spec(memory_bytes=memory_bytes))
    before = resident()
    written = 0
    for at in range(wanted):
        each = first if at == 0 else next(made)
        for piece in landing.take(a_header(at * ROWS, ROWS, START), each):
            written += piece.nbytes
    for piece in landing.end(wanted * ROWS, 0):
        written += piece.nbytes
    return highest() - before, written


if __name__ == "__main__":
    print(*measure(*map(int, sys.argv[1:])))
