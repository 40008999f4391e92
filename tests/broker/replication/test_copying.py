"""What is copied from whom: leaders that change, move, are killed, or want to know who asks."""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.replication.copying import Copying
from broker.replication.leader_link import Fetching
from client.admin.topics import create_topic
from client.connection.addresses import Address
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.connection import BrokerConnection
from client.connection.security import Mechanism
from cluster.values import BrokerInfo, Endpoint
from harness.penstock.broker import BrokerProcess
from harness.penstock.secured_broker import SecuredBroker
from harness.processes.event_loops import on_uvloop
from harness.processes.waiting import wait_until_async
from tests.broker.replication.followed_log import FollowedLog, contents, has
from tests.broker.replication.scripted_leader import (
    KEY,
    LedPartition,
    ScriptedLeader,
    batches,
    scripted_leader,
)
from tests.broker.storage.log_files import batch
from tests.client.scripted_broker import ScriptedBroker
from wire.errors import ErrorCode
from wire.messages import produce
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

LISTENER = "BETWEEN"
Leader = tuple[ScriptedLeader, ScriptedBroker]


@pytest.fixture
def leaders() -> Iterator[dict[int, Leader]]:
    """Two of them."""
    with scripted_leader() as one, scripted_leader() as two:
        yield {1: one, 2: two}


def at(broker_id: int, address: Address, listener: str = LISTENER) -> BrokerInfo:
    """A broker, as the map says."""
    endpoint = Endpoint(protocol="PLAINTEXT", host=address.host, port=address.port, name=listener)
    return BrokerInfo(
        broker_id=broker_id,
        host="elsewhere.example",
        port=1,
        directory_id=uuid.UUID(int=broker_id),
        location="",
        started_ms=0,
        endpoints=(endpoint,),
    )


def where(leaders: dict[int, Leader]) -> dict[int, BrokerInfo]:
    return {number: at(number, broker.address) for number, (_, broker) in leaders.items()}


@asynccontextmanager
async def copying(fetching: Fetching | None = None) -> AsyncIterator[Copying]:
    used = fetching or Fetching(broker_id=3, wait_seconds=0.05, bytes=64 * 1024)
    begun = Copying(used, LISTENER)
    try:
        yield begun
    finally:
        await begun.close()


@on_uvloop
async def test_each_partition_is_copied_from_its_leader(
    leaders: dict[int, Leader], tmp_path: Path
) -> None:
    (one, first), (two, second) = leaders[1], leaders[2]
    one.lead(batches(3, 2))
    two.partitions["u", 7] = LedPartition(batches=batches(4))

    mine, other = FollowedLog(tmp_path), FollowedLog(tmp_path, "u", 7)
    async with copying() as copies:
        copies.brokers(where(leaders))
        copies.assign(mine, 1, 0)
        copies.assign(other, 2, 0)
        await wait_until_async(has(mine, 5))
        await wait_until_async(has(other, 4))
        assert copies.lags == {KEY: 0, ("u", 7): 0}
        # The second broker leads both, and has what the first has.
        two.lead([*one.led.batches, *batches(4, first=5, epoch=1)], epoch=1)
        copies.assign(mine, 2, 1)
        await asyncio.to_thread(first.wait_until_left)
        await wait_until_async(has(mine, 9))
        total = sum(map(len, two.led.batches)) + len(two.partitions["u", 7].batches[0])
        assert copies.bytes_copied == total
        copies.remove(mine)
        copies.remove(other)
        await asyncio.to_thread(second.wait_until_left)
        assert (copies.bytes_copied, copies.lags, copies.troubles) == (total, {}, {})
    assert contents(mine) == two.led.batches


@on_uvloop
async def test_a_leader_is_copied_from_where_it_is_now(
    leaders: dict[int, Leader], tmp_path: Path
) -> None:
    """The two are one broker here, that moves."""
    (one, first), (two, second) = leaders[1], leaders[2]
    one.lead(batches(3))
    two.lead([*one.led.batches, *batches(2, first=3)])

    followed = FollowedLog(tmp_path)
    async with copying() as copies:
        copies.assign(followed, 1, 0)
        assert "is not registered" in copies.leaders_in_trouble[1]
        copies.brokers({1: at(1, first.address, "ANOTHER")})
        assert LISTENER in copies.leaders_in_trouble[1]
        copies.brokers({1: at(1, first.address)})
        await wait_until_async(has(followed, 3))
        assert copies.leaders_in_trouble == {}
        copies.brokers({})  # it has lost its session, and is there all the same
        one.lead(batches(1, first=3))
        await wait_until_async(has(followed, 4))
        two.led.batches = [*one.led.batches, *batches(2, first=4)]
        copies.brokers({1: at(1, second.address)})
        await asyncio.to_thread(first.wait_until_left)
        await wait_until_async(has(followed, 6))
        second.close()
        await wait_until_async(lambda: "no broker at" in copies.leaders_in_trouble.get(1, ""))
        copies.assign(followed, -1, 1)
        assert copies.leaders_in_trouble == {}
    assert contents(followed) == two.led.batches


class HeldLog(FollowedLog):
    """One that takes its time to go back."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.begun = threading.Event()
        self.go_on = threading.Event()

    async def truncate(self, offset: int) -> None:
        self.begun.set()
        await asyncio.to_thread(self.go_on.wait, 60)
        await super().truncate(offset)


@on_uvloop
async def test_what_is_worked_on_is_left_alone_until_that_is_over(
    leaders: dict[int, Leader], tmp_path: Path
) -> None:
    """By another leader, and by who waits for it."""
    (one, _), (two, _) = leaders[1], leaders[2]
    one.lead(batches(3, 4))
    shared = one.led.batches[:1]
    two.lead([*shared, *batches(2, first=3, epoch=1)], epoch=1)

    followed = HeldLog(tmp_path)
    async with copying() as copies:
        copies.brokers(where(leaders))
        copies.assign(followed, 1, 0)
        await wait_until_async(has(followed, 7))
        copies.assign(followed, 2, 1)
        await wait_until_async(followed.begun.is_set)
        one.led.batches = two.led.batches
        one.led.epoch = 2
        copies.remove(followed)
        copies.assign(followed, 1, 2)
        waiting = asyncio.create_task(copies.idle(followed))
        before = len(one.requests)
        await asyncio.sleep(0.2)
        assert len(one.requests) == before
        assert has(followed, 7)()
        followed.go_on.set()
        await waiting
        await wait_until_async(has(followed, 5))
        copies.remove(followed)
        await copies.idle(followed)
    assert contents(followed) == two.led.batches


@on_uvloop
async def test_what_catches_up_is_asked_for_apart_and_joins_what_is_in_sync_at_once(
    leaders: dict[int, Leader], tmp_path: Path
) -> None:
    """A leader waits longer than this test, if it is not asked to hurry."""
    leader, _ = leaders[1]
    leader.partitions["u", 1] = LedPartition(batches=batches(4))
    leader.lead(batches(*[1] * 40, size=5000))
    fetching = Fetching(broker_id=3, wait_seconds=120, bytes=64 * 1024)

    behind, abreast = FollowedLog(tmp_path), FollowedLog(tmp_path, "u", 1)
    behind.is_in_sync = False
    async with copying(fetching) as copies:
        copies.brokers(where(leaders))
        behind.disk.clear()
        copies.assign(behind, 1, 0)
        await wait_until_async(lambda: behind.log.end_offset > 0)
        copies.assign(abreast, 1, 0)
        await wait_until_async(has(abreast, 4))
        leader.partitions["u", 1].batches += batches(4, first=4)
        await wait_until_async(has(abreast, 8))
        assert behind.log.flushed_offset == 0
        behind.disk.set()
        await wait_until_async(has(behind, 40))
        await wait_until_async(lambda: bool(sessions(leader, "u")))
        assert sessions(leader, "t").isdisjoint(sessions(leader, "u"))

        behind.is_in_sync = True
        copies.assign(behind, 1, 0)
        await wait_until_async(lambda: sessions(leader, "t") > sessions(leader, "u"))
        await wait_until_async(lambda: leader.requests[-1].max_wait == 120_000)
        leader.lead(batches(1, first=40))
        await wait_until_async(has(behind, 41))

        before = sessions(leader, "t")
        behind.is_in_sync = False
        copies.assign(behind, 1, 0)
        leader.lead(batches(1, first=41))
        await wait_until_async(lambda: sessions(leader, "t") > before)
        await wait_until_async(has(behind, 42))
        assert (copies.troubles, copies.leaders_in_trouble) == ({}, {})
    leader.lead([])  # it waits no longer
    assert contents(behind) == leader.led.batches


def sessions(leader: ScriptedLeader, topic: str) -> set[int]:
    """In which this topic was named."""
    return {
        asked.session_id
        for asked in leader.requests
        if asked.session_id and any(each.topic == topic for each in asked.topics)
    }


def as_consumer(bootstrap: Bootstrap) -> Fetching:
    """Of a leader that does not know of us as a replica."""
    return Fetching(broker_id=-1, access=bootstrap.access, wait_seconds=0.1)


def produce_to(address: Address, bootstrap: Bootstrap, topic: str, sent: list[bytes]) -> None:
    connection = BrokerConnection(address, "test", bootstrap.access)
    try:
        for each in sent:
            data = PartitionProduceData(index=0, records=memoryview(each))
            request = ProduceRequest(
                acks=-1,
                timeout=30_000,
                topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
            )
            answer = connection.call(produce.API, request)
            assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
    finally:
        connection.close()


def stored(broker: BrokerProcess, topic: str) -> bytes:
    files = sorted(broker.partition_dir(topic).glob("*.log"))
    return b"".join(each.read_bytes() for each in files)


async def copy_from(
    copies: Copying, followed: FollowedLog, address: Address, asked: Bootstrap
) -> None:
    """From the broker that leads it there, as it says."""

    def leader_epoch() -> int:
        with Brokers(asked, patience_seconds=60) as brokers:
            led = brokers.persist(lambda: brokers.refresh([followed.topic]))
            return led.topics[followed.topic].partition(0).leader_epoch

    epoch = await asyncio.to_thread(leader_epoch)
    copies.brokers({1: at(1, address)})
    copies.assign(followed, 1, epoch)


def is_equal(followed: FollowedLog, broker: BrokerProcess) -> bool:
    return b"".join(contents(followed)) == stored(broker, followed.topic)


@on_uvloop
async def test_a_broker_that_is_killed_again_and_again(chroot: str, tmp_path: Path) -> None:
    """Its follower goes on where it was."""
    with BrokerProcess(tmp_path / "leader", zookeeper=chroot) as broker:
        bootstrap = Bootstrap.of(broker.bootstrap)
        address = Address("127.0.0.1", broker.port)
        with Brokers(bootstrap, patience_seconds=60) as brokers:
            create_topic(brokers, "clicks", partitions=1)
        sent = [bytes(batch(10, size=20_000)) for _ in range(40)]

        followed = FollowedLog(tmp_path, "clicks")
        async with copying(as_consumer(bootstrap)) as copies:
            await copy_from(copies, followed, address, bootstrap)
            for _ in range(3):
                before = followed.log.size
                await asyncio.to_thread(produce_to, address, bootstrap, "clicks", sent)
                await wait_until_async(lambda size=before: followed.log.size > size)
                await asyncio.to_thread(broker.kill)
                await wait_until_async(lambda: bool(copies.leaders_in_trouble))
                await asyncio.to_thread(broker.start)
                await copy_from(copies, followed, address, bootstrap)
                await wait_until_async(lambda: is_equal(followed, broker))
                await wait_until_async(lambda: not (copies.leaders_in_trouble or copies.troubles))


@on_uvloop
async def test_a_leader_with_tls_and_logins(chroot: str, tmp_path: Path) -> None:
    """As brokers log in to each other. Large answers come in many pieces, whatever TLS holds."""
    with SecuredBroker(tmp_path / "leader", zookeeper=chroot) as secured:
        inside = secured.bootstrap(Mechanism.SCRAM_SHA_512, "broker")
        with Brokers(inside, patience_seconds=60) as brokers:
            create_topic(brokers, "clicks", partitions=1)
        sent = [bytes(batch(1, size=900_000)) for _ in range(20)]
        produce_to(inside.addresses[0], inside, "clicks", sent)
        address = Address("127.0.0.1", secured.brokers)

        followed = FollowedLog(tmp_path, "clicks")
        async with copying(as_consumer(inside)) as copies:
            await copy_from(copies, followed, address, inside)
            await wait_until_async(lambda: is_equal(followed, secured.broker))
        stranger = FollowedLog(tmp_path, "clicks", 1)
        async with copying(as_consumer(Bootstrap.of(secured.broker.bootstrap))) as copies:
            copies.brokers({1: at(1, address)})
            copies.assign(stranger, 1, 0)
            await wait_until_async(
                lambda: "does it want TLS?" in copies.leaders_in_trouble.get(1, "")
            )
