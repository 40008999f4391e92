"""Metadata (key 3), versions 0–12.

Brokers, the controller, and the partitions, leaders and replicas of the requested topics: all from
one snapshot of the map, so an answer never contradicts itself. A missing topic is created if both
this broker (`auto_create_topics`) and the client allow it, and then described; one request creates
at most `_MOST_NEW_TOPICS`, and the client asks again for the others. A topic that is being deleted
counts as missing.

A partition without a leader, or whose log this broker cannot serve, is listed with
LEADER_NOT_AVAILABLE: clients then wait and ask again.

Topics that the client may not describe are left out of a list of all topics. If it names them, it
gets TOPIC_AUTHORIZATION_FAILED, whether they exist or not; so does a missing topic that it may
describe but not create. Authorized operations are returned on request, also for topics that do not
exist, as by Kafka. `wire.messages.metadata` evens out the differences of versions 0 and 10–11.
"""

from collections.abc import Awaitable, Iterable, Set

import msgspec
from msgspec.structs import replace

from broker.access.acl_evaluation import ON
from broker.access.authorization import Authorization, Rights
from broker.admin.topics import TopicAdmin
from broker.api.administration import Administration
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.replicas.partitions import Partitions
from cluster.errors import InvalidTopicName
from cluster.layout.names import check_topic_name
from cluster.values import ClusterSnapshot, PartitionInfo, TopicInfo
from cluster.view import ClusterView
from wire.acls import Operation, ResourceType
from wire.errors import ErrorCode
from wire.messages.metadata import (
    NOT_ASKED,
    AbsentTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_MOST_NEW_TOPICS = 100
NO_BROKER = -1
_FEW = 100


class _Described(msgspec.Struct, frozen=True):
    """The cached description of a topic, with the state that it describes."""

    info: TopicInfo
    changes: int
    topic: MetadataResponseTopic


class DescribedTopics:
    """The topic descriptions of one broker, each cached until the topic changes. Belongs to the
    event loop.

    All clients ask again every few minutes, and whenever a topic is created or deleted: without the
    cache, describing thousands of topics for each client would delay the others.
    """

    def __init__(self, broker_id: int, partitions: Partitions) -> None:
        self._broker_id = broker_id
        self._partitions = partitions
        self._brokers: Set[int] = frozenset()
        self._described: dict[tuple[str, int], _Described] = {}

    def of(
        self, snapshot: ClusterSnapshot, infos: list[TopicInfo], operations: int
    ) -> list[MetadataResponseTopic]:
        """Returns descriptions of topics in the snapshot, with the client's authorized
        operations."""
        if self._brokers != snapshot.brokers.keys():
            self._brokers = frozenset(snapshot.brokers)
            self._described.clear()
        descriptions = [self._described_topic(snapshot, info, operations) for info in infos]
        if len(self._described) > 2 * len(snapshot.topics) + _FEW:
            for key in [key for key in self._described if key[0] not in snapshot.topics]:
                del self._described[key]
        return descriptions

    def _described_topic(
        self, snapshot: ClusterSnapshot, info: TopicInfo, operations: int
    ) -> MetadataResponseTopic:
        key = info.name, operations
        cached_topic = self._described.get(key)
        changes = self._partitions.changes(info.name)
        if cached_topic is None or cached_topic.info is not info or cached_topic.changes != changes:
            topic = MetadataResponseTopic(
                name=info.name,
                topic_id=info.topic_id,
                partitions=tuple(
                    self._partition(snapshot, info.name, index, partition)
                    for index, partition in enumerate(info.partitions)
                ),
                topic_authorized_operations=operations,
            )
            cached_topic = self._described[key] = _Described(info, changes, topic)
        return cached_topic.topic

    def _partition(
        self, snapshot: ClusterSnapshot, topic: str, index: int, info: PartitionInfo
    ) -> MetadataResponsePartition:
        offline_replicas = tuple(
            replica for replica in info.replicas if replica not in snapshot.brokers
        )
        leader = info.leader
        if leader == self._broker_id and not self._is_served(topic, index):
            offline_replicas = (*offline_replicas, leader)
        if leader in offline_replicas or leader not in snapshot.brokers:
            leader = NO_BROKER
        return MetadataResponsePartition(
            error_code=ErrorCode.leader_not_available if leader == NO_BROKER else ErrorCode.none,
            partition_index=index,
            leader_id=leader,
            leader_epoch=info.leader_epoch,
            replica_nodes=info.replicas,
            isr_nodes=info.isr,
            offline_replicas=offline_replicas,
        )

    def _is_served(self, topic: str, index: int) -> bool:
        try:
            return not self._partitions.find(topic, index).offline_reason
        except ApiError:
            return False


class Needs(msgspec.Struct, frozen=True):
    cluster: ClusterView
    topics: TopicAdmin
    described: DescribedTopics
    auto_create: bool
    authorization: Authorization
    administration: Administration


def handle(
    needs: Needs, request: MetadataRequest, caller: Caller
) -> MetadataResponse | Awaitable[MetadataResponse]:
    if request.allow_auto_topic_creation and needs.auto_create:
        snapshot = needs.cluster.snapshot
        known_names = snapshot.topics.keys() | snapshot.deleting
        requested_names = dict.fromkeys(
            topic.name for topic in request.topics or () if not topic.topic_id
        )
        missing_names = [
            name for name in requested_names if name is not None and name not in known_names
        ]
        if missing_names:
            return _create_and_describe(needs, request, missing_names, caller)
    return _describe(needs, request, {}, caller)


async def _create_and_describe(
    needs: Needs, request: MetadataRequest, missing: list[str], caller: Caller
) -> MetadataResponse:
    rights = needs.authorization.of(caller)
    may_create_any = rights.may_on_cluster(Operation.CREATE)
    error_codes: dict[str, ErrorCode] = {}
    creatable_names = []
    for name in missing:
        if not rights.may_on_topic(Operation.DESCRIBE, name):
            continue
        if may_create_any or rights.may_on_topic(Operation.CREATE, name):
            creatable_names.append(name)
        else:
            error_codes[name] = ErrorCode.topic_authorization_failed
    for name in creatable_names[:_MOST_NEW_TOPICS]:
        try:
            if await needs.topics.auto_create(name, caller.mutations):
                needs.administration.created_by_asking(caller, name)
        except ApiError as error:
            error_codes[name] = error.code
            if error.code is ErrorCode.leader_not_available:
                break  # no controller or no ZooKeeper: the others would time out too
    return _describe(needs, request, error_codes, caller)


def _describe(
    needs: Needs, request: MetadataRequest, refused: dict[str, ErrorCode], caller: Caller
) -> MetadataResponse:
    """The response; `refused` says why topics could not be created."""
    snapshot = needs.cluster.snapshot
    rights = needs.authorization.of(caller)
    if request.topics is None:
        infos = [
            info
            for name, info in snapshot.topics.items()
            if name not in snapshot.deleting and rights.may_on_topic(Operation.DESCRIBE, name)
        ]
        missing_topics: list[MetadataResponseTopic] = []
    else:
        requested_topics = dict.fromkeys(request.topics)
        infos, missing_topics = _look_up(snapshot, requested_topics, refused, rights)
    asks_for_operations = request.include_topic_authorized_operations
    # Operations allowed to everybody are cached with the description, a client's own are added.
    operations_on_all = (
        ON[ResourceType.TOPIC] if asks_for_operations and not rights.limited else NOT_ASKED
    )
    topics = needs.described.of(snapshot, infos, operations_on_all)
    if asks_for_operations and rights.limited:
        topics = [_with_operations(topic, rights) for topic in topics]
    if asks_for_operations:
        missing_topics = [_with_operations(topic, rights) for topic in missing_topics]
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(
                node_id=broker.broker_id, host=address[0], port=address[1], rack=broker.rack
            )
            for broker in snapshot.brokers.values()
            if (address := broker.reached_by(caller.listener))
        ),
        cluster_id=snapshot.cluster_id,
        controller_id=NO_BROKER if snapshot.controller_id is None else snapshot.controller_id,
        topics=(*topics, *missing_topics),
        cluster_authorized_operations=rights.operations_on_cluster()
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _look_up(
    snapshot: ClusterSnapshot,
    asked: Iterable[MetadataRequestTopic],
    refused: dict[str, ErrorCode],
    rights: Rights,
) -> tuple[list[TopicInfo], list[MetadataResponseTopic]]:
    """The existing topics, and errors for those that are missing or must not be shown."""
    infos: list[TopicInfo] = []
    missing_topics: list[MetadataResponseTopic] = []
    for topic in asked:
        name = snapshot.topic_names.get(topic.topic_id) if topic.topic_id else topic.name
        if name is None:
            absent_topic = AbsentTopic(
                error_code=ErrorCode.unknown_topic_id,
                name=None,
                topic_id=topic.topic_id,
            )
            missing_topics.append(absent_topic)
        elif rights.refuses(Operation.DESCRIBE, ResourceType.TOPIC, name):
            # An id is not secret, as in Kafka; a name is told only to clients that knew it.
            hidden_topic = AbsentTopic(
                error_code=ErrorCode.topic_authorization_failed,
                name=None if topic.topic_id else name,
                topic_id=topic.topic_id,
            )
            missing_topics.append(hidden_topic)
        elif name in snapshot.topics and name not in snapshot.deleting:
            infos.append(snapshot.topics[name])
        else:
            absent_topic = AbsentTopic(
                error_code=refused.get(name) or _missing_code(name),
                name=name,
            )
            missing_topics.append(absent_topic)
    return infos, missing_topics


def _with_operations(topic: MetadataResponseTopic, rights: Rights) -> MetadataResponseTopic:
    if topic.error_code is ErrorCode.topic_authorization_failed:
        return topic
    operations = rights.operations(ResourceType.TOPIC, topic.name or "")
    return replace(topic, topic_authorized_operations=operations)


def _missing_code(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except InvalidTopicName:
        return ErrorCode.invalid_topic_exception
    return ErrorCode.unknown_topic_or_partition
