"""Deletes topics in two steps: each broker reports its replicas as deleted, then the controller
removes the topic.

A topic is marked in ZooKeeper first, with a note for every broker that holds a part of it. Each of
them deletes its part when it applies the map (partitions.py), and then removes its note. The
controller removes topic and mark once no live broker has a note left. A broker that was away finds
its note when it returns, even if the map has no other trace of the topic.

After a crash at any point, the broker that finds a mark or a note continues from there.
"""

import asyncio
import logging
from typing import Final
from uuid import UUID

from broker.replicas.partitions import Partitions
from cluster.controller import topics
from cluster.errors import ClusterError
from cluster.session.session import Session
from cluster.values import ClusterSnapshot, ControllerEpoch
from cluster.view import ClusterView

_RETRY_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class Deletions:
    """Deletes this broker's replicas of topics. Belongs to the event loop."""

    def __init__(
        self, broker_id: int, session: Session, cluster: ClusterView, partitions: Partitions
    ) -> None:
        self._broker_id = broker_id
        self._session = session
        self._cluster = cluster
        self._partitions = partitions
        self._epoch: ControllerEpoch | None = None
        self._at_work: asyncio.Task[None] | None = None
        self._again = False

    def lead(self, epoch: ControllerEpoch | None) -> None:
        self._epoch = epoch
        self.follow(self._cluster.snapshot)

    def follow(self, snapshot: ClusterSnapshot) -> None:
        """Performs the deletions that `snapshot` requests, once the partitions here have applied
        it."""
        if not self._concerns_us(snapshot):
            return
        self._again = True
        if self._at_work is None or self._at_work.done():
            self._at_work = asyncio.ensure_future(self._work())

    def _concerns_us(self, snapshot: ClusterSnapshot) -> bool:
        if self._epoch is not None and snapshot.deleting:
            return True
        return any(self._broker_id in broker_ids for broker_ids in snapshot.owed_deletions.values())

    async def _work(self) -> None:
        while self._again:
            self._again = False
            await self._partitions.caught_up()
            snapshot = self._partitions.applied
            try:
                for topic_id in gone(snapshot, self._broker_id):
                    await asyncio.to_thread(
                        topics.record_deleted, self._session, self._broker_id, topic_id
                    )
                for topic in sorted(snapshot.deleting):
                    await self._finish(topic, frozenset(snapshot.brokers))
            except ClusterError as error:
                log.warning("deletions not completed, retrying error=%r", str(error))
                self._again = True
                await asyncio.sleep(_RETRY_SECONDS)

    async def _finish(self, topic: str, live: frozenset[int]) -> None:
        if self._epoch is not None:  # if it is too early, another snapshot comes in time
            await asyncio.to_thread(topics.finish_deletion, self._session, self._epoch, topic, live)


def gone(applied: ClusterSnapshot, broker_id: int) -> list[UUID]:
    """Returns the deleted topics that this broker can now confirm: since it applied the snapshot,
    it has no data of them.

    A topic that is still there and unmarked was read between its note and its mark.
    """
    names = applied.topic_names
    return [
        topic_id
        for topic_id, broker_ids in applied.owed_deletions.items()
        if broker_id in broker_ids
        and (topic_id not in names or names[topic_id] in applied.deleting)
    ]
