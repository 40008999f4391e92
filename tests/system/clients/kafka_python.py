"""kafka-python."""

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Unpack

from tests.system.clients.interface import (
    WITHIN,
    Acks,
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

with warnings.catch_warnings():
    # It reads its schemas in a way that Python 3.11 calls outdated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource
    from kafka.errors import KafkaError

__all__ = ["KafkaConsumer", "KafkaProducer", "KafkaPython", "KafkaPythonAdmin", "TopicPartition"]

_ACKS: Mapping[Acks, int | str] = {"0": 0, "1": 1, "all": "all"}


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise Refused(str(getattr(error, "message", type(error).__name__))) from error


class KafkaPython:
    name = "kafka-python"
    null_headers = False

    def produce(
        self, server: str, topic: str, partition: int, records: Records, **how: Unpack[How]
    ) -> list[int] | None:
        codec, acks = how.get("codec", "none"), how.get("acks", "all")
        idempotent = how.get("idempotent", False)
        producer = KafkaProducer(
            bootstrap_servers=server,
            compression_type=None if codec == "none" else codec,
            acks=_ACKS[acks],
            enable_idempotence=idempotent,
            max_request_size=4_000_000,
            linger_ms=20,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=partition,
                    timestamp_ms=record.timestamp,
                )
                for record in records
            ]
            with _refusals():
                offsets = [future.get(WITHIN).offset for future in sent]
            return None if acks == "0" else offsets
        finally:
            producer.close(timeout=WITHIN)

    def consume(
        self, server: str, topic: str, partition: int, start: Start, count: int
    ) -> list[Consumed]:
        consumer = KafkaConsumer(
            bootstrap_servers=server,
            group_id=None,
            enable_auto_commit=False,
            consumer_timeout_ms=WITHIN * 1000,
        )
        try:
            which = TopicPartition(topic, partition)
            consumer.assign([which])
            match start:
                case "beginning":
                    consumer.seek_to_beginning(which)
                case AtEnd():
                    consumer.seek_to_end(which)
                case AtOffset(offset):
                    consumer.seek(which, offset)
                case AtTime(timestamp):
                    consumer.seek(which, consumer.offsets_for_times({which: timestamp})[which][0])
            consumer.position(which)  # Looks the offset up now, not with the first poll.
            if isinstance(start, AtEnd):
                start.then()
            seen: list[Consumed] = []
            with _refusals():
                for message in consumer:
                    headers = tuple(message.headers)
                    record = Record(message.value, message.key, headers, message.timestamp)
                    seen.append(Consumed(message.offset, record))
                    if len(seen) == count:
                        return seen
            raise AssertionError(f"{len(seen)} of {count} records after {WITHIN} s")
        finally:
            consumer.close()


class KafkaPythonAdmin:
    name = "kafka-python"

    @contextlib.contextmanager
    def _client(self, server: str) -> Iterator[Any]:
        client = KafkaAdminClient(bootstrap_servers=server)
        try:
            with _refusals():
                yield client
        finally:
            client.close()

    def create_topic(self, server: str, topic: str, partitions: int, configs: Configs) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs)}
        with self._client(server) as client:
            client.create_topics({topic: wanted})

    def delete_topic(self, server: str, topic: str) -> None:
        with self._client(server) as client:
            client.delete_topics([topic])

    def topics(self, server: str) -> dict[str, int]:
        with self._client(server) as client:
            return {each["name"]: len(each["partitions"]) for each in client.describe_topics()}

    def create_partitions(self, server: str, topic: str, total: int) -> None:
        with self._client(server) as client:
            client.create_partitions({topic: total})

    def configs(self, server: str, topic: str) -> Described:
        with self._client(server) as client:
            wanted = [ConfigResource("TOPIC", topic)]
            described = client.describe_configs(wanted, config_filter="all")
            return {name: entry["value"] for name, entry in described["topic"][topic].items()}

    def broker_configs(self, server: str, broker: int) -> Described:
        with self._client(server) as client:
            wanted = [ConfigResource("BROKER", str(broker))]
            described = client.describe_configs(wanted, config_filter="all")["broker"]
            return {name: entry["value"] for name, entry in described[str(broker)].items()}

    def alter(self, server: str, topic: str, configs: Configs) -> None:
        with self._client(server) as client:
            answer = client.alter_configs([ConfigResource("TOPIC", topic, dict(configs))])
        if answer["topic"][topic] != "OK":
            raise Refused(answer["topic"][topic])

    def delete_records(self, server: str, topic: str, partition: int, before: int) -> int:
        which = TopicPartition(topic, partition)
        with self._client(server) as client:
            deleted = client.delete_records({which: before})
        return int(deleted[which]["low_watermark"])

    def cluster(self, server: str) -> Cluster:
        with self._client(server) as client:
            described = client.describe_cluster()
        nodes = ((node["broker_id"], node["host"], node["port"]) for node in described["brokers"])
        return Cluster(described["cluster_id"], described["controller_id"], frozenset(nodes))
