"""The request that a mirror writes with: the same bytes as any other encoder's."""

import pytest

from client.producing.mirrored_produce import MirroredBatches, mirrored_body
from wire.messages import produce
from wire.mirrored import MIRROR_ID
from wire.produce import read_request

TOPICS = {
    "dc1.t": [MirroredBatches(0, memoryview(b"one")), MirroredBatches(7, memoryview(b""))],
    "dc1.views": [MirroredBatches(3, memoryview(b"x" * 200))],
}


@pytest.mark.parametrize("version", produce.API.versions)
def test_it_is_read_as_what_was_meant(version: int) -> None:
    body = b"".join(mirrored_body(version, 5000, TOPICS))
    request = read_request(version, memoryview(body))
    assert (request.transactional_id, request.acks, request.timeout_ms) == (MIRROR_ID, -1, 5000)
    said = [(each.topic, each.partition, bytes(each.records or b"")) for each in request.batches]
    assert said == [("dc1.t", 0, b"one"), ("dc1.t", 7, b""), ("dc1.views", 3, b"x" * 200)]


@pytest.mark.parametrize("version", produce.API.versions)
def test_it_is_what_the_codec_writes(version: int) -> None:
    request = produce.ProduceRequest(
        transactional_id=MIRROR_ID,
        acks=-1,
        timeout=5000,
        topic_data=tuple(
            produce.TopicProduceData(
                name=name,
                partition_data=tuple(
                    produce.PartitionProduceData(index=index, records=data)
                    for index, data, _ in partitions
                ),
            )
            for name, partitions in TOPICS.items()
        ),
    )
    body = b"".join(mirrored_body(version, 5000, TOPICS))
    assert body == bytes(produce.API.encode_request(version, request))


def test_batches_are_not_copied() -> None:
    pieces = mirrored_body(9, 5000, TOPICS)
    assert TOPICS["dc1.views"][0].data in [each for each in pieces if isinstance(each, memoryview)]


@pytest.mark.parametrize("version", produce.API.versions)
def test_as_an_ordinary_one_with_other_headers(version: int) -> None:
    """What Apache Kafka as a target gets."""
    batch = MirroredBatches(2, memoryview(b"records" * 30), b"another header")
    pieces = mirrored_body(version, 5000, {"t": [batch]}, transactional_id=None)
    assert batch.data in [each for each in pieces if isinstance(each, memoryview)]
    data = produce.PartitionProduceData(index=2, records=memoryview(batch.head + batch.data))
    topic = produce.TopicProduceData(name="t", partition_data=(data,))
    request = produce.ProduceRequest(acks=-1, timeout=5000, topic_data=(topic,))
    assert b"".join(pieces) == bytes(produce.API.encode_request(version, request))
