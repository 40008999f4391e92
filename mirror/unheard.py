"""Where the source ends in partitions of which no lane hears: the target keeps its buffers, or does
not answer, or nobody leads the copy. So the lag that is shown is all that the target lacks, however
long it is away.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from client.addresses import Address
from client.bootstrap import Access
from client.errors import ClientError
from client.fetch_session import Key
from mirror.beginnings import source_ends
from mirror.lane import CLIENT_ID
from mirror.partition import CopiedPartition

log = logging.getLogger(__name__)

T = TypeVar("T")

UNHEARD_S: Final = 2.0  # a lane that waits for something new is answered four times meanwhile

InThread = Callable[[Callable[[], T]], Awaitable[T]]


class Unheard:
    """Belongs to the event loop."""

    def __init__(
        self,
        access: Access,
        partitions: Callable[[], Mapping[Address, Sequence[CopiedPartition]]],
        in_thread: InThread[dict[Key, int]],
    ) -> None:
        """`partitions`: of which nobody hears just now, by the broker that leads them."""
        self._access = access
        self._partitions = partitions
        self._in_thread = in_thread
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(UNHEARD_S)
            asked = (self._ask(*each) for each in self._partitions().items())
            await asyncio.gather(*asked)

    async def _ask(self, leader: Address, partitions: Sequence[CopiedPartition]) -> None:
        keys = [each.there for each in partitions]
        try:
            ends = await self._in_thread(
                lambda: source_ends((leader, self._access), keys, CLIENT_ID)
            )
        except ClientError as error:  # whoever copies from there says so, too
            log.debug("ends are not known leader=%s error=%r", leader, str(error))
            return
        now = self._loop.time()
        for each in partitions:
            if each.there in ends:
                each.heard(ends[each.there], now)
