"""Brokers that leave out a rule of docs/replication.md."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from broker.configs.topic_config import TopicConfig
from broker.controller import elections
from broker.replicas.partition import Committed, Partition
from broker.replication.copied_partition import CopiedPartition
from broker.replication.in_sync_changes import InSyncChanges
from broker.storage.log import Log
from client.reading.fetch_session import FetchPosition
from cluster.values import PartitionInfo
from tests.campaigns.flaws import Flaw, in_place_of, run_broken
from wire.errors import ErrorCode

LOST: Final = frozenset({"lost", "moved", "gone", "changed", "disagree"})


def deposed_answers() -> None:
    @in_place_of(Partition, "_turn_away")
    def _turn_away(
        before: Callable[[Partition, ErrorCode], None], partition: Partition, _: ErrorCode
    ) -> None:
        before(partition, ErrorCode.none)


def no_compare_and_set() -> None:
    """A leader that wants others out goes by that at once, whatever the map says."""

    @in_place_of(InSyncChanges, "propose")
    def _propose(
        before: Callable[[InSyncChanges, Partition, frozenset[int]], None],
        changes: InSyncChanges,
        partition: Partition,
        in_sync: frozenset[int],
    ) -> None:
        before(changes, partition, in_sync)
        if partition.followers is not None:
            wished = partition.followers.ordered(in_sync)
            partition.followers.proposed = None
            partition.follow_in_sync(replace(partition.info, isr=wished))


def no_truncation() -> None:
    """A follower does not say the epoch of its last batch, and keeps what the leader lacks."""

    @in_place_of(CopiedPartition, "wanted")
    def _wanted(
        before: Callable[[CopiedPartition, int], FetchPosition],
        copied: CopiedPartition,
        max_bytes: int,
    ) -> FetchPosition:
        return before(copied, max_bytes)._replace(last_epoch=-1)


def fetch_offset_written() -> None:
    @in_place_of(CopiedPartition, "wanted")
    def _wanted(
        before: Callable[[CopiedPartition, int], FetchPosition],
        copied: CopiedPartition,
        max_bytes: int,
    ) -> FetchPosition:
        log = copied.partition.log
        end = log.end_offset
        epoch = log.epochs.epoch_for(end - 1) if end > log.start_offset else -1
        return before(copied, max_bytes)._replace(offset=end, last_epoch=epoch)

    @in_place_of(Partition, "flushed_copy")
    async def _flushed_copy(_: object, partition: Partition) -> None:
        partition.flush()


def hw_without_flush() -> None:
    @in_place_of(Log, "_expose")
    def _expose(_: object, log: Log) -> None:
        offset = int(min(log._replicated, log.end_offset))
        if offset > log.exposed_offset:
            log.exposed_offset = offset
            log._reader.expose_before(offset)

    @in_place_of(Partition, "when_committed")
    def _when_committed(
        before: Callable[[Partition, int, Committed], None],
        partition: Partition,
        end_offset: int,
        callback: Committed,
    ) -> None:
        partition._commit()
        before(partition, end_offset, callback)
        partition.flush()


def too_few_in_sync() -> None:
    @in_place_of(Partition, "configure")
    def _configure(
        before: Callable[[Partition, TopicConfig], None], partition: Partition, config: TopicConfig
    ) -> None:
        before(partition, config)
        partition.min_insync_replicas = 1


def unclean_leader() -> None:
    @in_place_of(elections, "elected")
    def _elected(
        before: Callable[..., PartitionInfo], *arguments: Any, unclean: bool = False
    ) -> PartitionInfo:
        return before(*arguments, unclean=True)


FLAWS: Final = {
    "deposed-answers": Flaw(
        rule="R9",
        left_out="a deposed leader answers all who wait that it does not lead",
        script="deposed-by-the-map",
        breaks=LOST,
        make=deposed_answers,
    ),
    "no-compare-and-set": Flaw(
        rule="R1, R5",
        left_out="who is in sync is what the map says, and not what a leader wishes",
        script="deposed-by-the-map",
        breaks=LOST,
        make=no_compare_and_set,
    ),
    "no-truncation": Flaw(
        rule="R8",
        left_out="a follower takes back what lies behind where its history parts from the leader's",
        script="deposed-by-the-map",
        breaks=frozenset({"replicas", "served"}),
        make=no_truncation,
    ),
    "fetch-offset-written": Flaw(
        rule="R2",
        left_out="a follower's fetch offset is what it has flushed",
        script="dark-followers",
        breaks=LOST,
        make=fetch_offset_written,
    ),
    "hw-without-flush": Flaw(
        rule="R3",
        left_out="of its own log, the leader counts only what it has flushed",
        script="dark-leader",
        breaks=LOST,
        make=hw_without_flush,
    ),
    "too-few-in-sync": Flaw(
        rule="R4",
        left_out="min.insync.replicas is looked at",
        script="one-of-three",
        breaks=frozenset({"few"}),
        make=too_few_in_sync,
    ),
    "unclean-leader": Flaw(
        rule="R6",
        left_out="a leader is chosen from those in sync",
        script="last-in-sync",
        breaks=LOST,
        make=unclean_leader,
    ),
}

if __name__ == "__main__":
    run_broken(FLAWS)
