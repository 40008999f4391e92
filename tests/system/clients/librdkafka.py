"""librdkafka, through confluent-kafka."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, Unpack

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.system.clients.interface import (
    WITHIN,
    AtEnd,
    AtOffset,
    AtTime,
    Cluster,
    Configs,
    Consumed,
    Described,
    How,
    Record,
    Records,
    Refused,
    Start,
)


def _ask(server: str, question: Callable[[AdminClient], Mapping[Any, Any]]) -> Any:
    """Return the result of the answer's only future; raise a broker's error as `Refused`."""
    client = AdminClient({"bootstrap.servers": server})  # Lives until there is an answer.
    (future,) = question(client).values()
    try:
        return future.result(WITHIN)
    except KafkaException as error:
        raise Refused(error.args[0].name()) from error


class Librdkafka:
    name = "librdkafka"
    null_headers = True

    def produce(
        self, server: str, topic: str, partition: int, records: Records, **how: Unpack[How]
    ) -> list[int] | None:
        codec, acks = how.get("codec", "none"), how.get("acks", "all")
        idempotent = how.get("idempotent", False)
        producer = Producer(
            {
                "bootstrap.servers": server,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                "message.max.bytes": 4_000_000,
                "linger.ms": 20,
            }
        )
        offsets: list[int] = []
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)
            else:
                offsets.append(message.offset())

        for record in records:
            timestamp = {} if record.timestamp is None else {"timestamp": record.timestamp}
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=partition,
                headers=list(record.headers),
                on_delivery=delivered,
                **timestamp,
            )
        assert producer.flush(WITHIN) == 0, "not all was delivered in time"
        if errors:
            raise Refused(errors[0].name())
        return None if acks == "0" else offsets

    def consume(
        self, server: str, topic: str, partition: int, start: Start, count: int
    ) -> list[Consumed]:
        consumer = Consumer(
            {
                "bootstrap.servers": server,
                "group.id": "assigned-by-hand",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        try:
            match start:
                case "beginning":
                    where = OFFSET_BEGINNING
                case AtEnd():
                    where = OFFSET_END
                case AtOffset(offset):
                    where = offset
                case AtTime(timestamp):
                    question = [TopicPartition(topic, partition, timestamp)]
                    where = consumer.offsets_for_times(question, timeout=WITHIN)[0].offset
            consumer.assign([TopicPartition(topic, partition, where)])
            if isinstance(start, AtEnd):
                # The end is looked up in the background; reaching it is an event.
                event = consumer.poll(WITHIN)
                assert event is not None
                reached = event.error()
                assert reached is not None
                assert reached.code() == KafkaError._PARTITION_EOF, reached
                start.then()
            return _read(consumer, count)
        finally:
            consumer.close()


def _read(consumer: Consumer, count: int) -> list[Consumed]:
    seen: list[Consumed] = []
    while len(seen) < count:
        message = consumer.poll(WITHIN)
        assert message is not None, f"{len(seen)} of {count} records after {WITHIN} s"
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                continue
            raise Refused(error.name())
        headers = tuple(message.headers() or ())
        record = Record(message.value(), message.key(), headers, message.timestamp()[1])
        seen.append(Consumed(message.offset(), record))
    return seen


def written_and_read(
    settings: Mapping[str, Any], topic: str, values: Sequence[bytes]
) -> list[bytes | None]:
    """Create a topic, write these values, and return the contents of its partition."""
    producer = Producer({**settings, "message.max.bytes": 2_000_000, "linger.ms": 5})
    for each in values:
        producer.produce(topic, each, partition=0)
        producer.poll(0)
    assert producer.flush(WITHIN) == 0, "not all was delivered in time"
    consumer = Consumer({**settings, "group.id": "by-hand", "enable.auto.commit": False})
    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [each.record.value for each in _read(consumer, len(values))]


class LibrdkafkaAdmin:
    name = "librdkafka"

    def create_topic(self, server: str, topic: str, partitions: int, configs: Configs) -> None:
        wanted = NewTopic(topic, partitions, 1, config=dict(configs))
        _ask(server, lambda client: client.create_topics([wanted]))

    def delete_topic(self, server: str, topic: str) -> None:
        _ask(server, lambda client: client.delete_topics([topic]))

    def topics(self, server: str) -> dict[str, int]:
        listed = AdminClient({"bootstrap.servers": server}).list_topics(timeout=WITHIN).topics
        return {name: len(topic.partitions) for name, topic in listed.items()}

    def create_partitions(self, server: str, topic: str, total: int) -> None:
        _ask(server, lambda client: client.create_partitions([NewPartitions(topic, total)]))

    def configs(self, server: str, topic: str) -> Described:
        return self._configs(server, ConfigResource(ResourceType.TOPIC, topic))

    def broker_configs(self, server: str, broker: int) -> Described:
        return self._configs(server, ConfigResource(ResourceType.BROKER, str(broker)))

    def _configs(self, server: str, resource: ConfigResource) -> Described:
        entries = _ask(server, lambda client: client.describe_configs([resource]))
        return {name: entry.value for name, entry in entries.items()}

    def alter(self, server: str, topic: str, configs: Configs) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _ask(server, lambda client: client.incremental_alter_configs([resource]))

    def reset(self, server: str, topic: str, config: str) -> None:
        """Remove an override, so that the default applies."""
        entry = ConfigEntry(config, None, incremental_operation=AlterConfigOpType.DELETE)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        _ask(server, lambda client: client.incremental_alter_configs([resource]))

    def delete_records(self, server: str, topic: str, partition: int, before: int) -> int:
        wanted = [TopicPartition(topic, partition, before)]
        deleted = _ask(server, lambda client: client.delete_records(wanted))
        return int(deleted.low_watermark)

    def cluster(self, server: str) -> Cluster:
        described = _ask(server, lambda client: {"": client.describe_cluster()})
        brokers = frozenset((node.id, node.host, node.port) for node in described.nodes)
        return Cluster(described.cluster_id, described.controller.id, brokers)
