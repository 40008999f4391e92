"""A partition that is halted by its caller, a pump that is woken, and leaders' epochs."""

import threading
import time

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.errors import ConnectionLost
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import Acknowledged, TopicPartition, Unsettled
from client.producing.identity import take_identity
from tests.client.shipped_topics import ship
from tests.client.shipper import numbered_batch, numbers_in_log

WHY = ConnectionLost("the caller wants it")


def test_what_has_no_numbers_is_given_back_at_once(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    target = TopicPartition(new_topic, 0)
    batches = [numbered_batch(target, number) for number in range(20)]
    with BatchProducer(brokers.bootstrap) as producer:
        for batch in batches:
            producer.submit(batch)
        while not (events := producer.collect()):
            producer.pump(0.01)
        back = producer.halt(target, WHY)
        assert back == batches[len(batches) - len(back) :]
        assert producer.halt(target, WHY) == []
        while not isinstance(events[-1], Unsettled):
            producer.pump(1)
            events += producer.collect()
        *acknowledged, unsettled = events
        assert all(isinstance(event, Acknowledged) for event in acknowledged)
        assert isinstance(unsettled, Unsettled)
        assert unsettled.error is WHY
        assert producer.outstanding == producer.held_bytes == 0
        # All answers were waited for, so nothing is open.
        assert unsettled.batches == ()
        producer.renew(target, first=back)
        assert len(ship(producer, [])) == len(back)
    assert numbers_in_log(brokers, target) == list(range(20))


def test_a_partition_that_never_began_can_be_halted(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    target = TopicPartition(new_topic, 0)
    batch = numbered_batch(target, 0)
    with BatchProducer(brokers.bootstrap, identity=take_identity(brokers)) as producer:
        producer.submit(batch)
        assert producer.halt(target, WHY) == [batch]
        assert producer.collect() == [Unsettled(target, (), WHY)]
        producer.renew(target, identity=take_identity(brokers))
        ship(producer, [batch])
    assert numbers_in_log(brokers, target) == [0]


def test_another_thread_wakes_who_pumps(brokers: Brokers) -> None:
    with BatchProducer(brokers.bootstrap) as producer:
        producer.wake()  # before it sleeps
        for _ in range(2):
            began = time.monotonic()
            waking = threading.Timer(0.1, producer.wake)
            waking.start()
            producer.pump(60)
            waking.join()
            assert time.monotonic() - began < 30
    producer.wake()  # closed: nothing happens


def test_the_leaders_epoch_is_known_once_it_was_asked_for(brokers: Brokers, new_topic: str) -> None:
    topic = admin.create_topic(brokers, new_topic)
    target = TopicPartition(new_topic, 0)
    with BatchProducer(brokers.bootstrap) as producer:
        assert producer.leader_epoch(target) == -1
        ship(producer, [numbered_batch(target, 0)])
        assert producer.leader_epoch(target) == topic.partition(0).leader_epoch >= 0
