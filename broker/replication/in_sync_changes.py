"""Writes the changes of in-sync sets that leaders propose to the map, many partitions at once.

A leader proposes a change; from then on old and new members count (followers.py), until the outcome
is known. The change is a compare-and-set on the state that the leader knew. If it fails, another
broker has changed the state, or this one has, and the answer was lost: the map will show it, and
until then both count. If ZooKeeper does not answer, the change is retried.

A replica whose broker is away by the map cannot join, though it may be copying: the controller
would remove it again at once, and the two would alternate for as long as its session is lost.

Belongs to the event loop; ZooKeeper is called on a thread.

Specified in docs/replication-spec.md: `ProposeInSync`, `ProposalArrives` (R5).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final, Protocol
from uuid import UUID

from msgspec.structs import replace

from broker.replication.followers import Followers
from cluster.controller.partition_states import StateChange
from cluster.errors import ClusterError
from cluster.values import PartitionInfo

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0

Live = Callable[[], Set[int]]
Write = Callable[[Sequence[StateChange]], list[PartitionInfo | None]]


class LedPartition(Protocol):
    """The part of a partition that this module uses."""

    topic: str
    index: int
    info: PartitionInfo
    followers: Followers | None

    @property
    def topic_id(self) -> UUID: ...

    def follow_in_sync(self, info: PartitionInfo) -> None:
        """Applies the state that was written."""

    def drop_lagging(self, patience: float) -> None:
        """Proposes to remove in-sync replicas that have not caught up for this long."""


class InSyncChanges:
    """The proposals of all leaders on this broker, on their way to the map."""

    def __init__(self, write: Write, live: Live, *, retry_seconds: float = _RETRY_SECONDS) -> None:
        """`live` returns the live brokers, by the map."""
        self._write = write
        self._live = live
        self._retry_seconds = retry_seconds
        self._waiting: dict[LedPartition, StateChange] = {}
        self._writing: asyncio.Task[None] | None = None

    def propose(self, partition: LedPartition, in_sync: frozenset[int]) -> None:
        """Proposes a change; ignored while another change of the partition is in progress."""
        followers = partition.followers
        if followers is None or followers.proposed is not None:
            return
        joining_replicas = in_sync - followers.in_sync
        if joining_replicas and not joining_replicas <= self._live():
            return
        followers.propose(in_sync)
        self._waiting[partition] = StateChange(
            topic=partition.topic,
            topic_id=partition.topic_id,
            partition=partition.index,
            after=replace(partition.info, isr=followers.ordered(in_sync)),
        )
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write_all())

    async def stop(self) -> None:
        """Stops writing; the outcome of changes in progress is unknown."""
        self._waiting.clear()
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write_all(self) -> None:
        await asyncio.sleep(0)  # together with the other proposals of this turn
        while self._waiting:
            proposals, self._waiting = self._waiting, {}
            try:
                states = await asyncio.to_thread(self._write, tuple(proposals.values()))
            except ClusterError as error:
                log.warning("cannot change in-sync replicas, retrying error=%r", str(error))
                self._try_again(proposals)
                await asyncio.sleep(self._retry_seconds)
                continue
            for partition, state in zip(proposals, states, strict=True):
                if state is not None:
                    _settle(partition, state)

    def _try_again(self, proposed: Mapping[LedPartition, StateChange]) -> None:
        """Unless the map has changed meanwhile."""
        for partition, change in proposed.items():
            if partition.info.version == change.after.version:
                self._waiting.setdefault(partition, change)


def _settle(partition: LedPartition, after: PartitionInfo) -> None:
    """The change is written; the map may have shown that already, or something newer."""
    if partition.info.version >= after.version:
        return
    old_isr, now = set(partition.info.isr), set(after.isr)
    for word, brokers in (("left", old_isr - now), ("joined", now - old_isr)):
        for broker in sorted(brokers):
            log.info(
                "in-sync replica %s topic=%s partition=%d broker=%d in_sync=%s",
                *(word, partition.topic, partition.index, broker, list(after.isr)),
            )
    partition.follow_in_sync(after)
