"""Stores coordinated groups in ZooKeeper.

Everything blocks; any thread may call it.
"""

from collections.abc import Collection, Iterable

import msgspec

from broker.groups import claimed_groups
from broker.groups.membership.values import GroupRecord, MemberRecord
from cluster.errors import Conflict
from cluster.groups import groups
from cluster.groups import offsets as group_offsets
from cluster.groups.offsets import StoredOffset
from cluster.session.session import Session
from cluster.values import (
    CommittedOffset,
    GroupFence,
    GroupInfo,
    GroupKind,
    GroupMember,
    TopicPartition,
)

_ATTEMPTS = 5  # attempts to take over a group that others create and delete at the same time

Offsets = dict[TopicPartition, CommittedOffset]


class Loaded(msgspec.Struct, frozen=True):
    """The stored state of a group that was taken over. `empty_since_ms` is None while the group has
    members."""

    fence: GroupFence
    record: GroupRecord
    empty_since_ms: int | None


class GroupStore:
    def __init__(self, session: Session, broker_id: int) -> None:
        self._session = session
        self._broker_id = broker_id

    def take(self, name: str, *, make: bool, now_ms: int) -> Loaded | None:
        """Takes a group over; returns None if the group does not exist and `make` is not set."""
        for attempt in range(_ATTEMPTS):
            group = groups.take_over(self._session, name, self._broker_id, GroupKind.KAFKA)
            if group is not None:
                fence, content = group
                record = _record(content.info, content.members)
                return Loaded(fence, record, content.info.empty_since_ms)
            if not make:
                return None
            info = GroupInfo(
                name=name,
                kind=GroupKind.KAFKA,
                coordinator=self._broker_id,
                empty_since_ms=now_ms,
            )
            try:
                return Loaded(groups.create_group(self._session, info), _record(info, ()), now_ms)
            except Conflict:  # another broker has created it meanwhile
                if attempt == _ATTEMPTS - 1:
                    raise
        return None

    def save(self, fence: GroupFence, record: GroupRecord, empty_since_ms: int | None) -> None:
        """Saves the group. Raises Fenced, GroupTooLarge."""
        info = GroupInfo(
            name=fence.group,
            kind=GroupKind.KAFKA,
            coordinator=self._broker_id,
            generation=record.generation,
            protocol_type=record.protocol_type,
            protocol=record.protocol,
            leader=record.leader,
            empty_since_ms=empty_since_ms,
        )
        members = [
            GroupMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.client_host,
                session_timeout_ms=member.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                metadata=member.metadata,
                assignment=member.assignment,
            )
            for member in record.members
        ]
        groups.save_group(self._session, fence, info, members)

    def delete(self, fence: GroupFence) -> None:
        """Deletes the group. Raises Fenced."""
        groups.delete_group(self._session, fence)

    def offsets(self, name: str, partitions: Collection[TopicPartition] | None = None) -> Offsets:
        return group_offsets.read_offsets(self._session, name, partitions)

    def listed(self) -> list[GroupInfo]:
        """Returns all groups, of both kinds and of every coordinator."""
        return groups.list_groups(self._session)

    def stored(self, name: str) -> dict[TopicPartition, StoredOffset]:
        """Returns all committed offsets of a group, including those of deleted topics."""
        return group_offsets.read_stored(self._session, name)

    def look_after_claimed(self, infos: Iterable[GroupInfo], *, now_ms: int, before_ms: int) -> int:
        """Expires offsets of groups without a coordinator; returns the number of expired
        offsets."""
        return claimed_groups.look_after(self._session, infos, now_ms=now_ms, before_ms=before_ms)


def _record(info: GroupInfo, members: tuple[GroupMember, ...]) -> GroupRecord:
    return GroupRecord(
        protocol_type=info.protocol_type,
        protocol=info.protocol,
        generation=info.generation,
        leader=info.leader,
        members=tuple(
            MemberRecord(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.host,
                session_timeout_ms=member.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                metadata=member.metadata,
                assignment=member.assignment,
            )
            for member in members
        ),
    )
