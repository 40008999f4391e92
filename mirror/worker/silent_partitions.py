"""Asks for the source's end in partitions without responses in a lane, so that the lag stays
complete while the target does not answer or holds the lane's buffers, or the copy has no leader."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from client.connection.addresses import Address
from client.connection.bootstrap import Access
from client.errors import ClientError
from client.reading.fetch_session import Key
from mirror.partitions.lane import CLIENT_ID
from mirror.partitions.partition import CopiedPartition
from mirror.partitions.resume_points import source_ends

log = logging.getLogger(__name__)

T = TypeVar("T")

SILENT_S: Final = 2.0  # an idle lane gets four responses in this time

InThread = Callable[[Callable[[], T]], Awaitable[T]]


class SilentPartitions:
    """Queries partitions without responses. Belongs to the event loop."""

    def __init__(
        self,
        access: Access,
        partitions: Callable[[], Mapping[Address, Sequence[CopiedPartition]]],
        in_thread: InThread[dict[Key, int]],
    ) -> None:
        """`partitions`: those without responses, by their leader at the source."""
        self._access = access
        self._partitions = partitions
        self._in_thread = in_thread
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(SILENT_S)
            queries = (
                self._ask(leader, partitions) for leader, partitions in self._partitions().items()
            )
            await asyncio.gather(*queries)

    async def _ask(self, leader: Address, partitions: Sequence[CopiedPartition]) -> None:
        keys = [partition.there for partition in partitions]
        try:
            ends = await self._in_thread(
                lambda: source_ends((leader, self._access), keys, CLIENT_ID)
            )
        except ClientError as error:  # the lanes report it, too
            log.debug("ends unknown leader=%s error=%r", leader, str(error))
            return
        now = self._loop.time()
        for partition in partitions:
            if partition.there in ends:
                partition.heard(ends[partition.there], now)
