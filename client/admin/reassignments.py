"""Moves replicas to other brokers, and throttles the moves, as Kafka's tools do.

The controller starts a move and completes it by itself. The rate is a config of each broker that
sends or copies, and the throttled replicas are a config of their topics; both stay until they are
removed.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from client.admin.topics import alter_topic, broker_configs
from client.connection.brokers import Brokers
from client.errors import ErrorCode, check
from client.rights import on_cluster
from wire.acls import Operation
from wire.messages import (
    alter_partition_reassignments,
    describe_configs,
    incremental_alter_configs,
    list_partition_reassignments,
)
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ResourceType,
)
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)
from wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

Key = tuple[str, int]
_TIMEOUT_MS: Final = 25_000
_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LEADERS: Final = "leader.replication.throttled.replicas"
_FOLLOWERS: Final = "follower.replication.throttled.replicas"
_TOPICS_AT_ONCE: Final = 500
_UNLIMITED: Final = str(2**63 - 1)


class Moving(msgspec.Struct, frozen=True):
    """A partition with a reassignment in progress: all its replicas, and those being added and
    removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the move."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


def moving(brokers: Brokers) -> dict[Key, Moving]:
    """Returns all reassignments in progress."""
    response = brokers.call_controller(
        list_partition_reassignments.API, ListPartitionReassignmentsRequest(timeout=_TIMEOUT_MS)
    )
    needs = on_cluster(brokers.who, Operation.DESCRIBE)
    check(response.error_code, "moves of replicas", response.error_message, needs=needs)
    return {
        (topic.name, partition.partition_index): Moving(
            partition.replicas, partition.adding_replicas, partition.removing_replicas
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def move(brokers: Brokers, targets: Mapping[Key, tuple[int, ...]]) -> dict[Key, str]:
    """Starts moves; returns the reasons for those that could not be started."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, index), replicas in targets.items():
        assignment = ReassignablePartition(partition_index=index, replicas=replicas)
        topics.setdefault(topic, []).append(assignment)
    request = AlterPartitionReassignmentsRequest(
        timeout=_TIMEOUT_MS,
        topics=tuple(
            ReassignableTopic(name=name, partitions=tuple(parts)) for name, parts in topics.items()
        ),
    )
    response = brokers.call_controller(alter_partition_reassignments.API, request)
    needs = on_cluster(brokers.who, Operation.ALTER)
    check(response.error_code, "moves of replicas", response.error_message, needs=needs)
    return {
        (topic.name, partition.partition_index): partition.error_message
        or partition.error_code.name
        for topic in response.responses
        for partition in topic.partitions
        if partition.error_code is not ErrorCode.none
    }


# Throttling


def throttle(brokers: Brokers, moves: Mapping[Key, Moving], live: Iterable[int], rate: int) -> None:
    """Limits these moves, on each live broker, to `rate` bytes a second sent and received."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for (topic, index), move in moves.items():
        sender_ids = (replica for replica in move.replicas if replica not in move.adding)
        leaders.setdefault(topic, []).extend(f"{index}:{replica}" for replica in sender_ids)
        followers.setdefault(topic, []).extend(f"{index}:{replica}" for replica in move.adding)
    for topic, senders in leaders.items():
        replicas = {_LEADERS: ",".join(senders), _FOLLOWERS: ",".join(followers[topic])}
        alter_topic(brokers, topic, replicas)
    broker_ids = {replica for move in moves.values() for replica in move.replicas}
    for broker_id in sorted(broker_ids & set(live)):
        _alter_broker(brokers, broker_id, dict.fromkeys(_RATES, str(rate)))


def take_throttle_away(brokers: Brokers, topics: Collection[str], live: Iterable[int]) -> bool:
    """Removes the topics' and live brokers' throttles; returns whether a broker had one."""
    limited_topics = [
        broker_id
        for broker_id in live
        for config in broker_configs(brokers, broker_id)
        if config.name in _RATES and config.value not in {None, _UNLIMITED}
    ]
    for broker_id in dict.fromkeys(limited_topics):
        _alter_broker(brokers, broker_id, dict.fromkeys(_RATES))
    if limited_topics:
        for topic in _limited_topics(brokers, topics):
            alter_topic(brokers, topic, {_LEADERS: None, _FOLLOWERS: None})
    return bool(limited_topics)


def _limited_topics(brokers: Brokers, topics: Iterable[str]) -> list[str]:
    limited_topics: list[str] = []
    names = sorted(topics)
    for start in range(0, len(names), _TOPICS_AT_ONCE):
        resources = tuple(
            DescribeConfigsResource(
                resource_type=ResourceType.TOPIC,
                resource_name=topic,
                configuration_keys=(_LEADERS, _FOLLOWERS),
            )
            for topic in names[start : start + _TOPICS_AT_ONCE]
        )
        answer = brokers.call_any(describe_configs.API, DescribeConfigsRequest(resources=resources))
        limited_topics += [
            result.resource_name
            for result in answer.results
            if any(config.value for config in result.configs)
        ]
    return limited_topics


def _alter_broker(brokers: Brokers, broker_id: int, configs: Mapping[str, str | None]) -> None:
    """Alters configs through the broker itself; None resets a config to its default."""
    changes = tuple(
        AlterableConfig(
            name=key,
            config_operation=ConfigOperation.DELETE if value is None else ConfigOperation.SET,
            value=value,
        )
        for key, value in configs.items()
    )
    resource = AlterConfigsResource(
        resource_type=ResourceType.BROKER, resource_name=str(broker_id), configs=changes
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,))
    api = incremental_alter_configs.API
    answer = brokers.persist(lambda: brokers.broker(broker_id).call(api, request))
    needs = on_cluster(brokers.who, Operation.ALTER_CONFIGS)
    for response in answer.responses:
        check(response.error_code, f"broker {broker_id}", response.error_message, needs=needs)
