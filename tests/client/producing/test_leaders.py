"""Leaders that change: two scripted brokers, of whom each partition is led by one.

No real broker gives up a partition on demand.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import msgspec

from client.connection.bootstrap import Bootstrap
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import Acknowledged, Batch, Event, Stamped, TopicPartition
from client.producing.shipping import REQUESTS, ShippingLimits
from tests.client.scripted_broker import Answer, ScriptedBroker, frame, greeting
from tests.client.shipper import numbered_batch
from wire.errors import ErrorCode
from wire.framing.requests import read_body, read_header
from wire.messages import api_versions, init_producer_id, metadata, produce
from wire.messages.init_producer_id import InitProducerIdResponse
from wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from wire.produce import read_request

SERVED = {0: (3, 8), 3: (0, 8), 18: (0, 3), 22: (0, 1)}
TOPIC = "t"


class Cluster(msgspec.Struct):
    """What its brokers believe, and what they were sent."""

    leaders: dict[int, int]
    brokers: dict[int, ScriptedBroker] = {}
    taken: list[tuple[int, int]] = []  # broker and partition
    refused: list[tuple[int, int]] = []
    silent: bool = False

    def answer(self, broker: int, request: memoryview) -> bytes:
        header = read_header(request)
        if header.api_key == api_versions.API.key:
            return greeting(request, SERVED)
        body = read_body(request, flexible=False)
        if header.api_key == metadata.API.key:
            said = metadata.API.encode_response(header.api_version, self._metadata())
        elif header.api_key == init_producer_id.API.key:
            identity = InitProducerIdResponse(producer_id=1, producer_epoch=0)
            said = init_producer_id.API.encode_response(header.api_version, identity)
        else:
            answer = self._produced(broker, header.api_version, body)
            if self.silent:
                return b""
            said = produce.API.encode_response(header.api_version, answer)
        return frame(header.correlation_id, bytes(said))

    def _metadata(self) -> MetadataResponse:
        brokers = tuple(
            MetadataResponseBroker(
                node_id=number, host=broker.address.host, port=broker.address.port
            )
            for number, broker in self.brokers.items()
        )
        partitions = tuple(
            MetadataResponsePartition(
                partition_index=partition, leader_id=leader, replica_nodes=(), isr_nodes=()
            )
            for partition, leader in self.leaders.items()
        )
        topic = MetadataResponseTopic(name=TOPIC, partitions=partitions)
        return MetadataResponse(brokers=brokers, topics=(topic,))

    def _produced(self, broker: int, version: int, body: memoryview) -> ProduceResponse:
        said = []
        for _, partition, _ in read_request(version, body).batches:
            leads = self.leaders[partition] == broker
            (self.taken if leads else self.refused).append((broker, partition))
            code = ErrorCode.none if leads else ErrorCode.not_leader_or_follower
            said.append(PartitionProduceResponse(index=partition, error_code=code, base_offset=0))
        topic = TopicProduceResponse(name=TOPIC, partition_responses=tuple(said))
        return ProduceResponse(responses=(topic,))


@contextmanager
def cluster(leaders: dict[int, int]) -> Iterator[Cluster]:
    """Brokers 1 and 2."""
    found = Cluster(leaders)
    with ExitStack() as stack:
        for number in (1, 2):
            answer: Answer = partial(found.answer, number)
            found.brokers[number] = stack.enter_context(ScriptedBroker([answer] * 1000))
        yield found


def ship(producer: BatchProducer, *partitions: int) -> list[Event]:
    for partition in partitions:
        assert producer.submit(numbered_batch(TopicPartition(TOPIC, partition), 0))
    events: list[Event] = []
    deadline = time.monotonic() + 60
    while producer.outstanding:
        assert time.monotonic() < deadline, producer.troubles()
        producer.pump(1)
        events += producer.collect()
    assert all(isinstance(event, Acknowledged) for event in events)
    return events


def pump_until(producer: BatchProducer, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, producer.troubles()
        producer.pump(0.1)


def pump_on(producer: BatchProducer) -> None:
    """Several times: what could be sent would be."""
    for _ in range(4):
        producer.pump(0.1)


def test_a_partition_is_followed_to_its_new_leader() -> None:
    with (
        cluster({0: 1, 1: 1, 2: 2}) as them,
        BatchProducer(Bootstrap((them.brokers[2].address,))) as producer,
    ):
        ship(producer, 0, 1, 2)
        assert sorted(them.taken) == [(1, 0), (1, 1), (2, 2)]
        them.taken.clear()
        them.leaders[0] = 2
        ship(producer, 0, 1, 2)
        assert sorted(them.taken) == [(1, 1), (2, 0), (2, 2)]
        assert them.refused == [(1, 0)]


def test_what_a_broker_led_that_is_gone_is_asked_about() -> None:
    with (
        cluster({0: 1, 1: 2}) as them,
        BatchProducer(Bootstrap((them.brokers[2].address,))) as producer,
    ):
        ship(producer, 0, 1)
        them.leaders[0] = 2
        them.brokers[1].close()
        ship(producer, 0, 1)
        assert them.taken[2:] in ([(2, 0), (2, 1)], [(2, 1), (2, 0)])


def test_requests_that_are_not_answered_are_followed_by_four_more() -> None:
    partitions = range(20)
    with (
        cluster(dict.fromkeys(partitions, 1)) as them,
        BatchProducer(
            Bootstrap((them.brokers[1].address,)), limits=ShippingLimits(request_bytes=1)
        ) as producer,
    ):
        them.silent = True
        for partition in partitions:
            producer.submit(numbered_batch(TopicPartition(TOPIC, partition), 0))
        pump_until(producer, lambda: len(them.taken) >= REQUESTS)
        pump_on(producer)
        assert len(them.taken) == REQUESTS


def test_the_next_request_is_made_when_the_last_is_gone() -> None:
    shown: list[Stamped] = []
    data = numbered_batch(TopicPartition(TOPIC, 0), 0, padding=10_000_000).data
    with (
        cluster(dict.fromkeys(range(5), 1)) as them,
        BatchProducer(
            Bootstrap((them.brokers[1].address,)),
            limits=ShippingLimits(request_bytes=1, memory_bytes=10**9),
            journal=shown.extend,
        ) as producer,
    ):
        ship(producer, *range(5))
        shown.clear()
        with them.brokers[1].held():
            for partition in range(5):
                producer.submit(Batch(TopicPartition(TOPIC, partition), data))
            pump_until(producer, lambda: bool(shown))
            pump_on(producer)
            assert len(shown) == 1
