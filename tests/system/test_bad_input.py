"""Bytes that no client should send: an error with Kafka's code, or an end with a complaint.

The broker is alive afterwards, has grown by little, and its other clients have noticed nothing.
What is cut, spoilt or random within a frame: test_mutated_frames.py.
"""

import struct
from collections.abc import Iterator

import pytest

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from tests.system.bystander import Bystander
from tests.system.raw import (
    API_VERSIONS,
    CREATE_TOPICS,
    FETCH,
    METADATA,
    PRODUCE,
    RawConnection,
    int16,
    int32,
    request,
    string,
)
from tests.system.topics import create

GROWTH_ALLOWED = 100 * 1024 * 1024
MOST = 2**31 - 1


@pytest.fixture(scope="module")
def served_broker(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    """A client that does nothing wrong is served all the while."""
    chroot = f"{zookeeper.address}/bad-input"
    with BrokerProcess(tmp_path_factory.mktemp("bad-input"), zookeeper=chroot) as broker:
        create(broker.bootstrap, "plain")
        create(broker.bootstrap, "bystander")
        bystander = Bystander(broker.bootstrap, "bystander")
        try:
            yield broker
        finally:
            bystander.finish()


@pytest.fixture
def broker(served_broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """Whatever a test does: the broker lives, is no larger than it may be, and no bug shows."""
    broker = served_broker
    before = broker.rss()
    yield broker
    assert broker.process.alive, broker.process.last_words()
    growth = broker.rss() - before
    assert growth < GROWTH_ALLOWED, f"grown by {growth >> 20} MB"
    assert "Traceback" not in broker.log(), broker.process.last_words()


def ends_with_one_complaint(broker: BrokerProcess, data: bytes) -> None:
    """The broker closes the connection that sent this, and complains once."""
    before = broker.complaints("connection closed")
    with RawConnection(broker.bootstrap) as connection:
        connection.send(data)
        connection.wait_closed()
    assert broker.complaints("connection closed") == before + 1


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 1, 7, 200_000_000, MOST])
def test_a_length_no_request_can_have(broker: BrokerProcess, length: int) -> None:
    ends_with_one_complaint(broker, int32(length) + bytes(max(0, min(length, 100))))


UVARINT_MOST = b"\xff\xff\xff\xff\x0f"
PRODUCE_HEAD = string(None) + int16(1) + int32(1000)
ONE_TOPIC = PRODUCE_HEAD + int32(1) + string("plain")
ASSIGNED = int32(1) + string("many") + int32(-1) + int16(-1) + int32(MOST)
# Counts and lengths that promise more than the frame holds.
ABSURD = {
    "metadata topics": (METADATA, 1, int32(MOST)),
    "metadata compact topics": (METADATA, 9, b"\0" + UVARINT_MOST),
    "produce topics": (PRODUCE, 7, PRODUCE_HEAD + int32(MOST)),
    "produce partitions": (PRODUCE, 7, ONE_TOPIC + int32(MOST)),
    "produce records": (PRODUCE, 7, ONE_TOPIC + int32(1) + int32(0) + int32(MOST) + b"short"),
    "produce compact": (PRODUCE, 9, b"\0\0" + int16(1) + int32(1000) + UVARINT_MOST),
    "fetch topics": (FETCH, 4, int32(-1) + int32(0) * 2 + int32(1000) + b"\0" + int32(MOST)),
    "create topics": (CREATE_TOPICS, 2, int32(MOST)),
    "create topics' assignments": (CREATE_TOPICS, 2, ASSIGNED),
    "name's length": (METADATA, 1, int32(1) + int16(2**15 - 1) + b"short"),
    "negative count": (METADATA, 1, int32(-2)),
    "tags": (API_VERSIONS, 3, b"\0" + b"\x02a" + b"\x02a" + UVARINT_MOST),
    "endless varint": (METADATA, 9, b"\0" + b"\xff" * 50),
}


@pytest.mark.parametrize("what", ABSURD)
def test_a_count_no_frame_can_hold(broker: BrokerProcess, what: str) -> None:
    ends_with_one_complaint(broker, request(*ABSURD[what]))


@pytest.mark.parametrize("version", [5, 99, MOST >> 16, -1])
def test_an_unknown_version_of_api_versions_is_told_the_known_ones(
    broker: BrokerProcess, version: int
) -> None:
    """The answer is of version 0, so that every client can read it and ask again."""
    with RawConnection(broker.bootstrap) as connection:
        answer = connection.ask(API_VERSIONS, version, b"\0\x02a\x02a\0")
        error, count = struct.unpack_from(">hi", answer)
        assert error == 35
        listed = list(struct.iter_unpack(">hhh", answer[6 : 6 + 6 * count]))
        assert API_VERSIONS in [key for key, _, _ in listed]
        # The connection goes on.
        again = connection.ask(API_VERSIONS, 0, b"")
        assert struct.unpack_from(">h", again)[0] == 0


@pytest.mark.parametrize(("key", "version"), [(12345, 0), (-1, 0), (PRODUCE, 99), (FETCH, -5)])
def test_an_api_or_version_nobody_knows(broker: BrokerProcess, key: int, version: int) -> None:
    ends_with_one_complaint(broker, request(key, version, b""))
