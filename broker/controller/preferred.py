"""Returns leadership to preferred leaders after their absence.

The first of a partition's replicas is the preferred leader: topics are created so that these are
spread evenly. A broker that was away leads nothing when it comes back, so the controller regularly
makes preferred leaders lead again, where they are in sync.
"""

import asyncio
import logging
from collections.abc import Sequence

from broker.controller.elections import Brokers, change_of, preferred
from broker.controller.leaders import Leaders
from cluster.controller.partition_states import StateChange
from cluster.errors import ClusterError
from cluster.values import ClusterSnapshot

log = logging.getLogger(__name__)


class PreferredLeaders:
    """Restores preferred leaders from its creation until `stop`. Belongs to the event loop."""

    def __init__(self, leaders: Leaders, seconds: float) -> None:
        self._leaders = leaders
        self._seconds = seconds
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            epoch = self._leaders.epoch
            if epoch is None:
                continue
            try:
                states = await asyncio.to_thread(self._leaders.change, returning, epoch)
            except ClusterError as error:
                log.warning("cannot elect preferred leaders error=%r", str(error))
                continue
            if any(states):
                log.info("elected preferred leaders partitions=%d", sum(map(bool, states)))


def returning(snapshot: ClusterSnapshot) -> Sequence[StateChange]:
    """Returns the changes that give partitions their preferred leaders, where these can lead."""
    brokers = Brokers.of(snapshot)
    return [
        change_of(topic, index, new_state)
        for name, topic in snapshot.topics.items()
        if name not in snapshot.deleting
        for index, partition in enumerate(topic.partitions)
        if (new_state := preferred(partition, brokers)) is not partition
    ]
