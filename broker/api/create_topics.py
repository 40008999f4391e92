"""CreateTopics (key 19), versions 2–7.

Creates topics with partitions, replicas and configs, by count or by explicit assignment; only the
controller serves it. A topic is answered when this broker serves its partitions, or with
REQUEST_TIMED_OUT if that takes longer than the client waits: the topic exists all the same, as in
Kafka. A rejected topic does not affect the others of its request, but a request for more than
`MOST_PARTITIONS` is rejected as a whole, before anything is allocated for it. The configs,
partitions and replicas of a new topic are returned only to clients that may describe its configs.

A client that has used up its quota for creating and deleting partitions is rejected from version 6
on (THROTTLING_QUOTA_EXCEEDED), and throttled before.
"""

import asyncio
from collections import Counter

import msgspec

from broker.access.authorization import Authorization
from broker.admin.topics import CreatedTopic, TopicAdmin
from broker.configs.config_entries import topic_entries
from broker.configs.topic_rules import MOST_PARTITIONS, UNSAID, NewTopic
from broker.connections.caller import Caller
from broker.errors import ApiError
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


class Needs(msgspec.Struct, frozen=True):
    topics: TopicAdmin
    authorization: Authorization


async def handle(
    needs: Needs, request: CreateTopicsRequest, caller: Caller
) -> CreateTopicsResponse:
    topics, rights = needs.topics, needs.authorization.of(caller)
    may_create_any = rights.may_on_cluster(Operation.CREATE)
    name_counts = Counter(topic.name for topic in request.topics)
    partition_count = sum(_partitions(topics, topic) for topic in request.topics)

    async def create(topic: CreatableTopic) -> CreatableTopicResult:
        try:
            if not may_create_any:
                rights.check_topic(Operation.CREATE, topic.name)
            if name_counts[topic.name] > 1:
                raise ApiError(ErrorCode.invalid_request, "Found multiple entries for this topic.")
            if partition_count > MOST_PARTITIONS:
                raise ApiError(
                    ErrorCode.invalid_partitions,
                    f"{partition_count} partitions in one request, at most {MOST_PARTITIONS} are "
                    "allowed",
                )
            created_topic = await topics.create(
                _new_topic(topic),
                timeout_ms=request.timeout,
                validate_only=request.validate_only,
                mutations=caller.mutations,
            )
        except ApiError as error:
            return CreatableTopicResult(
                name=topic.name, error_code=error.code, error_message=error.message
            )
        if rights.may_on_topic(Operation.DESCRIBE_CONFIGS, topic.name):
            return _result(topics, topic.name, created_topic)
        return CreatableTopicResult(
            name=topic.name,
            topic_id=created_topic.topic_id,
            topic_config_error_code=ErrorCode.topic_authorization_failed,
        )

    results = await asyncio.gather(*(create(topic) for topic in request.topics))
    return CreateTopicsResponse(topics=tuple(results))


def _partitions(topics: TopicAdmin, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == UNSAID:
        return topics.defaults.partitions
    return max(topic.num_partitions, 0)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    has_counts = topic.num_partitions != UNSAID or topic.replication_factor != UNSAID
    if has_counts and topic.assignments:
        raise ApiError(
            ErrorCode.invalid_request,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        )
    assignment = {
        assignment.partition_index: assignment.broker_ids for assignment in topic.assignments
    }
    if len(assignment) < len(topic.assignments):
        raise ApiError(
            ErrorCode.invalid_replica_assignment, "the assignments name a partition twice"
        )
    configs: dict[str, str] = {}
    for config in topic.configs:
        if config.value is None:
            raise ApiError(
                ErrorCode.invalid_request,
                f"Null value not supported for topic configs : {config.name}",
            )
        configs[config.name] = config.value
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignment=assignment or None,
        configs=configs,
    )


def _result(topics: TopicAdmin, name: str, created: CreatedTopic) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=created.topic_id,
        num_partitions=created.partitions,
        replication_factor=created.replication_factor,
        configs=tuple(
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.config_source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in topic_entries(created.config, topics.defaults, created.replication_factor)
        ),
    )
