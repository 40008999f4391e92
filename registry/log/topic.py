"""Opens the topic that holds the schemas, creating it if needed, and checks its settings.

It has one partition, so that all records have one order, and is compacted, so that the last record
of each key is kept. Other topics are rejected, since they would lose schemas.
"""

import logging
from typing import Final
from uuid import UUID

import msgspec

from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.metadata import TopicMetadata
from client.errors import ErrorCode, Refused, UnknownTopic
from client.reading.offsets import Beginning, End, start_offsets
from registry.errors import RegistryFailure
from wire.acls import Operation

CLIENT_ID: Final = "penstock-registry"
_POLICY: Final = "cleanup.policy"
_KEEPS_SCHEMAS: Final = "compact"

log = logging.getLogger(__name__)


class SchemasTopic(msgspec.Struct, frozen=True):
    """The properties of the topic when the registry started."""

    name: str
    id: UUID | None  # None where brokers assign no topic ids
    cluster_id: str
    start: int  # offsets at that time: of the first record, and after the last
    end: int


def ready_topic(
    bootstrap: Bootstrap, name: str, *, replication_factor: int, create: bool
) -> SchemasTopic:
    """Returns the topic, which is created if needed. Makes one attempt; a ClientError may be
    temporary.

    Raises RegistryFailure if it is missing and must not be created, or cannot hold schemas.
    """
    with Brokers(bootstrap, client_id=CLIENT_ID, patience_seconds=0) as brokers:
        try:
            topic = brokers.topic(name, Operation.READ)
        except UnknownTopic:
            if not create:
                raise RegistryFailure(
                    f"topic {name} does not exist, and `read_only: true` prevents creating it"
                ) from None
            topic = _created(brokers, name, replication_factor)
        _check(brokers, topic, replication_factor)
        return SchemasTopic(
            name=name,
            id=known_id(topic),
            cluster_id=brokers.known.cluster_id or "",
            start=start_offsets(brokers, name, [0], Beginning())[0],
            end=start_offsets(brokers, name, [0], End())[0],
        )


def known_id(topic: TopicMetadata) -> UUID | None:
    return topic.id if topic.id is not None and topic.id.int else None


def _created(brokers: Brokers, name: str, replication_factor: int) -> TopicMetadata:
    broker_count = len(brokers.known.brokers)
    if broker_count < replication_factor:
        log.warning(
            "fewer brokers than replication_factor topic=%s brokers=%d replication_factor=%d",
            name,
            broker_count,
            replication_factor,
        )
    try:
        creation = admin.create_topic(
            brokers,
            name,
            partitions=1,
            replication_factor=min(broker_count, replication_factor),
            configs={_POLICY: _KEEPS_SCHEMAS},
        )
    except Refused as refused:
        if refused.code is not ErrorCode.topic_already_exists:
            raise
        return brokers.refresh([name]).topic(name)  # another registry has just created it
    log.info("topic created topic=%s", name)
    return creation


def _check(brokers: Brokers, topic: TopicMetadata, replication_factor: int) -> None:
    check_partitions(topic)
    configs = admin.topic_configs(brokers, topic.name)
    policy = next((config.value for config in configs if config.name == _POLICY), None)
    if policy != _KEEPS_SCHEMAS:
        raise RegistryFailure(
            f"topic {topic.name} has {_POLICY}={policy} and would lose schemas: run "
            f"`penstock topics alter {topic.name} --config {_POLICY}={_KEEPS_SCHEMAS}`, or choose "
            "another `topic`"
        )
    replicas = len(topic.partitions[0].replicas)
    if replicas < replication_factor:
        log.warning(
            "fewer replicas than replication_factor topic=%s replicas=%d replication_factor=%d",
            topic.name,
            replicas,
            replication_factor,
        )


def check_partitions(topic: TopicMetadata) -> None:
    if len(topic.partitions) != 1:
        raise RegistryFailure(
            f"topic {topic.name} has {len(topic.partitions)} partitions, but schemas need a single "
            "one: choose another `topic`"
        )


def largest_batch(brokers: Brokers, name: str) -> int:
    """Returns the topic's limit on the size of a batch, in bytes."""
    limit = next(
        config.value
        for config in admin.topic_configs(brokers, name)
        if config.name == "max.message.bytes"
    )
    return int(limit or 0)
