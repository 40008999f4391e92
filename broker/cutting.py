"""The end of a copy's log given up on an operator's word: what the source does not have.

A topic that was opened and written to, or whose source has lost its tail, becomes a copy again by
going back to where both logs are the same. `penstock mirror demote --cut` names what is behind that
and says it in a topic config (`penstock.mirror.cut`): of this partition, from this offset up to
that, what was written under leader epochs up to this one. It is a rule about the log, and stays.

Rule 1: who leads the partition cuts, whenever it finds the rule broken, before it leads: when it
        hears of the rule, when it is elected, when it starts. A batch behind the first offset that
        is of a later epoch came after the cut, and stays.
Rule 2: as with any log that has lost something (opening.py), the epoch is raised in the map first,
        then a statement on disk says what is gone, then the log is cut. Followers have the same
        taken back by the epoch (R8), and the next leader, if it has not, cuts by rule 1. So a crash
        at any point leaves a log that is cut by whoever leads next.
Rule 3: a log that reaches further than was named is not cut at all: somebody has written meanwhile.

Nobody writes to the copy by then: the same change of configs marks it as one.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

from broker.partition import Partition
from broker.storage.log import Log
from broker.withdrawals import Withdrawal, Withdrawals
from cluster.errors import Conflict, UnknownTopic
from cluster.values import PartitionInfo
from ledger.names import topic_id_text
from wire.mirrored import MirrorCut

log = logging.getLogger(__name__)

_REASON: Final = "cut off on an operator's word, to be a copy of its source again"

RaiseEpoch = Callable[..., PartitionInfo]
"""`OwnStates.raise_epoch`."""


def is_due(partition_log: Log, cut: MirrorCut) -> bool:
    """Whether the log has what was to be cut off."""
    first = max(cut.first, partition_log.start_offset)
    if partition_log.end_offset <= first:
        return False
    return 0 <= partition_log.epochs.epoch_for(first) <= cut.leader_epoch


class Cutting:
    """Of one broker's partitions. Belongs to the event loop."""

    def __init__(
        self,
        raise_epoch: RaiseEpoch,
        withdrawals: Withdrawals,
        remember: Callable[[Log, tuple[str, int], int], None],
    ) -> None:
        """`remember`: how far a log has come, under which epoch (opening.py)."""
        self._raise_epoch = raise_epoch
        self._withdrawals = withdrawals
        self._remember = remember
        # By topic and partition: cut, and what the map says of it then, but not yet all on disk.
        self._unsettled: dict[tuple[UUID, int], PartitionInfo] = {}

    async def bring_in_line(self, partition: Partition, info: PartitionInfo) -> PartitionInfo:
        """It is to lead: what the map says of it then. Nobody else does anything to its log.

        Raises StorageError, OSError, ClusterError.
        """
        partition_log = partition.log
        key, log_id = (partition.topic, partition.index), (partition_log.topic_id, partition.index)
        if log_id in self._unsettled and not partition.unavailable:
            raised = self._unsettled[log_id]
            await asyncio.to_thread(self._settle, partition_log, key, raised.leader_epoch)
            del self._unsettled[log_id]
            return max(raised, info, key=lambda each: each.version)
        cut = partition.config.cut_of(topic_id_text(partition_log.topic_id), partition.index)
        if cut is None or partition.unavailable or not is_due(partition_log, cut):
            return info
        if cut.leader_epoch > info.leader_epoch:
            # Nobody has led in that epoch, or another broker does, and the map will say so.
            log.warning(
                "not cut, its epoch has not begun topic=%s partition=%d epoch=%d named=%d",
                *(partition.topic, partition.index, info.leader_epoch, cut.leader_epoch),
            )
            return info
        if partition_log.end_offset > cut.end:
            log.error(
                "not cut, there is more than was named topic=%s partition=%d end=%d named=%d",
                *(partition.topic, partition.index, partition_log.end_offset, cut.end),
            )
            return info
        above = max(cut.leader_epoch, partition_log.epochs.latest)
        try:
            raised = await asyncio.to_thread(
                self._raise_epoch, key[0], partition_log.topic_id, key[1], above=above
            )
        except (Conflict, UnknownTopic) as error:  # the map will say what is
            log.info("not cut topic=%s partition=%d reason=%r", *key, str(error))
            return info
        if not is_due(partition_log, cut) or partition_log.end_offset > cut.end:
            return raised
        end = partition_log.end_offset
        said = Withdrawal(
            number=0,
            topic=partition.topic,
            topic_id=cut.topic_id,
            partition=partition.index,
            leader_epoch=raised.leader_epoch,
            first=cut.first,
            count=end - cut.first,
            resumes=cut.first,
            reason=_REASON,
            found_millis=time.time_ns() // 1_000_000,
        )
        await asyncio.to_thread(self._withdrawals.add, said)
        await partition.truncate(cut.first)
        partition_log.begin_epoch(raised.leader_epoch)
        self._unsettled[log_id] = raised
        await asyncio.to_thread(self._settle, partition_log, key, raised.leader_epoch)
        del self._unsettled[log_id]
        log.warning(
            "cut topic=%s partition=%d from=%d to=%d leader_epoch=%d",
            *(*key, end, partition_log.end_offset, raised.leader_epoch),
        )
        return raised

    def _settle(self, partition_log: Log, key: tuple[str, int], leader_epoch: int) -> None:
        partition_log.epochs.save()
        self._remember(partition_log, key, leader_epoch)
