"""Every API that is served, in one table: its key, its messages, the versions advertised to
clients, its handler, and the handler's dependencies.

A handler is `handle(needs, request, caller) -> response`, plain or `async`. It gets no more of the
broker than it needs: one of its parts, or a frozen `Needs` of its own module. The type checker
holds each row together: the handler takes that API's request and what is made for it, and returns
that API's response.

Produce and Fetch have a `serve` that the dispatcher calls itself: one must not wait, the other
must.

To add an API: its messages in `wire/messages`, its handler in a file beside this one, a row here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from broker.access.authorization import Authorization
from broker.access.producer_ids import ProducerIds
from broker.admin.acls import AclAdmin
from broker.admin.broker_configs import BrokerConfigAdmin
from broker.admin.leaders import LeaderAdmin
from broker.admin.quotas import QuotaAdmin
from broker.admin.reassignments import ReassignmentAdmin
from broker.admin.topics import TopicAdmin
from broker.admin.users import UserAdmin
from broker.api import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    api_versions,
    appending,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_user_scram_credentials,
    elect_leaders,
    fetch,
    find_coordinator,
    group_requests,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
)
from broker.api.administration import Administration
from broker.api.metadata import DescribedTopics
from broker.api.produce import LargeChecks
from broker.configs.config import BrokerConfig
from broker.connections.caller import Caller
from broker.connections.complaints import Complaints
from broker.connections.large_requests import Turns
from broker.connections.quotas import Quotas
from broker.groups.coordinator import Coordinator
from broker.monitoring.metrics import BrokerMetrics
from broker.replicas.open_files import OpenLogs
from broker.replicas.partitions import Partitions
from broker.replication.sessions import FetchSessions
from broker.replication.throttle import Throttle
from cluster.view import ClusterView
from wire.framing.codec import Api
from wire.messages.alter_client_quotas import API as ALTER_CLIENT_QUOTAS
from wire.messages.alter_configs import API as ALTER_CONFIGS
from wire.messages.alter_partition_reassignments import API as ALTER_PARTITION_REASSIGNMENTS
from wire.messages.alter_user_scram_credentials import API as ALTER_USER_SCRAM_CREDENTIALS
from wire.messages.api_versions import API as API_VERSIONS
from wire.messages.api_versions import ApiVersion
from wire.messages.create_acls import API as CREATE_ACLS
from wire.messages.create_partitions import API as CREATE_PARTITIONS
from wire.messages.create_topics import API as CREATE_TOPICS
from wire.messages.delete_acls import API as DELETE_ACLS
from wire.messages.delete_groups import API as DELETE_GROUPS
from wire.messages.delete_records import API as DELETE_RECORDS
from wire.messages.delete_topics import API as DELETE_TOPICS
from wire.messages.describe_acls import API as DESCRIBE_ACLS
from wire.messages.describe_client_quotas import API as DESCRIBE_CLIENT_QUOTAS
from wire.messages.describe_cluster import API as DESCRIBE_CLUSTER
from wire.messages.describe_configs import API as DESCRIBE_CONFIGS
from wire.messages.describe_groups import API as DESCRIBE_GROUPS
from wire.messages.describe_log_dirs import API as DESCRIBE_LOG_DIRS
from wire.messages.describe_log_dirs import UnwritableFolder
from wire.messages.describe_producers import API as DESCRIBE_PRODUCERS
from wire.messages.describe_user_scram_credentials import API as DESCRIBE_USER_SCRAM_CREDENTIALS
from wire.messages.elect_leaders import API as ELECT_LEADERS
from wire.messages.fetch import API as FETCH
from wire.messages.find_coordinator import API as FIND_COORDINATOR
from wire.messages.heartbeat import API as HEARTBEAT
from wire.messages.incremental_alter_configs import API as INCREMENTAL_ALTER_CONFIGS
from wire.messages.init_producer_id import API as INIT_PRODUCER_ID
from wire.messages.join_group import API as JOIN_GROUP
from wire.messages.leave_group import API as LEAVE_GROUP
from wire.messages.list_groups import API as LIST_GROUPS
from wire.messages.list_offsets import API as LIST_OFFSETS
from wire.messages.list_partition_reassignments import API as LIST_PARTITION_REASSIGNMENTS
from wire.messages.metadata import API as METADATA
from wire.messages.offset_commit import API as OFFSET_COMMIT
from wire.messages.offset_delete import API as OFFSET_DELETE
from wire.messages.offset_fetch import API as OFFSET_FETCH
from wire.messages.offset_for_leader_epoch import API as OFFSET_FOR_LEADER_EPOCH
from wire.messages.produce import API as PRODUCE
from wire.messages.sasl_authenticate import API as SASL_AUTHENTICATE
from wire.messages.sasl_handshake import API as SASL_HANDSHAKE
from wire.messages.sync_group import API as SYNC_GROUP
from wire.record_batches.record_check import RecordCheck

Needs = TypeVar("Needs")
Request = TypeVar("Request")
Response = TypeVar("Response")


class BrokerParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a broker that answer requests. Only this table reads them."""

    config: BrokerConfig
    listener: str
    """The address on which it listens, as a Kafka listener."""
    advertised: str
    """The address that clients are told."""
    loop: asyncio.AbstractEventLoop
    cluster: ClusterView
    topics: TopicAdmin
    leaders: LeaderAdmin
    reassignments: ReassignmentAdmin
    broker_configs: BrokerConfigAdmin
    groups: Coordinator
    sends_throttled: Throttle
    """The throttle of what other brokers fetch from leaders here, for moved replicas."""
    users: UserAdmin
    partitions: Partitions
    unwritable: Callable[[], Sequence[UnwritableFolder]]
    """Returns the folders that it cannot write to."""
    described: DescribedTopics
    producer_ids: ProducerIds
    turns: Turns
    """The turns of requests about many things."""
    open_logs: OpenLogs
    record_check: RecordCheck
    large_checks: LargeChecks
    complaints: Complaints
    metrics: BrokerMetrics
    quotas: Quotas
    quota_admin: QuotaAdmin
    authorization: Authorization
    acls: AclAdmin
    administration: Administration


class Served(msgspec.Struct, frozen=True):
    """A row of the table: one API. `_row` checks that the types of its members agree."""

    key: int
    api: Api[Any, Any]
    asked: range
    handle: Callable[..., Any]
    needs: Callable[[BrokerParts], Any]
    ends_with_client: bool = False
    """Whether its handler is cancelled if the client disconnects before the answer."""


def _row(
    key: int,
    api: Api[Request, Response],
    asked: range,
    handle: Callable[[Needs, Request, Caller], Response | Awaitable[Response]],
    needs: Callable[[BrokerParts], Needs],
    *,
    ends_with_client: bool = False,
) -> Served:
    return Served(key, api, asked, handle, needs, ends_with_client)


# What handlers need


def _nothing(_parts: BrokerParts) -> None:
    return None


def _of_topics(
    make: Callable[[TopicAdmin, Authorization], Needs],
) -> Callable[[BrokerParts], Needs]:
    return lambda parts: make(parts.topics, parts.authorization)


def _of_configs(
    make: Callable[[TopicAdmin, BrokerConfigAdmin, Authorization], Needs],
) -> Callable[[BrokerParts], Needs]:
    return lambda parts: make(parts.topics, parts.broker_configs, parts.authorization)


def _of_partitions(
    make: Callable[[Partitions, Authorization], Needs],
) -> Callable[[BrokerParts], Needs]:
    return lambda parts: make(parts.partitions, parts.authorization)


def _of_acls(make: Callable[[AclAdmin, Authorization], Needs]) -> Callable[[BrokerParts], Needs]:
    return lambda parts: make(parts.acls, parts.authorization)


def _of_quotas(
    make: Callable[[QuotaAdmin, Authorization], Needs],
) -> Callable[[BrokerParts], Needs]:
    return lambda parts: make(parts.quota_admin, parts.authorization)


def _of_users(
    make: Callable[[UserAdmin, Authorization], Needs],
) -> Callable[[BrokerParts], Needs]:
    return lambda parts: make(parts.users, parts.authorization)


def _of_groups(parts: BrokerParts) -> group_requests.Needs:
    return group_requests.Needs(parts.groups, parts.authorization)


def _to_commit(parts: BrokerParts) -> offset_commit.Needs:
    max_metadata_bytes = parts.config.groups.offset_metadata_bytes
    return offset_commit.Needs(parts.groups, parts.cluster, parts.authorization, max_metadata_bytes)


def _to_elect(parts: BrokerParts) -> elect_leaders.Needs:
    return elect_leaders.Needs(parts.leaders, parts.authorization)


def _to_reassign(parts: BrokerParts) -> alter_partition_reassignments.Needs:
    return alter_partition_reassignments.Needs(parts.reassignments, parts.authorization)


def _to_list_reassignments(parts: BrokerParts) -> list_partition_reassignments.Needs:
    return list_partition_reassignments.Needs(parts.cluster, parts.authorization)


def _to_describe_cluster(parts: BrokerParts) -> describe_cluster.Needs:
    return describe_cluster.Needs(parts.cluster, parts.authorization)


def to_produce(parts: BrokerParts) -> appending.Needs:
    return appending.Needs(
        parts.partitions,
        parts.record_check,
        parts.large_checks,
        parts.complaints,
        parts.metrics,
        parts.authorization,
        parts.producer_ids,
        parts.turns,
    )


def to_fetch(parts: BrokerParts) -> fetch.Needs:
    return fetch.Needs(
        parts.partitions,
        parts.open_logs,
        parts.loop,
        parts.authorization,
        FetchSessions(parts.loop.time),
        parts.cluster,
        parts.metrics,
        parts.sends_throttled,
    )


def _to_describe_topics(parts: BrokerParts) -> metadata.Needs:
    auto_create = parts.config.auto_create_topics
    return metadata.Needs(
        parts.cluster,
        parts.topics,
        parts.described,
        auto_create,
        parts.authorization,
        parts.administration,
    )


def _to_find_coordinator(parts: BrokerParts) -> find_coordinator.Needs:
    return find_coordinator.Needs(parts.cluster, parts.groups, parts.authorization)


def _to_delete_topics(parts: BrokerParts) -> delete_topics.Needs:
    return delete_topics.Needs(parts.cluster, parts.topics, parts.authorization)


def _to_give_producer_ids(parts: BrokerParts) -> init_producer_id.Needs:
    return init_producer_id.Needs(parts.producer_ids, parts.authorization)


def _to_describe_configs(parts: BrokerParts) -> describe_configs.Needs:
    return describe_configs.Needs(
        parts.cluster,
        parts.config,
        parts.topics.defaults,
        parts.listener,
        parts.advertised,
        parts.authorization,
    )


def _to_describe_log_dirs(parts: BrokerParts) -> describe_log_dirs.Needs:
    return describe_log_dirs.Needs(
        parts.partitions, parts.config.data_dir, parts.unwritable, parts.authorization
    )


def _listed(_parts: BrokerParts) -> tuple[ApiVersion, ...]:
    return LISTED


TABLE: Final = (
    Served(0, PRODUCE, range(10), produce.serve, to_produce),
    Served(1, FETCH, range(4, 13), fetch.serve, to_fetch),
    _row(2, LIST_OFFSETS, range(1, 8), list_offsets.handle, _of_partitions(list_offsets.Needs)),
    _row(3, METADATA, range(13), metadata.handle, _to_describe_topics),
    _row(8, OFFSET_COMMIT, range(2, 9), offset_commit.handle, _to_commit),
    _row(9, OFFSET_FETCH, range(1, 9), offset_fetch.handle, _of_groups),
    _row(10, FIND_COORDINATOR, range(5), find_coordinator.handle, _to_find_coordinator),
    _row(11, JOIN_GROUP, range(10), join_group.handle, _of_groups, ends_with_client=True),
    _row(12, HEARTBEAT, range(5), heartbeat.handle, _of_groups),
    _row(13, LEAVE_GROUP, range(6), leave_group.handle, _of_groups),
    _row(14, SYNC_GROUP, range(6), sync_group.handle, _of_groups, ends_with_client=True),
    _row(15, DESCRIBE_GROUPS, range(6), describe_groups.handle, _of_groups),
    _row(16, LIST_GROUPS, range(5), list_groups.handle, _of_groups),
    _row(17, SASL_HANDSHAKE, range(2), sasl_handshake.handle, _nothing),
    _row(18, API_VERSIONS, range(5), api_versions.handle, _listed),
    _row(19, CREATE_TOPICS, range(2, 8), create_topics.handle, _of_topics(create_topics.Needs)),
    _row(20, DELETE_TOPICS, range(1, 7), delete_topics.handle, _to_delete_topics),
    _row(21, DELETE_RECORDS, range(3), delete_records.handle, _of_partitions(delete_records.Needs)),
    _row(22, INIT_PRODUCER_ID, range(5), init_producer_id.handle, _to_give_producer_ids),
    _row(
        23,
        OFFSET_FOR_LEADER_EPOCH,
        range(2, 5),
        offset_for_leader_epoch.handle,
        _of_partitions(offset_for_leader_epoch.Needs),
    ),
    _row(29, DESCRIBE_ACLS, range(1, 4), describe_acls.handle, _of_acls(describe_acls.Needs)),
    _row(30, CREATE_ACLS, range(1, 4), create_acls.handle, _of_acls(create_acls.Needs)),
    _row(31, DELETE_ACLS, range(1, 4), delete_acls.handle, _of_acls(delete_acls.Needs)),
    _row(32, DESCRIBE_CONFIGS, range(1, 5), describe_configs.handle, _to_describe_configs),
    _row(33, ALTER_CONFIGS, range(3), alter_configs.handle, _of_configs(alter_configs.Needs)),
    _row(35, DESCRIBE_LOG_DIRS, range(1, 5), describe_log_dirs.handle, _to_describe_log_dirs),
    _row(36, SASL_AUTHENTICATE, range(3), sasl_authenticate.handle, _nothing),
    _row(
        37,
        CREATE_PARTITIONS,
        range(4),
        create_partitions.handle,
        _of_topics(create_partitions.Needs),
    ),
    _row(42, DELETE_GROUPS, range(3), delete_groups.handle, _of_groups),
    _row(43, ELECT_LEADERS, range(3), elect_leaders.handle, _to_elect),
    _row(
        44,
        INCREMENTAL_ALTER_CONFIGS,
        range(2),
        incremental_alter_configs.handle,
        _of_configs(incremental_alter_configs.Needs),
    ),
    _row(
        45,
        ALTER_PARTITION_REASSIGNMENTS,
        range(1),
        alter_partition_reassignments.handle,
        _to_reassign,
    ),
    _row(
        46,
        LIST_PARTITION_REASSIGNMENTS,
        range(1),
        list_partition_reassignments.handle,
        _to_list_reassignments,
    ),
    _row(47, OFFSET_DELETE, range(1), offset_delete.handle, _of_groups),
    _row(
        48,
        DESCRIBE_CLIENT_QUOTAS,
        range(2),
        describe_client_quotas.handle,
        _of_quotas(describe_client_quotas.Needs),
    ),
    _row(
        49,
        ALTER_CLIENT_QUOTAS,
        range(2),
        alter_client_quotas.handle,
        _of_quotas(alter_client_quotas.Needs),
    ),
    _row(
        50,
        DESCRIBE_USER_SCRAM_CREDENTIALS,
        range(1),
        describe_user_scram_credentials.handle,
        _of_users(describe_user_scram_credentials.Needs),
    ),
    _row(
        51,
        ALTER_USER_SCRAM_CREDENTIALS,
        range(1),
        alter_user_scram_credentials.handle,
        _of_users(alter_user_scram_credentials.Needs),
    ),
    _row(60, DESCRIBE_CLUSTER, range(2), describe_cluster.handle, _to_describe_cluster),
    _row(
        61,
        DESCRIBE_PRODUCERS,
        range(1),
        describe_producers.handle,
        _of_partitions(describe_producers.Needs),
    ),
)

APIS: Final[dict[int, Api[Any, Any]]] = {row.key: row.api for row in TABLE}
LISTED: Final = tuple(
    ApiVersion(api_key=key, min_version=asked[0], max_version=asked[-1])
    for key, asked in ((row.key, row.asked) for row in TABLE)
)
