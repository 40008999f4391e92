"""Topics that tests write with the client's producers, truncate at the start, and query."""

from collections.abc import Sequence

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as TheirPartition

from client.connection.brokers import Brokers
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import Batch, Event
from harness.processes.waiting import wait_until
from wire.messages import delete_records


def producer_of(brokers: Brokers, **options: object) -> BatchProducer:
    return BatchProducer(brokers.bootstrap, **options)  # type: ignore[arg-type]


def ship(producer: BatchProducer, batches: Sequence[Batch]) -> list[Event]:
    """Submit the batches and pump until all are settled."""
    events: list[Event] = []

    def pumped() -> None:
        producer.pump(1)
        events.extend(producer.collect())

    for batch in batches:
        while not producer.submit(batch):
            pumped()

    def is_done() -> bool:
        if producer.outstanding:
            pumped()
        return not producer.outstanding

    wait_until(is_done, what="all batches are settled", every=0)
    return events


def delete_before(brokers: Brokers, topic: str, offset: int, partition: int = 0) -> None:
    """Deletes the first records of a partition, as retention does."""
    part = delete_records.DeleteRecordsPartition(partition_index=partition, offset=offset)
    topics = (delete_records.DeleteRecordsTopic(name=topic, partitions=(part,)),)
    request = delete_records.DeleteRecordsRequest(topics=topics, timeout=10_000)
    leader = brokers.topic(topic).partition(partition).leader
    answer = brokers.broker(leader).call(delete_records.API, request)
    assert [p.error_code.name for t in answer.topics for p in t.partitions] == ["none"]


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    """The offsets that a group has committed, as librdkafka reads them."""
    asking = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        found = asking.committed([TheirPartition(topic, each) for each in range(partitions)], 60)
    finally:
        asking.close()
    return [each.offset for each in found]
