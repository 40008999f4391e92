"""Derives the entries of the administration log from requests and responses: one table of all
administrative APIs.

An API's function is called before its handler, so that it can capture the previous state. What it
returns is called with the response, and yields an entry for each thing that was requested, whether
it was done or rejected. A validate-only request leaves an entry only if it was rejected.

`before` is the state that this broker knew when the request came. If another broker made a change
less than a second earlier, `before` may already include it, or not yet.

A test fails for every API that needs the right to create, alter or delete and has no row here.
Topics that Metadata creates are recorded there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from broker.admin.broker_configs import checked_name
from broker.admin.quotas import QuotaAdmin
from broker.admin.users import UserAdmin
from broker.configs.dynamic_configs import overrides_of
from broker.errors import ApiError
from broker.replicas.partitions import Partitions
from cluster.values import ClusterSnapshot
from cluster.view import ClusterView
from ground.administration.entries import OK, Change, Kind
from ground.logins.scram import of_code
from wire.acls import Operation, PatternType, Permission, ResourceType
from wire.errors import ErrorCode
from wire.framing.codec import Api
from wire.messages import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    offset_delete,
)
from wire.messages.describe_configs import ResourceType as ConfigOf

Request = TypeVar("Request")
Response = TypeVar("Response")
Details = Mapping[str, str]
NOTHING: Final[Details] = MappingProxyType({})
CameOf = tuple[ErrorCode, str | None]  # the code, and the message for the person


class Known(msgspec.Struct, frozen=True):
    """The parts of a broker that know the state before a change."""

    cluster: ClusterView
    partitions: Partitions
    users: UserAdmin
    quotas: QuotaAdmin


Changes = Callable[[Any], Iterable[Change]]
"""Of a response."""


class Remembered(msgspec.Struct, frozen=True):
    """A row of the table: how one API's changes are recorded. `_row` checks that the types of its
    members agree."""

    action: str
    kind: Kind
    begin: Callable[[Known, Any], Changes]


def _row(
    _api: Api[Request, Response],
    action: str,
    kind: Kind,
    begin: Callable[[Known, Request], Callable[[Response], Iterable[Change]]],
) -> Remembered:
    return Remembered(action, kind, begin)


# Topics


def _topics_created(
    known: Known, request: create_topics.CreateTopicsRequest
) -> Callable[[create_topics.CreateTopicsResponse], Iterator[Change]]:
    def changes(response: create_topics.CreateTopicsResponse) -> Iterator[Change]:
        for topic, result in zip(request.topics, response.topics, strict=True):
            if _is_dry_run(request.validate_only, result.error_code):
                continue
            count = topic.num_partitions
            if result.error_code == ErrorCode.none:
                info = known.cluster.snapshot.topics.get(topic.name)
                count = count if info is None else len(info.partitions)
            configs = {config.name: config.value or "" for config in topic.configs}
            yield _change(
                "create",
                Kind.TOPIC,
                topic.name,
                after={"partitions": str(count), **configs},
                came_of=(result.error_code, result.error_message),
            )

    return changes


def _topics_deleted(
    known: Known, request: delete_topics.DeleteTopicsRequest
) -> Callable[[delete_topics.DeleteTopicsResponse], Iterator[Change]]:
    snapshot = known.cluster.snapshot
    named_topics = (delete_topics.DeleteTopicState(name=name) for name in request.topic_names)
    requested_topics = (*request.topics, *named_topics)

    def changes(response: delete_topics.DeleteTopicsResponse) -> Iterator[Change]:
        for topic, result in zip(requested_topics, response.responses, strict=True):
            topic_id = "" if topic.topic_id is None else str(topic.topic_id)
            name = topic.name
            if name is None and topic.topic_id is not None:
                name = snapshot.topic_names.get(topic.topic_id, topic_id)
            info = snapshot.topics.get(name or "")
            yield _change(
                "delete",
                Kind.TOPIC,
                name or "",
                before={} if info is None else {"partitions": str(len(info.partitions))},
                came_of=(result.error_code, result.error_message),
            )

    return changes


def _partitions_added(
    known: Known, request: create_partitions.CreatePartitionsRequest
) -> Callable[[create_partitions.CreatePartitionsResponse], Iterator[Change]]:
    topics = known.cluster.snapshot.topics

    def changes(response: create_partitions.CreatePartitionsResponse) -> Iterator[Change]:
        for requested_topic, result in zip(request.topics, response.results, strict=True):
            if _is_dry_run(request.validate_only, result.error_code):
                continue
            info = topics.get(requested_topic.name)
            yield _change(
                "extend",
                Kind.TOPIC,
                requested_topic.name,
                before={} if info is None else {"partitions": str(len(info.partitions))},
                after={"partitions": str(requested_topic.count)},
                came_of=(result.error_code, result.error_message),
            )

    return changes


def _records_deleted(
    known: Known, request: delete_records.DeleteRecordsRequest
) -> Callable[[delete_records.DeleteRecordsResponse], Iterator[Change]]:
    starts = {
        (topic.name, partition.partition_index): _start(
            known, topic.name, partition.partition_index
        )
        for topic in request.topics
        for partition in topic.partitions
    }

    def changes(response: delete_records.DeleteRecordsResponse) -> Iterator[Change]:
        """Yields one entry for each topic and outcome, with its partitions' new start offsets."""
        for requested_topic, topic in zip(request.topics, response.topics, strict=True):
            requested_offsets = {
                partition.partition_index: partition.offset
                for partition in requested_topic.partitions
            }
            for code in dict.fromkeys(partition.error_code for partition in topic.partitions):
                affected_partitions = [
                    partition for partition in topic.partitions if partition.error_code == code
                ]
                is_done = code == ErrorCode.none
                yield _change(
                    "delete",
                    Kind.RECORDS,
                    topic.name,
                    before={
                        f"start of {partition.partition_index}": start
                        for partition in affected_partitions
                        if (start := starts[topic.name, partition.partition_index])
                    },
                    after={
                        f"start of {partition.partition_index}": str(
                            partition.low_watermark
                            if is_done
                            else requested_offsets[partition.partition_index]
                        )
                        for partition in affected_partitions
                    },
                    came_of=(code, None),
                )

    return changes


def _leaders_elected(
    known: Known, request: elect_leaders.ElectLeadersRequest
) -> Callable[[elect_leaders.ElectLeadersResponse], Iterator[Change]]:
    snapshot = known.cluster.snapshot

    def changes(response: elect_leaders.ElectLeadersResponse) -> Iterator[Change]:
        """Yields one entry for each topic and outcome, with its partitions' leaders."""
        for topic in response.replica_election_results:
            for code in dict.fromkeys(partition.error_code for partition in topic.partition_result):
                affected_partitions = [
                    partition
                    for partition in topic.partition_result
                    if partition.error_code == code
                ]
                indexes = [partition.partition_id for partition in affected_partitions]
                yield _change(
                    "elect",
                    Kind.TOPIC,
                    topic.topic,
                    before=_leaders_of(snapshot, topic.topic, indexes),
                    after=_leaders_of(known.cluster.snapshot, topic.topic, indexes),
                    came_of=(code, affected_partitions[0].error_message),
                )
        if not response.replica_election_results and request.topic_partitions is None:
            yield _change("elect", Kind.TOPIC, "*", came_of=(response.error_code, None))

    return changes


def _replicas_moved(
    known: Known, request: alter_partition_reassignments.AlterPartitionReassignmentsRequest
) -> Callable[
    [alter_partition_reassignments.AlterPartitionReassignmentsResponse], Iterator[Change]
]:
    topics = known.cluster.snapshot.topics

    def changes(
        response: alter_partition_reassignments.AlterPartitionReassignmentsResponse,
    ) -> Iterator[Change]:
        results = {
            (topic.name, partition.partition_index): (partition.error_code, partition.error_message)
            for topic in response.responses
            for partition in topic.partitions
        }
        for topic in request.topics:
            info = topics.get(topic.name)
            for partition in topic.partitions:
                index = partition.partition_index
                exists = info is not None and 0 <= index < len(info.partitions)
                old_replicas = info.partitions[index].replicas if info and exists else ()
                yield _change(
                    "move",
                    Kind.TOPIC,
                    topic.name,
                    before={f"replicas of {index}": _listed(old_replicas)} if exists else NOTHING,
                    after={f"replicas of {index}": _listed(partition.replicas)},
                    came_of=results.get(
                        (topic.name, index), (response.error_code, response.error_message)
                    ),
                )

    return changes


def _listed(replicas: tuple[int, ...] | None) -> str:
    return "as before" if replicas is None else ",".join(str(replica) for replica in replicas)


def _leaders_of(snapshot: ClusterSnapshot, topic: str, indexes: Iterable[int]) -> Details:
    info = snapshot.topics.get(topic)
    partitions = () if info is None else info.partitions
    return {
        f"leader of {index}": str(partitions[index].leader)
        for index in indexes
        if 0 <= index < len(partitions)
    }


def _start(known: Known, topic: str, partition: int) -> str:
    try:
        return str(known.partitions.find(topic, partition).log.start_offset)
    except ApiError:
        return ""


# Configs

_Resource = alter_configs.AlterConfigsResource | incremental_alter_configs.AlterConfigsResource
_ResourceResult = (
    alter_configs.AlterConfigsResourceResponse
    | incremental_alter_configs.AlterConfigsResourceResponse
)


def _configs_altered(
    known: Known,
    request: alter_configs.AlterConfigsRequest
    | incremental_alter_configs.IncrementalAlterConfigsRequest,
) -> Callable[
    [
        alter_configs.AlterConfigsResponse
        | incremental_alter_configs.IncrementalAlterConfigsResponse
    ],
    Iterator[Change],
]:
    snapshot = known.cluster.snapshot

    def changes(
        response: alter_configs.AlterConfigsResponse
        | incremental_alter_configs.IncrementalAlterConfigsResponse,
    ) -> Iterator[Change]:
        resources: Sequence[_Resource] = request.resources
        results: Sequence[_ResourceResult] = response.responses
        for resource, result in zip(resources, results, strict=True):
            if not _is_dry_run(request.validate_only, result.error_code):
                yield _configured(
                    known,
                    (resource.resource_type, resource.resource_name),
                    _overrides(snapshot, resource.resource_type, resource.resource_name),
                    {config.name: config.value or "" for config in resource.configs},
                    (result.error_code, result.error_message),
                )

    return changes


def _configured(
    known: Known,
    resource: tuple[int, str],
    before: Details,
    wanted: Details,
    came_of: CameOf,
) -> Change:
    """An entry with the configs that differ; if rejected, those that were requested."""
    kind, name = resource
    if came_of[0] != ErrorCode.none:
        old_configs, new_configs = NOTHING, wanted
    else:
        now = _overrides(known.cluster.snapshot, kind, name)
        new_configs = {key: text for key, text in now.items() if before.get(key) != text}
        old_configs = {key: text for key, text in before.items() if now.get(key) != text}
    is_topic = kind == ConfigOf.TOPIC
    return _change(
        "alter",
        Kind.TOPIC_CONFIG if is_topic else Kind.BROKER_CONFIG,
        name,
        before=old_configs,
        after=new_configs,
        came_of=came_of,
    )


def _overrides(snapshot: ClusterSnapshot, kind: int, name: str) -> Details:
    if kind != ConfigOf.BROKER:
        return snapshot.topic_configs.get(name, NOTHING)
    try:
        return overrides_of(snapshot, checked_name(name))
    except ApiError:
        return NOTHING


# ACLs


def _acls_added(
    _known: Known, request: create_acls.CreateAclsRequest
) -> Callable[[create_acls.CreateAclsResponse], Iterator[Change]]:
    def changes(response: create_acls.CreateAclsResponse) -> Iterator[Change]:
        for creation, result in zip(request.creations, response.results, strict=True):
            yield _change(
                "create",
                Kind.ACL,
                _resource(creation.resource_type, creation.resource_name),
                after=_rule(
                    creation.resource_pattern_type,
                    creation.principal,
                    creation.host,
                    creation.operation,
                    creation.permission_type,
                ),
                came_of=(result.error_code, result.error_message),
            )

    return changes


def _acls_removed(
    _known: Known, request: delete_acls.DeleteAclsRequest
) -> Callable[[delete_acls.DeleteAclsResponse], Iterator[Change]]:
    def changes(response: delete_acls.DeleteAclsResponse) -> Iterator[Change]:
        for acl_filter, result in zip(request.filters, response.filter_results, strict=True):
            for rule in result.matching_acls:
                yield _change(
                    "delete",
                    Kind.ACL,
                    _resource(rule.resource_type, rule.resource_name),
                    before=_rule(
                        rule.pattern_type,
                        rule.principal,
                        rule.host,
                        rule.operation,
                        rule.permission_type,
                    ),
                    came_of=(rule.error_code, rule.error_message),
                )
            if not result.matching_acls:
                no_rule = "there was no such rule"
                is_done = result.error_code == ErrorCode.none
                yield _change(
                    "delete",
                    Kind.ACL,
                    _resource(
                        acl_filter.resource_type_filter, acl_filter.resource_name_filter or "*"
                    ),
                    came_of=(result.error_code, no_rule if is_done else result.error_message),
                )

    return changes


def _resource(kind: int, name: str) -> str:
    return f"{_name_of(ResourceType, kind).lower()}:{name}"


def _rule(pattern: int, principal: str, host: str, operation: int, permission: int) -> Details:
    return {
        "principal": principal,
        "host": host,
        "operation": _name_of(Operation, operation),
        "permission": _name_of(Permission, permission),
        "pattern": _name_of(PatternType, pattern),
    }


def _name_of(
    codes: type[ResourceType] | type[PatternType] | type[Operation] | type[Permission], value: int
) -> str:
    """The name of an enum value that a client sent, or the value itself if it is none."""
    return next((code.words for code in codes if code == value), str(value))


# Users, quotas, groups


def _users_altered(
    known: Known, request: alter_user_scram_credentials.AlterUserScramCredentialsRequest
) -> Callable[[alter_user_scram_credentials.AlterUserScramCredentialsResponse], Iterator[Change]]:
    users = known.users.users
    deleted_mechanisms: dict[str, set[str]] = {}
    new_passwords: dict[str, dict[str, str]] = {}
    for deletion in request.deletions:
        deleted_mechanisms.setdefault(deletion.name, set()).add(_mechanism(deletion.mechanism))
    for upsertion in request.upsertions:
        password = f"another password, {upsertion.iterations} iterations"
        new_passwords.setdefault(upsertion.name, {})[_mechanism(upsertion.mechanism)] = password

    def changes(
        response: alter_user_scram_credentials.AlterUserScramCredentialsResponse,
    ) -> Iterator[Change]:
        """Yields the changed users, with the iterations of their passwords, but no passwords."""
        for result in response.results:
            old_passwords = {
                str(kind): f"{credential.iterations} iterations"
                for kind, credential in users.get(result.user, {}).items()
            }
            passwords = new_passwords.get(result.user, {})
            remaining_mechanisms = (
                old_passwords.keys() - deleted_mechanisms.get(result.user, set()) - passwords.keys()
            )
            yield _change(
                "alter"
                if old_passwords and (passwords or remaining_mechanisms)
                else "create"
                if passwords
                else "delete",
                Kind.USER,
                result.user,
                before={
                    key: text
                    for key, text in old_passwords.items()
                    if key not in remaining_mechanisms
                },
                after=passwords,
                came_of=(result.error_code, result.error_message),
            )

    return changes


def _mechanism(code: int) -> str:
    mechanism = of_code(code)
    return str(code) if mechanism is None else str(mechanism)


def _quotas_altered(
    known: Known, request: alter_client_quotas.AlterClientQuotasRequest
) -> Callable[[alter_client_quotas.AlterClientQuotasResponse], Iterator[Change]]:
    snapshot = known.quotas.quotas

    def changes(response: alter_client_quotas.AlterClientQuotasResponse) -> Iterator[Change]:
        for entry, result in zip(request.entries, response.entries, strict=True):
            if _is_dry_run(request.validate_only, result.error_code):
                continue
            parts = [(part.entity_type, part.entity_name) for part in entry.entity]
            parts.sort(key=lambda part: part[0])
            old_quotas = snapshot.get(tuple(parts), {})
            yield _change(
                "alter",
                Kind.QUOTA,
                ",".join(f"{kind}={'*' if name is None else name}" for kind, name in parts),
                before={
                    op.key: f"{old_quotas[op.key]:.12g}" for op in entry.ops if op.key in old_quotas
                },
                after={op.key: f"{op.value:.12g}" for op in entry.ops if not op.remove},
                came_of=(result.error_code, result.error_message),
            )

    return changes


def _groups_deleted(
    _known: Known, _request: delete_groups.DeleteGroupsRequest
) -> Callable[[delete_groups.DeleteGroupsResponse], Iterator[Change]]:
    def changes(response: delete_groups.DeleteGroupsResponse) -> Iterator[Change]:
        for result in response.results:
            yield _change(
                "delete",
                Kind.GROUP,
                result.group_id,
                came_of=(result.error_code, None),
            )

    return changes


def _offsets_deleted(
    _known: Known, request: offset_delete.OffsetDeleteRequest
) -> Callable[[offset_delete.OffsetDeleteResponse], Iterator[Change]]:
    def changes(response: offset_delete.OffsetDeleteResponse) -> Iterator[Change]:
        group = request.group_id
        if response.error_code != ErrorCode.none:
            yield _change("delete offsets", Kind.GROUP, group, came_of=(response.error_code, None))
        for topic in response.topics:
            for code in dict.fromkeys(partition.error_code for partition in topic.partitions):
                indexes = [
                    partition_result.partition_index
                    for partition_result in topic.partitions
                    if partition_result.error_code == code
                ]
                yield _change(
                    "delete offsets",
                    Kind.GROUP,
                    group,
                    before={f"partitions of {topic.name}": _listed(tuple(indexes))},
                    came_of=(code, None),
                )

    return changes


# Outcomes


def _is_dry_run(validate_only: bool, code: ErrorCode) -> bool:
    return validate_only and code == ErrorCode.none


def _change(
    action: str,
    kind: Kind,
    name: str,
    *,
    before: Details = NOTHING,
    after: Details = NOTHING,
    came_of: CameOf,
) -> Change:
    code, message = came_of
    return Change(
        action=action,
        kind=kind,
        name=name,
        before=before,
        after=after,
        result=OK if code == ErrorCode.none else ErrorCode(code).name.upper(),
        message=message or "",
    )


REMEMBERED: Final[dict[int, Remembered]] = {
    19: _row(create_topics.API, "create", Kind.TOPIC, _topics_created),
    20: _row(delete_topics.API, "delete", Kind.TOPIC, _topics_deleted),
    21: _row(delete_records.API, "delete", Kind.RECORDS, _records_deleted),
    30: _row(create_acls.API, "create", Kind.ACL, _acls_added),
    31: _row(delete_acls.API, "delete", Kind.ACL, _acls_removed),
    33: _row(alter_configs.API, "alter", Kind.TOPIC_CONFIG, _configs_altered),
    37: _row(create_partitions.API, "extend", Kind.TOPIC, _partitions_added),
    42: _row(delete_groups.API, "delete", Kind.GROUP, _groups_deleted),
    43: _row(elect_leaders.API, "elect", Kind.TOPIC, _leaders_elected),
    44: _row(incremental_alter_configs.API, "alter", Kind.TOPIC_CONFIG, _configs_altered),
    45: _row(alter_partition_reassignments.API, "move", Kind.TOPIC, _replicas_moved),
    47: _row(offset_delete.API, "delete offsets", Kind.GROUP, _offsets_deleted),
    49: _row(alter_client_quotas.API, "alter", Kind.QUOTA, _quotas_altered),
    51: _row(alter_user_scram_credentials.API, "alter", Kind.USER, _users_altered),
}
"""By the key of the API."""
