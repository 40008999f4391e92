"""The facts that plans are made of, from Penstock's broker and from Apache Kafka."""

import time
from collections.abc import Sequence

import pytest
from confluent_kafka import Producer as TheirProducer
from msgspec import structs

from client import admin
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.partition_reader import PartitionReader
from client.producer import Producer
from harness.apache_kafka import ApacheKafka
from loader.errors import GapError
from loader.manifests import PartitionState, TopicState
from loader.planning.asking import ask
from loader.planning.plan import Plan, plan
from loader.tables import SourceTopic, TableSource
from tests.client.test_partition_reader import delete_before


def write(brokers: Brokers, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer(brokers, topic)
    for number in range(count):
        producer.send(b"%d" % number, partition=partition)
    producer.flush()


def planned(
    brokers: Brokers, topic: str, state: Sequence[TopicState] = (), *, accept_gap: bool = False
) -> Plan:
    known = {each.topic: each.partitions for each in state}
    table = TableSource(name=topic, topics=(SourceTopic(topic=topic, cluster="c"),))
    return plan(
        table,
        ask(brokers, {topic: known.get(topic, ())}),
        state,
        accept_gap=accept_gap,
        max_records=None,
        records_per_task=1_000_000,
    )


def read(brokers: Brokers, made: Plan) -> list[TopicState]:
    """What is known once all that was planned has been read."""
    readers = {}
    epochs = {}
    for each in made.slices:
        reader = PartitionReader(
            *(brokers, each.topic, each.partition, each.first, each.end),
            topic_id=each.topic_id,
            from_within=each.from_within,
        )
        epochs[each.partition] = [batch.header.leader_epoch for batch in reader][-1]
        readers[each.partition] = reader
    (topic,) = made.topics
    partitions = tuple(
        structs.replace(
            each,
            next_offset=readers[each.partition].next_offset,
            leader_epoch=epochs[each.partition],
        )
        if each.partition in readers
        else each
        for each in topic.partitions
    )
    return [structs.replace(topic, partitions=partitions)]


def ranges(made: Plan) -> list[tuple[int, int, int]]:
    return [(each.partition, each.first, each.end) for each in made.ranges]


def test_from_run_to_run(brokers: Brokers, new_topic: str) -> None:
    assert planned(brokers, new_topic).absent == (new_topic,)
    admin.create_topic(brokers, new_topic, partitions=2)
    assert planned(brokers, new_topic).nothing_to_do
    write(brokers, new_topic, 5)
    first = planned(brokers, new_topic)
    assert ranges(first) == [(0, 0, 5)]
    state = read(brokers, first)
    assert planned(brokers, new_topic, state).nothing_to_do

    write(brokers, new_topic, 3)
    write(brokers, new_topic, 2, partition=1)
    admin.add_partitions(brokers, new_topic, 3)
    write(brokers, new_topic, 4, partition=2)
    assert ranges(planned(brokers, new_topic, state)) == [(0, 5, 8), (1, 0, 2), (2, 0, 4)]
    # The epoch goes on.
    (facts,) = ask(brokers, {new_topic: state[0].partitions}).values()
    assert (facts.topic, facts.topic_id) == (new_topic, state[0].topic_id)
    assert [each.epoch_end for each in facts.partitions.values()] == [8, None, None]

    delete_before(brokers, new_topic, 7)
    with pytest.raises(GapError, match=f"{new_topic}-0: offsets 5 to 6 were deleted"):
        planned(brokers, new_topic, state)
    accepted = planned(brokers, new_topic, state, accept_gap=True)
    assert ranges(accepted) == [(0, 7, 8), (1, 0, 2), (2, 0, 4)]
    assert planned(brokers, new_topic, read(brokers, accepted)).nothing_to_do


def test_a_topic_made_anew_is_noticed(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    write(brokers, new_topic, 5)
    state = read(brokers, planned(brokers, new_topic))
    admin.delete_topic(brokers, new_topic)
    deadline = time.monotonic() + 60
    while brokers.refresh([new_topic]).has(new_topic):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    admin.create_topic(brokers, new_topic)
    write(brokers, new_topic, 9)  # beyond what was read: offsets say nothing
    with pytest.raises(GapError, match="the topic was deleted and made anew"):
        planned(brokers, new_topic, state)
    assert ranges(planned(brokers, new_topic, state, accept_gap=True)) == [(0, 0, 9)]


def test_what_a_transaction_has_still_open_is_not_planned(
    running_kafka: ApacheKafka, new_topic: str
) -> None:
    with Brokers(Bootstrap.of(running_kafka.bootstrap), patience_seconds=60) as brokers:
        admin.create_topic(brokers, new_topic)
        write(brokers, new_topic, 3)
        settings = {"bootstrap.servers": running_kafka.bootstrap, "transactional.id": new_topic}
        theirs = TheirProducer(settings)
        theirs.init_transactions(60)
        theirs.begin_transaction()
        theirs.produce(new_topic, b"open")
        assert theirs.flush(60) == 0
        write(brokers, new_topic, 2)
        assert ranges(planned(brokers, new_topic)) == [(0, 0, 3)]
        theirs.commit_transaction(60)
        # The marker is written behind it, a moment later.
        deadline = time.monotonic() + 60
        while ranges(planned(brokers, new_topic)) != [(0, 0, 7)]:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_many_partitions_are_few_questions(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic, partitions=200)
    began = time.monotonic()
    facts = ask(
        brokers,
        {
            new_topic: [
                PartitionState(partition=each, next_offset=0, leader_epoch=0) for each in range(200)
            ]
        },
    )
    assert len(facts[new_topic].partitions) == 200
    assert time.monotonic() - began < 30
    assert ask(brokers, {}) == {}
