"""Channels to brokers that do not behave, and to none at all: nobody else waits, nothing spins."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from client.connection.addresses import Address
from client.connection.bootstrap import IN_THE_CLEAR, Bootstrap
from client.connection.channel import Channel
from client.connection.channel_pool import ChannelPool
from client.connection.connection import CONNECT_SECONDS
from client.errors import ClientError, ConnectionLost, NotKafka, NotReachable
from client.patience import FIRST_PAUSE, NEVER
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import Rejected, TopicPartition
from client.producing.shipping import ShippingLimits
from harness.penstock.broker import BrokerProcess
from harness.processes.server_process import free_ports
from tests.client.scripted_broker import Answer, ScriptedBroker, frame, greeting
from tests.client.shipper import numbered_batch
from wire.framing.requests import read_header
from wire.messages import fetch, metadata, produce
from wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from wire.messages.metadata import MetadataRequest, MetadataResponse
from wire.messages.produce import ProduceResponse
from wire.record_batches.batch import Buffer

LARGE = 32 * 1024 * 1024
"""More than the buffers of two sockets take."""


class Called:
    """What `ChannelPool` says, and what comes back from requests."""

    def __init__(self) -> None:
        self.failed: list[ClientError] = []
        self.answers: list[object] = []

    def link_failed(self, _: Address, error: ClientError) -> None:
        self.failed.append(error)


@contextmanager
def linked(address: Address) -> Iterator[tuple[ChannelPool, Channel, Called]]:
    called = Called()
    pool = ChannelPool("test", IN_THE_CLEAR, failed=called.link_failed)
    try:
        yield pool, opened(pool, address), called
    finally:
        pool.close()


def opened(pool: ChannelPool, address: Address) -> Channel:
    while (channel := pool.channel(address, time.monotonic())) is None:
        pool.serve(5)
    return channel


def serve_until(pool: ChannelPool, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        pool.serve(0.5)


def greet(request: memoryview) -> bytes:
    return greeting(request, {0: (3, 8), 1: (4, 11), 3: (0, 8), 18: (0, 3)})


def answered(request: memoryview, body: bytes) -> bytes:
    return frame(read_header(request).correlation_id, body)


def a_lot(request: memoryview) -> bytes:
    data = PartitionData(partition_index=0, records=bytes(LARGE))
    topic = FetchableTopicResponse(topic="t", partitions=(data,))
    version = read_header(request).api_version
    answer = fetch.API.encode_response(version, FetchResponse(responses=(topic,)))
    return answered(request, bytes(answer))


def taken(request: memoryview) -> bytes:
    version = read_header(request).api_version
    return answered(
        request, bytes(produce.API.encode_response(version, ProduceResponse(responses=())))
    )


def nothing_known(request: memoryview) -> bytes:
    version = read_header(request).api_version
    answer = metadata.API.encode_response(version, MetadataResponse(brokers=(), topics=()))
    return answered(request, bytes(answer))


def hang_up(request: memoryview) -> None:
    return None


def garbage(request: memoryview) -> bytes:
    return answered(request, b"\xff" * 20)


def ask(channel: Channel, called: Called, *, within: float = 60.0) -> None:
    request = MetadataRequest(topics=())
    deadline = time.monotonic() + within
    channel.ask(metadata.API, request, called.answers.append, deadline=deadline)


@pytest.mark.not_quick("sends megabytes")
def test_a_large_request_and_a_large_answer_do_not_wait_for_each_other() -> None:
    """The broker reads the next request only when its last answer has been taken."""
    pieces: list[Buffer] = [b"%d" % number for number in range(2000)]
    pieces += [bytes(LARGE), b"", b"the end"]
    small = FetchRequest(max_wait=0, min_bytes=0, topics=())
    with (
        ScriptedBroker([greet, a_lot, taken]) as broker,
        linked(broker.address) as (pool, channel, called),
    ):
        deadline = time.monotonic() + 60
        channel.ask(fetch.API, small, called.answers.append, deadline=deadline)
        channel.put(produce.API, 8, pieces, called.answers.append, deadline=deadline)
        assert channel.wants_to_write
        serve_until(pool, lambda: len(called.answers) == 2)
        assert not channel.wants_to_write
    assert [type(each) for each in called.answers] == [FetchResponse, ProduceResponse]
    assert called.failed == []
    assert broker.requests[2].endswith(b"".join(pieces))


def test_answers_come_in_the_order_of_the_requests() -> None:
    with (
        ScriptedBroker([greet, nothing_known, nothing_known, hang_up]) as broker,
        linked(broker.address) as (pool, channel, called),
    ):
        for _ in range(4):
            ask(channel, called)
        assert channel.under_way == 4
        serve_until(pool, lambda: len(called.answers) == 4)
        lost = called.answers[2:]
        assert [type(each) for each in called.answers[:2]] == [MetadataResponse] * 2
        assert lost == called.failed * 2
        assert isinstance(lost[0], ConnectionLost)
        assert pool.channels() == []


def test_garbage_ends_a_channel() -> None:
    with (
        ScriptedBroker([greet, garbage]) as broker,
        linked(broker.address) as (pool, channel, called),
    ):
        ask(channel, called)
        serve_until(pool, lambda: bool(called.answers))
    assert isinstance(called.answers[0], NotKafka)
    assert called.failed == called.answers


def test_no_answer_in_time_ends_a_channel() -> None:
    with (
        ScriptedBroker([greet]) as broker,
        linked(broker.address) as (pool, channel, called),
    ):
        began = time.monotonic()
        ask(channel, called, within=0.1)
        ask(channel, called, within=60)
        while not called.answers:
            pool.serve(pool.next_time(time.monotonic()) - time.monotonic() + 0.01)
        assert 0.1 <= time.monotonic() - began < 60
    assert called.answers == called.failed * 2
    assert "no answer in time" in str(called.failed[0])


def test_what_has_no_answer_must_be_gone_in_time() -> None:
    told: list[object] = []
    let_go = threading.Event()

    def read_no_more(request: memoryview) -> None:
        let_go.wait(100)

    with (
        ScriptedBroker([greet, read_no_more]) as broker,
        linked(broker.address) as (pool, channel, called),
    ):
        for pieces in ([b"small"], [bytes(LARGE)]):
            deadline = time.monotonic() + 0.1
            channel.put_unanswered(produce.API, 8, pieces, told.append, deadline=deadline)
        assert told == [None]
        serve_until(pool, lambda: len(told) == 2)
        let_go.set()
    assert told[1:] == called.failed
    assert isinstance(told[1], ConnectionLost)


def test_who_hangs_up_when_nothing_is_under_way_is_connected_to_again_at_once() -> None:
    with (
        ScriptedBroker([greet, nothing_known]) as broker,
        linked(broker.address) as (pool, channel, called),
    ):
        ask(channel, called)
        serve_until(pool, lambda: bool(called.answers))
        broker.hang_up()
        serve_until(pool, lambda: bool(called.failed))
        assert pool.next_time(time.monotonic()) == NEVER
        assert opened(pool, broker.address) is not channel


@pytest.mark.parametrize("answers", [[], [nothing_known]])
def test_who_breaks_connections_is_left_alone_for_longer_if_nothing_works(
    answers: list[Answer],
) -> None:
    pauses: list[float] = []  # what is left of each, a moment after it began
    with (
        ScriptedBroker([greet, *answers, hang_up]) as broker,
        linked(broker.address) as (pool, _, called),
    ):
        began = time.monotonic()
        while len(pauses) < 5:
            if channel := pool.channel(broker.address, time.monotonic()):
                for _ in range(1 + len(answers) - channel.under_way):
                    ask(channel, called)
            pool.serve(0.05)
            if len(called.failed) > len(pauses):
                now = time.monotonic()
                pauses.append(pool.next_time(now) - now)
        took = time.monotonic() - began
    if answers:
        assert all(pause <= FIRST_PAUSE for pause in pauses if pause != NEVER)
    else:
        assert took >= sum(FIRST_PAUSE * 2**at / 2 for at in range(4))


def test_what_is_opened_too_late_is_closed() -> None:
    asked, closed = threading.Event(), threading.Event()

    def greet_late(request: memoryview) -> bytes:
        asked.set()
        closed.wait(60)
        return greet(request)

    with ScriptedBroker([greet_late]) as broker:
        pool = ChannelPool("test", IN_THE_CLEAR, failed=Called().link_failed)
        pool.channel(broker.address, 0.0)
        assert asked.wait(60)
        pool.close()
        closed.set()
        broker.wait_until_left()


def test_who_does_not_answer_holds_nobody_up(running_broker: BrokerProcess) -> None:
    nobody = Address("127.0.0.1", free_ports(1)[0])
    host, port = running_broker.bootstrap.split(":")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        silent = Address("127.0.0.1", mute.getsockname()[1])
        called = Called()
        pool = ChannelPool("test", IN_THE_CLEAR, failed=called.link_failed)
        began = time.monotonic()
        pool.channel(nobody, began)
        pool.channel(silent, began)
        channel = opened(pool, Address(host, int(port)))
        ask(channel, called)
        serve_until(pool, lambda: bool(called.answers) and bool(called.failed))
        assert time.monotonic() - began < CONNECT_SECONDS
        pool.close()
    assert isinstance(called.answers[0], MetadataResponse)
    assert isinstance(called.failed[0], NotReachable)


def test_while_nobody_is_there_memory_is_bounded_and_little_is_done() -> None:
    nobody = Address("127.0.0.1", free_ports(1)[0])
    target = TopicPartition("t", 0)
    batches = [numbered_batch(target, number) for number in range(100, 120)]
    limits = ShippingLimits(memory_bytes=10 * batches[0].size, delivery_seconds=0.7)
    with BatchProducer(Bootstrap((nobody,)), limits=limits) as producer:
        assert [producer.submit(batch) for batch in batches] == [True] * 10 + [False] * 10
        assert producer.held_bytes == limits.memory_bytes
        began, used = time.monotonic(), time.thread_time()
        while not (events := producer.collect()):
            producer.pump(5)
        assert 0.7 < time.monotonic() - began < 60
        assert time.thread_time() - used < 0.3
        for event, batch in zip(events, batches, strict=False):
            assert isinstance(event, Rejected)
            assert event.batch is batch
            assert isinstance(event.error, NotReachable)
        assert producer.submit(batches[10])


def test_what_is_larger_than_the_bound_goes_alone() -> None:
    nobody = Address("127.0.0.1", free_ports(1)[0])
    batch = numbered_batch(TopicPartition("t", 0), 0)
    with BatchProducer(Bootstrap((nobody,)), limits=ShippingLimits(memory_bytes=1)) as producer:
        assert producer.submit(batch)
        began = time.monotonic()
        assert not producer.submit(batch, within=0.2)
        assert time.monotonic() - began >= 0.2


def test_who_waits_for_room_or_for_news_is_let_go_at_the_end() -> None:
    nobody = Address("127.0.0.1", free_ports(1)[0])
    batch = numbered_batch(TopicPartition("t", 0), 0)
    producer = BatchProducer(Bootstrap((nobody,)), limits=ShippingLimits(memory_bytes=1))
    assert producer.submit(batch)
    told: list[object] = []
    waiting = [
        threading.Thread(target=lambda: told.append(producer.submit(batch, within=100))),
        threading.Thread(target=lambda: told.append(producer.collect(within=100))),
    ]
    for thread in waiting:
        thread.start()
    producer.close()
    for thread in waiting:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(map(str, told)) == ["False", "[]"]
    producer.close()
