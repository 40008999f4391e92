"""Decides whether a member may join a group: is there room, and a protocol that all members
support?"""

from broker.groups.membership.member import details_of
from broker.groups.membership.members import Members
from broker.groups.membership.values import NO_MEMBER, GroupRules, Joining, State
from wire.errors import ErrorCode


def refusal(
    joining: Joining, rules: GroupRules, state: State, members: Members, protocol_type: str | None
) -> ErrorCode:
    """Returns NONE if the member may join, else the error code. The member's identity is checked
    afterwards."""
    if not rules.least_session <= joining.session_timeout <= rules.most_session:
        return ErrorCode.invalid_session_timeout
    if state is State.DEAD:
        return ErrorCode.coordinator_not_available
    if not _has_room(joining, rules, state, members):
        return ErrorCode.group_max_size_reached
    if not _knows_protocol(joining, state, members, protocol_type):
        return ErrorCode.inconsistent_group_protocol
    return ErrorCode.none


def _has_room(joining: Joining, rules: GroupRules, state: State, members: Members) -> bool:
    """While members rejoin, the first ones to come find room, since the limit may have been
    lowered. A member that is known already takes no additional place."""
    member = members.get(joining.member_id) or members.instance(joining.instance_id)
    size = members.size - (0 if member is None else member.details.size) + details_of(joining).size
    if size > rules.most_bytes:
        return False
    is_given_id = joining.member_id == NO_MEMBER and joining.needs_member_id
    if member is None and is_given_id and len(members.pending) >= rules.most_members:
        return False
    if state is State.PREPARING:
        is_waiting = member is not None and member.join_answer is not None
        return is_waiting or members.joining < rules.most_members
    return member is not None or len(members) < rules.most_members


def _knows_protocol(
    joining: Joining, state: State, members: Members, protocol_type: str | None
) -> bool:
    """Whether it supports a protocol that all other members support too."""
    if state is State.EMPTY:
        return bool(joining.protocol_type and joining.protocols)
    return protocol_type == joining.protocol_type and any(
        members.all_know(protocol.name) for protocol in joining.protocols
    )
