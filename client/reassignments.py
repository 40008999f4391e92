"""Replicas moved to other brokers, and the rate that this may have: as Kafka's tools do it.

A move is begun by the controller, which finishes it by itself: nobody has to wait for it. The rate
is a config of each broker that sends or copies, and which replicas it is for a config of their
topics; both stay until somebody takes them away.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from client.admin import alter_topic, broker_configs
from client.brokers import Brokers
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
    """A partition whose replicas are on the move: all of them, and who comes and goes."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when it is over."""
        return tuple(each for each in self.replicas if each not in self.removing)


def moving(brokers: Brokers) -> dict[Key, Moving]:
    """All that is on the move."""
    answer = brokers.call_controller(
        list_partition_reassignments.API, ListPartitionReassignmentsRequest(timeout=_TIMEOUT_MS)
    )
    needs = on_cluster(brokers.who, Operation.DESCRIBE)
    check(answer.error_code, "moves of replicas", answer.error_message, needs=needs)
    return {
        (topic.name, each.partition_index): Moving(
            each.replicas, each.adding_replicas, each.removing_replicas
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def move(brokers: Brokers, targets: Mapping[Key, tuple[int, ...]]) -> dict[Key, str]:
    """Begins to move; returns why not, of those where that could not be begun."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, index), replicas in targets.items():
        wanted = ReassignablePartition(partition_index=index, replicas=replicas)
        topics.setdefault(topic, []).append(wanted)
    request = AlterPartitionReassignmentsRequest(
        timeout=_TIMEOUT_MS,
        topics=tuple(
            ReassignableTopic(name=topic, partitions=tuple(each)) for topic, each in topics.items()
        ),
    )
    answer = brokers.call_controller(alter_partition_reassignments.API, request)
    needs = on_cluster(brokers.who, Operation.ALTER)
    check(answer.error_code, "moves of replicas", answer.error_message, needs=needs)
    return {
        (topic.name, each.partition_index): each.error_message or each.error_code.name
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code is not ErrorCode.none
    }


# The rate


def throttle(
    brokers: Brokers, moves: Mapping[Key, Moving], there: Iterable[int], rate: int
) -> None:
    """From now on these moves have so many bytes a second on each of the brokers that are there:
    of what it sends, and of what it copies."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for (topic, index), each in moves.items():
        stay = (id_ for id_ in each.replicas if id_ not in each.adding)
        leaders.setdefault(topic, []).extend(f"{index}:{id_}" for id_ in stay)
        followers.setdefault(topic, []).extend(f"{index}:{id_}" for id_ in each.adding)
    for topic, sending in leaders.items():
        replicas = {_LEADERS: ",".join(sending), _FOLLOWERS: ",".join(followers[topic])}
        alter_topic(brokers, topic, replicas)
    touched = {id_ for each in moves.values() for id_ in each.replicas}
    for broker_id in sorted(touched & set(there)):
        _alter_broker(brokers, broker_id, dict.fromkeys(_RATES, str(rate)))


def take_throttle_away(brokers: Brokers, topics: Collection[str], there: Iterable[int]) -> bool:
    """Of those of these topics' replicas that have one; whether a broker that is there had one."""
    limited = [
        broker_id
        for broker_id in there
        for each in broker_configs(brokers, broker_id)
        if each.name in _RATES and each.value not in {None, _UNLIMITED}
    ]
    for broker_id in dict.fromkeys(limited):
        _alter_broker(brokers, broker_id, dict.fromkeys(_RATES))
    if limited:
        for topic in _limited_topics(brokers, topics):
            alter_topic(brokers, topic, {_LEADERS: None, _FOLLOWERS: None})
    return bool(limited)


def _limited_topics(brokers: Brokers, topics: Iterable[str]) -> list[str]:
    found: list[str] = []
    names = sorted(topics)
    for at in range(0, len(names), _TOPICS_AT_ONCE):
        wanted = tuple(
            DescribeConfigsResource(
                resource_type=ResourceType.TOPIC,
                resource_name=topic,
                configuration_keys=(_LEADERS, _FOLLOWERS),
            )
            for topic in names[at : at + _TOPICS_AT_ONCE]
        )
        answer = brokers.call_any(describe_configs.API, DescribeConfigsRequest(resources=wanted))
        found += [
            result.resource_name
            for result in answer.results
            if any(config.value for config in result.configs)
        ]
    return found


def _alter_broker(brokers: Brokers, broker_id: int, configs: Mapping[str, str | None]) -> None:
    """It is asked itself; None takes a config back to its default."""
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
    for each in answer.responses:
        check(each.error_code, f"broker {broker_id}", each.error_message, needs=needs)
