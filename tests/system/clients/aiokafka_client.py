"""aiokafka."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

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

_ACKS: Mapping[Acks, int | str] = {"0": 0, "1": 1, "all": "all"}


def _check(code: int) -> None:
    if code:
        raise Refused(str(for_code(code).message))


class Aiokafka:
    name = "aiokafka"
    null_headers = True

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
        options = {
            "bootstrap_servers": bootstrap,
            "compression_type": None if codec == "none" else codec,
            "acks": _ACKS[acks],
            "enable_idempotence": idempotent,
            "max_request_size": 4_000_000,
            "linger_ms": 20,
        }
        offsets = asyncio.run(self._produce(options, topic, partition, records))
        return None if acks == "0" else offsets

    async def _produce(
        self, options: dict[str, Any], topic: str, partition: int, records: Sequence[Record]
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
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        start: Start,
        count: int,
        *,
        positioned: Callable[[], None] = nothing,
    ) -> list[Consumed]:
        which = aiokafka.TopicPartition(topic, partition)
        return asyncio.run(self._consume(bootstrap, which, start, count, positioned))

    async def _consume(
        self,
        bootstrap: str,
        which: aiokafka.TopicPartition,
        start: Start,
        count: int,
        positioned: Callable[[], None],
    ) -> list[Consumed]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        async with asyncio.timeout(WITHIN), consumer:
            consumer.assign([which])
            match start:
                case "beginning":
                    await consumer.seek_to_beginning(which)
                case "end":
                    await consumer.seek_to_end(which)
                case AtOffset(offset):
                    consumer.seek(which, offset)
                case AtTime(timestamp):
                    found = await consumer.offsets_for_times({which: timestamp})
                    consumer.seek(which, found[which].offset)
            await consumer.position(which)
            await asyncio.to_thread(positioned)
            seen: list[Consumed] = []
            while len(seen) < count:
                message = await consumer.getone()
                headers = tuple(message.headers)
                record = Record(message.value, message.key, headers, message.timestamp)
                seen.append(Consumed(message.offset, record))
            return seen


class AiokafkaAdmin:
    """Its admin client returns answers whole: their error codes are looked at here."""

    name = "aiokafka"

    @contextlib.asynccontextmanager
    async def _client(self, bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
        client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        async with asyncio.timeout(WITHIN):
            await client.start()
            try:
                yield client
            except KafkaError as error:
                raise Refused(str(getattr(error, "message", type(error).__name__))) from error
            finally:
                await client.close()

    def create_topic(
        self, bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str]
    ) -> None:
        async def run() -> Any:
            async with self._client(bootstrap) as client:
                wanted = NewTopic(topic, partitions, 1, topic_configs=dict(configs))
                return await client.create_topics([wanted])

        _check(asyncio.run(run()).topic_errors[0][1])

    def delete_topic(self, bootstrap: str, topic: str) -> None:
        async def run() -> Any:
            async with self._client(bootstrap) as client:
                return await client.delete_topics([topic])

        _check(asyncio.run(run()).topic_error_codes[0][1])

    def topics(self, bootstrap: str) -> dict[str, int]:
        async def run() -> Any:
            async with self._client(bootstrap) as client:
                return await client.describe_topics()

        return {each["topic"]: len(each["partitions"]) for each in asyncio.run(run())}

    def create_partitions(self, bootstrap: str, topic: str, total: int) -> None:
        async def run() -> None:
            async with self._client(bootstrap) as client:
                await client.create_partitions({topic: NewPartitions(total)})

        asyncio.run(run())

    def configs(self, bootstrap: str, topic: str) -> dict[str, str | None]:
        return self._configs(bootstrap, ConfigResource(ConfigResourceType.TOPIC, topic))

    def broker_configs(self, bootstrap: str, broker: int) -> dict[str, str | None]:
        return self._configs(bootstrap, ConfigResource(ConfigResourceType.BROKER, str(broker)))

    def _configs(self, bootstrap: str, resource: ConfigResource) -> dict[str, str | None]:
        async def run() -> Any:
            async with self._client(bootstrap) as client:
                return await client.describe_configs([resource])

        (response,) = asyncio.run(run())
        (found,) = response.resources
        _check(found[0])
        return {entry[0]: entry[1] for entry in found[4]}

    def alter(self, bootstrap: str, topic: str, configs: Mapping[str, str]) -> None:
        async def run() -> Any:
            async with self._client(bootstrap) as client:
                wanted = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
                return await client.alter_configs([wanted])

        (response,) = asyncio.run(run())
        _check(response.resources[0][0])

    def delete_records(self, bootstrap: str, topic: str, partition: int, before: int) -> int:
        which = aiokafka.TopicPartition(topic, partition)

        async def run() -> int:
            async with self._client(bootstrap) as client:
                deleted = await client.delete_records({which: RecordsToDelete(before)})
                return int(deleted[which])

        return asyncio.run(run())

    def cluster(self, bootstrap: str) -> Cluster:
        async def run() -> Any:
            async with self._client(bootstrap) as client:
                return await client.describe_cluster()

        described = asyncio.run(run())
        nodes = ((node["node_id"], node["host"], node["port"]) for node in described["brokers"])
        return Cluster(described["cluster_id"], described["controller_id"], frozenset(nodes))
