"""Requests of clients that Penstock does not serve, client by client.

Each attempt ends with an exception and its message; one that returns has been served. Clients get
no option that a user would not set, so they use their own timeouts: a minute or more for most. The
caller of an attempt limits it to seconds.
"""

import asyncio
import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import aiokafka
import confluent_kafka

from harness.java.jvm import Jvm

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaProducer

Attempt = Callable[[str], object]  # at a bootstrap address
TRANSACTIONAL_ID = "a-transaction"
_LONG = 600.0  # seconds: nobody waits so long, and no call ends by it


def _librdkafka_transaction(bootstrap: str) -> object:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": TRANSACTIONAL_ID}
    return confluent_kafka.Producer(settings).init_transactions(_LONG)


def _librdkafka_subscribed(bootstrap: str) -> object:
    """Uses the new group protocol."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "a-group", "group.protocol": "consumer"}
    with contextlib.closing(confluent_kafka.Consumer(settings)) as consumer:
        consumer.subscribe(["a-topic"])
        while True:
            message = consumer.poll(0.1)
            if message is not None and (error := message.error()) is not None:
                raise confluent_kafka.KafkaException(error)


def _kafka_python_admin(ask: Callable[[Any], object]) -> Attempt:
    def attempt(bootstrap: str) -> object:
        with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as client:
            return ask(client)

    return attempt


def _kafka_python_transaction(bootstrap: str) -> object:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=TRANSACTIONAL_ID)
    try:
        return producer.init_transactions()
    finally:
        producer.close(timeout=0)


def _aiokafka_transaction(bootstrap: str) -> object:
    async def run() -> object:
        options = {"bootstrap_servers": bootstrap, "transactional_id": TRANSACTIONAL_ID}
        producer = aiokafka.AIOKafkaProducer(**options)
        try:
            return await producer.start()
        finally:
            await producer.stop()

    return asyncio.run(run())


LIBRARIES: Mapping[str, Attempt] = {
    "librdkafka: init transactions": _librdkafka_transaction,
    "librdkafka: subscribe, new protocol": _librdkafka_subscribed,
    "kafka-python: init transactions": _kafka_python_transaction,
    "kafka-python: list transactions": _kafka_python_admin(
        lambda client: client.list_transactions()
    ),
    "kafka-python: describe transactions": _kafka_python_admin(
        lambda client: client.describe_transactions([TRANSACTIONAL_ID])
    ),
    "kafka-python: describe quorum": _kafka_python_admin(
        lambda client: client.describe_metadata_quorum()
    ),
    "aiokafka: init transactions": _aiokafka_transaction,
}


# Apache Kafka's own, in Java

_KAFKA = "org.apache.kafka"
JavaAttempt = Callable[[Jvm, str, str], object]  # at a bootstrap address, with an existing topic


def _java_admin(ask: Callable[[Any], Any]) -> JavaAttempt:
    def attempt(java: Jvm, bootstrap: str, _topic: str) -> object:
        create = java.find(f"{_KAFKA}.clients.admin.Admin").create
        with _closed_at_once(java, create({"bootstrap.servers": bootstrap})) as client:
            return ask(client).get()

    return attempt


def _java_subscribed(java: Jvm, bootstrap: str, topic: str) -> object:
    """Uses the new group protocol, whose consumer reports its errors between two polls."""
    deserializer = f"{_KAFKA}.common.serialization.ByteArrayDeserializer"
    wanted = {
        "bootstrap.servers": bootstrap,
        "group.id": "a-group",
        "group.protocol": "consumer",
        "key.deserializer": deserializer,
        "value.deserializer": deserializer,
    }
    made = java.new(f"{_KAFKA}.clients.consumer.KafkaConsumer", wanted)
    moment = java.find("java.time.Duration").ofMillis(100)
    with _closed_at_once(java, made) as consumer:
        consumer.subscribe([topic])
        while not (records := consumer.poll(moment)).count():
            pass
        return records


def _java_transaction(java: Jvm, bootstrap: str, _topic: str) -> object:
    serializer = f"{_KAFKA}.common.serialization.ByteArraySerializer"
    wanted = {
        "bootstrap.servers": bootstrap,
        "transactional.id": TRANSACTIONAL_ID,
        "key.serializer": serializer,
        "value.serializer": serializer,
    }
    made = java.new(f"{_KAFKA}.clients.producer.KafkaProducer", wanted)
    with _closed_at_once(java, made) as producer:
        return producer.initTransactions()


@contextlib.contextmanager
def _closed_at_once(java: Jvm, client: Any) -> Iterator[Any]:
    try:
        yield client
    finally:
        client.close(java.find("java.time.Duration").ZERO)


JAVA: Mapping[str, JavaAttempt] = {
    "subscribe, new protocol": _java_subscribed,
    "init transactions": _java_transaction,
    "list transactions": _java_admin(lambda client: client.listTransactions().all()),
    "describe transactions": _java_admin(
        lambda client: client.describeTransactions([TRANSACTIONAL_ID]).all()
    ),
    "fence producers": _java_admin(lambda client: client.fenceProducers([TRANSACTIONAL_ID]).all()),
    "describe quorum": _java_admin(lambda client: client.describeMetadataQuorum().quorumInfo()),
    "unregister a broker": _java_admin(lambda client: client.unregisterBroker(7).all()),
    "delegation tokens": _java_admin(
        lambda client: client.describeDelegationToken().delegationTokens()
    ),
    "client metrics": _java_admin(lambda client: client.listClientMetricsResources().all()),
}
