"""Finds the offset at which a topic and its source diverge, and deletes later messages, for
`penstock mirror demote --cut`. Blocks.

    compared ─▶ confirmed ─▶ offsets of groups beyond the cut are reset ─▶ one change of the topic's
    configs marks it as a copy and orders the cut ─▶ leaders cut (log_cuts.py) ─▶ verified

The logs are equal up to some offset and differ after it, so a binary search over batch headers
finds it. After a crash at any point, run it again: completed steps persist, and the leaders finish
the cut on their own.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from client.connection.brokers import Brokers
from client.connection.connection import BrokerConnection
from client.groups.offset_commits import Consumed, commit_offsets
from client.groups.offsets import committed_offsets, describe_groups, list_groups
from client.producing.delivery import TopicPartition
from client.reading.epochs import end_offsets_of_epochs
from ledger.names import topic_id_text
from mirror.errors import MirrorFailure
from mirror.partitions.resume_points import NotShown, Span, batch_at, is_same, spans
from wire.mirrored import MirrorCut
from wire.record_batches.batch import BatchHeader

_PATIENCE_S: Final = 60.0
_GLANCE_S: Final = 0.2


class NotDone(MirrorFailure):
    """The error for a failed operation; the message says whether a part of it was done."""


class Excess(msgspec.Struct, frozen=True):
    """The offsets from `first` to `end` that a partition has and its source does not."""

    topic: str
    partition: int
    first: int
    end: int
    leader_epoch: int  # of its last batch, or a later one

    @property
    def offsets(self) -> int:
        return self.end - self.first

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition} has {self.offsets} messages of its own from offset "
            f"{self.first} to {self.end - 1}"
        )


def excess(source: Brokers, target: Brokers, there: str, here: str, partition: int) -> Excess:
    """The messages of one partition that the source lacks. Raises NotDone, ClientError."""
    metadata = target.refresh([here]).topic(here).partition(partition)
    target_leader = target.broker(metadata.leader)
    source_leader = source.broker(source.refresh([there]).topic(there).partition(partition).leader)
    # The copy first, so that what is copied meanwhile is not counted as excess.
    span = _span(target_leader, here, partition)
    source_span = _span(source_leader, there, partition)
    if source_span.end < span.start or source_span.start > span.end:
        raise NotDone(
            f"{here}-{partition} has offsets {span.start} to {span.end - 1}, its source has "
            f"{source_span.start} to {source_span.end - 1}: they have nothing in common. Delete "
            "the topic, so that it is copied again"
        )
    first = max(span.start, source_span.start)
    end = min(span.end, source_span.end)
    while first < end:
        middle_offset = (first + end) // 2
        # A batch that is not shown must not count as a different one.
        source_batch = _batch_at(source_leader, there, partition, middle_offset)
        copy_batch = _batch_at(target_leader, here, partition, middle_offset)
        if is_same(source_batch, copy_batch):
            first = copy_batch.next_offset
        else:
            end = middle_offset
    epoch = metadata.leader_epoch
    if span.end > span.start:
        last_batch = _batch_at(target_leader, here, partition, span.end - 1)
        epoch = max(epoch, last_batch.leader_epoch)
    return Excess(here, partition, min(first, span.end), span.end, epoch)


def _batch_at(leader: BrokerConnection, topic: str, partition: int, offset: int) -> BatchHeader:
    try:
        return batch_at(leader, (topic, partition), offset)
    except NotShown as hidden:
        raise NotDone(
            f"{topic}-{partition} at {leader.address}, offset {offset}: {hidden}. It is unknown "
            "where the logs diverge, and nothing was changed: try again"
        ) from hidden


def _span(leader: BrokerConnection, topic: str, partition: int) -> Span:
    span = spans(leader, [(topic, partition)])[topic, partition]
    if isinstance(span, str):
        raise NotDone(f"{topic}-{partition} at {leader.address}: {span}")
    return span


def cuts_text(target: Brokers, here: str, before: str, due: Iterable[Excess]) -> str:
    """The value of the cut config: earlier cuts of other partitions are kept."""
    topic_id = topic_id_text(target.topic(here).id)
    cuts: dict[int, MirrorCut] = {}
    for text in filter(None, before.split(",")):
        cut = MirrorCut.parse(text)
        if cut.topic_id == topic_id:
            cuts[cut.partition] = cut
    for excess in due:
        cut = MirrorCut(topic_id, excess.partition, excess.first, excess.end, excess.leader_epoch)
        cuts[excess.partition] = cut
    return ",".join(str(cuts[partition]) for partition in sorted(cuts))


def put_groups_back(target: Brokers, due: Sequence[Excess]) -> list[str]:
    """Resets groups that have read messages to be cut to the cut's offset, since they have not seen
    what will replace them. Returns their names. Raises NotDone if one is active; ClientError."""
    cut_offsets = {TopicPartition(excess.topic, excess.partition): excess.first for excess in due}
    names = [group.name for group in list_groups(target)]
    commits: dict[str, dict[TopicPartition, Consumed]] = {}
    for name, offsets in committed_offsets(target, names).items():
        resets = {
            partition: Consumed(cut_offsets[partition])
            for partition, consumed in offsets.items()
            if partition in cut_offsets and consumed.offset > cut_offsets[partition]
        }
        if resets:
            commits[name] = resets
    for name, group in describe_groups(target, commits).items():
        if group.has_members:
            raise NotDone(
                f"group {name} has read messages that would be cut off, and is active: stop "
                "it first. Nothing was changed"
            )
    for name, resets_of_group in commits.items():
        commit_offsets(target, name, resets_of_group)
    return sorted(commits)


def wait_cut(target: Brokers, due: Sequence[Excess], *, within: float = _PATIENCE_S) -> None:
    """Waits until the leaders have truncated the partitions. Raises NotDone, ClientError."""
    epochs = {TopicPartition(excess.topic, excess.partition): excess.leader_epoch for excess in due}
    deadline = time.monotonic() + within
    while uncut_ends := _uncut(due, end_offsets_of_epochs(target, epochs)):
        if time.monotonic() > deadline:
            raise NotDone(_why(uncut_ends))
        time.sleep(_GLANCE_S)


def _uncut(due: Sequence[Excess], ends: Mapping[TopicPartition, int]) -> dict[Excess, int]:
    """The current ends of uncut partitions. A leader that does not know the epoch has not cut."""
    ends_by_excess = {
        excess: ends[TopicPartition(excess.topic, excess.partition)] for excess in due
    }
    return {excess: end for excess, end in ends_by_excess.items() if not 0 <= end <= excess.first}


def _why(uncut_ends: Mapping[Excess, int]) -> str:
    excess, end = next(iter(uncut_ends.items()))
    name = f"{excess.topic}-{excess.partition}"
    if end > excess.end:
        return (
            f"{name} was not cut: it has grown since it was compared, to offset {end - 1}. Stop "
            "its producers, and run this again"
        )
    return (
        f"{name} is not cut yet, perhaps because its leader is down: the leader cuts it when it is "
        "back. Run this again to check"
    )
