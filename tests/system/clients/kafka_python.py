"""kafka-python."""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.system.clients.interface import (
    WITHIN,
    Acks,
    AtOffset,
    AtTime,
    Cluster,
    Codec,
    Consumed,
    Record,
    Refused,
    Start,
    nothing,
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
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        records: Sequence[Record],
        *,
        codec: Codec = "none",
        acks: Acks = "all",
        idempotent: bool = False,
    ) -> list[int] | None:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
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
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        start: Start,
        count: int,
        *,
        positioned: Callable[[], None] = nothing,
    ) -> list[Consumed]:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
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
                case "end":
                    consumer.seek_to_end(which)
                case AtOffset(offset):
                    consumer.seek(which, offset)
                case AtTime(timestamp):
                    consumer.seek(which, consumer.offsets_for_times({which: timestamp})[which][0])
            consumer.position(which)  # Looks the offset up now, not with the first poll.
            positioned()
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
    def _client(self, bootstrap: str) -> Iterator[Any]:
        client = KafkaAdminClient(bootstrap_servers=bootstrap)
        try:
            with _refusals():
                yield client
        finally:
            client.close()

    def create_topic(
        self, bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str]
    ) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs)}
        with self._client(bootstrap) as client:
            client.create_topics({topic: wanted})

    def delete_topic(self, bootstrap: str, topic: str) -> None:
        with self._client(bootstrap) as client:
            client.delete_topics([topic])

    def topics(self, bootstrap: str) -> dict[str, int]:
        with self._client(bootstrap) as client:
            return {each["name"]: len(each["partitions"]) for each in client.describe_topics()}

    def create_partitions(self, bootstrap: str, topic: str, total: int) -> None:
        with self._client(bootstrap) as client:
            client.create_partitions({topic: total})

    def configs(self, bootstrap: str, topic: str) -> dict[str, str | None]:
        with self._client(bootstrap) as client:
            wanted = [ConfigResource("TOPIC", topic)]
            described = client.describe_configs(wanted, config_filter="all")
            return {name: entry["value"] for name, entry in described["topic"][topic].items()}

    def broker_configs(self, bootstrap: str, broker: int) -> dict[str, str | None]:
        with self._client(bootstrap) as client:
            wanted = [ConfigResource("BROKER", str(broker))]
            described = client.describe_configs(wanted, config_filter="all")["broker"]
            return {name: entry["value"] for name, entry in described[str(broker)].items()}

    def alter(self, bootstrap: str, topic: str, configs: Mapping[str, str]) -> None:
        with self._client(bootstrap) as client:
            answer = client.alter_configs([ConfigResource("TOPIC", topic, dict(configs))])
        if answer["topic"][topic] != "OK":
            raise Refused(answer["topic"][topic])

    def delete_records(self, bootstrap: str, topic: str, partition: int, before: int) -> int:
        which = TopicPartition(topic, partition)
        with self._client(bootstrap) as client:
            deleted = client.delete_records({which: before})
        return int(deleted[which]["low_watermark"])

    def cluster(self, bootstrap: str) -> Cluster:
        with self._client(bootstrap) as client:
            described = client.describe_cluster()
        nodes = ((node["broker_id"], node["host"], node["port"]) for node in described["brokers"])
        return Cluster(described["cluster_id"], described["controller_id"], frozenset(nodes))
