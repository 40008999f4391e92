"""A partition's log opened, or made; what it has lost meanwhile is found, and said.

What the partition is known to have had lies outside its directory: in `acknowledged`, and in what
the counting process has come to. A log that ends before that, begins behind it, or is not there at
all, has lost what had been acknowledged. Then, in this order, and before anything is appended:

    1. the partition's leader epoch is raised in the map
    2. a statement says what is gone, and stands on the disk
    3. the log goes on: one that was cut, where it ends now, and those offsets are given again; one
       that is made anew, behind all that is known of the old one, and no offset is given again

A crash in between finds the same once more, and raises the epoch once more. No epoch is raised for
a torn tail: nobody was shown it. All of it blocks, and runs in worker threads, several at once.

Where other replicas are in sync nothing is lost: they have it. This one is then in sync no more,
and copies what it lacks. But one that leads and was not made just now raises its epoch in any case:
followers may have a tail that it has lost, and the same offsets are given again.

Specified in docs/replication-spec.md: `Restart`, `RaiseEpoch`, `LeaveInSync` (R7, R10).
"""

import logging
import time
from collections.abc import Sequence, Set
from math import inf
from pathlib import Path
from typing import Final, Protocol
from uuid import UUID

import msgspec

from broker.data_directory import JOURNAL, DataDirectory
from broker.storage import directories, layout
from broker.storage.acknowledged import AcknowledgedFile, AcknowledgedRange
from broker.storage.checkpoints import Key
from broker.storage.config import LogConfig
from broker.storage.errors import EndMissing
from broker.storage.log import Log
from broker.storage.repair import cut_off_end
from broker.withdrawals import UNKNOWN, Withdrawal, Withdrawals
from cluster.errors import ClusterError
from cluster.values import PartitionInfo
from ledger.counting.journal import CounterFileDamaged, CountingJournal, Place
from ledger.names import topic_id_text

log = logging.getLogger(__name__)

_COUNTER: Final = "broker"


class Loss(msgspec.Struct, frozen=True):
    """`count` offsets from `first` on; UNKNOWN if nobody knows how many."""

    first: int
    count: int
    reason: str


class OpenedLog(msgspec.Struct, frozen=True):
    """A log, and what the map says of its partition by now."""

    log: Log
    info: PartitionInfo


class States(Protocol):
    """What the map says of a replica here, and is told (cluster/own_states.py)."""

    @property
    def broker_id(self) -> int: ...

    def raise_epoch(
        self, topic: str, topic_id: UUID, partition: int, *, above: int
    ) -> PartitionInfo: ...

    def leave_in_sync(self, topic: str, topic_id: UUID, partition: int) -> PartitionInfo: ...


class Opening:
    """For one run of the broker."""

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
        """`clean`: the last stop was one. `is_replaced`: the broker had another data directory
        before, so what is not in this one is lost."""
        self.acknowledged = acknowledged
        self.withdrawals = withdrawals
        self._is_replaced = is_replaced
        self._data = data
        self._states = states
        self._clean = clean
        self._counted = _counted(data.path / JOURNAL)

    def open(self, key: Key, topic_id: UUID, info: PartitionInfo, config: LogConfig) -> OpenedLog:
        """Raises StorageError, OSError, ClusterError."""
        path = directories.path_of(self._data.path, *key)
        known = self.acknowledged.known(topic_id, key[1])
        reached = max(known.end if known else 0, self._counted_to(topic_id, key[1], known))
        found: Log | None = None
        if path.exists():
            found, reached = self._existing(
                path, key, topic_id, config, reached, replicated=info.is_replicated
            )
        try:
            if found is None:
                losses, newest, resumes = self._all(known, reached), info.leader_epoch, reached
            else:
                losses = [*lost_beginning(found, known), *lost_end(found, reached, known)]
                newest, resumes = max(info.leader_epoch, found.epochs.latest), found.end_offset
            if losses and info.is_replicated:
                info = self._states.leave_in_sync(key[0], topic_id, key[1])
                if self._states.broker_id not in info.isr:
                    log.warning(
                        "replica is brought in line by its leader topic=%s partition=%d reason=%r",
                        *(*key, losses[0].reason),
                    )
                    losses, reached = [], 0
            if losses:
                newest = max(
                    newest, known.leader_epoch if known else -1, self._told(topic_id, key[1])
                )
                info = self._states.raise_epoch(key[0], topic_id, key[1], above=newest)
                self._say(key, topic_id, info.leader_epoch, losses, resumes)
            elif found is not None and self._leads(info) and info.is_replicated:
                info = self._states.raise_epoch(key[0], topic_id, key[1], above=newest)
            begins = found is None and not losses
            if found is None:
                self._data.forget_checkpoint(key)
                replicated = 0 if info.is_replicated else inf
                found = Log.create(path, topic_id, config, reached, replicated=replicated)
            if self._leads(info):
                found.begin_epoch(info.leader_epoch)
                if not begins:  # else the flush of the first batch does it
                    found.epochs.save()
            self.remember(found, key, info.leader_epoch)
        except BaseException:
            if found is not None:
                found.abandon()
            raise
        return OpenedLog(found, info)

    def leave_in_sync(self, topic: str, topic_id: UUID, partition: int) -> None:
        """A log that can be written no more is in sync no more; where it is the only one, nobody
        else could lead. If the map cannot be told, others notice that it lags."""
        try:
            info = self._states.leave_in_sync(topic, topic_id, partition)
        except ClusterError as error:
            log.warning(
                "not left to others topic=%s partition=%d error=%r", topic, partition, str(error)
            )
        else:
            if self._states.broker_id not in info.isr:
                log.info("left to others topic=%s partition=%d", topic, partition)

    def _leads(self, info: PartitionInfo) -> bool:
        return info.leader == self._states.broker_id

    def all_are_open(self, topic_ids: Set[UUID]) -> None:
        """What is opened from now on did not lie here when the broker started, or was opened
        already. What is remembered of other topics is forgotten, unless data of theirs is here:
        the map may yet get to know them again."""
        self._clean = self._is_replaced = False
        self._counted = {}
        here = {directories.topic_id(found.path) for found in directories.scan(self._data.path)}
        for topic_id, partition in self.acknowledged.identities():
            if topic_id not in topic_ids and topic_id not in here:
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
        found = directories.topic_id(path)
        if found is None and not reached and directories.remove_unwritten(path):
            return None, reached
        if found != topic_id:
            log.warning(
                "another topic's data was set aside path=%s", directories.set_aside(path, found)
            )
            return None, reached
        try:
            return self._open(path, key, config, reached, replicated=replicated), reached
        except EndMissing as missing:
            reached = max(reached, missing.reached)
            # From here on the directory may forget it.
            self._remember_loss(path, key, topic_id, reached)
            if missing.path is None:
                log.error("no segment is left path=%s", directories.set_aside(path, found))
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

    def _all(self, known: AcknowledgedRange | None, reached: int) -> list[Loss]:
        """The directory is not there, although it once was."""
        start = known.start if known else 0
        if reached > start:
            count = reached - start if known else UNKNOWN
            return [Loss(start, count, f"its directory is gone, {_had(reached, known)}")]
        if known is None and self._is_replaced:
            return [Loss(0, UNKNOWN, "the broker has another data directory than before")]
        return []

    def _told(self, topic_id: UUID, partition: int) -> int:
        """The highest leader epoch under which its offsets were counted."""
        place = self._counted.get((topic_id_text(topic_id), partition))
        return -1 if place is None else place.leader_epoch

    def _counted_to(self, topic_id: UUID, partition: int, known: AcknowledgedRange | None) -> int:
        """What was counted had been on disk. A slot says so too, unless power was lost."""
        place = self._counted.get((topic_id_text(topic_id), partition))
        if place is None or (known and (known.exact or place.leader_epoch < known.leader_epoch)):
            return 0
        return place.next_offset

    def _remember_loss(self, path: Path, key: Key, topic_id: UUID, reached: int) -> None:
        """Outside of the directory, before that is changed."""
        slot = self.acknowledged.slot(topic_id, key[1])
        if slot.known is None:
            slot.begin(min(layout.scan(path).logs, default=0), reached, -1)
        slot.note(slot.known.start if slot.known else 0, reached)
        slot.sync()

    def remember(self, opened: Log, key: Key, leader_epoch: int) -> None:
        """Flushes do it from now on. Without room for that the log is served all the same."""
        try:
            slot = self.acknowledged.slot(opened.topic_id, key[1])
            slot.begin(opened.start_offset, opened.end_offset, leader_epoch)
        except OSError as error:
            log.warning("what is acknowledged cannot be remembered reason=%r", error.strerror)
        else:
            opened.remember(slot)

    def _say(
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


def _had(reached: int, known: AcknowledgedRange | None) -> str:
    return f"and it had reached offset {reached}" + ("" if known and known.exact else " at least")


def lost_beginning(opened: Log, known: AcknowledgedRange | None) -> list[Loss]:
    """Segments are gone that nobody removed: retention is remembered before it removes any, and
    who deletes records leaves a mark in the directory."""
    if known is None or opened.start_offset <= known.start:
        return []
    found = layout.scan(opened.directory)
    first, end = max([known.start, *found.starts]), min(found.logs, default=0)
    if end <= first:
        return []
    return [Loss(first, end - first, f"it began at offset {first}, and begins at {end} now")]


def lost_end(opened: Log, reached: int, known: AcknowledgedRange | None) -> list[Loss]:
    end = opened.end_offset
    if end >= reached:
        return []
    return [Loss(end, reached - end, f"it ends at offset {end}, {_had(reached, known)}")]


def _counted(path: Path) -> dict[tuple[str, int], Place]:
    """Up to where the counting process has come, by topic id and partition."""
    try:
        places = CountingJournal(path, _COUNTER).places
    except (CounterFileDamaged, OSError):  # it will say so itself
        return {}
    return {(key.topic_id, key.partition): place for key, place in places.items()}
