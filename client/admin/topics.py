"""Administers topics: list, create, enlarge, configure, delete. Also reads brokers' configs.

Changes are sent to the controller once: a request whose answer is lost may have been served.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from client.connection.brokers import Brokers
from client.connection.metadata import ClusterMetadata, TopicMetadata
from client.errors import ErrorCode, Refused, check
from client.rights import Right, on_cluster, on_topic
from wire.acls import Operation
from wire.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    incremental_alter_configs,
)
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from wire.messages.describe_configs import (
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    ResourceType,
)
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)

DEFAULT: Final = -1  # the broker's default for partitions or replicas
_TIMEOUT_MS: Final = 25_000
_TOPICS_AT_ONCE: Final = 100


class ConfigEntry(msgspec.Struct, frozen=True):
    """One config of a topic or broker; `is_default` unless the topic sets it."""

    name: str
    value: str | None
    is_default: bool


def all_topics(brokers: Brokers) -> ClusterMetadata:
    """Returns the cluster's metadata with all topics."""
    return brokers.persist(lambda: brokers.refresh(None))


def create_topic(
    brokers: Brokers,
    name: str,
    *,
    partitions: int = DEFAULT,
    replication_factor: int = DEFAULT,
    configs: Mapping[str, str] | None = None,
) -> TopicMetadata:
    """Creates a topic; returns once it can be written to."""
    _create(brokers, name, partitions, replication_factor, configs or {}, only_check=False)
    return _wait_for_topic(brokers, name, 1)


def check_new_topic(
    brokers: Brokers,
    name: str,
    *,
    partitions: int = DEFAULT,
    replication_factor: int = DEFAULT,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Checks whether `create_topic` would succeed, and raises its errors, without creating the
    topic."""
    _create(brokers, name, partitions, replication_factor, configs or {}, only_check=True)


def _create(
    brokers: Brokers,
    name: str,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    *,
    only_check: bool,
) -> None:
    topic_spec = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=tuple(
            CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
        ),
    )
    request = CreateTopicsRequest(
        topics=(topic_spec,), timeout=_TIMEOUT_MS, validate_only=only_check
    )
    needs = on_topic(brokers.who, name, Operation.CREATE)
    for topic in brokers.call_controller(create_topics.API, request).topics:
        check(topic.error_code, f"topic {topic.name}", topic.error_message, needs=needs)


def add_partitions(brokers: Brokers, name: str, count: int) -> TopicMetadata:
    """Enlarges a topic to `count` partitions; returns once they can be written to."""
    _enlarge(brokers, name, count, only_check=False)
    return _wait_for_topic(brokers, name, count)


def check_more_partitions(brokers: Brokers, name: str, count: int) -> None:
    """Checks whether `add_partitions` would succeed, and raises its errors, without adding any."""
    _enlarge(brokers, name, count, only_check=True)


def _enlarge(brokers: Brokers, name: str, count: int, *, only_check: bool) -> None:
    request = CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name=name, count=count),),
        timeout=_TIMEOUT_MS,
        validate_only=only_check,
    )
    needs = on_topic(brokers.who, name, Operation.ALTER)
    for result in brokers.call_controller(create_partitions.API, request).results:
        check(result.error_code, f"topic {result.name}", result.error_message, needs=needs)


def delete_topic(brokers: Brokers, name: str) -> None:
    """Deletes a topic and its data."""
    request = DeleteTopicsRequest(
        topics=(DeleteTopicState(name=name),), topic_names=(name,), timeout=_TIMEOUT_MS
    )
    needs = on_topic(brokers.who, name, Operation.DELETE)
    for result in brokers.call_controller(delete_topics.API, request).responses:
        check(result.error_code, f"topic {result.name}", result.error_message, needs=needs)


def topic_configs(brokers: Brokers, name: str) -> tuple[ConfigEntry, ...]:
    """Returns all configs of a topic, sorted by name."""
    request = _describe(ResourceType.TOPIC, name)
    needs = on_topic(brokers.who, name, Operation.DESCRIBE_CONFIGS)
    return _described(brokers.call_any(describe_configs.API, request), f"topic {name}", needs)


def configs_of_topics(
    brokers: Brokers, names: Collection[str]
) -> tuple[dict[str, tuple[ConfigEntry, ...]], dict[str, Refused]]:
    """Returns the topics' configs, or the refusals for topics whose configs cannot be read."""
    configs: dict[str, tuple[ConfigEntry, ...]] = {}
    refusals: dict[str, Refused] = {}
    resources = tuple(
        DescribeConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=name, configuration_keys=None
        )
        for name in sorted(names)
    )
    for start in range(0, len(resources), _TOPICS_AT_ONCE):
        request = DescribeConfigsRequest(resources=resources[start : start + _TOPICS_AT_ONCE])
        for result in brokers.call_any(describe_configs.API, request).results:
            name = result.resource_name
            needs = on_topic(brokers.who, name, Operation.DESCRIBE_CONFIGS)
            try:
                check(result.error_code, f"topic {name}", result.error_message, needs=needs)
            except Refused as error:
                refusals[name] = error
            else:
                configs[name] = tuple(_entry(config) for config in result.configs)
    return configs, refusals


def broker_configs(brokers: Brokers, broker_id: int) -> tuple[ConfigEntry, ...]:
    """Returns all configs of a known broker, sorted by name, as that broker itself reports them."""
    request = _describe(ResourceType.BROKER, str(broker_id))
    answer = brokers.persist(lambda: brokers.broker(broker_id).call(describe_configs.API, request))
    needs = on_cluster(brokers.who, Operation.DESCRIBE_CONFIGS)
    return _described(answer, f"broker {broker_id}", needs)


def _describe(kind: ResourceType, name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    return DescribeConfigsRequest(resources=(resource,))


def _described(answer: DescribeConfigsResponse, what: str, needs: Right) -> tuple[ConfigEntry, ...]:
    entries = []
    for result in answer.results:
        check(result.error_code, what, result.error_message, needs=needs)
        entries += [_entry(config) for config in result.configs]
    return tuple(sorted(entries, key=lambda config: config.name))


def _entry(result: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(result.name, result.value, result.config_source != ConfigSource.TOPIC_CONFIG)


def alter_topic(
    brokers: Brokers, name: str, configs: Mapping[str, str | None], *, only_check: bool = False
) -> None:
    """Sets configs of a topic; None resets one to its default. With `only_check`, only checks
    whether the change would succeed."""
    changes = tuple(
        AlterableConfig(
            name=key,
            config_operation=ConfigOperation.DELETE if value is None else ConfigOperation.SET,
            value=value,
        )
        for key, value in configs.items()
    )
    resource = AlterConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name=name, configs=changes
    )
    response = brokers.call_controller(
        incremental_alter_configs.API,
        IncrementalAlterConfigsRequest(resources=(resource,), validate_only=only_check),
    )
    needs = on_topic(brokers.who, name, Operation.ALTER_CONFIGS)
    for result in response.responses:
        check(result.error_code, f"topic {name}", result.error_message, needs=needs)


def _wait_for_topic(brokers: Brokers, name: str, partitions: int) -> TopicMetadata:
    """Returns the topic once brokers show it with that many partitions, all with leaders."""

    def attempt() -> TopicMetadata:
        topic = brokers.refresh([name]).topic(name, Operation.DESCRIBE)
        if len(topic.partitions) < partitions:
            raise Refused(f"topic {name}", ErrorCode.leader_not_available)
        for partition in topic.partitions:
            topic.partition(partition.index)
        return topic

    return brokers.persist(attempt)
