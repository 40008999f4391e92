"""The topic that holds the schemas: created, or found to be one that keeps them.

It has one partition, so that all records are in one order, and is compacted, so that of each key
the last record stays for ever. A topic that is not so is refused: it would lose schemas.
"""

import logging
from typing import Final
from uuid import UUID

import msgspec

from client import admin
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.errors import ErrorCode, Refused, UnknownTopic
from client.metadata import TopicMetadata
from client.offsets import Beginning, End, start_offsets
from registry.errors import RegistryFailure
from wire.acls import Operation

CLIENT_ID: Final = "penstock-registry"
_POLICY: Final = "cleanup.policy"
_KEEPS_SCHEMAS: Final = "compact"

log = logging.getLogger(__name__)


class SchemasTopic(msgspec.Struct, frozen=True):
    """The topic as it was when the registry started."""

    name: str
    id: UUID | None  # none where brokers give topics no ids
    cluster_id: str
    start: int  # its offsets when it was looked at: the first, and the one after the last
    end: int


def ready_topic(
    bootstrap: Bootstrap, name: str, *, replication_factor: int, create: bool
) -> SchemasTopic:
    """The topic, created if need be. One attempt: a ClientError may be a passing one.

    Raises RegistryFailure if it is not there and not to be created, or cannot hold schemas.
    """
    with Brokers(bootstrap, client_id=CLIENT_ID, patience_seconds=0) as brokers:
        try:
            topic = brokers.topic(name, Operation.READ)
        except UnknownTopic:
            if not create:
                raise RegistryFailure(
                    f"no topic {name}: a registry with `read_only: true` does not create it"
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
    there = len(brokers.known.brokers)
    if there < replication_factor:
        log.warning(
            "fewer brokers than wanted replicas topic=%s brokers=%d replication_factor=%d",
            name,
            there,
            replication_factor,
        )
    try:
        created = admin.create_topic(
            brokers,
            name,
            partitions=1,
            replication_factor=min(there, replication_factor),
            configs={_POLICY: _KEEPS_SCHEMAS},
        )
    except Refused as refused:
        if refused.code is not ErrorCode.topic_already_exists:
            raise
        return brokers.refresh([name]).topic(name)  # another registry has just created it
    log.info("topic created topic=%s", name)
    return created


def _check(brokers: Brokers, topic: TopicMetadata, replication_factor: int) -> None:
    check_partitions(topic)
    policy = next(
        (each.value for each in admin.topic_configs(brokers, topic.name) if each.name == _POLICY),
        None,
    )
    if policy != _KEEPS_SCHEMAS:
        raise RegistryFailure(
            f"topic {topic.name} has {_POLICY}={policy} and would lose schemas: say "
            f"`penstock topics alter {topic.name} --config {_POLICY}={_KEEPS_SCHEMAS}`, or choose "
            "another `topic`"
        )
    replicas = len(topic.partitions[0].replicas)
    if replicas < replication_factor:
        log.warning(
            "fewer replicas than wanted topic=%s replicas=%d replication_factor=%d",
            topic.name,
            replicas,
            replication_factor,
        )


def check_partitions(topic: TopicMetadata) -> None:
    if len(topic.partitions) != 1:
        raise RegistryFailure(
            f"topic {topic.name} has {len(topic.partitions)} partitions, and schemas must have one "
            "order: choose another `topic`"
        )


def largest_batch(brokers: Brokers, name: str) -> int:
    """How many bytes the topic takes in one batch."""
    found = next(
        each.value
        for each in admin.topic_configs(brokers, name)
        if each.name == "max.message.bytes"
    )
    return int(found or 0)
