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

from harness.jvm import Jvm

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaProducer

# Bootstrap and an existing topic of one partition.
Attempt = Callable[[str, str], object]
GROUP, TRANSACTIONAL_ID = "a-group", "a-transaction"
_LONG = 600.0  # seconds: nobody waits so long, and no call ends by it


# librdkafka


def _librdkafka_transaction(bootstrap: str, _topic: str) -> object:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": TRANSACTIONAL_ID}
    return confluent_kafka.Producer(settings).init_transactions(_LONG)


LIBRDKAFKA: Mapping[str, Attempt] = {"init transactions": _librdkafka_transaction}


# kafka-python


def _kafka_python_admin(ask: Callable[[Any, str], object]) -> Attempt:
    def attempt(bootstrap: str, topic: str) -> object:
        client = KafkaAdminClient(bootstrap_servers=bootstrap)
        try:
            return ask(client, topic)
        finally:
            client.close()

    return attempt


def _kafka_python_transaction(bootstrap: str, _topic: str) -> object:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=TRANSACTIONAL_ID)
    try:
        return producer.init_transactions()
    finally:
        producer.close(timeout=0)


KAFKA_PYTHON: Mapping[str, Attempt] = {
    "init transactions": _kafka_python_transaction,
    "list transactions": _kafka_python_admin(lambda client, _: client.list_transactions()),
    "describe transactions": _kafka_python_admin(
        lambda client, _: client.describe_transactions([TRANSACTIONAL_ID])
    ),
    "describe quorum": _kafka_python_admin(lambda client, _: client.describe_metadata_quorum()),
}


# aiokafka


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


AIOKAFKA: Mapping[str, Attempt] = {"init transactions": _aiokafka_transaction}


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
    "subscribe, new protocol": _java_consumer(_java_subscribed, {"group.protocol": "consumer"}),
    "init transactions": _java_transaction,
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
