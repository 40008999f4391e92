"""What the mirror asks of a broker, and what a source's log holds."""

from typing import Any

from tests.broker.api.running_broker import RawClient
from wire.messages import fetch, produce
from wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from wire.mirrored import MIRROR_ID
from wire.record_batches.batch import headers
from wire.record_batches.records import Record, build_batch

MARK = "dc1/page_views/5QDhz2mVQt6JbSHYXm9lKg"


def source_batch(base: int, count: int = 3, *, content: bytes = b"x", **header: Any) -> bytes:
    """As it stands in another log, written there in some epoch of its own."""
    found = [Record(base + at, 1_000 + base + at, None, content) for at in range(count)]
    return build_batch(found, base_offset=base, leader_epoch=77, **header)


def request(
    topic: str,
    records: bytes | None,
    *,
    transactional_id: str | None = MIRROR_ID,
    acks: int = -1,
    index: int = 0,
) -> ProduceRequest:
    data = PartitionProduceData(
        index=index, records=None if records is None else memoryview(records)
    )
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=20_000,
        topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
    )


def mirror(
    client: RawClient, topic: str, records: bytes | None, *, version: int = 9, **more: Any
) -> PartitionProduceResponse:
    sent = client.ask(produce.API, version, request(topic, records, **more))
    ((answer,),) = (each.partition_responses for each in sent.responses)
    return answer


def fetched(
    client: RawClient, topic: str, offset: int = 0, *, isolation: int = 0
) -> fetch.PartitionData:
    wanted = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=2**30)
    answer = client.ask(
        fetch.API,
        12,
        fetch.FetchRequest(
            max_wait=0,
            min_bytes=0,
            isolation_level=isolation,
            topics=(fetch.FetchTopic(topic=topic, partitions=(wanted,)),),
        ),
    )
    ((found,),) = (each.partitions for each in answer.responses)
    return found


def source_bytes(data: bytes) -> list[bytes]:
    """Of each batch all that the copy may not change."""
    return [data[at : at + 12] + data[at + 16 : at + header.size] for at, header in headers(data)]
