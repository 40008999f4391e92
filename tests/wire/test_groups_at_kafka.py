"""The messages of consumer groups mean what they say, in all versions: Apache Kafka and Penstock
have a group whose member speaks nothing else."""

import pytest

from client import admin
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from harness.apache_kafka import ApacheKafka
from harness.broker_process import BrokerProcess
from tests.broker.api.running_broker import RawClient
from tests.wire.group_member import GroupMember
from wire.consumer_protocol import (
    Assignment,
    Subscription,
    by_topic,
    read_assignment,
    read_subscription,
    write_subscription,
)
from wire.errors import ErrorCode
from wire.messages import (
    delete_groups,
    describe_groups,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from wire.messages.delete_groups import DeleteGroupsRequest
from wire.messages.list_groups import ListGroupsRequest
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponsePartition,
)

MOST_VERSIONS = len(join_group.API.versions)


@pytest.fixture(params=["running_broker", "running_kafka"])
def server(request: pytest.FixtureRequest) -> BrokerProcess | ApacheKafka:
    found: BrokerProcess | ApacheKafka = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("nth", range(MOST_VERSIONS))
def test_a_groups_life_in_all_versions(
    server: BrokerProcess | ApacheKafka, new_topic: str, nth: int
) -> None:
    with Brokers(Bootstrap.of(server.bootstrap), patience_seconds=60) as brokers:
        admin.create_topic(brokers, new_topic, partitions=2)
    with RawClient(server.port) as client:
        member = GroupMember(client, f"group-of-{new_topic}", "range", nth)
        _joins(member, new_topic)
        _commits(member, new_topic)
        _is_shown(member, new_topic)
        _leaves(member)
        _is_forgotten(member, new_topic)


def _subscription(topic: str) -> Subscription:
    return Subscription(
        topics=(topic,), user_data=b"\0\1", owned_partitions=by_topic([(topic, 1)]), rack_id="r"
    )


def _assignment(topic: str) -> Assignment:
    return Assignment(assigned_partitions=by_topic([(topic, 0), (topic, 1)]), user_data=b"\2")


def _joins(member: GroupMember, topic: str) -> None:
    joined = member.join(_subscription(topic))
    assert joined.leader == member.member_id
    assert joined.protocol_name == "range"
    assert joined.protocol_type == ("consumer" if member.version(join_group.API) >= 7 else None)
    assert [(each.member_id, each.metadata) for each in joined.members] == [
        (member.member_id, write_subscription(_subscription(topic)))
    ]
    assert member.sync({member.member_id: _assignment(topic)}) == _assignment(topic)
    assert member.beat() is ErrorCode.none
    assert member.beat(member.generation + 1) is ErrorCode.illegal_generation


def _commits(member: GroupMember, topic: str) -> None:
    consumed = OffsetCommitRequestPartition(
        partition_index=1,
        committed_offset=2**40,
        committed_leader_epoch=0,
        committed_metadata="so far",
    )
    request = OffsetCommitRequest(
        group_id=member.group,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        topics=(OffsetCommitRequestTopic(name=topic, partitions=(consumed,)),),
    )
    (answer,) = member.ask(offset_commit.API, request).topics
    assert [(each.partition_index, each.error_code) for each in answer.partitions] == [
        (1, ErrorCode.none)
    ]
    knows_epochs = min(member.version(offset_commit.API) - 6, member.version(offset_fetch.API) - 5)
    committed = OffsetFetchResponsePartition(
        partition_index=1,
        committed_offset=2**40,
        committed_leader_epoch=0 if knows_epochs >= 0 else -1,
        metadata="so far",
    )
    nothing = OffsetFetchResponsePartition(partition_index=0)
    assert _offsets(member, topic, (0, 1)) == (nothing, committed)
    if member.version(offset_fetch.API) >= 2:
        assert _offsets(member, topic, None) == (committed,)


def _offsets(
    member: GroupMember, topic: str, partitions: tuple[int, ...] | None
) -> tuple[OffsetFetchResponsePartition, ...]:
    asked = None
    if partitions is not None:
        asked = (OffsetFetchRequestTopic(name=topic, partition_indexes=partitions),)
    group = OffsetFetchRequestGroup(group_id=member.group, topics=asked)
    (answer,) = member.ask(offset_fetch.API, OffsetFetchRequest(groups=(group,))).groups
    assert answer.error_code is ErrorCode.none
    return tuple(
        sorted(
            (each for found in answer.topics if found.name == topic for each in found.partitions),
            key=lambda each: each.partition_index,
        )
    )


def _is_shown(member: GroupMember, topic: str) -> None:
    group = member.describe()
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert group.authorized_operations == describe_groups.NOT_ASKED
    (shown,) = group.members
    assert (shown.member_id, shown.client_id) == (member.member_id, "test")
    assert "127.0.0.1" in shown.client_host
    assert read_subscription(shown.member_metadata) == _subscription(topic)
    assert read_assignment(shown.member_assignment) == _assignment(topic)

    knows_states = member.version(list_groups.API) >= 4
    for states in ((), ("Stable",), ("Empty",)) if knows_states else ((),):
        listed = member.ask(list_groups.API, ListGroupsRequest(states_filter=states))
        assert listed.error_code is ErrorCode.none
        found = {each.group_id: each for each in listed.groups}.get(member.group)
        if states == ("Empty",):
            assert found is None
        else:
            assert found is not None
            assert found.protocol_type == "consumer"
            assert found.group_state == ("Stable" if knows_states else "")


def _leaves(member: GroupMember) -> None:
    answers = [member.leave() for _ in range(2)]
    if member.version(leave_group.API) >= 3:
        assert [answer.error_code for answer in answers] == [ErrorCode.none] * 2
        codes = [each.error_code for answer in answers for each in answer.members]
    else:
        codes = [answer.error_code for answer in answers]
    assert codes == [ErrorCode.none, ErrorCode.unknown_member_id]


def _is_forgotten(member: GroupMember, topic: str) -> None:
    which = OffsetDeleteRequestTopic(
        name=topic, partitions=(OffsetDeleteRequestPartition(partition_index=1),)
    )
    request = OffsetDeleteRequest(group_id=member.group, topics=(which,))
    answer = member.ask(offset_delete.API, request)
    assert answer.error_code is ErrorCode.none
    assert [
        (found.name, each.partition_index, each.error_code)
        for found in answer.topics
        for each in found.partitions
    ] == [(topic, 1, ErrorCode.none)]
    assert _offsets(member, topic, (1,)) == (OffsetFetchResponsePartition(partition_index=1),)
    deleted = member.ask(delete_groups.API, DeleteGroupsRequest(groups_names=(member.group,)))
    # Kafka forgets a group with its last offset by itself.
    (result,) = deleted.results
    assert result.error_code in {ErrorCode.none, ErrorCode.group_id_not_found}
    assert member.describe().group_state == "Dead"
