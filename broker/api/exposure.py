"""Waits until consumers see what producers were told is stored.

With acks=1 a producer is answered before its records are on disk, and consumers see none that are
not. Who asks where a partition ends just after that would be told of an end before the record. So
its flush is begun at once, and waited for. Where there are other replicas, it is waited a moment
for them, too: in Kafka such an end is behind as long as they are.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from broker.partition import Partition
from wire.errors import ErrorCode

_LONGEST_SECONDS: Final = 1.0  # that a replica which lags is waited for


async def exposed(partitions: Iterable[Partition]) -> None:
    """Return when all that was acknowledged by now is exposed, or never will be."""
    waiting = []
    for partition in partitions:
        done = asyncio.Event()
        partition.when_committed(partition.acknowledged_end, partial(_note, done))
        waiting.append(done.wait())
    with suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST_SECONDS):
            await asyncio.gather(*waiting)


def _note(done: asyncio.Event, _code: ErrorCode) -> None:
    done.set()
