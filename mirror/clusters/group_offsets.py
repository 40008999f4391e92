"""Synchronizes consumer groups' offsets from the source to the target. Copies that keep their
offsets need no translation; for Apache Kafka the mirror's map translates them.

Rule 1: an offset only moves forward: a group that has read on at the target is never reset.
Rule 2: no offset exceeds the end of the copy, where a reader would find it out of range and start
        over. It follows as the copy grows.
Rule 3: a group with members at the target is left alone: it commits its own offsets.

Covers groups of Kafka's consumers and of Penstock's, which both go through the brokers. Runs on its
own thread; no failure here delays the copying.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from client.connection.brokers import Brokers
from client.errors import ClientError
from client.groups.offset_commits import Consumed, commit_offsets
from client.groups.offsets import Committed, committed_offsets, describe_groups, list_groups
from client.producing.delivery import TopicPartition
from mirror.config import MirrorConfig
from mirror.kafka_target.target import KafkaTarget
from mirror.periodic_task import PeriodicTask

log = logging.getLogger(__name__)

_NO_EPOCH: Final = -1  # the source's epochs have no meaning at the target

Ends = Callable[[], Mapping[TopicPartition, tuple[TopicPartition, int]]]
"""Copies with their ends, by partitions of the source."""

Offset = Callable[[TopicPartition, int], int | None]
"""Translates an offset of the source to the copy; None if unknown."""


def kept(_: TopicPartition, offset: int) -> int:
    """Returns the offset unchanged."""
    return offset


def due(
    committed: Mapping[TopicPartition, Committed],
    copies: Mapping[TopicPartition, tuple[TopicPartition, int]],
    before: Mapping[TopicPartition, Committed],
    offset_of_copy: Offset = kept,
) -> dict[TopicPartition, Consumed]:
    """The offsets to commit at the target, from a group's offsets at the source. Pure."""
    due_offsets = {}
    for source_partition, position in committed.items():
        if source_partition not in copies:
            continue
        copy, end = copies[source_partition]
        offset = offset_of_copy(copy, min(position.offset, end))
        if offset is not None and offset > (before[copy].offset if copy in before else 0):
            due_offsets[copy] = Consumed(offset, _NO_EPOCH)
    return due_offsets


class GroupsSync(PeriodicTask):
    """Commits offsets at intervals, in each worker."""

    def __init__(
        self,
        config: MirrorConfig,
        ends: Ends,
        kafka: Callable[[], KafkaTarget | None] = lambda: None,
    ) -> None:
        """`kafka`: the target, if it is Apache Kafka."""
        interval = config.groups.interval
        super().__init__(config, interval, what="groups", waits="cannot synchronize groups")
        self.committed = 0  # number of offsets since the start; any thread
        self._ends = ends
        self._kafka = kafka
        self._refused: dict[str, str] = {}

    def look(self) -> bool:
        copies, kafka = self._ends(), self._kafka()
        if not copies:
            return False
        if kafka is not None:
            kafka.refresh()
        offset_of_copy = kept if kafka is None else kafka.offset
        with self._side(source=True) as source, self._side(source=False) as target:
            names = [group.name for group in list_groups(source)]
            source_offsets = committed_offsets(source, names)
            target_offsets = committed_offsets(target, names)
            due_offsets = {
                name: offsets
                for name in names
                if (
                    offsets := due(
                        source_offsets.get(name, {}),
                        copies,
                        target_offsets.get(name, {}),
                        offset_of_copy,
                    )
                )
            }
            descriptions = describe_groups(target, due_offsets)
            for name, offsets in due_offsets.items():
                if self._stopping.is_set():
                    break
                if not descriptions[name].has_members:
                    self._commit(target, name, offsets)
        return True

    def _commit(self, target: Brokers, name: str, offsets: dict[TopicPartition, Consumed]) -> None:
        try:
            commit_offsets(target, name, offsets)
        except ClientError as error:
            if error.retriable:
                raise
            if self._refused.get(name) != str(error):
                log.warning("offset commit refused group=%r error=%r", name, str(error))
            self._refused[name] = str(error)
        else:
            self._refused.pop(name, None)
            self.committed += len(offsets)
