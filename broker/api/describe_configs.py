"""DescribeConfigs (key 32), versions 1–4.

All configs of topics and of this broker, or those asked for by name; each with its value, source
and type, and on request its synonyms and documentation. A broker answers for itself only: clients
send a question about a broker to that broker. Without a number, the question is about overrides
that all brokers share, and there are none.

Not here: broker loggers.
"""

from typing import TYPE_CHECKING

from broker.caller import Caller
from broker.config_entries import broker_entries, topic_entries, without
from broker.errors import ApiError
from broker.topic_config import TopicConfig
from cluster.errors import InvalidTopicName
from cluster.names import check_topic_name
from wire.errors import ErrorCode
from wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    ResourceType,
)

if TYPE_CHECKING:
    from broker.broker import Broker


def handle(
    broker: "Broker", request: DescribeConfigsRequest, _caller: Caller
) -> DescribeConfigsResponse:
    described: set[tuple[int, str]] = set()

    def describe(resource: DescribeConfigsResource) -> DescribeConfigsResult:
        which = (resource.resource_type, resource.resource_name)
        try:
            if which in described:  # the answers are long: each is given once
                raise ApiError(ErrorCode.invalid_request, "Duplicate resource in request.")
            described.add(which)
            entries = _entries(broker, resource)
        except ApiError as error:
            return DescribeConfigsResult(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        wanted = frozenset(resource.configuration_keys or ())
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
                if not wanted or entry.name in wanted
            ),
        )

    return DescribeConfigsResponse(results=tuple(describe(each) for each in request.resources))


def _entries(
    broker: "Broker", resource: DescribeConfigsResource
) -> tuple[DescribeConfigsResourceResult, ...]:
    match resource.resource_type:
        case ResourceType.TOPIC:
            return _of_topic(broker, resource.resource_name)
        case ResourceType.BROKER:
            return _of_broker(broker, resource.resource_name)
    raise ApiError(
        ErrorCode.invalid_request,
        f"resource type {resource.resource_type} has no configs here: "
        "topics (2) and brokers (4) have",
    )


def _of_topic(broker: "Broker", name: str) -> tuple[DescribeConfigsResourceResult, ...]:
    try:
        check_topic_name(name)
    except InvalidTopicName as error:
        raise ApiError(ErrorCode.invalid_topic_exception, str(error)) from None
    snapshot = broker.cluster.snapshot
    if name not in snapshot.topics or name in snapshot.deleting:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
    defaults = broker.topics.defaults
    config, _ = TopicConfig.salvage(snapshot.topic_configs.get(name, {}), defaults.configs)
    return topic_entries(config, defaults)


def _of_broker(broker: "Broker", name: str) -> tuple[DescribeConfigsResourceResult, ...]:
    if name == "":
        return ()
    if name != str(broker.config.id):
        raise ApiError(
            ErrorCode.invalid_request, f"this is broker {broker.config.id}, not {name[:20]!r}"
        )
    return broker_entries(
        broker.config,
        broker.topics.defaults,
        listener=f"PLAINTEXT://{broker.config.host}:{broker.server.port}",
        advertised=broker.listener,
    )
