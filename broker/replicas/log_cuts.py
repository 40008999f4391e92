"""Truncates a copy's log where it differs from its source, on an operator's order.

A topic that was opened and written to, or whose source has lost its tail, becomes a copy again by
going back to the point where both logs agree. `penstock mirror demote --cut` shows what is behind
that point and records it in a topic config (`penstock.mirror.cut`): in this partition, from this
offset up to that, whatever was written under leader epochs up to this one. The config is a rule
about the log, and stays.

Rule 1: the partition's leader cuts whenever it finds the rule broken, before it leads: when it
        learns of the rule, when it is elected, when it starts. If the first offset belongs to a
        later epoch, the log was written after the cut, and stays.
Rule 2: as for any log that has lost something (log_opening.py), the epoch is raised in the map
        first, then a statement of the loss is written to disk, then the log is cut. Followers
        truncate because of the new epoch (R8); a next leader that has not done so cuts by rule 1.
        So a crash at any point leaves a log that the next leader cuts.
Rule 3: a log that extends beyond the recorded end is not cut at all: it was written to meanwhile.

By then nothing else writes to the copy: the same change of configs marks it as one.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

from broker.replicas.log_losses import Withdrawal, Withdrawals
from broker.replicas.partition import Partition
from broker.storage.log import Log
from cluster.errors import Conflict, UnknownTopic
from cluster.values import PartitionInfo
from ledger.names import topic_id_text
from wire.mirrored import MirrorCut

log = logging.getLogger(__name__)

_REASON: Final = "cut off by an operator, so that the topic is a copy of its source again"

RaiseEpoch = Callable[..., PartitionInfo]
"""`OwnStates.raise_epoch`."""


def is_due(partition_log: Log, cut: MirrorCut) -> bool:
    """Returns whether the log has offsets that the cut removes."""
    first_offset = max(cut.first, partition_log.start_offset)
    if partition_log.end_offset <= first_offset:
        return False
    return 0 <= partition_log.epochs.epoch_for(first_offset) <= cut.leader_epoch


class LogCuts:
    """Performs the cuts of one broker's logs that operators have ordered. Belongs to the event
    loop."""

    def __init__(
        self,
        raise_epoch: RaiseEpoch,
        withdrawals: Withdrawals,
        remember: Callable[[Log, tuple[str, int], int], None],
    ) -> None:
        """`remember` records the end of a log and its leader epoch (log_opening.py)."""
        self._raise_epoch = raise_epoch
        self._withdrawals = withdrawals
        self._remember = remember
        # Cuts that are not completely on disk: topic and partition, with the state in the map.
        self._unsettled: dict[tuple[UUID, int], PartitionInfo] = {}

    async def bring_in_line(self, partition: Partition, info: PartitionInfo) -> PartitionInfo:
        """Truncates the log of a partition before the broker leads it, if an operator has ordered
        that; returns the partition's state in the map. No other operation may change the log
        meanwhile.

        Raises StorageError, OSError, ClusterError.
        """
        partition_log = partition.log
        key, log_id = (partition.topic, partition.index), (partition_log.topic_id, partition.index)
        if log_id in self._unsettled and not partition.unavailable:
            raised_info = self._unsettled[log_id]
            await asyncio.to_thread(self._settle, partition_log, key, raised_info.leader_epoch)
            del self._unsettled[log_id]
            return max(raised_info, info, key=lambda state: state.version)
        cut = partition.config.cut_of(topic_id_text(partition_log.topic_id), partition.index)
        if cut is None or partition.unavailable or not is_due(partition_log, cut):
            return info
        if cut.leader_epoch > info.leader_epoch:
            # No broker has led in that epoch, or another one does, and the map will show that.
            log.warning(
                "not cut: the epoch of the cut has not begun topic=%s partition=%d epoch=%d "
                "cut_epoch=%d",
                *(partition.topic, partition.index, info.leader_epoch, cut.leader_epoch),
            )
            return info
        if partition_log.end_offset > cut.end:
            log.error(
                "not cut: the log extends beyond the recorded end topic=%s partition=%d end=%d "
                "recorded_end=%d",
                *(partition.topic, partition.index, partition_log.end_offset, cut.end),
            )
            return info
        highest_epoch = max(cut.leader_epoch, partition_log.epochs.latest)
        try:
            raised_info = await asyncio.to_thread(
                self._raise_epoch, key[0], partition_log.topic_id, key[1], above=highest_epoch
            )
        except (Conflict, UnknownTopic) as error:  # the map will show the current state
            log.info("not cut topic=%s partition=%d reason=%r", *key, str(error))
            return info
        if not is_due(partition_log, cut) or partition_log.end_offset > cut.end:
            return raised_info
        end = partition_log.end_offset
        withdrawal = Withdrawal(
            number=0,
            topic=partition.topic,
            topic_id=cut.topic_id,
            partition=partition.index,
            leader_epoch=raised_info.leader_epoch,
            first=cut.first,
            count=end - cut.first,
            resumes=cut.first,
            reason=_REASON,
            found_millis=time.time_ns() // 1_000_000,
        )
        await asyncio.to_thread(self._withdrawals.add, withdrawal)
        await partition.truncate(cut.first)
        partition_log.begin_epoch(raised_info.leader_epoch)
        self._unsettled[log_id] = raised_info
        await asyncio.to_thread(self._settle, partition_log, key, raised_info.leader_epoch)
        del self._unsettled[log_id]
        log.warning(
            "cut topic=%s partition=%d from=%d to=%d leader_epoch=%d",
            *(*key, end, partition_log.end_offset, raised_info.leader_epoch),
        )
        return raised_info

    def _settle(self, partition_log: Log, key: tuple[str, int], leader_epoch: int) -> None:
        partition_log.epochs.save()
        self._remember(partition_log, key, leader_epoch)
