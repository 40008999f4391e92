"""Waits until acknowledged messages are visible to consumers.

With acks=1 a producer is answered before its records are on disk, and consumers see no record that
is not. A client that asks for a partition's end just after that would get an end before the record.
So its flush is begun at once, and awaited. If there are other replicas, they are awaited briefly
too: in Kafka, that end lags as long as they do.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from broker.replicas.partition import Partition
from wire.errors import ErrorCode

_LONGEST_SECONDS: Final = 1.0  # wait for a replica that lags


async def exposed(partitions: Iterable[Partition]) -> None:
    """Waits until everything acknowledged so far is exposed, or can no longer be."""
    waiting_events = []
    for partition in partitions:
        exposed_event = asyncio.Event()
        partition.when_committed(partition.acknowledged_end, partial(_note, exposed_event))
        waiting_events.append(exposed_event.wait())
    with suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST_SECONDS):
            await asyncio.gather(*waiting_events)


def _note(done: asyncio.Event, _code: ErrorCode) -> None:
    done.set()
