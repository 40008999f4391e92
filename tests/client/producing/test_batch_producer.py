"""The producer of batches against Penstock's broker and Apache Kafka: errors, bounds, identity."""

import sys
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import Refused
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import (
    Acknowledged,
    Acks,
    Batch,
    Event,
    Rejected,
    Stamped,
    TopicPartition,
    Unsettled,
)
from client.producing.identity import take_identity
from client.producing.shipping import ShippingLimits
from harness.processes.waiting import wait_until
from tests.client.cutting_proxy import CuttingProxy
from tests.client.shipped_topics import producer_of, ship
from tests.client.shipper import numbered_batch, numbers_in_log, read_log
from wire.errors import ErrorCode
from wire.messages import produce
from wire.record_batches.batch import MAX_SEQUENCE
from wire.record_batches.records import Record, build_batch

DAY = str(24 * 60 * 60 * 1000)


def code_of(event: Event) -> ErrorCode:
    assert isinstance(event, Rejected | Unsettled)
    assert isinstance(event.error, Refused)
    return event.error.code


@pytest.fixture
def target(brokers: Brokers, new_topic: str) -> TopicPartition:
    admin.create_topic(brokers, new_topic)
    return TopicPartition(new_topic, 0)


@pytest.mark.parametrize("acks", list(Acks))
def test_batches_of_many_partitions(brokers: Brokers, new_topic: str, acks: Acks) -> None:
    admin.create_topic(brokers, new_topic, partitions=3)
    targets = [TopicPartition(new_topic, partition) for partition in range(3)]
    with producer_of(brokers) as producer:
        # With acks=0 nobody would say that a leader is not in office yet.
        ship(producer, [numbered_batch(target, 0) for target in targets])
    batches = [numbered_batch(target, number) for number in range(1, 30) for target in targets]
    with producer_of(brokers, acks=acks) as producer:
        events = ship(producer, batches)
    offsets: dict[TopicPartition, list[int | None]] = {target: [] for target in targets}
    for event in events:
        assert isinstance(event, Acknowledged)
        offsets[event.batch.target].append(event.base_offset)
    for target in targets:
        assert offsets[target] == [None if acks is Acks.NONE else 3 * n for n in range(1, 30)]
        deadline = time.monotonic() + 60
        while numbers_in_log(brokers, target) != list(range(30)):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_the_log_has_the_bytes_that_were_shown_to_the_journal(
    brokers: Brokers, target: TopicPartition
) -> None:
    shown: list[Stamped] = []
    with producer_of(brokers, journal=shown.extend) as producer:
        ship(producer, [numbered_batch(target, number) for number in range(12)])
    log = [header for header, _ in read_log(brokers, target)]
    assert [header.crc for header in log] == [
        int.from_bytes(each.data[17:21], "big") for each in shown
    ]
    assert [header.base_sequence for header in log] == [each.base_sequence for each in shown]
    assert len({each.identity for each in shown}) == 1


def test_what_cannot_be_journalled_is_not_sent(brokers: Brokers, target: TopicPartition) -> None:
    shown: list[Stamped] = []
    full = True

    def journal(batches: Sequence[Stamped]) -> None:
        shown.extend(batches)
        if full:
            raise OSError("disk full")

    batch = numbered_batch(target, 0)
    with producer_of(brokers, journal=journal) as producer:
        assert producer.submit(batch)
        for _ in range(2):
            with pytest.raises(OSError, match="disk full"):
                while True:
                    producer.pump(1)
        assert read_log(brokers, target) == []
        full = False
        ship(producer, [])
    assert shown[0] is shown[1] is shown[2]
    assert numbers_in_log(brokers, target) == [0]


def too_large(target: TopicPartition) -> Batch:
    return numbered_batch(target, 99, padding=2_000)


def too_old(target: TopicPartition) -> Batch:
    return Batch(target, build_batch([Record(0, 1, None, b"99")], leader_epoch=-1))


def in_a_transaction(target: TopicPartition) -> Batch:
    return Batch(target, build_batch([Record(0, 1, None, b"99")], leader_epoch=-1, attributes=0x10))


def with_a_wrong_count(target: TopicPartition) -> Batch:
    """Its last offset is not that of its last record."""
    message = Record(0, 1, None, b"99")
    return Batch(target, build_batch([message], leader_epoch=-1, last_offset_delta=7))


Spoil = Callable[[TopicPartition], Batch]
INCURABLE: dict[Spoil, tuple[dict[str, str], set[ErrorCode]]] = {
    too_large: ({"max.message.bytes": "1000"}, {ErrorCode.message_too_large}),
    too_old: ({"message.timestamp.before.max.ms": DAY}, {ErrorCode.invalid_timestamp}),
    with_a_wrong_count: ({}, {ErrorCode.invalid_record}),
    in_a_transaction: (
        {},
        {ErrorCode.invalid_record, ErrorCode.transactional_id_authorization_failed},
    ),
}


@pytest.mark.parametrize("spoil", list(INCURABLE))
def test_what_no_retry_can_cure_comes_back_and_the_rest_goes_on(
    brokers: Brokers, new_topic: str, spoil: Spoil
) -> None:
    configs, codes = INCURABLE[spoil]
    admin.create_topic(brokers, new_topic, configs=configs)
    target = TopicPartition(new_topic, 0)
    good = [numbered_batch(target, number) for number in range(12)]
    bad = [spoil(target) for _ in range(3)]
    batches = [bad[0], *good[:4], bad[1], *good[4:7], bad[2], *good[7:]]
    with producer_of(brokers) as producer:
        events = ship(producer, batches)
    rejected = [event for event in events if isinstance(event, Rejected)]
    assert [event.batch for event in rejected] == bad
    assert {code_of(event) for event in rejected} <= codes
    assert [event.batch for event in events if isinstance(event, Acknowledged)] == good
    assert numbers_in_log(brokers, target) == list(range(12))
    epochs: dict[int, list[int]] = {}
    for header, _ in read_log(brokers, target):
        epochs.setdefault(header.producer_epoch, []).append(header.base_sequence)
    assert 2 <= len(epochs) <= 3  # two that are refused together end one epoch
    assert list(epochs) == list(range(1, 1 + len(epochs)))
    for sequences in epochs.values():
        assert sequences == [3 * n for n in range(len(sequences))]


def test_what_may_have_been_written_before_it_was_refused_is_unsettled(
    brokers: Brokers, new_topic: str
) -> None:
    admin.create_topic(brokers, new_topic, partitions=2)
    target, other = TopicPartition(new_topic, 0), TopicPartition(new_topic, 1)
    batch = numbered_batch(target, 1, padding=2_000)
    with (
        CuttingProxy(brokers.bootstrap.addresses[0]) as proxy,
        BatchProducer(Bootstrap((proxy.address,))) as producer,
    ):
        ship(producer, [numbered_batch(target, 0)])
        proxy.swallow_next(produce.API.key)
        producer.submit(batch)
        while not proxy.swallowed():
            producer.pump(0.01)
        admin.alter_topic(brokers, new_topic, {"max.message.bytes": "1000"})
        with producer_of(brokers, acks=Acks.LEADER) as trying:
            trial = [numbered_batch(other, 0, padding=2_000)]
            wait_until(
                lambda: isinstance(ship(trying, trial)[0], Rejected), within=60, what="altered"
            )
        (event,) = ship(producer, [])
        assert code_of(event) is ErrorCode.message_too_large
        assert isinstance(event, Unsettled)
        assert [each.batch for each in event.batches] == [batch]
        # It is there, so that nothing is to be sent again.
        assert numbers_in_log(brokers, target) == [0, 1]
        producer.renew(target)
        ship(producer, [numbered_batch(target, 2)])
    assert numbers_in_log(brokers, target) == [0, 1, 2]


def test_who_is_fenced_off_goes_on_under_another_id(
    brokers: Brokers, target: TopicPartition
) -> None:
    shown: list[Stamped] = []
    batches = [numbered_batch(target, number) for number in range(3)]
    with producer_of(brokers, journal=shown.extend) as producer:
        ship(producer, batches[:1])
        mine = shown[0].identity
        rival = mine._replace(epoch=mine.epoch + 1)
        with producer_of(brokers, identity=rival) as theirs:
            ship(theirs, batches[1:2])
        (event,) = ship(producer, batches[2:])
        assert isinstance(event, Unsettled)
        assert code_of(event) is ErrorCode.invalid_producer_epoch
        (open_,) = event.batches
        assert (open_.identity, open_.base_sequence) == (mine, 3)
        assert open_.batch is batches[2]
        producer.renew(target, first=[open_.batch])
        assert isinstance(ship(producer, [])[0], Acknowledged)
    log = [header for header, _ in read_log(brokers, target)]
    assert numbers_in_log(brokers, target) == [0, 1, 2]
    assert log[1].producer_id == mine.producer_id
    assert log[2].producer_id not in {mine.producer_id, -1}


def test_a_lent_identity_is_not_given_up(brokers: Brokers, target: TopicPartition) -> None:
    identity = take_identity(brokers)
    newer = identity._replace(epoch=1)
    with (
        producer_of(brokers, identity=newer) as theirs,
        producer_of(brokers, identity=identity) as producer,
    ):
        ship(theirs, [numbered_batch(target, 0)])
        (event,) = ship(producer, [numbered_batch(target, 1)])
        assert code_of(event) is ErrorCode.invalid_producer_epoch
        with pytest.raises(ValueError, match="must not be changed"):
            producer.renew(target)
    assert numbers_in_log(brokers, target) == [0]


def test_after_a_restart_it_goes_on_byte_for_byte(brokers: Brokers, target: TopicPartition) -> None:
    shown: list[Stamped] = []
    batches = [numbered_batch(target, number) for number in range(6)]
    with producer_of(brokers, journal=shown.extend) as producer:
        ship(producer, batches[:4])
    again: list[Stamped] = []
    with producer_of(brokers, journal=again.extend) as producer:
        # The journal says that batch 2 and 3 were open: both are there already.
        producer.renew(target, identity=shown[2].identity, sequence=shown[2].base_sequence)
        events = ship(producer, batches[2:])
        assert [event.base_offset for event in events if isinstance(event, Acknowledged)] == [
            6,
            9,
            12,
            15,
        ]
    assert [each.data for each in again[:2]] == [each.data for each in shown[2:]]
    assert numbers_in_log(brokers, target) == list(range(6))


def test_sequences_wrap_around(brokers: Brokers, target: TopicPartition) -> None:
    with producer_of(brokers) as producer:
        producer.renew(target, identity=take_identity(brokers), sequence=MAX_SEQUENCE - 4)
        ship(producer, [numbered_batch(target, number) for number in range(6)])
    sequences = [header.base_sequence for header, _ in read_log(brokers, target)]
    assert sequences == [MAX_SEQUENCE - 4, MAX_SEQUENCE - 1, 1, 4, 7, 10]
    assert numbers_in_log(brokers, target) == list(range(6))


def test_a_topic_that_there_is_not_and_one_that_cannot_be(brokers: Brokers, new_topic: str) -> None:
    missing, illegal = TopicPartition(new_topic, 0), TopicPartition("../x", 0)
    with producer_of(brokers) as producer:
        (event,) = ship(producer, [numbered_batch(illegal, 0)])
        assert code_of(event) is ErrorCode.invalid_topic_exception
    events: list[Event] = []
    for seconds in (0.5, 5, 50):  # if the brokers do not find the time to say that it is missing
        with producer_of(brokers, limits=ShippingLimits(delivery_seconds=seconds)) as producer:
            (event,) = ship(producer, [numbered_batch(missing, 0)])
        assert isinstance(event, Rejected)
        events.append(event)
        if isinstance(event.error, Refused):
            break
    assert code_of(events[-1]) is ErrorCode.unknown_topic_or_partition


def test_who_submits_wakes_the_pump(brokers: Brokers, target: TopicPartition) -> None:
    with producer_of(brokers) as producer:
        ship(producer, [numbered_batch(target, 0)])
        pumping = threading.Thread(target=producer.pump, args=(600,), daemon=True)
        pumping.start()
        time.sleep(0.1)  # until it sleeps, as a rule
        producer.submit(numbered_batch(target, 1))
        assert isinstance(producer.collect(within=60)[0], Acknowledged)
        pumping.join(60)
        assert not pumping.is_alive()


def test_who_pumps_hears_of_what_another_has_collected(
    brokers: Brokers, target: TopicPartition
) -> None:
    """Threads take turns so fast that the collecting one is often first."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with producer_of(brokers) as producer:
            for number in range(50):
                producer.submit(numbered_batch(target, number))
                collecting = threading.Thread(target=producer.collect, kwargs={"within": 60})
                collecting.start()
                began = time.monotonic()
                producer.pump(60)
                assert time.monotonic() - began < 60
                collecting.join()
    finally:
        sys.setswitchinterval(interval)


def test_batches_that_wait_for_a_topic_are_sent_when_it_is_there(
    brokers: Brokers, new_topic: str
) -> None:
    target = TopicPartition(new_topic, 1)
    with producer_of(brokers) as producer:
        producer.submit(numbered_batch(target, 0))
        while target not in producer.troubles():
            producer.pump(0.1)
        admin.create_topic(brokers, new_topic, partitions=2)
        assert isinstance(ship(producer, [])[0], Acknowledged)
        assert producer.troubles() == {}


def test_partitions_share_requests(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic, partitions=20)
    batches = [numbered_batch(TopicPartition(new_topic, at), 0) for at in range(20)]
    with producer_of(brokers) as producer:
        ship(producer, batches)  # now all leaders are in office
    for request_bytes, requests in ((2**20, 1), (2 * batches[0].size, 10), (1, 20)):
        with (
            CuttingProxy(brokers.bootstrap.addresses[0]) as proxy,
            BatchProducer(
                Bootstrap((proxy.address,)), limits=ShippingLimits(request_bytes=request_bytes)
            ) as producer,
        ):
            ship(producer, batches)
        assert proxy.asked[produce.API.key] == requests


def test_many_threads_submit_one_pumps_one_collects(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic, partitions=4)
    targets = [TopicPartition(new_topic, partition) for partition in range(4)]
    ended = threading.Event()
    size = numbered_batch(targets[0], 100).size

    def submit(target: TopicPartition) -> None:
        for number in range(40):
            assert producer.submit(numbered_batch(target, number), within=60)
            assert producer.held_bytes <= 8 * size

    def pump() -> None:
        while not ended.is_set():
            producer.pump(1)

    with producer_of(brokers, limits=ShippingLimits(memory_bytes=8 * size)) as producer:
        threads = [threading.Thread(target=submit, args=(target,)) for target in targets]
        pumping = threading.Thread(target=pump)
        for thread in (*threads, pumping):
            thread.start()
        events: list[Event] = []
        while len(events) < 160:
            arrived = producer.collect(within=60)
            assert arrived
            events += arrived
        ended.set()
        for thread in (*threads, pumping):
            thread.join()
        assert (producer.outstanding, producer.held_bytes) == (0, 0)
    for target in targets:
        assert numbers_in_log(brokers, target) == list(range(40))
