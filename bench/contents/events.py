"""Events of a typed schema, as an agent's finished batches and as whole topics.

Events are random with a fixed seed for each source. An event takes 200 bytes of a record; the times
of a source ascend evenly, and a batch holds a minute. The same events are in a topic with several
partitions, one for each agent, and in a topic with one.
"""

import json
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyruhvro
from crc32c import crc32c

from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import Acknowledged, Batch, TopicPartition
from client.producing.identity import take_identity
from client.producing.shipping import ShippingLimits
from ground.varints import long_bytes
from harness.processes.server_process import ServerFailed
from schemas.event_schemas import HEADER, built_in
from schemas.registry_client import RegistryClient
from wire.record_batches import batch
from wire.record_batches.compression import Codec, compress

BATCH: Final = 5_000  # events
STEP_MILLIS: Final = 60_000 // BATCH
BEGAN: Final = 1_763_622_000_000  # 2025-11-20, 07:00 UTC
SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "bench.PageView",
        "fields": [
            {"name": "header", "type": json.loads(built_in(HEADER).text)},
            {"name": "user", "type": "string"},
            {"name": "url", "type": "string"},
            {"name": "status", "type": "int"},
            {"name": "bytes", "type": "long"},
            {"name": "millis", "type": "double"},
            {"name": "browser", "type": "string"},
        ],
    }
)
_HEADER_FIELDS: Final = ("time", "host", "app", "source", "seq", "position")
OWN_FIELDS: Final = ("user", "url", "status", "bytes", "millis", "browser")
_BROWSERS: Final = pa.array(
    [
        f"Mozilla/5.0 (X11; Linux x86_64; rv:{version}.0) Firefox/{version}.0"
        for version in range(100, 120)
    ]
)
_STATUS: Final = pa.array([200] * 17 + [301, 404, 500], pa.int32())


_VARINTS: Final = pa.array([long_bytes(number) for number in range(1 << 16)], pa.binary())


def batches(source: int, schema_id: int, count: int) -> Iterator[bytes]:
    """Yields batches with `count` events of a source, in order."""
    for first in range(0, count, BATCH):
        yield finished_batch(source, schema_id, first, min(BATCH, count - first))


def finished_batch(source: int, schema_id: int, first: int, count: int) -> bytes:
    """Returns a batch of at most `BATCH` events of a source, whose first event has the number
    `first`."""
    bodies = pyruhvro.serialize_record_batch(_events(source, first, count), SCHEMA, 1)[0]
    body = compress(Codec.ZSTD, _records(bodies, schema_id))
    start_millis = BEGAN + first * STEP_MILLIS
    head = batch.HEADER.pack(
        0,
        batch.HEADER_SIZE - batch.LENGTH_PREFIX + len(body),
        0,
        batch.MAGIC,
        0,
        int(Codec.ZSTD),
        count - 1,
        start_millis,
        start_millis + (count - 1) * STEP_MILLIS,
        batch.NO_PRODUCER,
        -1,
        batch.NO_SEQUENCE,
        count,
    )
    batch_bytes = bytearray(head) + body
    batch_bytes[batch.CRC_START - 4 : batch.CRC_START] = crc32c(
        memoryview(batch_bytes)[batch.CRC_START :]
    ).to_bytes(4, "big")
    return bytes(batch_bytes)


def _events(source: int, first: int, count: int) -> pa.RecordBatch:
    seqs = pa.array(range(first, first + count), pa.int64())
    seed = source << 40 | first << 3

    def drawn(number: int, below: int) -> pa.Int64Array:
        share = pc.random(count, initializer=seed + number)
        return pc.cast(pc.multiply(share, float(below)), pa.int64(), safe=False)

    def text(numbers: pa.Int64Array) -> pa.StringArray:
        return pc.cast(numbers, pa.string())

    header = pa.StructArray.from_arrays(
        [
            pc.cast(pc.add(pc.multiply(seqs, STEP_MILLIS), BEGAN), pa.timestamp("ms")),
            pa.repeat(f"web-{source:02}.dc1.example", count),
            pa.repeat("shop", count),
            pa.repeat(f"{source:032x}", count),
            seqs,
            pc.multiply(seqs, 240),
        ],
        names=_HEADER_FIELDS,
    )
    url = ["/shop/category/", text(drawn(0, 100)), "/item/", text(drawn(1, 1_000_000))]
    url += ["?from=", text(drawn(2, 10_000_000_000))]
    return pa.RecordBatch.from_arrays(
        [
            header,
            pc.binary_join_element_wise("u-", text(drawn(3, 10_000_000)), ""),
            pc.binary_join_element_wise(*url, ""),
            _STATUS.take(drawn(4, len(_STATUS))),
            drawn(5, 100_000),
            pc.round(pc.multiply(pc.random(count, initializer=seed + 6), 300.0), 3),
            _BROWSERS.take(drawn(7, len(_BROWSERS))),
        ],
        names=("header", *OWN_FIELDS),
    )


def _records(bodies: pa.BinaryArray, schema_id: int) -> bytes:
    """The encoded bodies, in the envelope, as records without keys or headers."""
    indexes = pa.array(range(len(bodies)), pa.int64())
    message_prefix = b"\0" + schema_id.to_bytes(4, "big")
    sizes = pc.add(pc.binary_length(bodies), len(message_prefix))
    records = pc.binary_join_element_wise(
        b"\0",  # attributes
        _VARINTS.take(pc.multiply(indexes, STEP_MILLIS)),
        _VARINTS.take(indexes),
        b"\1",  # no key
        _VARINTS.take(sizes),
        message_prefix,
        bodies,
        b"\0",  # no headers
        b"",
    )
    lengths = _VARINTS.take(pc.binary_length(records))
    return b"".join(pc.binary_join_element_wise(lengths, records, b"").to_pylist())


PARTITIONS: Final = 8
_AHEAD: Final = 8  # batches in the making
LIMITS: Final = ShippingLimits(memory_bytes=64 * 1024 * 1024)


class EventTopics(msgspec.Struct, frozen=True):
    """Two topics with the same events."""

    spread: str  # a source in each of `PARTITIONS` partitions
    single: str  # all of them in one partition


def fill(bootstrap: str, registry: str, rows: int) -> EventTopics:
    """Creates both topics with about `rows` events each."""
    topics = EventTopics(f"spread-{rows}", f"single-{rows}")
    with Brokers(Bootstrap.of(bootstrap)) as brokers:
        create_topic(brokers, topics.spread, partitions=PARTITIONS)
        create_topic(brokers, topics.single, partitions=1)
        schema_id = _registered(registry, topics)
        producer = BatchProducer(brokers.bootstrap, identity=take_identity(brokers), limits=LIMITS)
        with producer:
            for partition, data in _made(schema_id, rows):
                send(producer, Batch(TopicPartition(topics.spread, partition), data))
                send(producer, Batch(TopicPartition(topics.single, 0), data))
            finish(producer)
    return topics


def _registered(registry: str, topics: EventTopics) -> int:
    client = RegistryClient(registry)
    try:
        client.register(f"{topics.spread}-value", SCHEMA)
        return client.register(f"{topics.single}-value", SCHEMA)
    finally:
        client.close()


def _made(schema_id: int, rows: int) -> Iterator[tuple[int, bytes]]:
    """Batches and their partitions, a minute of every source at a time."""
    with ThreadPoolExecutor(2) as threads:
        pending: deque[tuple[int, Future[bytes]]] = deque()
        rows_per_partition = rows // PARTITIONS
        for first in range(0, rows_per_partition, BATCH):
            for source in range(PARTITIONS):
                count = min(BATCH, rows_per_partition - first)
                future = threads.submit(finished_batch, source, schema_id, first, count)
                pending.append((source, future))
                if len(pending) > _AHEAD:
                    partition, oldest_future = pending.popleft()
                    yield partition, oldest_future.result()
        for partition, future in pending:
            yield partition, future.result()


def send(producer: BatchProducer, batch: Batch) -> None:
    """Submits the batch as soon as there is room. Raises ServerFailed."""
    while not producer.submit(batch):
        _settle(producer)
    _settle(producer, wait=0.0)


def finish(producer: BatchProducer) -> None:
    """Waits until the broker has all batches. Raises ServerFailed."""
    while producer.outstanding:
        _settle(producer)


def _settle(producer: BatchProducer, wait: float = 0.05) -> None:
    producer.pump(wait)
    for event in producer.collect():
        if not isinstance(event, Acknowledged):
            raise ServerFailed(f"the broker rejected a batch: {event}")
