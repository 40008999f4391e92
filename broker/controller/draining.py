"""Hands leadership to other brokers before a clean stop.

The broker marks in the map that it is about to stop. The controller, which may be this broker, lets
another in-sync replica lead wherever there is one (elections.py), and clients are sent there while
this broker still answers them. Partitions that no other broker can lead are not waited for, nor is
a controller that does not respond in time.
"""

import asyncio
import logging
from typing import Final

from broker.controller.elections import Brokers, elected
from cluster.errors import ClusterError
from cluster.records import draining
from cluster.session.session import Session
from cluster.values import NO_LEADER, ClusterSnapshot
from cluster.view import ClusterView

PATIENCE_SECONDS: Final = 5.0
_GLANCE_SECONDS: Final = 0.01

log = logging.getLogger(__name__)


async def hand_over(
    session: Session,
    view: ClusterView,
    broker_id: int,
    patience_seconds: float = PATIENCE_SECONDS,
) -> None:
    """Announces the stop, and waits until no other broker could lead a partition that this broker
    leads, or for `patience_seconds`. Never raises: a broker must be able to stop without
    ZooKeeper."""
    if not to_hand_over(view.snapshot, broker_id):
        return
    announcement = asyncio.ensure_future(asyncio.to_thread(draining.announce, session, broker_id))
    try:
        async with asyncio.timeout(patience_seconds):
            await asyncio.shield(announcement)
            while to_hand_over(view.snapshot, broker_id):  # noqa: ASYNC110
                await asyncio.sleep(_GLANCE_SECONDS)
    except (TimeoutError, ClusterError) as error:
        log.warning(
            "stopping while still leading partitions that others could lead id=%d partitions=%d "
            "reason=%r",
            *(broker_id, to_hand_over(view.snapshot, broker_id)),
            str(error) or f"timed out after {patience_seconds:g} s",
        )
        announcement.add_done_callback(_note_failure)
    else:
        log.info("leadership handed over id=%d", broker_id)


def to_hand_over(snapshot: ClusterSnapshot, broker_id: int) -> int:
    """Returns the number of partitions led by this broker that another could lead."""
    brokers = Brokers(snapshot.brokers.keys(), snapshot.draining | {broker_id})
    return sum(
        partition.leader == broker_id
        and elected(partition, brokers).leader not in {broker_id, NO_LEADER}
        for name, topic in snapshot.topics.items()
        if name not in snapshot.deleting
        for partition in topic.partitions
    )


def _note_failure(announced: "asyncio.Future[None]") -> None:
    """Consume the error of a task that nothing waits for any more."""
    if not announced.cancelled():
        announced.exception()
