"""The controller's end of deleting topics: a marked topic leaves the map when its data has gone.

A topic is marked in ZooKeeper first. Every broker that holds a part of it then deletes that part.
The controller removes the topic and the mark; whoever finds a mark later, after a crash at any
point, begins again where that left off.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from cluster.errors import ClusterError
from cluster.topics import finish_deletion
from cluster.values import ClusterSnapshot, ControllerEpoch

if TYPE_CHECKING:
    from broker.broker import Broker

log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


class Deletions:
    """Finishes deletions while this broker is the controller. Belongs to the event loop."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._epoch: ControllerEpoch | None = None
        self._finishing: asyncio.Task[None] | None = None
        self._again = False

    def lead(self, epoch: ControllerEpoch | None) -> None:
        """Become the controller, or stop being it."""
        self._epoch = epoch
        self.follow(self._broker.cluster.snapshot)

    def follow(self, snapshot: ClusterSnapshot) -> None:
        """Finish what `snapshot` has marked."""
        if self._epoch is None or not snapshot.deleting:
            return
        if self._finishing is None or self._finishing.done():
            self._finishing = asyncio.ensure_future(self._finish())
        else:
            self._again = True

    async def _finish(self) -> None:
        self._again = True
        while self._again:
            self._again = False
            await self._broker.partitions.caught_up()
            for topic in sorted(self._broker.partitions.applied.deleting):
                if self._epoch is None:
                    return
                try:
                    await asyncio.to_thread(
                        finish_deletion, self._broker.session, self._epoch, topic
                    )
                except ClusterError as error:
                    log.warning("deletion not finished topic=%s error=%r", topic, str(error))
                    self._again = True
                    await asyncio.sleep(_RETRY_SECONDS)
