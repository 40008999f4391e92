"""Offsets of consumer groups, carried from the source to the target. Where copies keep their
offsets they are valid as they are; where the target is Apache Kafka the mirror's map translates.

Rule 1: an offset goes forward only: who has read on at the target is never sent back.
Rule 2: none goes beyond the end of the copy: a reader would find nothing there, and begin anew. It
        follows as the copy does.
Rule 3: a group that has members at the target is left alone: it commits by itself.

Both sorts of groups are asked for and committed by the brokers: Kafka's consumers' and Penstock's
own. A thread of its own; nothing of a group keeps partitions from being copied.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from client.brokers import Brokers
from client.delivery import TopicPartition
from client.errors import ClientError
from client.group_offsets import Committed, committed_offsets, describe_groups, list_groups
from client.offset_commits import Consumed, commit_offsets
from mirror.config import MirrorConfig
from mirror.kafka_target.target import KafkaTarget
from mirror.rounds import Rounds

log = logging.getLogger(__name__)

_NO_EPOCH: Final = -1  # the source's mean nothing at the target

Ends = Callable[[], Mapping[TopicPartition, tuple[TopicPartition, int]]]
"""By partitions of the source: their copies, and up to where these have it."""

Offset = Callable[[TopicPartition, int], int | None]
"""What an offset of the source is in a copy; None if nobody knows."""


def kept(_: TopicPartition, offset: int) -> int:
    """The same."""
    return offset


def due(
    committed: Mapping[TopicPartition, Committed],
    copies: Mapping[TopicPartition, tuple[TopicPartition, int]],
    before: Mapping[TopicPartition, Committed],
    offset_here: Offset = kept,
) -> dict[TopicPartition, Consumed]:
    """What is to be committed at the target, of what a group has committed at the source. Pure."""
    found = {}
    for there, said in committed.items():
        if there not in copies:
            continue
        here, end = copies[there]
        offset = offset_here(here, min(said.offset, end))
        if offset is not None and offset > (before[here].offset if here in before else 0):
            found[here] = Consumed(offset, _NO_EPOCH)
    return found


class GroupsSync(Rounds):
    """Of one worker."""

    def __init__(
        self,
        config: MirrorConfig,
        ends: Ends,
        kafka: Callable[[], KafkaTarget | None] = lambda: None,
    ) -> None:
        """`kafka`: the target, if it is Apache Kafka."""
        interval = config.groups.interval
        super().__init__(config, interval, what="groups", waits="offsets of groups wait")
        self.committed = 0  # offsets, since the start; any thread
        self._ends = ends
        self._kafka = kafka
        self._refused: dict[str, str] = {}

    def look(self) -> bool:
        copies, kafka = self._ends(), self._kafka()
        if not copies:
            return False
        if kafka is not None:
            kafka.refresh()
        offset_here = kept if kafka is None else kafka.offset
        with self._side(source=True) as source, self._side(source=False) as target:
            names = [each.name for each in list_groups(source)]
            there = committed_offsets(source, names)
            here = committed_offsets(target, names)
            wanted = {
                name: offsets
                for name in names
                if (offsets := due(there.get(name, {}), copies, here.get(name, {}), offset_here))
            }
            busy = describe_groups(target, wanted)
            for name, offsets in wanted.items():
                if self._told.is_set():
                    break
                if not busy[name].has_members:
                    self._commit(target, name, offsets)
        return True

    def _commit(self, target: Brokers, name: str, offsets: dict[TopicPartition, Consumed]) -> None:
        try:
            commit_offsets(target, name, offsets)
        except ClientError as error:
            if error.retriable:
                raise
            if self._refused.get(name) != str(error):
                log.warning("offsets are refused group=%r error=%r", name, str(error))
            self._refused[name] = str(error)
        else:
            self._refused.pop(name, None)
            self.committed += len(offsets)
