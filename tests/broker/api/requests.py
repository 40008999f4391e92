"""Requests of the APIs, about one topic, group or user each: built, sent, and what came of it.

The version is the newest, and what is not said has the default of most tests.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tests.broker.api.running_broker import RawClient
from wire.acls import Operation, PatternType, Permission, ResourceType
from wire.errors import ErrorCode
from wire.messages import (
    alter_client_quotas,
    alter_configs,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_records,
    delete_topics,
    describe_acls,
    describe_configs,
    describe_groups,
    describe_producers,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    sync_group,
)
from wire.messages.describe_client_quotas import EntityData

TIMEOUT = 20_000
OF_TOPIC, OF_BROKER = describe_configs.ResourceType.TOPIC, describe_configs.ResourceType.BROKER
SET = incremental_alter_configs.ConfigOperation.SET
Step = tuple[str, int, str | None]
"""A name, an operation, a value."""


def codes(answer: Any) -> set[ErrorCode]:
    """All error codes in a response, or in a part of one."""
    if isinstance(answer, ErrorCode):
        return {answer}
    if isinstance(answer, Struct):
        answer = [getattr(answer, name) for name in answer.__struct_fields__]
    if not isinstance(answer, list | tuple):
        return set()
    return {code for each in answer for code in codes(each)}


def unused(prefix: str = "t") -> str:
    """A name that no other test uses."""
    return f"{prefix}{uuid.uuid4().hex[:10]}"


# Topics


def ask_metadata(
    client: RawClient, *topics: str, version: int = 12, create: bool = False
) -> metadata.MetadataResponse:
    named = tuple(metadata.MetadataRequestTopic(name=name) for name in topics)
    request = metadata.MetadataRequest(topics=named, allow_auto_topic_creation=create)
    return client.ask(metadata.API, version, request)


def described(
    client: RawClient, name: str, *, create: bool = False
) -> metadata.MetadataResponseTopic:
    (topic,) = ask_metadata(client, name, create=create).topics
    return topic


def creatable(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = (),
    **configs: str | None,
) -> create_topics.CreatableTopic:
    """Names of configs have _ for dots; an assignment is a partition and its brokers."""
    return create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=tuple(
            create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in assignments
        ),
        configs=tuple(
            create_topics.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ),
    )


def create(
    client: RawClient,
    *topics: create_topics.CreatableTopic,
    version: int = 7,
    validate_only: bool = False,
) -> tuple[create_topics.CreatableTopicResult, ...]:
    request = create_topics.CreateTopicsRequest(
        topics=topics, timeout=TIMEOUT, validate_only=validate_only
    )
    return client.ask(create_topics.API, version, request).topics


def delete(
    client: RawClient, name: str | None, *, topic_id: uuid.UUID | None = None, version: int = 6
) -> delete_topics.DeletableTopicResult:
    state = delete_topics.DeleteTopicState(name=name, topic_id=topic_id)
    request = delete_topics.DeleteTopicsRequest(
        topics=(state,) if version >= 6 else (),
        topic_names=(name or "",) if version < 6 else (),
        timeout=TIMEOUT,
    )
    (result,) = client.ask(delete_topics.API, version, request).responses
    return result


def extend(
    client: RawClient,
    name: str,
    count: int,
    assignments: tuple[tuple[int, ...], ...] | None = None,
    *,
    version: int = 3,
    validate_only: bool = False,
) -> create_partitions.CreatePartitionsTopicResult:
    given = None
    if assignments is not None:
        kind = create_partitions.CreatePartitionsAssignment
        given = tuple(kind(broker_ids=each) for each in assignments)
    topic = create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=given)
    request = create_partitions.CreatePartitionsRequest(
        topics=(topic,), timeout=TIMEOUT, validate_only=validate_only
    )
    (result,) = client.ask(create_partitions.API, version, request).results
    return result


# Configs


def describe_config(
    client: RawClient, kind: int, name: str, *keys: str, version: int = 4, **flags: bool
) -> describe_configs.DescribeConfigsResult:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys or None
    )
    request = describe_configs.DescribeConfigsRequest(resources=(resource,), **flags)
    (result,) = client.ask(describe_configs.API, version, request).results
    return result


def replace_configs(
    client: RawClient,
    name: str,
    configs: Mapping[str, str | None],
    *,
    kind: int = OF_TOPIC,
    version: int = 2,
    validate_only: bool = False,
) -> ErrorCode:
    """By AlterConfigs."""
    given = tuple(
        alter_configs.AlterableConfig(name=key, value=text) for key, text in configs.items()
    )
    resource = alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=given
    )
    request = alter_configs.AlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    (result,) = client.ask(alter_configs.API, version, request).responses
    assert bool(result.error_code) == bool(result.error_message)
    return result.error_code


def change_configs(
    client: RawClient,
    name: str,
    *steps: Step,
    kind: int = OF_TOPIC,
    version: int = 1,
    validate_only: bool = False,
) -> ErrorCode:
    """By IncrementalAlterConfigs."""
    given = tuple(
        incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=text)
        for key, operation, text in steps
    )
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=given
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=(resource,), validate_only=validate_only
    )
    (result,) = client.ask(incremental_alter_configs.API, version, request).responses
    assert bool(result.error_code) == bool(result.error_message)
    return result.error_code


# Logs


def list_offset(
    client: RawClient,
    topic: str,
    timestamp: int,
    *,
    version: int = 7,
    index: int = 0,
    epoch: int = -1,
    times: int = 1,
    **more: int,
) -> list_offsets.ListOffsetsPartitionResponse:
    """`times` how often the partition is in the request; `more` is for the request."""
    asked = list_offsets.ListOffsetsPartition(
        partition_index=index, timestamp=timestamp, current_leader_epoch=epoch
    )
    wanted = list_offsets.ListOffsetsTopic(name=topic, partitions=(asked,) * times)
    request = list_offsets.ListOffsetsRequest(topics=(wanted,), **more)
    (found,) = client.ask(list_offsets.API, version, request).topics
    (answer,) = set(found.partitions)
    return answer


def delete_before(
    client: RawClient, topic: str, before: int, *, version: int = 2, index: int = 0
) -> delete_records.DeleteRecordsPartitionResult:
    wanted = delete_records.DeleteRecordsPartition(partition_index=index, offset=before)
    request = delete_records.DeleteRecordsRequest(
        topics=(delete_records.DeleteRecordsTopic(name=topic, partitions=(wanted,)),),
        timeout=TIMEOUT,
    )
    ((answer,),) = (
        each.partitions for each in client.ask(delete_records.API, version, request).topics
    )
    return answer


def end_of_epoch(
    client: RawClient,
    topic: str,
    epoch: int,
    known: int = -1,
    *,
    version: int = 4,
    index: int = 0,
    **more: int,
) -> tuple[ErrorCode, int, int]:
    """Code, epoch, end; `known` is the leader epoch that the client knows of."""
    asked = offset_for_leader_epoch.OffsetForLeaderPartition(
        partition=index, leader_epoch=epoch, current_leader_epoch=known
    )
    wanted = offset_for_leader_epoch.OffsetForLeaderTopic(topic=topic, partitions=(asked,))
    request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=(wanted,), **more)
    found = client.ask(offset_for_leader_epoch.API, version, request).topics
    ((answer,),) = (each.partitions for each in found)
    return answer.error_code, answer.leader_epoch, answer.end_offset


def producers(
    client: RawClient, topic: str, *indexes: int
) -> tuple[describe_producers.PartitionResponse, ...]:
    wanted = describe_producers.TopicRequest(name=topic, partition_indexes=indexes)
    request = describe_producers.DescribeProducersRequest(topics=(wanted,))
    (found,) = client.ask(describe_producers.API, 0, request).topics
    return found.partitions


def ask_producer_id(
    client: RawClient, version: int = 4, **fields: Any
) -> init_producer_id.InitProducerIdResponse:
    request = init_producer_id.InitProducerIdRequest(**fields)
    return client.ask(init_producer_id.API, version, request)


# Groups


def joining(group: str, member_id: str = "") -> join_group.JoinGroupRequest:
    return join_group.JoinGroupRequest(
        group_id=group,
        session_timeout=30_000,
        rebalance_timeout=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(join_group.JoinGroupRequestProtocol(name="range", metadata=b""),),
    )


def join(
    client: RawClient, group: str, member_id: str = "", *, version: int = 3
) -> join_group.JoinGroupResponse:
    """In a version that asks once."""
    return client.ask(join_group.API, version, joining(group, member_id))


def sync(
    client: RawClient, group: str, member_id: str = "nobody", generation: int = 1
) -> sync_group.SyncGroupResponse:
    request = sync_group.SyncGroupRequest(
        group_id=group, generation_id=generation, member_id=member_id
    )
    return client.ask(sync_group.API, 5, request)


def beat(
    client: RawClient, group: str, member_id: str = "nobody", generation: int = 1
) -> heartbeat.HeartbeatResponse:
    request = heartbeat.HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member_id
    )
    return client.ask(heartbeat.API, 4, request)


def leave(client: RawClient, group: str, member_id: str) -> leave_group.LeaveGroupResponse:
    members = (leave_group.MemberIdentity(member_id=member_id),)
    request = leave_group.LeaveGroupRequest(group_id=group, members=members)
    return client.ask(leave_group.API, 5, request)


def describe_group(
    client: RawClient, group: str, *, asks: bool = False
) -> describe_groups.DescribedGroup:
    """`asks` for what one may do with it."""
    request = describe_groups.DescribeGroupsRequest(
        groups=(group,), include_authorized_operations=asks
    )
    (found,) = client.ask(describe_groups.API, 5, request).groups
    return found


def commit(client: RawClient, group: str, *partitions: tuple[str, int, str]) -> list[ErrorCode]:
    """Offset 7 of each topic and partition, with this metadata."""
    kind = offset_commit.OffsetCommitRequestPartition
    topics = tuple(
        offset_commit.OffsetCommitRequestTopic(
            name=topic,
            partitions=(kind(partition_index=at, committed_offset=7, committed_metadata=text),),
        )
        for topic, at, text in partitions
    )
    request = offset_commit.OffsetCommitRequest(group_id=group, topics=topics)
    answer = client.ask(offset_commit.API, 8, request)
    return [each.partitions[0].error_code for each in answer.topics]


def committed(client: RawClient, group: str, *topics: str) -> offset_fetch.OffsetFetchResponseGroup:
    """Of the first partition of each of these, or of all that there is."""
    kind = offset_fetch.OffsetFetchRequestTopic
    named = tuple(kind(name=topic, partition_indexes=(0,)) for topic in topics) or None
    wanted = offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=named)
    request = offset_fetch.OffsetFetchRequest(groups=(wanted,))
    (found,) = client.ask(offset_fetch.API, 8, request).groups
    return found


def find(
    client: RawClient, version: int, key_type: int = find_coordinator.GROUP
) -> tuple[find_coordinator.Coordinator | find_coordinator.FindCoordinatorResponse, ...]:
    """Coordinators of `it`, and in newer versions of `other`."""
    request = find_coordinator.FindCoordinatorRequest(
        key="it", key_type=key_type, coordinator_keys=("it", "other")
    )
    answer = client.ask(find_coordinator.API, version, request)
    if version < 4:
        return (answer,)
    assert [each.key for each in answer.coordinators] == ["it", "other"]
    return answer.coordinators


# ACLs, users, quotas


def acl(name: str, **other: Any) -> create_acls.AclCreation:
    fields: dict[str, Any] = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return create_acls.AclCreation(**fields | other)


def acl_filter(name: str | None = None, **other: Any) -> dict[str, Any]:
    fields = {
        "resource_type_filter": ResourceType.TOPIC,
        "resource_name_filter": name,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
    }
    return fields | other


def add_acls(
    client: RawClient, *wanted: create_acls.AclCreation, version: int = 3
) -> list[create_acls.AclCreationResult]:
    request = create_acls.CreateAclsRequest(creations=wanted)
    return list(client.ask(create_acls.API, version, request).results)


def find_acls(
    client: RawClient, name: str | None, version: int = 3, **other: Any
) -> describe_acls.DescribeAclsResponse:
    request = describe_acls.DescribeAclsRequest(**acl_filter(name, **other))
    return client.ask(describe_acls.API, version, request)


def remove_acls(
    client: RawClient, name: str | None, version: int = 3, *, times: int = 1, **other: Any
) -> delete_acls.DeleteAclsFilterResult:
    """`times` how often the filter is in the request."""
    filters = (delete_acls.DeleteAclsFilter(**acl_filter(name, **other)),) * times
    request = delete_acls.DeleteAclsRequest(filters=filters)
    (result,) = set(client.ask(delete_acls.API, version, request).filter_results)
    return result


def upsertion(name: str, **other: Any) -> alter_user_scram_credentials.ScramCredentialUpsertion:
    fields: dict[str, Any] = {
        "name": name,
        "mechanism": 2,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": b"s" * 64,
    }
    return alter_user_scram_credentials.ScramCredentialUpsertion(**fields | other)


def deletion(name: str, mechanism: int = 2) -> alter_user_scram_credentials.ScramCredentialDeletion:
    return alter_user_scram_credentials.ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter_users(client: RawClient, *altered: Any) -> dict[str, tuple[ErrorCode, str | None]]:
    """Upsertions and deletions."""
    kind = alter_user_scram_credentials.ScramCredentialDeletion
    request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        deletions=tuple(each for each in altered if isinstance(each, kind)),
        upsertions=tuple(each for each in altered if not isinstance(each, kind)),
    )
    answer = client.ask(alter_user_scram_credentials.API, 0, request)
    return {each.user: (each.error_code, each.error_message) for each in answer.results}


def set_quota(client: RawClient, user: str | None, key: str, rate: float | None) -> ErrorCode:
    """Of a user, or of all others; None removes it."""
    op = alter_client_quotas.OpData(key=key, value=rate or 0.0, remove=rate is None)
    entity = (EntityData(entity_type="user", entity_name=user),)
    entry = alter_client_quotas.EntryData(entity=entity, ops=(op,))
    request = alter_client_quotas.AlterClientQuotasRequest(entries=(entry,))
    (result,) = client.ask(alter_client_quotas.API, 1, request).entries
    return result.error_code
