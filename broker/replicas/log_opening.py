"""Opens or creates a partition's log, and reports losses since it was closed.

What the partition is known to have had is recorded outside its directory: in `acknowledged`, and in
the counting process's position. A log that ends before that, begins after it, or is missing, has
lost acknowledged records. Then, in this order, and before anything is appended:

    1. the partition's leader epoch is raised in the map
    2. a statement of the loss is written to disk
    3. the log continues: a truncated one where it ends now, so those offsets are assigned again; a
       new one after all known offsets of the old one, so none is assigned again

A crash in between finds the same again, and raises the epoch again. A torn tail does not raise the
epoch: no consumer has seen it. All of it blocks, and runs in worker threads, several at once.

If other replicas are in sync nothing is lost: they have it. This replica then leaves the in-sync
set, and copies what it lacks. But a leader that existed before always raises its epoch: followers
may have a tail that it has lost, and the same offsets are assigned again.

Specified in docs/replication-spec.md: `Restart`, `RaiseEpoch`, `LeaveInSync` (R7, R10).
"""

import logging
import time
from collections.abc import Sequence, Set
from math import inf
from pathlib import Path
from typing import Protocol
from uuid import UUID

import msgspec

from broker.replicas.data_directory import JOURNAL, DataDirectory
from broker.replicas.log_losses import UNKNOWN, Withdrawal, Withdrawals
from broker.storage import layout
from broker.storage.config import LogConfig
from broker.storage.directory import directories
from broker.storage.directory.acknowledged import AcknowledgedFile, AcknowledgedRange
from broker.storage.directory.checkpoints import Key
from broker.storage.errors import EndMissing
from broker.storage.log import Log
from broker.storage.recovery.repair import cut_off_end
from cluster.errors import ClusterError
from cluster.values import PartitionInfo
from ledger.counting.journal import CounterFileDamaged, CountPosition, counted_places
from ledger.names import topic_id_text

log = logging.getLogger(__name__)


class Loss(msgspec.Struct, frozen=True):
    """A range of lost offsets, from `first` on; `count` is UNKNOWN if their number is unknown."""

    first: int
    count: int
    reason: str


class OpenedLog(msgspec.Struct, frozen=True):
    """A log, and its partition's current state in the map."""

    log: Log
    info: PartitionInfo


class States(Protocol):
    """Reads and changes the states of this broker's replicas in the map
    (cluster/controller/own_states.py)."""

    @property
    def broker_id(self) -> int: ...

    def raise_epoch(
        self, topic: str, topic_id: UUID, partition: int, *, above: int
    ) -> PartitionInfo: ...

    def leave_in_sync(self, topic: str, topic_id: UUID, partition: int) -> PartitionInfo: ...


class LogOpener:
    """Opens the logs of one broker, as long as its process runs."""

    def __init__(
        self,
        data: DataDirectory,
        acknowledged: AcknowledgedFile,
        withdrawals: Withdrawals,
        states: States,
        *,
        clean: bool,
        is_replaced: bool = False,
    ) -> None:
        """`clean`: the last stop was clean. `is_replaced`: the broker had another data directory
        before, so what is not in this one is lost."""
        self.acknowledged = acknowledged
        self.withdrawals = withdrawals
        self._is_replaced = is_replaced
        self._data = data
        self._states = states
        self._clean = clean
        self._counted = _counted(data.path / JOURNAL)

    def open(self, key: Key, topic_id: UUID, info: PartitionInfo, config: LogConfig) -> OpenedLog:
        """Opens or creates the log. Raises StorageError, OSError, ClusterError."""
        path = directories.path_of(self._data.path, *key)
        acknowledged_range = self.acknowledged.known(topic_id, key[1])
        reached_offset = max(
            acknowledged_range.end if acknowledged_range else 0,
            self._counted_to(topic_id, key[1], acknowledged_range),
        )
        opened_log: Log | None = None
        if path.exists():
            opened_log, reached_offset = self._existing(
                path, key, topic_id, config, reached_offset, replicated=info.is_replicated
            )
        try:
            if opened_log is None:
                losses, newest_epoch, resume_offset = (
                    self._whole_loss(acknowledged_range, reached_offset),
                    info.leader_epoch,
                    reached_offset,
                )
            else:
                losses = [
                    *lost_beginning(opened_log, acknowledged_range),
                    *lost_end(opened_log, reached_offset, acknowledged_range),
                ]
                newest_epoch, resume_offset = (
                    max(info.leader_epoch, opened_log.epochs.latest),
                    opened_log.end_offset,
                )
            if losses and info.is_replicated:
                info = self._states.leave_in_sync(key[0], topic_id, key[1])
                if self._states.broker_id not in info.isr:
                    log.warning(
                        "log has lost offsets, copying them from the leader topic=%s "
                        "partition=%d reason=%r",
                        *(*key, losses[0].reason),
                    )
                    losses, reached_offset = [], 0
            if losses:
                newest_epoch = max(
                    newest_epoch,
                    acknowledged_range.leader_epoch if acknowledged_range else -1,
                    self._counted_epoch(topic_id, key[1]),
                )
                info = self._states.raise_epoch(key[0], topic_id, key[1], above=newest_epoch)
                self._record_losses(key, topic_id, info.leader_epoch, losses, resume_offset)
            elif opened_log is not None and self._leads(info) and info.is_replicated:
                info = self._states.raise_epoch(key[0], topic_id, key[1], above=newest_epoch)
            is_new = opened_log is None and not losses
            if opened_log is None:
                self._data.forget_checkpoint(key)
                replicated_offset = 0 if info.is_replicated else inf
                opened_log = Log.create(
                    path, topic_id, config, reached_offset, replicated=replicated_offset
                )
            if self._leads(info):
                opened_log.begin_epoch(info.leader_epoch)
                if not is_new:  # otherwise the flush of the first batch does it
                    opened_log.epochs.save()
            self.remember(opened_log, key, info.leader_epoch)
        except BaseException:
            if opened_log is not None:
                opened_log.abandon()
            raise
        return OpenedLog(opened_log, info)

    def leave_in_sync(self, topic: str, topic_id: UUID, partition: int) -> None:
        """Removes from the in-sync set a replica that can no longer be written to, unless it is the
        only member. If the map cannot be changed, the leader notices that the replica lags."""
        try:
            info = self._states.leave_in_sync(topic, topic_id, partition)
        except ClusterError as error:
            log.warning(
                "cannot leave the in-sync set topic=%s partition=%d error=%r",
                topic,
                partition,
                str(error),
            )
        else:
            if self._states.broker_id not in info.isr:
                log.info("left the in-sync set topic=%s partition=%d", topic, partition)

    def _leads(self, info: PartitionInfo) -> bool:
        return info.leader == self._states.broker_id

    def all_are_open(self, topic_ids: Set[UUID]) -> None:
        """Notes that all logs of these topics are open, so that logs opened later count as new.
        Deletes the recorded ranges of other topics, unless their data exists: the map may list them
        again."""
        self._clean = self._is_replaced = False
        self._counted = {}
        own_topic_ids = {
            directories.topic_id(directory.path) for directory in directories.scan(self._data.path)
        }
        for topic_id, partition in self.acknowledged.identities():
            if topic_id not in topic_ids and topic_id not in own_topic_ids:
                self.acknowledged.forget(topic_id, partition)

    def _existing(
        self,
        path: Path,
        key: Key,
        topic_id: UUID,
        config: LogConfig,
        reached: int,
        *,
        replicated: bool,
    ) -> tuple[Log | None, int]:
        """The log, if there is one of that topic; and up to where it once was on disk."""
        owner = directories.topic_id(path)
        if owner is None and not reached and directories.remove_unwritten(path):
            return None, reached
        if owner != topic_id:
            log.warning(
                "set aside data of another topic path=%s", directories.set_aside(path, owner)
            )
            return None, reached
        try:
            return self._open(path, key, config, reached, replicated=replicated), reached
        except EndMissing as missing:
            reached = max(reached, missing.reached)
            # From here on, the directory no longer needs to record it.
            self._remember_loss(path, key, topic_id, reached)
            if missing.path is None:
                log.error("no segments remain path=%s", directories.set_aside(path, owner))
                return None, reached
            log.error(
                "end of log missing directory=%s end_offset=%d reached=%d",
                path,
                missing.offset,
                reached,
            )
            cut_off_end(path, missing)
            return self._open(path, key, config, 0, replicated=replicated), reached

    def _open(
        self, path: Path, key: Key, config: LogConfig, reached: int, *, replicated: bool
    ) -> Log:
        checkpoint = self._data.checkpoint(key)
        return Log.open(
            path,
            config,
            recovery_point=checkpoint.recovery_point,
            start_offset=checkpoint.start_offset,
            clean=self._clean,
            now_ms=time.time_ns() // 1_000_000,
            reached=reached,
            replicated=checkpoint.high_watermark if replicated else inf,
        )

    def _whole_loss(self, known: AcknowledgedRange | None, reached: int) -> list[Loss]:
        """The loss of a directory that once existed."""
        start = known.start if known else 0
        if reached > start:
            count = reached - start if known else UNKNOWN
            return [Loss(start, count, f"its log is missing, {_former_end(reached, known)}")]
        if known is None and self._is_replaced:
            return [Loss(0, UNKNOWN, "the broker's data directory is not the one it had before")]
        return []

    def _counted_epoch(self, topic_id: UUID, partition: int) -> int:
        """The highest leader epoch under which its offsets were counted."""
        place = self._counted.get((topic_id_text(topic_id), partition))
        return -1 if place is None else place.leader_epoch

    def _counted_to(self, topic_id: UUID, partition: int, known: AcknowledgedRange | None) -> int:
        """The end of what was counted, and so on disk. The slot agrees, unless power was lost."""
        place = self._counted.get((topic_id_text(topic_id), partition))
        if place is None or (known and (known.exact or place.leader_epoch < known.leader_epoch)):
            return 0
        return place.next_offset

    def _remember_loss(self, path: Path, key: Key, topic_id: UUID, reached: int) -> None:
        """Recorded outside the directory, before the directory is changed."""
        slot = self.acknowledged.slot(topic_id, key[1])
        if slot.known is None:
            slot.begin(min(layout.scan(path).logs, default=0), reached, -1)
        slot.note(slot.known.start if slot.known else 0, reached)
        slot.sync()

    def remember(self, opened: Log, key: Key, leader_epoch: int) -> None:
        """Records the log's end with each flush from now on, if there is room for the record."""
        try:
            slot = self.acknowledged.slot(opened.topic_id, key[1])
            slot.begin(opened.start_offset, opened.end_offset, leader_epoch)
        except OSError as error:
            log.warning("cannot record acknowledged offsets reason=%r", error.strerror)
        else:
            opened.remember(slot)

    def _record_losses(
        self, key: Key, topic_id: UUID, leader_epoch: int, losses: Sequence[Loss], resumes: int
    ) -> None:
        for loss in losses:
            self.withdrawals.add(
                Withdrawal(
                    number=0,
                    topic=key[0],
                    topic_id=topic_id_text(topic_id),
                    partition=key[1],
                    leader_epoch=leader_epoch,
                    first=loss.first,
                    count=loss.count,
                    resumes=resumes,
                    reason=loss.reason,
                    found_millis=time.time_ns() // 1_000_000,
                )
            )


def _former_end(reached: int, known: AcknowledgedRange | None) -> str:
    return f"and it had reached offset {reached}" + ("" if known and known.exact else " at least")


def lost_beginning(opened: Log, known: AcknowledgedRange | None) -> list[Loss]:
    """Returns the loss if segments at the start are missing that were not removed on purpose:
    retention records the new start before it removes any, and deleting records leaves a mark in the
    directory."""
    if known is None or opened.start_offset <= known.start:
        return []
    files = layout.scan(opened.directory)
    first_offset, end = max([known.start, *files.starts]), min(files.logs, default=0)
    if end <= first_offset:
        return []
    return [
        Loss(
            first_offset,
            end - first_offset,
            f"it began at offset {first_offset}, and now begins at {end}",
        )
    ]


def lost_end(opened: Log, reached: int, known: AcknowledgedRange | None) -> list[Loss]:
    end = opened.end_offset
    if end >= reached:
        return []
    return [Loss(end, reached - end, f"it ends at offset {end}, {_former_end(reached, known)}")]


def _counted(path: Path) -> dict[tuple[str, int], CountPosition]:
    """The positions of the counting process, by topic id and partition."""
    try:
        places = counted_places(path)
    except (CounterFileDamaged, OSError):  # the counting process reports that itself
        return {}
    return {(key.topic_id, key.partition): place for key, place in places.items()}
