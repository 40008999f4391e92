"""Producer ids for idempotent producers: taken from ZooKeeper in blocks, handed out one by one.

A block that is not used up when the broker stops is lost, and nobody minds.
"""

import asyncio

from cluster.producer_ids import allocate
from cluster.session import Session


class ProducerIds:
    """Hands out ids that no producer has had before."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._block = iter(range(0))
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        """The next id; asks ZooKeeper where the block is used up."""
        while (producer_id := next(self._block, None)) is None:
            async with self._refill:
                # Somebody may have filled it while this one waited: take from that first.
                if (producer_id := next(self._block, None)) is not None:
                    return producer_id
                self._block = iter(await asyncio.to_thread(allocate, self._session))
        return producer_id
