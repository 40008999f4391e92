"""Who is in sync, changed in the map: by the leaders here, many partitions at once.

A leader proposes a change; from then on the old and the new ones count (followers.py), until it is
known what stands. The change is a compare-and-set on the state that the leader knew. If it failed,
somebody else has changed it, or this leader has, and the answer was lost: the map will say, and
until then both count. Where ZooKeeper does not answer it is tried again.

Nobody joins who is not there by the map, though it may be copying: the controller would take it out
again at once, and the two would go on like that for as long as its session is lost.

Belongs to the event loop; ZooKeeper is spoken to on a thread.

Specified in docs/replication-spec.md: `ProposeInSync`, `ProposalArrives` (R5).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final, Protocol
from uuid import UUID

from msgspec.structs import replace

from broker.replication.followers import Followers
from cluster.errors import ClusterError
from cluster.partition_states import StateChange
from cluster.values import PartitionInfo

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0

Live = Callable[[], Set[int]]
Write = Callable[[Sequence[StateChange]], list[PartitionInfo | None]]


class LedPartition(Protocol):
    """A partition, as it is seen here."""

    topic: str
    index: int
    info: PartitionInfo
    followers: Followers | None

    @property
    def topic_id(self) -> UUID: ...

    def follow_in_sync(self, info: PartitionInfo) -> None:
        """This is what stands now."""

    def drop_lagging(self, patience: float) -> None:
        """Propose to go on without those that have not caught up for so long."""


class InSyncChanges:
    """Proposals of all leaders here, on their way to the map."""

    def __init__(self, write: Write, live: Live, *, retry_seconds: float = _RETRY_SECONDS) -> None:
        """`live` says which brokers are there by the map."""
        self._write = write
        self._live = live
        self._retry_seconds = retry_seconds
        self._waiting: dict[LedPartition, StateChange] = {}
        self._writing: asyncio.Task[None] | None = None

    def propose(self, partition: LedPartition, in_sync: frozenset[int]) -> None:
        """One at a time for each partition: nothing happens while another is under way."""
        followers = partition.followers
        if followers is None or followers.proposed is not None:
            return
        joining = in_sync - followers.in_sync
        if joining and not joining <= self._live():
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
        """What is under way may or may not happen."""
        self._waiting.clear()
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write_all(self) -> None:
        await asyncio.sleep(0)  # with what else is proposed in this turn
        while self._waiting:
            proposed, self._waiting = self._waiting, {}
            try:
                stand = await asyncio.to_thread(self._write, tuple(proposed.values()))
            except ClusterError as error:
                log.warning("in-sync replicas not changed yet error=%r", str(error))
                self._try_again(proposed)
                await asyncio.sleep(self._retry_seconds)
                continue
            for partition, after in zip(proposed, stand, strict=True):
                if after is not None:
                    _settle(partition, after)

    def _try_again(self, proposed: Mapping[LedPartition, StateChange]) -> None:
        """Unless the map has told something new meanwhile."""
        for partition, change in proposed.items():
            if partition.info.version == change.after.version:
                self._waiting.setdefault(partition, change)


def _settle(partition: LedPartition, after: PartitionInfo) -> None:
    """It stands; the map may have told that before, or something newer."""
    if partition.info.version >= after.version:
        return
    before, now = set(partition.info.isr), set(after.isr)
    for word, brokers in (("left", before - now), ("joined", now - before)):
        for each in sorted(brokers):
            log.info(
                "in-sync replica %s topic=%s partition=%d broker=%d in_sync=%s",
                *(word, partition.topic, partition.index, each, list(after.isr)),
            )
    partition.follow_in_sync(after)
