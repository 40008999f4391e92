"""What clients can ask of a broker and Penstock does not serve, client by client.

Each attempt ends by an exception, and what that says; one that returns has been served. Clients are
told nothing that a user would not tell them, so their patience is their own: a minute or more for
most. Whoever runs an attempt gives it seconds.

Not here: librdkafka with `group.protocol=consumer`. It waits to join whether ConsumerGroupHeartbeat
is not listed, or listed and refused.
"""

import asyncio
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import aiokafka
import confluent_kafka
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from harness.jvm import Jvm

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

# Bootstrap and an existing topic of one partition.
Attempt = Callable[[str, str], object]
GROUP, TRANSACTIONAL_ID = "a-group", "a-transaction"
_LONG = 600.0  # seconds: nobody waits so long, and no call ends by it


# librdkafka


def _admin(ask: Callable[[AdminClient, str], Any]) -> Attempt:
    def attempt(bootstrap: str, topic: str) -> object:
        client = AdminClient({"bootstrap.servers": bootstrap})
        answer = ask(client, topic)
        (future,) = answer.values() if isinstance(answer, Mapping) else (answer,)
        result = future.result(_LONG)
        # Lists of groups and descriptions come with errors in them.
        for error in getattr(result, "errors", ()):
            raise confluent_kafka.KafkaException(error)
        if isinstance(result, Mapping):
            for each in result.values():
                if isinstance(each, Exception):
                    raise each
        return result

    return attempt


def _consumer(use: Callable[[confluent_kafka.Consumer, str], object]) -> Attempt:
    def attempt(bootstrap: str, topic: str) -> object:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
        try:
            return use(consumer, topic)
        finally:
            consumer.close()

    return attempt


def _subscribed(consumer: confluent_kafka.Consumer, topic: str) -> object:
    consumer.subscribe([topic])
    return _polled(consumer)


def _going_on(consumer: confluent_kafka.Consumer, topic: str) -> object:
    """Where the group had come to."""
    consumer.assign([confluent_kafka.TopicPartition(topic, 0)])
    return _polled(consumer)


def _committing(consumer: confluent_kafka.Consumer, topic: str) -> object:
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    offset = confluent_kafka.TopicPartition(topic, 0, 1)
    return consumer.commit(offsets=[offset], asynchronous=False)


def _committed(consumer: confluent_kafka.Consumer, topic: str) -> object:
    return consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=_LONG)


def _polled(consumer: confluent_kafka.Consumer) -> object:
    message = consumer.poll(_LONG)
    assert message is not None
    if (error := message.error()) is not None:
        raise confluent_kafka.KafkaException(error)
    return message


def _librdkafka_transaction(bootstrap: str, _topic: str) -> object:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": TRANSACTIONAL_ID}
    return confluent_kafka.Producer(settings).init_transactions(_LONG)


LIBRDKAFKA: Mapping[str, Attempt] = {
    "subscribe": _consumer(_subscribed),
    "go on": _consumer(_going_on),
    "commit": _consumer(_committing),
    "committed": _consumer(_committed),
    "init transactions": _librdkafka_transaction,
    "list groups": _admin(lambda client, _: client.list_consumer_groups()),
    "describe groups": _admin(lambda client, _: client.describe_consumer_groups([GROUP])),
    "delete groups": _admin(lambda client, _: client.delete_consumer_groups([GROUP])),
    "list group offsets": _admin(
        lambda client, _: client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])
    ),
    "alter group offsets": _admin(
        lambda client, topic: client.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(GROUP, [confluent_kafka.TopicPartition(topic, 0, 1)])]
        )
    ),
}


# kafka-python


def _kafka_python_admin(ask: Callable[[Any, str], object]) -> Attempt:
    def attempt(bootstrap: str, topic: str) -> object:
        client = KafkaAdminClient(bootstrap_servers=bootstrap)
        try:
            return ask(client, topic)
        finally:
            client.close()

    return attempt


def _kafka_python_consumer(use: Callable[[Any, str], object]) -> Attempt:
    def attempt(bootstrap: str, topic: str) -> object:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=GROUP)
        try:
            return use(consumer, topic)
        finally:
            consumer.close(autocommit=False)

    return attempt


def _kafka_python_subscribed(consumer: Any, topic: str) -> object:
    consumer.subscribe([topic])
    return consumer.poll(_LONG * 1000)


def _kafka_python_committing(consumer: Any, topic: str) -> object:
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    return consumer.commit({partition: kafka.OffsetAndMetadata(1, "", -1)})


def _kafka_python_committed(consumer: Any, topic: str) -> object:
    consumer.assign([kafka.TopicPartition(topic, 0)])
    return consumer.committed(kafka.TopicPartition(topic, 0))


def _kafka_python_transaction(bootstrap: str, _topic: str) -> object:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=TRANSACTIONAL_ID)
    try:
        return producer.init_transactions()
    finally:
        producer.close(timeout=0)


KAFKA_PYTHON: Mapping[str, Attempt] = {
    "subscribe": _kafka_python_consumer(_kafka_python_subscribed),
    "commit": _kafka_python_consumer(_kafka_python_committing),
    "committed": _kafka_python_consumer(_kafka_python_committed),
    "init transactions": _kafka_python_transaction,
    "list groups": _kafka_python_admin(lambda client, _: client.list_groups()),
    "describe groups": _kafka_python_admin(lambda client, _: client.describe_groups([GROUP])),
    "delete groups": _kafka_python_admin(lambda client, _: client.delete_groups([GROUP])),
    "list group offsets": _kafka_python_admin(
        lambda client, _: client.list_group_offsets({GROUP: None})
    ),
    "alter group offsets": _kafka_python_admin(
        lambda client, topic: client.alter_group_offsets(
            GROUP, {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(1, "", -1)}
        )
    ),
    "list transactions": _kafka_python_admin(lambda client, _: client.list_transactions()),
    "describe transactions": _kafka_python_admin(
        lambda client, _: client.describe_transactions([TRANSACTIONAL_ID])
    ),
    "describe quorum": _kafka_python_admin(lambda client, _: client.describe_metadata_quorum()),
}


# aiokafka


def _aiokafka_consumer(use: Callable[[Any, str], Any]) -> Attempt:
    async def run(bootstrap: str, topic: str) -> object:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=GROUP)
        try:
            return await use(consumer, topic)
        finally:
            await consumer.stop()

    return lambda bootstrap, topic: asyncio.run(run(bootstrap, topic))


async def _aiokafka_subscribed(consumer: Any, topic: str) -> object:
    consumer.subscribe([topic])
    await consumer.start()
    return await consumer.getone()


async def _aiokafka_committing(consumer: Any, topic: str) -> object:
    partition = aiokafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    await consumer.start()
    return await consumer.commit({partition: 1})


async def _aiokafka_committed(consumer: Any, topic: str) -> object:
    consumer.assign([aiokafka.TopicPartition(topic, 0)])
    await consumer.start()
    return await consumer.committed(aiokafka.TopicPartition(topic, 0))


def _aiokafka_admin(ask: Callable[[Any], Any]) -> Attempt:
    async def run(bootstrap: str) -> object:
        client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await client.start()
        try:
            return await ask(client)
        finally:
            await client.close()

    return lambda bootstrap, _: asyncio.run(run(bootstrap))


def _aiokafka_transaction(bootstrap: str, _topic: str) -> object:
    async def run() -> object:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=TRANSACTIONAL_ID
        )
        try:
            return await producer.start()
        finally:
            await producer.stop()

    return asyncio.run(run())


AIOKAFKA: Mapping[str, Attempt] = {
    "subscribe": _aiokafka_consumer(_aiokafka_subscribed),
    "commit": _aiokafka_consumer(_aiokafka_committing),
    "committed": _aiokafka_consumer(_aiokafka_committed),
    "init transactions": _aiokafka_transaction,
    "list groups": _aiokafka_admin(lambda client: client.list_consumer_groups()),
    "describe groups": _aiokafka_admin(lambda client: client.describe_consumer_groups([GROUP])),
    "list group offsets": _aiokafka_admin(lambda client: client.list_consumer_group_offsets(GROUP)),
}


# Apache Kafka's own, in Java

_KAFKA = "org.apache.kafka"
_ADMIN = f"{_KAFKA}.clients.admin"
_COMMON = f"{_KAFKA}.common"
JavaAttempt = Callable[[Jvm, str, str], object]


def _java_admin(ask: Callable[[Jvm, Any, str], Any]) -> JavaAttempt:
    def attempt(java: Jvm, bootstrap: str, topic: str) -> object:
        client = java.find(f"{_ADMIN}.Admin").create({"bootstrap.servers": bootstrap})
        try:
            return ask(java, client, topic).get()
        finally:
            client.close(java.find("java.time.Duration").ZERO)

    return attempt


def _java_consumer(
    use: Callable[[Jvm, Any, str], object], settings: Mapping[str, str] | None = None
) -> JavaAttempt:
    def attempt(java: Jvm, bootstrap: str, topic: str) -> object:
        deserializer = f"{_COMMON}.serialization.ByteArrayDeserializer"
        wanted = {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "key.deserializer": deserializer,
            "value.deserializer": deserializer,
            **(settings or {}),
        }
        consumer = java.new(f"{_KAFKA}.clients.consumer.KafkaConsumer", wanted)
        try:
            return use(java, consumer, topic)
        finally:
            consumer.close(java.find("java.time.Duration").ZERO)

    return attempt


def _java_subscribed(java: Jvm, consumer: Any, topic: str) -> object:
    consumer.subscribe([topic])
    while not (records := consumer.poll(java.find("java.time.Duration").ofMillis(100))).count():
        pass  # the consumer of the new protocol tells its errors between two polls
    return records


def _java_committing(java: Jvm, consumer: Any, topic: str) -> object:
    partition = java.new(f"{_COMMON}.TopicPartition", topic, 0)
    consumer.assign([partition])
    return consumer.commitSync(
        {partition: java.new(f"{_KAFKA}.clients.consumer.OffsetAndMetadata", 1)}
    )


def _java_committed(java: Jvm, consumer: Any, topic: str) -> object:
    partition = java.new(f"{_COMMON}.TopicPartition", topic, 0)
    consumer.assign([partition])
    return consumer.committed({partition})


def _java_transaction(java: Jvm, bootstrap: str, _topic: str) -> object:
    serializer = f"{_COMMON}.serialization.ByteArraySerializer"
    wanted = {
        "bootstrap.servers": bootstrap,
        "transactional.id": TRANSACTIONAL_ID,
        "key.serializer": serializer,
        "value.serializer": serializer,
    }
    producer = java.new(f"{_KAFKA}.clients.producer.KafkaProducer", wanted)
    try:
        return producer.initTransactions()
    finally:
        producer.close(java.find("java.time.Duration").ZERO)


JAVA: Mapping[str, JavaAttempt] = {
    "subscribe": _java_consumer(_java_subscribed),
    "subscribe, new protocol": _java_consumer(_java_subscribed, {"group.protocol": "consumer"}),
    "commit": _java_consumer(_java_committing),
    "committed": _java_consumer(_java_committed),
    "init transactions": _java_transaction,
    "list groups": _java_admin(lambda _, client, __: client.listConsumerGroups().all()),
    "describe groups": _java_admin(
        lambda _, client, __: client.describeConsumerGroups([GROUP]).all()
    ),
    "delete groups": _java_admin(lambda _, client, __: client.deleteConsumerGroups([GROUP]).all()),
    "list group offsets": _java_admin(
        lambda _, client, __: client.listConsumerGroupOffsets(GROUP).partitionsToOffsetAndMetadata()
    ),
    "alter group offsets": _java_admin(
        lambda java, client, topic: client.alterConsumerGroupOffsets(
            GROUP,
            {
                java.new(f"{_COMMON}.TopicPartition", topic, 0): java.new(
                    f"{_KAFKA}.clients.consumer.OffsetAndMetadata", 1
                )
            },
        ).all()
    ),
    "delete group offsets": _java_admin(
        lambda java, client, topic: client.deleteConsumerGroupOffsets(
            GROUP, {java.new(f"{_COMMON}.TopicPartition", topic, 0)}
        ).all()
    ),
    "list transactions": _java_admin(lambda _, client, __: client.listTransactions().all()),
    "describe transactions": _java_admin(
        lambda _, client, __: client.describeTransactions([TRANSACTIONAL_ID]).all()
    ),
    "fence producers": _java_admin(
        lambda _, client, __: client.fenceProducers([TRANSACTIONAL_ID]).all()
    ),
    "describe quorum": _java_admin(
        lambda _, client, __: client.describeMetadataQuorum().quorumInfo()
    ),
    "unregister a broker": _java_admin(lambda _, client, __: client.unregisterBroker(7).all()),
    "delegation tokens": _java_admin(
        lambda _, client, __: client.describeDelegationToken().delegationTokens()
    ),
    "client metrics": _java_admin(lambda _, client, __: client.listClientMetricsResources().all()),
}
