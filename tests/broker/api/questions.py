"""A request of each API, about one topic where it is about topics: one for each right that requests
of the API may need (`broker.api.operations`), in that order."""

import uuid
from collections.abc import Callable
from typing import Any

from tests.broker.api.running_broker import RawClient, batch
from wire.acls import Operation, PatternType, Permission, ResourceType
from wire.messages import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_user_scram_credentials,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    sync_group,
)

Ask = Callable[[RawClient, str], Any]


def ask_fetch(client: RawClient, topic: str, *, replica_id: int = -1) -> Any:
    partition = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    return client.ask(
        fetch.API,
        12,
        fetch.FetchRequest(
            replica_id=replica_id,
            max_wait=0,
            min_bytes=0,
            max_bytes=1_000_000,
            topics=(fetch.FetchTopic(topic=topic, partitions=(partition,)),),
        ),
    )


def ask_metadata(client: RawClient, topic: str, *, create: bool = False) -> Any:
    return client.ask(
        metadata.API,
        12,
        metadata.MetadataRequest(
            topics=(metadata.MetadataRequestTopic(name=topic),),
            allow_auto_topic_creation=create,
        ),
    )


def _configs(client: RawClient, kind: int, name: str) -> Any:
    wanted = describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    request = describe_configs.DescribeConfigsRequest(resources=(wanted,))
    return client.ask(describe_configs.API, 4, request)


def _alter(client: RawClient, kind: int, name: str) -> Any:
    wanted = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=())
    request = alter_configs.AlterConfigsRequest(resources=(wanted,))
    return client.ask(alter_configs.API, 2, request)


def _alter_some(client: RawClient, kind: int, name: str) -> Any:
    wanted = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=()
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(wanted,))
    return client.ask(incremental_alter_configs.API, 1, request)


def _filter() -> dict[str, Any]:
    return {
        "resource_type_filter": ResourceType.TOPIC,
        "resource_name_filter": "nothing-stands-here",
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
    }


def ask_commit(client: RawClient, topic: str) -> Any:
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return client.ask(
        offset_commit.API,
        8,
        offset_commit.OffsetCommitRequest(
            group_id="group",
            topics=(offset_commit.OffsetCommitRequestTopic(name=topic, partitions=(partition,)),),
        ),
    )


def ask_committed(client: RawClient, topic: str) -> Any:
    asked = offset_fetch.OffsetFetchRequestTopic(name=topic, partition_indexes=(0,))
    group = offset_fetch.OffsetFetchRequestGroup(group_id="group", topics=(asked,))
    return client.ask(offset_fetch.API, 8, offset_fetch.OffsetFetchRequest(groups=(group,)))


def ask_join(client: RawClient, _topic: str) -> Any:
    return client.ask(
        join_group.API,
        9,
        join_group.JoinGroupRequest(
            group_id="group",
            session_timeout=10_000,
            protocol_type="consumer",
            protocols=(join_group.JoinGroupRequestProtocol(name="range", metadata=b""),),
        ),
    )


def ask_sync(client: RawClient, _topic: str) -> Any:
    request = sync_group.SyncGroupRequest(group_id="group", generation_id=1, member_id="nobody")
    return client.ask(sync_group.API, 5, request)


def ask_beat(client: RawClient, _topic: str) -> Any:
    request = heartbeat.HeartbeatRequest(group_id="group", generation_id=1, member_id="nobody")
    return client.ask(heartbeat.API, 4, request)


def ask_leave(client: RawClient, _topic: str) -> Any:
    nobody = leave_group.MemberIdentity(member_id="nobody")
    request = leave_group.LeaveGroupRequest(group_id="group", members=(nobody,))
    return client.ask(leave_group.API, 5, request)


def ask_described_group(client: RawClient, _topic: str) -> Any:
    request = describe_groups.DescribeGroupsRequest(groups=("group",))
    return client.ask(describe_groups.API, 5, request)


def ask_offset_delete(client: RawClient, topic: str) -> Any:
    ask_join(client, topic)  # of a group that is not there, nothing is said of topics
    partition = offset_delete.OffsetDeleteRequestPartition(partition_index=0)
    return client.ask(
        offset_delete.API,
        0,
        offset_delete.OffsetDeleteRequest(
            group_id="group",
            topics=(offset_delete.OffsetDeleteRequestTopic(name=topic, partitions=(partition,)),),
        ),
    )


# By API, one for each row of its rules.
QUESTIONS: dict[int, tuple[Ask, ...]] = {
    0: (lambda client, topic: client.produce(topic, batch(1)),),
    1: (ask_fetch, lambda client, topic: ask_fetch(client, topic, replica_id=7)),
    2: (
        lambda client, topic: client.ask(
            list_offsets.API,
            7,
            list_offsets.ListOffsetsRequest(
                topics=(
                    list_offsets.ListOffsetsTopic(
                        name=topic,
                        partitions=(
                            list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1),
                        ),
                    ),
                ),
            ),
        ),
    ),
    3: (
        ask_metadata,
        lambda client, _: ask_metadata(client, f"t{uuid.uuid4().hex[:10]}", create=True),
    ),
    8: (ask_commit, ask_commit),
    9: (ask_committed, ask_committed),
    10: (
        lambda client, _: (
            client.ask(
                find_coordinator.API,
                4,
                find_coordinator.FindCoordinatorRequest(
                    key_type=find_coordinator.GROUP, coordinator_keys=("group",)
                ),
            ).coordinators
        ),
    ),
    11: (ask_join,),
    12: (ask_beat,),
    13: (ask_leave,),
    14: (ask_sync,),
    15: (ask_described_group,),
    19: (lambda client, _: client.create(f"t{uuid.uuid4().hex[:10]}"),),
    20: (
        lambda client, topic: client.ask(
            delete_topics.API,
            6,
            delete_topics.DeleteTopicsRequest(
                topics=(delete_topics.DeleteTopicState(name=topic),), timeout=20_000
            ),
        ),
    ),
    21: (
        lambda client, topic: client.ask(
            delete_records.API,
            2,
            delete_records.DeleteRecordsRequest(
                topics=(
                    delete_records.DeleteRecordsTopic(
                        name=topic,
                        partitions=(
                            delete_records.DeleteRecordsPartition(partition_index=0, offset=0),
                        ),
                    ),
                ),
                timeout=20_000,
            ),
        ),
    ),
    22: (
        lambda client, _: client.ask(
            init_producer_id.API,
            4,
            init_producer_id.InitProducerIdRequest(
                transactional_id=None, transaction_timeout=60_000
            ),
        ),
    ),
    23: (
        lambda client, topic: client.ask(
            offset_for_leader_epoch.API,
            4,
            offset_for_leader_epoch.OffsetForLeaderEpochRequest(
                topics=(
                    offset_for_leader_epoch.OffsetForLeaderTopic(
                        topic=topic,
                        partitions=(
                            offset_for_leader_epoch.OffsetForLeaderPartition(
                                partition=0, leader_epoch=0
                            ),
                        ),
                    ),
                ),
            ),
        ),
    ),
    29: (
        lambda client, _: client.ask(
            describe_acls.API, 3, describe_acls.DescribeAclsRequest(**_filter())
        ),
    ),
    30: (
        lambda client, _: client.ask(
            create_acls.API,
            3,
            create_acls.CreateAclsRequest(
                creations=(
                    create_acls.AclCreation(
                        resource_type=ResourceType.GROUP,
                        resource_name="other",
                        resource_pattern_type=PatternType.LITERAL,
                        principal="User:nobody",
                        host="*",
                        operation=Operation.READ,
                        permission_type=Permission.ALLOW,
                    ),
                ),
            ),
        ),
    ),
    31: (
        lambda client, _: client.ask(
            delete_acls.API,
            3,
            delete_acls.DeleteAclsRequest(filters=(delete_acls.DeleteAclsFilter(**_filter()),)),
        ),
    ),
    32: (
        lambda client, topic: _configs(client, 2, topic),
        lambda client, _: _configs(client, 4, "1"),
    ),
    33: (
        lambda client, topic: _alter(client, 2, topic),
        lambda client, _: _alter(client, 4, "1"),
    ),
    35: (
        lambda client, _: client.ask(
            describe_log_dirs.API, 4, describe_log_dirs.DescribeLogDirsRequest(topics=None)
        ),
    ),
    37: (
        lambda client, topic: client.ask(
            create_partitions.API,
            3,
            create_partitions.CreatePartitionsRequest(
                topics=(create_partitions.CreatePartitionsTopic(name=topic, count=2),),
                timeout=20_000,
            ),
        ),
    ),
    42: (
        lambda client, _: client.ask(
            delete_groups.API, 2, delete_groups.DeleteGroupsRequest(groups_names=("group",))
        ),
    ),
    43: (
        lambda client, topic: client.ask(
            elect_leaders.API,
            2,
            elect_leaders.ElectLeadersRequest(
                topic_partitions=(elect_leaders.TopicPartitions(topic=topic, partitions=(0,)),)
            ),
        ),
    ),
    44: (
        lambda client, topic: _alter_some(client, 2, topic),
        lambda client, _: _alter_some(client, 4, "2"),
    ),
    45: (
        lambda client, topic: client.ask(
            alter_partition_reassignments.API,
            0,
            alter_partition_reassignments.AlterPartitionReassignmentsRequest(
                topics=(
                    alter_partition_reassignments.ReassignableTopic(
                        name=topic,
                        partitions=(
                            alter_partition_reassignments.ReassignablePartition(
                                partition_index=0, replicas=(1,)
                            ),
                        ),
                    ),
                ),
            ),
        ),
    ),
    46: (
        lambda client, _: client.ask(
            list_partition_reassignments.API,
            0,
            list_partition_reassignments.ListPartitionReassignmentsRequest(),
        ),
    ),
    47: (ask_offset_delete, ask_offset_delete),
    48: (
        lambda client, _: client.ask(
            describe_client_quotas.API,
            1,
            describe_client_quotas.DescribeClientQuotasRequest(components=(), strict=False),
        ),
    ),
    49: (
        lambda client, _: client.ask(
            alter_client_quotas.API,
            1,
            alter_client_quotas.AlterClientQuotasRequest(
                entries=(
                    alter_client_quotas.EntryData(
                        entity=(
                            describe_client_quotas.EntityData(entity_type="user", entity_name="u"),
                        ),
                        ops=(),
                    ),
                ),
            ),
        ),
    ),
    50: (
        lambda client, _: client.ask(
            describe_user_scram_credentials.API,
            0,
            describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None),
        ),
    ),
    51: (
        lambda client, _: client.ask(
            alter_user_scram_credentials.API,
            0,
            alter_user_scram_credentials.AlterUserScramCredentialsRequest(
                deletions=(
                    alter_user_scram_credentials.ScramCredentialDeletion(
                        name="nobody", mechanism=1
                    ),
                ),
                upsertions=(),
            ),
        ),
    ),
    61: (
        lambda client, topic: client.ask(
            describe_producers.API,
            0,
            describe_producers.DescribeProducersRequest(
                topics=(describe_producers.TopicRequest(name=topic, partition_indexes=(0,)),),
            ),
        ),
    ),
}
