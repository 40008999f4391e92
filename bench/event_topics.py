"""Topics full of events: the same in several partitions, an agent's each, and in one."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from bench.events import BATCH, SCHEMA, finished_batch
from client.addresses import parse_addresses
from client.admin import create_topic
from client.batch_producer import BatchProducer
from client.brokers import Brokers
from client.delivery import Acknowledged, Batch, TopicPartition
from client.identity import take_identity
from client.shipping import ShippingLimits
from harness.server_process import ServerFailed
from schemas.registry_client import RegistryClient

PARTITIONS: Final = 8
_AHEAD: Final = 8  # batches that are being made
_LIMITS: Final = ShippingLimits(memory_bytes=64 * 1024 * 1024)


@dataclass(frozen=True, slots=True)
class EventTopics:
    """Two topics with the same events."""

    spread: str  # a source in each of `PARTITIONS` partitions
    single: str  # all of them in one partition


def fill(bootstrap: str, registry: str, rows: int) -> EventTopics:
    """Makes both, with about so many events."""
    topics = EventTopics(f"spread-{rows}", f"single-{rows}")
    with Brokers(parse_addresses(bootstrap)) as brokers:
        create_topic(brokers, topics.spread, partitions=PARTITIONS)
        create_topic(brokers, topics.single, partitions=1)
        schema_id = _registered(registry, topics)
        producer = BatchProducer(
            brokers.addresses(), identity=take_identity(brokers), limits=_LIMITS
        )
        with producer:
            for partition, data in _made(schema_id, rows):
                _send(producer, Batch(TopicPartition(topics.spread, partition), data))
                _send(producer, Batch(TopicPartition(topics.single, 0), data))
            while producer.outstanding:
                _settle(producer)
    return topics


def _registered(registry: str, topics: EventTopics) -> int:
    client = RegistryClient(registry)
    try:
        client.register(f"{topics.spread}-value", SCHEMA)
        return client.register(f"{topics.single}-value", SCHEMA)
    finally:
        client.close()


def _made(schema_id: int, rows: int) -> Iterator[tuple[int, bytes]]:
    """Batches with their partitions, a minute of all sources after the other."""
    with ThreadPoolExecutor(2) as threads:
        under_way: deque[tuple[int, Future[bytes]]] = deque()
        each = rows // PARTITIONS
        for first in range(0, each, BATCH):
            for source in range(PARTITIONS):
                count = min(BATCH, each - first)
                made = threads.submit(finished_batch, source, schema_id, first, count)
                under_way.append((source, made))
                if len(under_way) > _AHEAD:
                    partition, oldest = under_way.popleft()
                    yield partition, oldest.result()
        for partition, left in under_way:
            yield partition, left.result()


def _send(producer: BatchProducer, batch: Batch) -> None:
    while not producer.submit(batch):
        _settle(producer)
    _settle(producer, wait=0.0)


def _settle(producer: BatchProducer, wait: float = 0.05) -> None:
    producer.pump(wait)
    for event in producer.collect():
        if not isinstance(event, Acknowledged):
            raise ServerFailed(f"the broker does not take what is to be loaded: {event}")
