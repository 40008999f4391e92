"""Committed offsets of groups: one node per partition, overwritten by each commit.

    /consumers/{group}/offsets/{topic}/{partition}

Concurrent commits share transactions, also those of different groups. A transaction checks the
fences of its groups (groups.py). One commit is atomic, for any number of partitions, as long as it
fits into a transaction: about 3,000 partitions. A larger one is written from its beginning, and may
be written in part if it is refused.

If another broker has taken a group over, only the commits of that group are refused. Nodes are
created as needed; existing ones are remembered for as long as the fence is valid, so that the usual
commit is one Set per partition without preceding reads.

Each group has one commit at a time: if an answer is lost, a commit is retried, and would undo a
later one of the same partitions. Everything blocks; any thread may call it.
"""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from cluster.errors import Conflict, Fenced, InvalidTopicName
from cluster.groups.groups import fenced_out, write_fenced
from cluster.layout import nodes, paths
from cluster.layout.names import check_topic_name
from cluster.session.operations import (
    MAX_BYTES,
    Create,
    Delete,
    Operation,
    Set,
    estimated_bytes,
    in_transactions,
)
from cluster.session.session import Session
from cluster.values import CommittedOffset, GroupFence, TopicPartition

GATHERED: Final = 1_000  # partitions of commits that share a transaction
_ATTEMPTS: Final = 10  # at concurrently changed nodes
_TOKEN: Final = 32 * "0"  # the length of a fence's token
_LONGEST_NUMBER: Final = 11  # digits of a partition number, with a slash


class GroupCommit(msgspec.Struct, frozen=True):
    """The offsets committed in one request, by a member or a client without membership."""

    fence: GroupFence
    offsets: Mapping[TopicPartition, CommittedOffset]


class _Part(msgspec.Struct, frozen=True):
    """An encoded commit, or as much of it as fits into one transaction."""

    fence: GroupFence
    data: Mapping[TopicPartition, bytes]
    size: int


class _Topic(msgspec.Struct):
    """The nodes of one group's offsets of one topic."""

    path: str
    is_there: bool
    partitions: set[int]  # those with a node


_Known = dict[str, _Topic]
_Created = set[tuple[GroupFence, TopicPartition]]


class OffsetWriter:
    """Writes the offsets of the groups that a broker coordinates."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[GroupFence, _Known] = {}
        self._lock = threading.Lock()  # for the outer dictionary; a group belongs to one thread

    def commit(self, commits: Iterable[GroupCommit]) -> set[GroupFence]:
        """Writes commits in order. Returns the fences that were invalid; their commits were not
        written.

        Raises Unavailable; then the outcome is unknown.
        """
        invalid_fences: set[GroupFence] = set()
        for batch in _gathered(_parts(commits)):
            invalid_fences |= self._write(
                [part for part in batch if part.fence not in invalid_fences]
            )
        return invalid_fences

    def delete(self, fence: GroupFence, partitions: Collection[TopicPartition]) -> None:
        """Removes offsets; missing ones are ignored. Raises Fenced."""
        partitions_by_topic: dict[str, set[int]] = {}
        for topic, partition in partitions:
            partitions_by_topic.setdefault(topic, set()).add(partition)
        for attempt in range(_ATTEMPTS):
            self.forget(fence)
            operations = self._deletions(fence, partitions_by_topic)
            try:
                for piece in in_transactions(operations):
                    write_fenced(self._session, [fence], piece)
                return
            except Fenced:
                raise
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                self._session.sync()
            finally:
                self.forget(fence)

    def forget(self, fence: GroupFence) -> None:
        """Forgets the known nodes of a group that was deleted or is now coordinated by another
        broker."""
        with self._lock:
            self._known.pop(fence, None)

    def _write(self, parts: Sequence[_Part]) -> set[GroupFence]:
        invalid_fences: set[GroupFence] = set()
        for attempt in range(_ATTEMPTS):
            fences = {part.fence: None for part in parts}
            if not fences:
                break
            created_nodes, operations = self._operations(parts)
            try:
                write_fenced(self._session, fences, operations)
            except Fenced as fenced:
                new_invalid_fences = fenced_out(self._session, fences, fenced)
                invalid_fences |= new_invalid_fences
                parts = [part for part in parts if part.fence not in new_invalid_fences]
            except Conflict:  # nodes were created or removed concurrently
                if attempt == _ATTEMPTS - 1:
                    raise
                new_invalid_fences = set(fences)
                self._session.sync()
            else:
                self._remember(created_nodes)
                break
            for fence in new_invalid_fences:
                self.forget(fence)
        return invalid_fences

    def _operations(self, parts: Sequence[_Part]) -> tuple[_Created, list[Operation]]:
        """The operations, and the nodes that they create."""
        topics_by_fence = self._look_up(
            {(part.fence, key.topic) for part in parts for key in part.data}
        )
        created_nodes: _Created = set()
        parents: set[str] = set()
        operations: list[Operation] = []
        for part in parts:
            topics = topics_by_fence[part.fence]
            for partition, data in part.data.items():
                topic = topics[partition.topic]
                path = f"{topic.path}/{partition.partition}"
                if (
                    partition.partition in topic.partitions
                    or (part.fence, partition) in created_nodes
                ):
                    operations.append(Set(path, data))
                    continue
                if not topic.is_there and topic.path not in parents:
                    parents.add(topic.path)
                    operations.append(Create(topic.path))
                created_nodes.add((part.fence, partition))
                operations.append(Create(path, data))
        return created_nodes, operations

    def _deletions(self, fence: GroupFence, wanted: Mapping[str, set[int]]) -> list[Operation]:
        topics = self._look_up({(fence, topic) for topic in wanted}).get(fence, {})
        operations: list[Operation] = []
        for name, topic in topics.items():
            deleted_partitions = topic.partitions & wanted[name]
            operations += [
                Delete(f"{topic.path}/{number}") for number in sorted(deleted_partitions)
            ]
            if topic.is_there and deleted_partitions == topic.partitions:
                operations.append(Delete(topic.path))
        return operations

    def _look_up(self, topics: Iterable[tuple[GroupFence, str]]) -> dict[GroupFence, _Known]:
        """The existing nodes of these topics; only unknown ones are read."""
        with self._lock:
            topics_by_fence = {fence: self._known.setdefault(fence, {}) for fence, _ in topics}
        missing_topics = [
            (fence, topic, paths.topic_offsets(fence.group, topic))
            for fence, topic in topics
            if topic not in topics_by_fence[fence]
        ]
        children = self._session.children_of_all([path for _, _, path in missing_topics])
        for (fence, topic, path), names in zip(missing_topics, children, strict=True):
            partitions = {int(name) for name in names or () if _is_number(name)}
            topics_by_fence[fence][topic] = _Topic(path, names is not None, partitions)
        return topics_by_fence

    def _remember(self, created: _Created) -> None:
        with self._lock:
            for fence, (topic, partition) in created:
                topics = self._known.get(fence)
                if topics is not None and topic in topics:
                    topics[topic].is_there = True
                    topics[topic].partitions.add(partition)


def read_offsets(
    session: Session, group: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """Returns a group's committed offsets, of these partitions or of all; empty if the group does
    not exist."""
    selection = _committed(session, group) if partitions is None else dict.fromkeys(partitions)
    parents = {
        topic: paths.topic_offsets(group, topic) for topic in {key.topic for key in selection}
    }
    by_partition = {key: f"{parents[key.topic]}/{key.partition}" for key in selection}
    nodes_by_partition = zip(
        by_partition.items(), session.read_all([*by_partition.values()]), strict=True
    )
    return {
        key: nodes.offset_of(path, node.data) for (key, path), node in nodes_by_partition if node
    }


class StoredOffset(msgspec.Struct, frozen=True):
    """A committed offset as stored in ZooKeeper. `is_left_over` is true if it belongs to a deleted
    topic, possibly an earlier one of the same name."""

    offset: CommittedOffset
    version: int
    is_left_over: bool


def read_stored(session: Session, group: str) -> dict[TopicPartition, StoredOffset]:
    """Returns all committed offsets of a group, including those of deleted topics."""
    partitions = _committed(session, group)
    offset_paths = [
        f"{paths.topic_offsets(group, key.topic)}/{key.partition}" for key in partitions
    ]
    offset_nodes = session.read_all(offset_paths)
    topics = sorted({key.topic for key in partitions})
    # Read afterwards: offsets are committed only for existing topics.
    topic_nodes = session.read_all([*map(paths.topic, topics)])
    creation_zxids = {
        topic: node.created for topic, node in zip(topics, topic_nodes, strict=True) if node
    }
    return {
        key: StoredOffset(
            nodes.offset_of(path, node.data),
            node.version,
            key.topic not in creation_zxids or node.changed < creation_zxids[key.topic],
        )
        for key, path, node in zip(partitions, offset_paths, offset_nodes, strict=True)
        if node is not None
    }


def _committed(session: Session, group: str) -> list[TopicPartition]:
    """The partitions with committed offsets of a group, in order."""
    names = session.children(paths.group_offsets(group)) or ()
    topics = sorted(name for name in names if _is_topic(name))
    children_by_topic = session.children_of_all(
        [paths.topic_offsets(group, topic) for topic in topics]
    )
    return [
        TopicPartition(topic, partition)
        for topic, children in zip(topics, children_by_topic, strict=True)
        for partition in sorted(int(name) for name in children or () if _is_number(name))
    ]


def _parts(commits: Iterable[GroupCommit]) -> Iterator[_Part]:
    """Each commit as one part, or as several if it exceeds a transaction."""
    for commit in commits:
        sizes: dict[str, int] = {}  # of each topic's node, which may need to be created
        data: dict[TopicPartition, bytes] = {}
        topics: set[str] = set()
        size = fence_size = estimated_bytes(paths.group_fence(commit.fence.group, _TOKEN))
        for partition, offset in commit.offsets.items():
            topic = partition.topic
            if topic not in sizes:
                sizes[topic] = estimated_bytes(paths.topic_offsets(commit.fence.group, topic))
            encoded = nodes.encode_offset(offset)
            added_size = sizes[topic] + _LONGEST_NUMBER + len(encoded)
            if data and size + added_size + sizes[topic] > MAX_BYTES:
                yield _Part(commit.fence, data, size)
                data, topics, size = {}, set(), fence_size
            if topic not in topics:
                topics.add(topic)
                added_size += sizes[topic]
            data[partition] = encoded
            size += added_size
        if data:
            yield _Part(commit.fence, data, size)


def _gathered(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    """Groups parts into transactions, in order."""
    batch: list[_Part] = []
    size = count = 0
    for part in parts:
        is_full = count + len(part.data) > GATHERED or size + part.size > MAX_BYTES
        if batch and is_full:
            yield batch
            batch, size, count = [], 0, 0
        batch.append(part)
        size += part.size
        count += len(part.data)
    if batch:
        yield batch


def _is_number(segment: str) -> bool:
    return segment.isascii() and segment.isdecimal() and str(int(segment)) == segment


def _is_topic(segment: str) -> bool:
    try:
        check_topic_name(segment)
    except InvalidTopicName:
        return False
    return True
