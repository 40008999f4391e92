"""The groups of Penstock's own consumers, which need no coordinator, as administrative requests see
and change them.

The broker that would coordinate such a group answers for it, so that each is listed once. Nothing
is cached: each answer is read from ZooKeeper. Kafka's group protocol cannot be used to join; where
it would return a member's metadata, the partitions that the member has claimed are shown.

Everything blocks; any thread may call it.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

from broker.groups.membership.values import GroupDescription, MemberDescription, State
from cluster.errors import Cause, ClusterError, Conflict, GroupHasMembers
from cluster.groups import claims as group_claims
from cluster.groups import offsets as group_offsets
from cluster.groups.members import delete_group
from cluster.session.session import Session
from cluster.values import CommittedOffset, GroupInfo, TopicPartition
from wire.consumer_protocol import (
    PROTOCOL_TYPE,
    WITHOUT_COORDINATOR,
    Assignment,
    Subscription,
    by_topic,
    write_assignment,
    write_subscription,
)
from wire.errors import ErrorCode

log = logging.getLogger(__name__)

_VERSION = 0  # the format of members' metadata, which every client understands


def states(session: Session, names: Sequence[str]) -> dict[str, State]:
    groups = zip(names, group_claims.without_members(session, names), strict=True)
    return {name: State.EMPTY if is_empty else State.STABLE for name, is_empty in groups}


def describe(session: Session, name: str) -> GroupDescription:
    claims = group_claims.read_claims(session, name)
    if claims is None:
        return GroupDescription(state=State.DEAD, protocol_type="", protocol="", members=())
    partitions_by_member: dict[str, list[TopicPartition]] = {
        member: [] for member in claims.members
    }
    for partition, member in claims.owners.items():
        partitions_by_member.setdefault(member, []).append(partition)
    return GroupDescription(
        state=State.STABLE if claims.members else State.EMPTY,
        protocol_type=PROTOCOL_TYPE,
        protocol=WITHOUT_COORDINATOR,
        members=tuple(
            _member(member, topics, partitions_by_member[member])
            for member, topics in sorted(claims.members.items())
        ),
    )


def commit(
    session: Session,
    name: str,
    *,
    is_member: bool,
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> ErrorCode:
    """Commits on behalf of a client that is not a member; rejected while there are members."""
    if is_member:
        return ErrorCode.unknown_member_id
    try:
        exists = group_claims.commit_for(session, name, offsets)
    except GroupHasMembers:
        return ErrorCode.unknown_member_id  # as in coordinated groups
    return ErrorCode.none if exists else ErrorCode.group_id_not_found


def delete(session: Session, name: str) -> ErrorCode:
    try:
        return ErrorCode.none if delete_group(session, name) else ErrorCode.group_id_not_found
    except GroupHasMembers:
        return ErrorCode.non_empty_group


def delete_offsets(
    session: Session, name: str, partitions: Sequence[TopicPartition]
) -> tuple[ErrorCode, Mapping[TopicPartition, ErrorCode]]:
    """Deletes offsets of topics that no member subscribes to."""
    claims = group_claims.read_claims(session, name)
    if claims is None:
        return ErrorCode.group_id_not_found, {}
    subscribed_topics = {topic for topics in claims.members.values() for topic in topics}
    codes = {
        partition: ErrorCode.group_subscribed_to_topic
        if partition.topic in subscribed_topics
        else ErrorCode.none
        for partition in partitions
    }
    group_claims.delete_offsets(
        session, name, [partition for partition in codes if not codes[partition]]
    )
    return ErrorCode.none, codes


def look_after(session: Session, infos: Iterable[GroupInfo], *, now_ms: int, before_ms: int) -> int:
    """Deletes offsets that are too old or whose topics are gone, by the rules for coordinated
    groups (`retention.py`); returns the number of expired offsets. The departure of the last member
    is not recorded: the first check that finds no members counts instead."""
    expired_count = 0
    for info in infos:
        try:
            expired_count += _look_after(session, info, now_ms, before_ms)
        except Conflict as conflict:
            if conflict.cause is not Cause.CHANGED:  # otherwise it is in use
                log.warning("offsets not expired group=%r error=%r", info.name, str(conflict))
        except ClusterError as error:
            log.warning("offsets not expired group=%r error=%r", info.name, str(error))
    return expired_count


def _look_after(session: Session, info: GroupInfo, now_ms: int, before_ms: int) -> int:
    name = info.name
    offsets = group_offsets.read_stored(session, name)
    leftover_offsets = {
        key: stored_offset.version
        for key, stored_offset in offsets.items()
        if stored_offset.is_left_over
    }
    group_claims.remove(session, name, leftover_offsets)
    if not group_claims.without_members(session, [name])[0]:
        return 0
    empty_since_ms = info.empty_since_ms
    if empty_since_ms is None:
        group_claims.note_empty(session, name, now_ms)
        return 0
    if empty_since_ms > before_ms:
        return 0
    old_offsets = {
        key: stored_offset.version
        for key, stored_offset in offsets.items()
        if key not in leftover_offsets and stored_offset.offset.committed_ms <= before_ms
    }
    if old_offsets and not group_claims.expire(session, name, empty_since_ms, old_offsets):
        return 0
    if len(old_offsets) + len(leftover_offsets) == len(offsets):
        group_claims.forget(session, name, empty_since_ms)
    return len(old_offsets)


def _member(
    member: str, topics: Iterable[str], claimed: Iterable[TopicPartition]
) -> MemberDescription:
    subscription = Subscription(topics=tuple(topics))
    assignment = Assignment(assigned_partitions=by_topic(claimed))
    return MemberDescription(
        member_id=member,
        instance_id=None,
        client_id=member,
        client_host="",
        metadata=write_subscription(subscription, _VERSION),
        assignment=write_assignment(assignment, _VERSION),
    )
