"""How far a topic and its source agree, and the rest of the topic given up: what `penstock mirror
demote --cut` does. Blocks.

    compared ─▶ named ─▶ groups that have read further are put back ─▶ marked as a copy, and told
    what to cut, by one change of its configs ─▶ its leaders cut (broker/cutting.py) ─▶ seen

Two logs are the same up to some offset and nowhere behind it, so that is found by halving: of a
dozen batches the headers are compared. Killed anywhere, it is begun anew: what is done stays done,
and the leaders need nobody to have it done to its end.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from client.brokers import Brokers
from client.connection import BrokerConnection
from client.delivery import TopicPartition
from client.epochs import end_offsets_of_epochs
from client.group_offsets import committed_offsets, describe_groups, list_groups
from client.offset_commits import Consumed, commit_offsets
from ledger.names import topic_id_text
from mirror.beginnings import NotShown, Span, batch_at, is_same, spans
from mirror.errors import MirrorFailure
from wire.batch import BatchHeader
from wire.mirrored import MirrorCut

_PATIENCE_S: Final = 60.0
_GLANCE_S: Final = 0.2


class NotDone(MirrorFailure):
    """Nothing was changed, or not all of it: the message says which."""


class Excess(msgspec.Struct, frozen=True):
    """What a partition has from `first` on, up to `end`, and its source has not."""

    topic: str
    partition: int
    first: int
    end: int
    leader_epoch: int  # under which the last of it was written, or a later one

    @property
    def offsets(self) -> int:
        return self.end - self.first

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition} has {self.offsets} messages of its own from offset "
            f"{self.first} to {self.end - 1}"
        )


def excess(source: Brokers, target: Brokers, there: str, here: str, partition: int) -> Excess:
    """Of one partition; nothing, if its source has all of it. Raises NotDone, ClientError."""
    known = target.refresh([here]).topic(here).partition(partition)
    ours = target.broker(known.leader)
    theirs = source.broker(source.refresh([there]).topic(there).partition(partition).leader)
    # The copy first: whatever is copied meanwhile then counts for nothing.
    span = _span(ours, here, partition)
    other = _span(theirs, there, partition)
    if other.end < span.start or other.start > span.end:
        raise NotDone(
            f"{here}-{partition} has offsets {span.start} to {span.end - 1}, its source has "
            f"{other.start} to {other.end - 1}: nothing of both is the same. Delete the topic, and "
            "it is copied anew"
        )
    first = max(span.start, other.start)
    end = min(span.end, other.end)
    while first < end:
        middle = (first + end) // 2
        # What is not shown is not another one: then nothing is known of where they part.
        one = _batch_at(theirs, there, partition, middle)
        copy = _batch_at(ours, here, partition, middle)
        if is_same(one, copy):
            first = copy.next_offset
        else:
            end = middle
    epoch = known.leader_epoch
    if span.end > span.start:
        last = _batch_at(ours, here, partition, span.end - 1)
        epoch = max(epoch, last.leader_epoch)
    return Excess(here, partition, min(first, span.end), span.end, epoch)


def _batch_at(leader: BrokerConnection, topic: str, partition: int, offset: int) -> BatchHeader:
    try:
        return batch_at(leader, (topic, partition), offset)
    except NotShown as hidden:
        raise NotDone(
            f"{topic}-{partition} at {leader.address}, offset {offset}: {hidden}. Where the two "
            "part is not known, and nothing was changed: try again"
        ) from hidden


def _span(leader: BrokerConnection, topic: str, partition: int) -> Span:
    said = spans(leader, [(topic, partition)])[topic, partition]
    if isinstance(said, str):
        raise NotDone(f"{topic}-{partition} at {leader.address}: {said}")
    return said


def cuts_text(target: Brokers, here: str, before: str, due: Iterable[Excess]) -> str:
    """The config, as it is to be: what was cut from other partitions before stays."""
    topic_id = topic_id_text(target.topic(here).id)
    cuts: dict[int, MirrorCut] = {}
    for word in filter(None, before.split(",")):
        cut = MirrorCut.parse(word)
        if cut.topic_id == topic_id:
            cuts[cut.partition] = cut
    for each in due:
        cut = MirrorCut(topic_id, each.partition, each.first, each.end, each.leader_epoch)
        cuts[each.partition] = cut
    return ",".join(str(cuts[partition]) for partition in sorted(cuts))


def put_groups_back(target: Brokers, due: Sequence[Excess]) -> list[str]:
    """Groups that have read what is to go read on where it began: what will stand there they have
    not seen. Which they are. Raises NotDone if one is at work; ClientError."""
    firsts = {TopicPartition(each.topic, each.partition): each.first for each in due}
    names = [each.name for each in list_groups(target)]
    back: dict[str, dict[TopicPartition, Consumed]] = {}
    for name, offsets in committed_offsets(target, names).items():
        ahead = {
            partition: Consumed(firsts[partition])
            for partition, committed in offsets.items()
            if partition in firsts and committed.offset > firsts[partition]
        }
        if ahead:
            back[name] = ahead
    for name, group in describe_groups(target, back).items():
        if group.has_members:
            raise NotDone(
                f"group {name} has read messages that would be thrown away, and is reading: stop "
                "it first. Nothing was changed"
            )
    for name, firsts_of in back.items():
        commit_offsets(target, name, firsts_of)
    return sorted(back)


def wait_cut(target: Brokers, due: Sequence[Excess], *, within: float = _PATIENCE_S) -> None:
    """Until their leaders have cut them. Raises NotDone, ClientError."""
    epochs = {TopicPartition(each.topic, each.partition): each.leader_epoch for each in due}
    deadline = time.monotonic() + within
    while left := _uncut(due, end_offsets_of_epochs(target, epochs)):
        if time.monotonic() > deadline:
            raise NotDone(_why(left))
        time.sleep(_GLANCE_S)


def _uncut(due: Sequence[Excess], ends: Mapping[TopicPartition, int]) -> dict[Excess, int]:
    """Where they end still. A leader that does not know the epoch has not cut it."""
    found = {each: ends[TopicPartition(each.topic, each.partition)] for each in due}
    return {each: end for each, end in found.items() if not 0 <= end <= each.first}


def _why(left: Mapping[Excess, int]) -> str:
    each, end = next(iter(left.items()))
    name = f"{each.topic}-{each.partition}"
    if end > each.end:
        return (
            f"{name} was not cut, as it has more by now than was named: up to offset {end - 1}. "
            "Stop who writes to it, and do this once more"
        )
    return (
        f"{name} is not cut yet, its leader may be away: it does that as soon as it can. "
        "Do this once more to see whether it has"
    )
