"""aiokafka."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Unpack

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

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

_ACKS: Mapping[Acks, int | str] = {"0": 0, "1": 1, "all": "all"}


def _check(code: int) -> None:
    if code:
        raise Refused(str(for_code(code).message))


class Aiokafka:
    name = "aiokafka"
    null_headers = True

    def produce(
        self, server: str, topic: str, partition: int, records: Records, **how: Unpack[How]
    ) -> list[int] | None:
        codec, acks = how.get("codec", "none"), how.get("acks", "all")
        idempotent = how.get("idempotent", False)
        options = {
            "bootstrap_servers": server,
            "compression_type": None if codec == "none" else codec,
            "acks": _ACKS[acks],
            "enable_idempotence": idempotent,
            "max_request_size": 4_000_000,
            "linger_ms": 20,
        }
        offsets = asyncio.run(self._produce(options, topic, partition, records))
        return None if acks == "0" else offsets

    async def _produce(
        self, options: dict[str, Any], topic: str, partition: int, records: Records
    ) -> list[int]:
        async with AIOKafkaProducer(**options) as producer:
            try:
                sent = [
                    await producer.send(
                        topic,
                        record.value,
                        record.key,
                        partition=partition,
                        timestamp_ms=record.timestamp,
                        headers=list(record.headers),
                    )
                    for record in records
                ]
                async with asyncio.timeout(WITHIN):
                    answers = [await each for each in sent]
            except KafkaError as error:
                raise Refused(str(getattr(error, "message", type(error).__name__))) from error
            # Without acknowledgements there are no answers either.
            return [-1 if answer is None else answer.offset for answer in answers]

    def consume(
        self, server: str, topic: str, partition: int, start: Start, count: int
    ) -> list[Consumed]:
        which = aiokafka.TopicPartition(topic, partition)
        return asyncio.run(self._consume(server, which, start, count))

    async def _consume(
        self,
        server: str,
        which: aiokafka.TopicPartition,
        start: Start,
        count: int,
    ) -> list[Consumed]:
        consumer = AIOKafkaConsumer(bootstrap_servers=server, enable_auto_commit=False)
        async with asyncio.timeout(WITHIN), consumer:
            consumer.assign([which])
            match start:
                case "beginning":
                    await consumer.seek_to_beginning(which)
                case AtEnd():
                    await consumer.seek_to_end(which)
                case AtOffset(offset):
                    consumer.seek(which, offset)
                case AtTime(timestamp):
                    found = await consumer.offsets_for_times({which: timestamp})
                    consumer.seek(which, found[which].offset)
            await consumer.position(which)
            if isinstance(start, AtEnd):
                await asyncio.to_thread(start.then)
            seen: list[Consumed] = []
            while len(seen) < count:
                message = await consumer.getone()
                headers = tuple(message.headers)
                record = Record(message.value, message.key, headers, message.timestamp)
                seen.append(Consumed(message.offset, record))
            return seen


class AiokafkaAdmin:
    """Its admin client returns whole answers, so their error codes are checked here."""

    name = "aiokafka"

    def _ask(self, server: str, question: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            client = AIOKafkaAdminClient(bootstrap_servers=server)
            async with asyncio.timeout(WITHIN):
                await client.start()
                try:
                    return await question(client)
                except KafkaError as error:
                    raise Refused(str(getattr(error, "message", type(error).__name__))) from error
                finally:
                    await client.close()

        return asyncio.run(run())

    def create_topic(self, server: str, topic: str, partitions: int, configs: Configs) -> None:
        wanted = NewTopic(topic, partitions, 1, topic_configs=dict(configs))
        answer = self._ask(server, lambda client: client.create_topics([wanted]))
        _check(answer.topic_errors[0][1])

    def delete_topic(self, server: str, topic: str) -> None:
        answer = self._ask(server, lambda client: client.delete_topics([topic]))
        _check(answer.topic_error_codes[0][1])

    def topics(self, server: str) -> dict[str, int]:
        described = self._ask(server, lambda client: client.describe_topics())
        return {each["topic"]: len(each["partitions"]) for each in described}

    def create_partitions(self, server: str, topic: str, total: int) -> None:
        wanted = {topic: NewPartitions(total)}
        self._ask(server, lambda client: client.create_partitions(wanted))

    def configs(self, server: str, topic: str) -> Described:
        return self._configs(server, ConfigResource(ConfigResourceType.TOPIC, topic))

    def broker_configs(self, server: str, broker: int) -> Described:
        return self._configs(server, ConfigResource(ConfigResourceType.BROKER, str(broker)))

    def _configs(self, server: str, resource: ConfigResource) -> Described:
        (response,) = self._ask(server, lambda client: client.describe_configs([resource]))
        (found,) = response.resources
        _check(found[0])
        return {entry[0]: entry[1] for entry in found[4]}

    def alter(self, server: str, topic: str, configs: Configs) -> None:
        wanted = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        (response,) = self._ask(server, lambda client: client.alter_configs([wanted]))
        _check(response.resources[0][0])

    def delete_records(self, server: str, topic: str, partition: int, before: int) -> int:
        which = aiokafka.TopicPartition(topic, partition)
        wanted = {which: RecordsToDelete(before)}
        return int(self._ask(server, lambda client: client.delete_records(wanted))[which])

    def cluster(self, server: str) -> Cluster:
        described = self._ask(server, lambda client: client.describe_cluster())
        nodes = ((node["node_id"], node["host"], node["port"]) for node in described["brokers"])
        return Cluster(described["cluster_id"], described["controller_id"], frozenset(nodes))
