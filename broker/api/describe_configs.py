"""DescribeConfigs (key 32), versions 1–4.

All configs of topics and of this broker, or those named in the request; each with its value, source
and type, and on request its synonyms and documentation. A broker answers only for itself: clients
send requests about a broker to that broker. Without a broker number, returns the configs that are
set for all brokers.

Not here: broker loggers.
"""

import msgspec

from broker.access.authorization import Authorization, Rights
from broker.admin.broker_configs import EVERY_BROKER
from broker.configs.config import BrokerConfig
from broker.configs.config_entries import broker_entries, shared_entries, topic_entries, without
from broker.configs.dynamic_configs import overrides_of
from broker.configs.topic_config import TopicConfig, TopicDefaults
from broker.configs.topic_rules import replication_factor
from broker.connections.caller import Caller
from broker.errors import ApiError
from cluster.errors import InvalidTopicName
from cluster.layout.names import check_topic_name
from cluster.view import ClusterView
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    ResourceType,
)


class Needs(msgspec.Struct, frozen=True):
    cluster: ClusterView
    config: BrokerConfig
    defaults: TopicDefaults
    listener: str
    advertised: str
    authorization: Authorization


def handle(
    needs: Needs, request: DescribeConfigsRequest, caller: Caller
) -> DescribeConfigsResponse:
    rights = needs.authorization.of(caller)
    described_resources: set[tuple[int, str]] = set()

    def describe(resource: DescribeConfigsResource) -> DescribeConfigsResult:
        resource_key = (resource.resource_type, resource.resource_name)
        try:
            if (
                resource_key in described_resources
            ):  # answers are long: each resource is answered once
                raise ApiError(ErrorCode.invalid_request, "Duplicate resource in request.")
            described_resources.add(resource_key)
            entries = _entries(needs, rights, resource)
        except ApiError as error:
            return DescribeConfigsResult(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        requested_keys = frozenset(resource.configuration_keys or ())
        return DescribeConfigsResult(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=tuple(
                without(
                    entry,
                    synonyms=request.include_synonyms,
                    documentation=request.include_documentation,
                )
                for entry in entries
                if not requested_keys or entry.name in requested_keys
            ),
        )

    return DescribeConfigsResponse(
        results=tuple(describe(resource) for resource in request.resources)
    )


def _entries(
    needs: Needs, rights: Rights, resource: DescribeConfigsResource
) -> tuple[DescribeConfigsResourceResult, ...]:
    match resource.resource_type:
        case ResourceType.TOPIC:
            rights.check_topic(Operation.DESCRIBE_CONFIGS, resource.resource_name)
            return _of_topic(needs, resource.resource_name)
        case ResourceType.BROKER:
            rights.check_cluster(Operation.DESCRIBE_CONFIGS)
            return _of_broker(needs, resource.resource_name)
    raise ApiError(
        ErrorCode.invalid_request,
        f"resource type {resource.resource_type} has no configs: only topics (2) and brokers (4) "
        "have",
    )


def _of_topic(needs: Needs, name: str) -> tuple[DescribeConfigsResourceResult, ...]:
    try:
        check_topic_name(name)
    except InvalidTopicName as error:
        raise ApiError(ErrorCode.invalid_topic_exception, str(error)) from None
    snapshot = needs.cluster.snapshot
    if name not in snapshot.topics or name in snapshot.deleting:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
    defaults = needs.defaults
    replicas = replication_factor(snapshot.topics[name])
    overrides = snapshot.topic_configs.get(name, {})
    config, _ = TopicConfig.salvage(overrides, defaults.for_replicas(replicas))
    return topic_entries(config, defaults, replicas)


def _of_broker(needs: Needs, name: str) -> tuple[DescribeConfigsResourceResult, ...]:
    snapshot = needs.cluster.snapshot
    if name == EVERY_BROKER:
        return shared_entries(snapshot.broker_defaults)
    if name != str(needs.config.id):
        raise ApiError(
            ErrorCode.invalid_request, f"this is broker {needs.config.id}, not {name[:20]!r}"
        )
    return broker_entries(
        needs.config,
        needs.defaults,
        overrides_of(snapshot, needs.config.id),
        snapshot.broker_defaults,
        listener=needs.listener,
        advertised=needs.advertised,
    )
