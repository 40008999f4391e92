"""Metadata (key 3), versions 0–12.

Brokers, the controller, and of each topic asked for its partitions, leaders and replicas: all from
one snapshot of the map, so that no answer contradicts itself. A topic that does not exist is
created where both this broker (`auto_create_topics`) and the client allow it, and then described;
one request creates at most `_MOST_NEW_TOPICS`, the client will ask for the others again. A topic
that is being deleted does not exist any more.

A partition without a leader, or whose log this broker cannot serve, is listed with
LEADER_NOT_AVAILABLE: clients then wait and ask again.

Who asks for authorized operations learns that it may do everything, also with topics that do not
exist, as from Kafka. What versions 0 and 10–11 do otherwise is levelled in
`wire.messages.metadata`.
"""

from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING

from broker import authorized_operations
from broker.caller import Caller
from broker.described_partitions import NOBODY
from broker.errors import ApiError
from cluster.errors import InvalidTopicName
from cluster.names import check_topic_name
from cluster.values import ClusterSnapshot, TopicInfo
from wire.errors import ErrorCode
from wire.messages.metadata import (
    NOT_ASKED,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from broker.broker import Broker

_MOST_NEW_TOPICS = 100


def handle(
    broker: "Broker", request: MetadataRequest, _caller: Caller
) -> MetadataResponse | Awaitable[MetadataResponse]:
    if request.allow_auto_topic_creation and broker.config.auto_create_topics:
        snapshot = broker.cluster.snapshot
        known = snapshot.topics.keys() | snapshot.deleting
        named = dict.fromkeys(topic.name for topic in request.topics or () if not topic.topic_id)
        missing = [name for name in named if name is not None and name not in known]
        if missing:
            return _create_and_describe(broker, request, missing[:_MOST_NEW_TOPICS])
    return _describe(broker, request, {})


async def _create_and_describe(
    broker: "Broker", request: MetadataRequest, missing: list[str]
) -> MetadataResponse:
    refused: dict[str, ErrorCode] = {}
    for name in missing:
        try:
            await broker.topics.auto_create(name)
        except ApiError as error:
            refused[name] = error.code
            if error.code is ErrorCode.leader_not_available:
                break  # no controller, or no ZooKeeper: the others would only wait as long again
    return _describe(broker, request, refused)


def _describe(
    broker: "Broker", request: MetadataRequest, refused: dict[str, ErrorCode]
) -> MetadataResponse:
    """The answer; `refused` says why topics could not be created."""
    snapshot = broker.cluster.snapshot
    if request.topics is None:
        topics = [
            _topic(broker, snapshot, info)
            for name, info in snapshot.topics.items()
            if name not in snapshot.deleting
        ]
    else:
        topics = [
            _asked_for(broker, snapshot, topic, refused) for topic in dict.fromkeys(request.topics)
        ]
    if request.include_topic_authorized_operations:
        everything = authorized_operations.ON_TOPIC
        topics = [replace(topic, topic_authorized_operations=everything) for topic in topics]
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(
                node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack
            )
            for each in snapshot.brokers.values()
        ),
        cluster_id=snapshot.cluster_id,
        controller_id=NOBODY if snapshot.controller_id is None else snapshot.controller_id,
        topics=tuple(topics),
        cluster_authorized_operations=authorized_operations.ON_CLUSTER
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _asked_for(
    broker: "Broker",
    snapshot: ClusterSnapshot,
    topic: MetadataRequestTopic,
    refused: dict[str, ErrorCode],
) -> MetadataResponseTopic:
    name = snapshot.topic_names.get(topic.topic_id) if topic.topic_id else topic.name
    if name is None:
        return MetadataResponseTopic(
            error_code=ErrorCode.unknown_topic_id, name=None, topic_id=topic.topic_id
        )
    if name in snapshot.topics and name not in snapshot.deleting:
        return _topic(broker, snapshot, snapshot.topics[name])
    return MetadataResponseTopic(error_code=refused.get(name) or _absence(name), name=name)


def _absence(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except InvalidTopicName:
        return ErrorCode.invalid_topic_exception
    return ErrorCode.unknown_topic_or_partition


def _topic(broker: "Broker", snapshot: ClusterSnapshot, info: TopicInfo) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=info.name, topic_id=info.topic_id, partitions=broker.described.of(snapshot, info)
    )
