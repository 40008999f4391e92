"""The parts of replication on one broker: copying from leaders elsewhere, and the in-sync changes
of the leaders here."""

import asyncio
import logging
from collections.abc import Callable, Iterable

from broker.configs.config import BrokerConfig
from broker.configs.dynamic_configs import FOLLOWER_RATE, LEADER_RATE, rate
from broker.replication.copying import Copying
from broker.replication.in_sync_changes import InSyncChanges, LedPartition, Live, Write
from broker.replication.leader_link import Fetching
from broker.replication.throttle import Throttle
from client.connection.bootstrap import access_to
from cluster.values import ClusterSnapshot

log = logging.getLogger(__name__)

_LOOKS = 4  # checks in the time that a follower may lag


class Replication:
    """Replication on one broker. Belongs to the event loop."""

    def __init__(self, config: BrokerConfig, write: Write, live: Live) -> None:
        self._broker_id = config.id
        self._config = config.replication
        between_brokers = config.reaching
        self.copies_throttled, self.sends_throttled = Throttle(), Throttle()
        self.throttles = {"sent": self.sends_throttled, "copied": self.copies_throttled}
        fetching = Fetching(
            broker_id=config.id,
            access=access_to(between_brokers.security),
            wait_seconds=self._config.fetch_wait,
            bytes=self._config.fetch_bytes,
            throttle=self.copies_throttled,
        )
        self.copying = Copying(fetching, between_brokers.listener)
        self.in_sync_changes = InSyncChanges(write, live)
        self._watching: asyncio.Task[None] | None = None

    def start(self, partitions: Callable[[], Iterable[LedPartition]]) -> None:
        self._watching = asyncio.ensure_future(self._watch(partitions))

    def follow(self, snapshot: ClusterSnapshot) -> None:
        """Applies the map's data about brokers: their addresses, and this one's throttle rates."""
        self.copying.brokers(snapshot.brokers)
        now = asyncio.get_running_loop().time()
        own_id = self._broker_id
        self.copies_throttled.follow(rate(FOLLOWER_RATE, own_id, snapshot), now)
        self.sends_throttled.follow(rate(LEADER_RATE, own_id, snapshot), now)

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self.copying.close()
        await self.in_sync_changes.stop()

    async def _watch(self, partitions: Callable[[], Iterable[LedPartition]]) -> None:
        patience = self._config.lag_seconds
        while True:
            await asyncio.sleep(patience / _LOOKS)
            for partition in partitions():
                partition.drop_lagging(patience)
