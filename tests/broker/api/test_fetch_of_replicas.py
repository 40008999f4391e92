"""What a broker answers the followers of its partitions, and consumers where it follows itself.

The other replicas are on brokers that are in the map, and are played by the tests: they ask for
what a follower would ask for. Who leads is changed in the map, as a controller would change it.
"""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from broker.configs.config import ReplicationConfig
from broker.errors import ApiError
from broker.replicas.partition import Partition
from cluster.controller.controller import current_epoch
from cluster.controller.partition_states import StateChange, change_states
from cluster.controller.topics import create_topic, read_topic
from cluster.records import brokers
from cluster.values import Endpoint, TopicInfo
from harness.processes.waiting import wait_until
from tests.broker.api import requests
from tests.broker.api.fetching import ClientSession, Key, asked, fetched, offsets_in, told, whole
from tests.broker.api.requests import list_offset, unused
from tests.broker.api.running_broker import RawClient, RunningBroker, batch
from tests.cluster.conftest import a_broker, a_partition
from wire.errors import ErrorCode
from wire.messages import fetch
from wire.messages.fetch import EpochEndOffset, FetchRequest, LeaderIdAndEpoch, PartitionData
from wire.messages.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP

NewReplicated = Callable[..., "Replicated"]
NOBODY = LeaderIdAndEpoch()
HERE, THERE = "rack-of-1", "rack-of-2"


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    # Nobody leaves who is in sync: the tests say who that is.
    return {"rack": HERE, "replication": ReplicationConfig(lag_seconds=3600.0)}


@pytest.fixture(scope="module", autouse=True)
def other_brokers(running: RunningBroker) -> None:
    session = running.broker.session
    for broker_id, listener in ((2, "PLAINTEXT"), (3, "ELSEWHERE")):
        # Nobody listens there: this broker finds no leader to copy from.
        endpoint = Endpoint(protocol="PLAINTEXT", host="127.0.0.1", port=1, name=listener)
        info = a_broker(broker_id, port=1, rack=THERE, endpoints=(endpoint,))
        brokers.register(session, info)
    running.broker.cluster.wait_for(lambda map_: {1, 2, 3} <= map_.brokers.keys())


class Replicated:
    """A topic whose first replica is on the broker that is tested."""

    def __init__(self, running: RunningBroker, *replicas: int, partitions: int = 1) -> None:
        self._running = running
        self._session = running.broker.session
        self.name = unused()
        self.topic_id = uuid.uuid4()
        epoch = current_epoch(self._session)
        info = a_partition(*replicas, controller_epoch=epoch.epoch)
        topic = TopicInfo(name=self.name, topic_id=self.topic_id, partitions=(info,) * partitions)
        create_topic(self._session, epoch, topic, {})
        for index in range(partitions):
            self.wait(lambda partition: partition.leads, index)

    @property
    def key(self) -> Key:
        return self.name, 0

    def partition(self, index: int = 0) -> Partition:
        return self._running.broker.partitions.find(self.name, index)

    def wait(self, until: Callable[[Partition], bool], index: int = 0) -> None:
        def holds() -> bool:
            try:
                return until(self.partition(index))
            except ApiError:
                return False

        wait_until(holds)

    def change(self, index: int = 0, **changes: Any) -> None:
        """The map says so from now on, and the broker has heard it."""
        topic = read_topic(self._session, self.name)
        assert topic is not None
        after = replace(topic.partitions[index], **changes)
        change = StateChange(topic=self.name, topic_id=self.topic_id, partition=index, after=after)
        (stands,) = change_states(self._session, [change], current_epoch(self._session))
        assert stands is not None
        self.wait(lambda partition: partition.info.version >= stands.version, index)

    def lose_leader(self, epoch: int) -> None:
        self.change(leader=2, leader_epoch=epoch)

    def lead_again(self, epoch: int) -> None:
        self.change(leader=1, leader_epoch=epoch)


@pytest.fixture
def new_replicated(running: RunningBroker) -> NewReplicated:
    return lambda *replicas, partitions=1: Replicated(running, *replicas, partitions=partitions)


@pytest.fixture
def topic(new_replicated: NewReplicated) -> Replicated:
    return new_replicated(1, 2)


@pytest.fixture
def follower(running: RunningBroker) -> Iterator[RawClient]:
    with running.client() as connected:
        yield connected


def append(client: RawClient, name: str, *timestamps: int, index: int = 0) -> None:
    """With acks=1: it is in the leader's log, and no follower has it."""
    answer = client.produce(name, batch(*timestamps), index, acks=1)
    assert answer.error_code is ErrorCode.none


def follow(
    client: RawClient, topic: Replicated, offset: int, replica_id: int = 2, **more: Any
) -> PartitionData:
    return fetched(client, whole({topic.key: offset}, replica_id=replica_id, **more))


def consume(client: RawClient, topic: Replicated, offset: int, **more: Any) -> PartitionData:
    return fetched(client, whole({topic.key: offset}, **more))


def append_flushed(client: RawClient, topic: "Replicated", *timestamps: int) -> None:
    append(client, topic.name, *timestamps)
    flush_is_over(topic)


def flush_is_over(topic: Replicated, index: int = 0) -> None:
    topic.wait(lambda each: each.log.flushed_offset == each.log.end_offset, index)


# What is committed


def test_a_follower_reads_what_consumers_do_not_see(
    client: RawClient, follower: RawClient, topic: Replicated
) -> None:
    append(client, topic.name, 1, 2)
    append_flushed(client, topic, 3)
    data = follow(follower, topic, 0)
    assert (offsets_in(data), data.high_watermark) == ([0, 2], 0)
    assert (offsets_in(consume(client, topic, 0)), data.last_stable_offset) == ([], 0)

    # What it asks for is what it has not flushed: by that the rest is committed.
    data = follow(follower, topic, 2)
    assert (offsets_in(data), data.high_watermark) == ([2], 2)
    assert offsets_in(consume(client, topic, 0)) == [0]
    data = follow(follower, topic, 3)
    assert (offsets_in(data), data.high_watermark) == ([], 3)
    assert offsets_in(consume(client, topic, 0)) == [0, 2]


def test_a_consumer_waits_for_what_is_committed(
    client: RawClient, follower: RawClient, running: RunningBroker, topic: Replicated
) -> None:
    append_flushed(client, topic, 1)
    client.begin(fetch.API, 12, whole({topic.key: 0}, wait=20_000))
    assert follow(follower, topic, 0).high_watermark == 0
    follow(follower, topic, 1)
    (answer,) = client.finish(fetch.API, 12).responses
    assert offsets_in(answer.partitions[0]) == [0]
    session = ClientSession(client)
    session.fetch({topic.key: 1})
    session.begin()
    with running.client() as other:
        append_flushed(other, topic, 2)
    follow(follower, topic, 2)
    assert offsets_in(session.finish()[topic.key]) == [1]


def test_a_follower_waits_for_what_is_appended(
    client: RawClient, follower: RawClient, new_replicated: NewReplicated
) -> None:
    """Of a hundred partitions it is told about one, before that is flushed or committed."""
    topic = new_replicated(1, 2, partitions=100)
    session = ClientSession(follower, replica_id=2)
    session.fetch({(topic.name, index): 0 for index in range(100)})
    assert session.fetch() == {}
    session.begin()
    append(client, topic.name, 1, index=70)
    news = session.finish()
    assert list(news) == [(topic.name, 70)]
    assert (offsets_in(news[topic.name, 70]), news[topic.name, 70].high_watermark) == ([0], 0)
    flush_is_over(topic, 70)
    # That it has flushed that much commits it, of which it is told without having to ask again.
    news = session.fetch({(topic.name, 70): 1}, wait=60_000)
    assert list(news) == [(topic.name, 70)]
    assert (offsets_in(news[topic.name, 70]), news[topic.name, 70].high_watermark) == ([], 1)
    assert session.fetch() == {}


def test_a_follower_is_given_no_crumbs(
    client: RawClient, follower: RawClient, new_replicated: NewReplicated
) -> None:
    """What one partition has left of an answer is given to the next if it is a quarter of what was
    asked for of that, or more. A consumer takes what there is."""
    topic = new_replicated(1, 2, partitions=2)
    first, second = (topic.name, 0), (topic.name, 1)
    append(client, topic.name, *range(100))
    for timestamp in range(20):
        append(client, topic.name, timestamp, index=1)
    size = len(batch(*range(100)))
    few = len(batch(1)) + 10
    assert few < (size + few) // 4

    def answered(replica_id: int, max_bytes: int) -> list[Key]:
        wanted = asked({first: 0, second: 0}, max_bytes=size + few)
        request = FetchRequest(
            replica_id=replica_id, max_wait=0, min_bytes=1, max_bytes=max_bytes, topics=wanted
        )
        return [
            key for key, data in told(follower.ask(fetch.API, 12, request)).items() if data.records
        ]

    assert answered(2, size + few) == [first]
    assert answered(2, size + (size + few) // 4) == [first, second]
    for index in (0, 1):
        flush_is_over(topic, index)
    for key, end in ((first, 100), (second, 20)):
        follower.ask(fetch.API, 12, whole({key: end}, replica_id=2))
    assert answered(-1, size + few) == [first, second]


def test_who_asks_for_nothing_new_comes_into_sync_all_the_same(
    follower: RawClient, topic: Replicated
) -> None:
    """It named a partition to which nothing is written once, before the map said otherwise."""
    session = ClientSession(follower, replica_id=2)
    session.fetch({topic.key: 0})
    topic.change(isr=(1,))

    def is_in_sync(partition: Partition) -> bool:
        assert session.fetch() == {}
        return 2 in partition.info.isr

    topic.wait(is_in_sync)


def test_who_has_no_replica_is_no_follower(client: RawClient, topic: Replicated) -> None:
    append(client, topic.name, 1)
    data = follow(client, topic, 0, replica_id=3)
    assert (data.error_code, data.records) == (ErrorCode.not_leader_or_follower, b"")


def test_where_a_leaders_log_lies_is_told_to_who_is_outside_of_it(
    client: RawClient, topic: Replicated
) -> None:
    append_flushed(client, topic, 1, 2)
    follow(client, topic, 2)
    data = follow(client, topic, 3)
    assert data.error_code is ErrorCode.offset_out_of_range
    assert (data.log_start_offset, data.high_watermark) == (0, 2)
    followers = topic.partition().followers
    assert followers is not None
    assert followers.offset_of(2) == 2, "that was no progress"


# Histories


@pytest.fixture
def two_epochs(client: RawClient, topic: Replicated) -> Replicated:
    """Offsets 0 to 2 of epoch 0, 3 to 4 of epoch 3; and epoch 5 has begun."""
    append(client, topic.name, 1, 2, 3)
    topic.change(leader_epoch=3)
    append(client, topic.name, 4, 5)
    topic.change(leader_epoch=5)
    flush_is_over(topic)
    return topic


@pytest.mark.parametrize("replica_id", [-1, 2])
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((0, 3), None),
        ((0, 2), None),
        ((0, 4), EpochEndOffset(epoch=0, end_offset=3)),
        ((1, 3), EpochEndOffset(epoch=0, end_offset=3)),
        ((2, 5), EpochEndOffset(epoch=0, end_offset=3)),
        ((3, 4), None),
        ((3, 6), EpochEndOffset(epoch=3, end_offset=5)),
        ((4, 5), EpochEndOffset(epoch=3, end_offset=5)),
    ],
)
def test_where_histories_part(
    client: RawClient,
    two_epochs: Replicated,
    replica_id: int,
    asked: tuple[int, int],
    expected: EpochEndOffset | None,
) -> None:
    last_epoch, offset = asked
    wanted = whole({two_epochs.key: offset}, replica_id=replica_id, last_epoch=last_epoch, epoch=5)
    data = fetched(client, wanted)
    assert data.error_code is ErrorCode.none
    assert data.diverging_epoch == (expected or EpochEndOffset())
    if expected is not None:
        assert not data.records
    followers = two_epochs.partition().followers
    assert followers is not None
    known = replica_id == 2 and expected is None
    assert followers.offset_of(2) == (offset if known else -1)


def test_who_has_read_of_an_epoch_that_nobody_knows(
    client: RawClient, two_epochs: Replicated
) -> None:
    for epoch in (6, 7):
        data = follow(client, two_epochs, 5, last_epoch=epoch)
        assert data.error_code is ErrorCode.offset_out_of_range


def test_older_versions_say_nothing_of_epochs(client: RawClient, two_epochs: Replicated) -> None:
    wanted = whole({two_epochs.key: 4}, replica_id=2, last_epoch=0)
    data = fetched(client, wanted, version=11)
    assert (offsets_in(data), data.error_code) == ([3], ErrorCode.none)


def end_of_epoch(
    client: RawClient, topic: Replicated, epoch: int, current: int = -1
) -> tuple[ErrorCode, int, int]:
    return requests.end_of_epoch(client, topic.name, epoch, current, replica_id=2)


def test_a_leader_knows_where_epochs_ended(client: RawClient, two_epochs: Replicated) -> None:
    none = ErrorCode.none
    known = {0: (0, 3), 1: (0, 3), 2: (0, 3), 3: (3, 5), 4: (3, 5), 6: (-1, -1)}
    for epoch, (expected, end) in known.items():
        assert end_of_epoch(client, two_epochs, epoch) == (none, expected, end)
    assert end_of_epoch(client, two_epochs, 3, 5) == (none, 3, 5)
    fenced, unknown = ErrorCode.fenced_leader_epoch, ErrorCode.unknown_leader_epoch
    assert end_of_epoch(client, two_epochs, 3, 4) == (fenced, -1, -1)
    assert end_of_epoch(client, two_epochs, 3, 6) == (unknown, -1, -1)
    two_epochs.lose_leader(6)
    led_elsewhere = ErrorCode.not_leader_or_follower
    assert end_of_epoch(client, two_epochs, 3) == (led_elsewhere, -1, -1)


def test_an_empty_log_of_a_later_epoch(client: RawClient, topic: Replicated) -> None:
    topic.change(leader_epoch=3)
    assert end_of_epoch(client, topic, 1) == (ErrorCode.none, 0, 0)
    data = follow(client, topic, 4, last_epoch=1)
    assert data.diverging_epoch == EpochEndOffset(epoch=0, end_offset=0)


# Who leads


def test_who_leads_is_told_where_that_is_the_error(client: RawClient, topic: Replicated) -> None:
    topic.change(leader_epoch=2)
    for epoch, code in ((1, ErrorCode.fenced_leader_epoch), (3, ErrorCode.unknown_leader_epoch)):
        data = consume(client, topic, 0, epoch=epoch)
        assert (data.error_code, data.current_leader) == (
            code,
            LeaderIdAndEpoch(leader_id=1, leader_epoch=2),
        )
    topic.lose_leader(4)
    for replica_id in (-1, 2):
        data = consume(client, topic, 0, replica_id=replica_id)
        assert data.error_code is ErrorCode.not_leader_or_follower
        assert data.current_leader == LeaderIdAndEpoch(leader_id=2, leader_epoch=4)
    assert consume(client, topic, 0, rack=HERE).current_leader == NOBODY


def test_who_waits_is_told_when_a_leader_is_deposed(
    client: RawClient, follower: RawClient, running: RunningBroker, topic: Replicated
) -> None:
    consumer = ClientSession(client)
    consumer.fetch({topic.key: 0})
    consumer.begin()
    following = ClientSession(follower, replica_id=2)
    following.fetch({topic.key: 0})
    following.begin()
    with running.client() as other:
        other.begin(fetch.API, 12, whole({topic.key: 0}, wait=20_000))
        with running.client() as late:
            consume(late, topic, 0)
        topic.lose_leader(1)
        (answer,) = other.finish(fetch.API, 12).responses
    for data in (answer.partitions[0], *consumer.finish().values(), *following.finish().values()):
        assert data.error_code is ErrorCode.not_leader_or_follower
        assert data.current_leader == LeaderIdAndEpoch(leader_id=2, leader_epoch=1)
    topic.lead_again(2)
    for session in (consumer, following):
        assert session.fetch()[topic.key].error_code is ErrorCode.none


# A new leader


def test_a_new_leader_tells_no_end_before_it_knows_what_is_committed(
    client: RawClient, follower: RawClient, running: RunningBroker, topic: Replicated
) -> None:
    append_flushed(client, topic, 10, 20)
    follow(follower, topic, 2)
    append_flushed(client, topic, 30)
    topic.lose_leader(1)
    topic.lead_again(2)

    for timestamp in (LATEST, 25):
        answer = list_offset(client, topic.name, timestamp)
        assert (answer.error_code, answer.offset) == (ErrorCode.offset_not_available, -1)
    assert list_offset(client, topic.name, EARLIEST).offset == 0
    assert list_offset(client, topic.name, 15).offset == 1
    assert list_offset(client, topic.name, MAX_TIMESTAMP).offset == 1
    assert list_offset(client, topic.name, LATEST, replica_id=2).offset == 3
    # An earlier leader may have shown it: a consumer that has come so far has to wait.
    data = consume(client, topic, 3)
    assert (data.error_code, data.high_watermark) == (ErrorCode.none, 2)
    client.begin(fetch.API, 12, whole({topic.key: 2}, wait=20_000))
    with running.client() as other:
        consume(other, topic, 3)
    follow(follower, topic, 3)
    (answered,) = client.finish(fetch.API, 12).responses
    assert offsets_in(answered.partitions[0]) == [2]
    assert list_offset(client, topic.name, LATEST).offset == 3
    assert list_offset(client, topic.name, 35).error_code is ErrorCode.none


# The nearest replica


def test_a_consumer_is_sent_to_a_replica_in_its_rack(
    client: RawClient, follower: RawClient, topic: Replicated
) -> None:
    append_flushed(client, topic, 1, 2)
    assert consume(client, topic, 0, rack=THERE).preferred_read_replica == -1, "it has nothing"
    follow(follower, topic, 1)
    data = consume(client, topic, 2, rack=THERE)
    assert data.preferred_read_replica == -1, "it has not come as far"
    follow(follower, topic, 2)
    for offset in (0, 1, 2):
        data = consume(client, topic, offset, rack=THERE, wait=20_000)
        assert (data.error_code, data.preferred_read_replica) == (ErrorCode.none, 2)
        assert not data.records
    for rack in (HERE, "", "another"):
        data = consume(client, topic, 0, rack=rack)
        assert (data.preferred_read_replica, offsets_in(data)) == (-1, [0])
    wanted = whole({topic.key: 0}, rack=THERE)
    assert offsets_in(fetched(client, wanted, version=10)) == [0], "it could not say its rack"

    topic.change(isr=(1,))
    assert consume(client, topic, 0, rack=THERE).preferred_read_replica == -1


def test_nobody_is_sent_where_he_cannot_come_in(
    client: RawClient, follower: RawClient, new_replicated: NewReplicated
) -> None:
    topic = new_replicated(1, 3)
    append_flushed(client, topic, 1)
    follow(follower, topic, 1, replica_id=3)
    data = consume(client, topic, 0, rack=THERE)
    assert (data.preferred_read_replica, offsets_in(data)) == (-1, [0])


def test_in_a_session_who_is_sent_elsewhere_is_told_so(
    client: RawClient, follower: RawClient, topic: Replicated
) -> None:
    append_flushed(client, topic, 1)
    follow(follower, topic, 1)
    session = ClientSession(client, rack=THERE)
    for offsets in ({topic.key: 0}, {}):
        (data,) = session.fetch(offsets).values()
        assert data.preferred_read_replica == 2
    assert session.fetch(forget=[topic.key]) == {}


def test_a_follower_serves_consumers_that_say_their_rack(
    client: RawClient, follower: RawClient, topic: Replicated
) -> None:
    append_flushed(client, topic, 1, 2)
    follow(follower, topic, 2)
    append_flushed(client, topic, 3)
    topic.lose_leader(1)

    data = consume(client, topic, 0, rack=HERE, epoch=1)
    assert (offsets_in(data), data.high_watermark) == ([0], 2)
    for offset in (2, 3):
        data = consume(client, topic, offset, rack=HERE)
        assert (data.error_code, offsets_in(data)) == (ErrorCode.none, []), "it waits for that"
    assert consume(client, topic, 4, rack=HERE).error_code is ErrorCode.offset_out_of_range
    assert consume(client, topic, 0, rack=HERE, epoch=0).error_code is ErrorCode.fenced_leader_epoch
    for rack in ("", HERE):
        data = consume(client, topic, 0, rack=rack, replica_id=2 if rack else -1)
        assert data.error_code is ErrorCode.not_leader_or_follower
    session = ClientSession(client, rack=HERE)
    session.fetch({topic.key: 2})
    assert session.fetch() == {}
