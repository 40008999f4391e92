"""Produce requests in pieces, held against the same from Kafka's schemas."""

from hypothesis import given
from hypothesis import strategies as st

from client.producing.delivery import Acks, Batch, Stamped, TopicPartition
from client.producing.identity import Identity
from client.producing.shipping import produce_body
from client.producing.stamping import stamped
from wire.messages import produce
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.record_batches.records import Record, build_batch

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)


@given(
    topics=st.dictionaries(NAMES, st.lists(st.integers(0, 400), max_size=3), max_size=3),
    acks=st.sampled_from(Acks),
)
def test_the_pieces_are_the_request(topics: dict[str, list[int]], acks: Acks) -> None:
    batches: dict[str, list[Stamped]] = {
        name: [_stamped(TopicPartition(name, at), size) for at, size in enumerate(sizes)]
        for name, sizes in topics.items()
    }
    request = ProduceRequest(
        acks=acks,
        timeout=1234,
        topic_data=tuple(
            TopicProduceData(name=name, partition_data=tuple(map(_partition_data, each)))
            for name, each in batches.items()
        ),
    )
    for version in produce.API.versions:
        pieces = produce_body(version, acks, 1234, batches)
        assert b"".join(pieces) == bytes(produce.API.encode_request(version, request)), version


def _stamped(target: TopicPartition, size: int) -> Stamped:
    data = build_batch([Record(0, 5, None, bytes(size))], leader_epoch=-1)
    return stamped(Batch(target, data), Identity(9, 1), 7)


def _partition_data(batch: Stamped) -> PartitionProduceData:
    records = memoryview(batch.data)
    return PartitionProduceData(index=batch.batch.target.partition, records=records)
