"""Messages as the audit shows them, from a real broker and a real registry: older and newer ones,
and those that somebody has written to do harm."""

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any, Final

import pytest

from audit.api.queries import MessagesQuery
from audit.clusters.messages.answers import MessageKind, Messages
from audit.clusters.messages.reader import MessageReader
from audit.clusters.messages.rendering import MOST_SHOWN
from audit.configuration.config import Cluster
from audit.errors import BadQuery, NotAllowed, NotRead, Unanswerable, Unknown
from client.admin.topics import create_topic, delete_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.security import Mechanism
from client.producing.producer import Producer
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.penstock.secured_broker import SecuredBroker
from schemas.registry_client import RegistryClient
from tests.audit.clusters.messages.written import SCRIPT, dead_letter, log_line, spoil, write
from wire.record_batches.records import Codec

PATIENT: Final = 60.0


@pytest.fixture(scope="module")
def brokers(running_broker: BrokerProcess) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def registry(running_registry: RegistryProcess) -> Iterator[RegistryClient]:
    with RegistryClient(running_registry.url) as client:
        yield client


@pytest.fixture
def reader(
    running_broker: BrokerProcess, running_registry: RegistryProcess
) -> Iterator[MessageReader]:
    there = Cluster(brokers=(running_broker.bootstrap,), registry=running_registry.url)
    reader = MessageReader(
        {"test": there}, lambda sources: dict.fromkeys(sources, "/var/log/a"), PATIENT
    )
    yield reader
    reader.close()


def read(reader: MessageReader, topic: str, **asked: Any) -> Messages:
    return reader.read(MessagesQuery(topic=topic, **asked))


def offsets(found: Messages) -> list[int]:
    return [each.offset for each in found.items]


def ascii_of(hexadecimal: str) -> str:
    return "".join(line[55:] for line in hexadecimal.splitlines())


def test_older_and_newer_and_at_a_time(
    reader: MessageReader, brokers: Brokers, new_topic: str
) -> None:
    write(brokers, new_topic, [b"%d" % number for number in range(7)])
    times = [each.time for each in read(reader, new_topic, offset=0, size=7).items]
    first = times.index(times[3])  # several may have been written in one millisecond
    for asked, expected in (
        ({}, [4, 5, 6]),
        ({"before": 4}, [1, 2, 3]),
        ({"before": 1}, [0]),
        ({"offset": 1}, [1, 2, 3]),
        ({"offset": 4_711}, [4, 5, 6]),
        ({"time": times[3]}, [first, first + 1, first + 2]),
        ({"time": 2**41}, [4, 5, 6]),
        ({"before": 0}, []),
    ):
        found = read(reader, new_topic, size=3, **asked)
        assert offsets(found) == expected, asked
        assert (found.first, found.end, found.partitions) == (0, 7, 1)
    delete_topic(brokers, new_topic)
    create_topic(brokers, new_topic, partitions=1)
    for wrong in ({"topic_id": found.topic_id}, {"partition": 1}):
        with pytest.raises(Unknown):
            read(reader, new_topic, **wrong)
    for error, query in (
        (Unknown, MessagesQuery(topic="nosuch")),
        (BadQuery, MessagesQuery(topic=new_topic, cluster="nosuch")),
    ):
        with pytest.raises(error):
            reader.read(query)


def test_what_stands_in_messages(
    reader: MessageReader,
    brokers: Brokers,
    registry: RegistryClient,
    running_broker: BrokerProcess,
    new_topic: str,
) -> None:
    """Damage, and a batch that is too long, keep nobody from what is behind them."""
    values = [
        log_line(registry, new_topic, SCRIPT, source="s1"),
        dead_letter(registry, new_topic, b"\xff\x00" * 400),
        pack(">BI", 0, 2**31 - 1) + b"its schema is gone",
        b"plain " + b"\xc3\xbc" * 20_000,
        b"\x80" * 600,
        b"the CRC of this is wrong",
        b"x" * 20_000_000,
        b"behind",
    ]
    write(brokers, new_topic, values, **{"max.message.bytes": "30000000"})
    spoil(running_broker, new_topic, b"the CRC")
    event, dead, gone, text, raw, damaged = read(reader, new_topic, offset=0).items
    assert (event.kind, event.host, event.source, event.path, event.seq, event.key) == (
        *(MessageKind.EVENT, "web-17.example.com", "s1", "/var/log/a", 123_456_789, "key"),
    )
    assert [(each.name, each.text) for each in event.fields] == [
        ("path", "/l"),
        ("message", SCRIPT),
    ]
    assert (dead.kind, dead.fields[0].text) == (MessageKind.DEAD, "`user`: no number")
    assert dead.fields[1].text.startswith("0000  ff 00")
    assert dead.fields[1].text.endswith("288 more bytes")
    assert (gone.kind, gone.remark) == (MessageKind.BYTES, "there is no schema 2147483647")
    assert "its schema is gone" in ascii_of(gone.text)
    assert (text.kind, text.cut, text.size) == (MessageKind.TEXT, True, 40_006)
    assert len(text.text) == MOST_SHOWN
    assert (raw.kind, raw.cut, raw.size) == (MessageKind.BYTES, True, 600)
    assert (damaged.kind, damaged.offset, damaged.end) == (MessageKind.DAMAGED, 5, 6)
    assert re.match("bytes 21 to .. of the batch have the CRC .{8}, and its h", damaged.remark)
    assert "CRC of this is wrong" in ascii_of(damaged.text)

    reached = read(reader, new_topic, offset=5)
    assert (offsets(reached), reached.to_offset) == ([5], 6)
    (long,) = read(reader, new_topic, offset=6).items
    assert (long.kind, long.end) == (MessageKind.LONG, 7)
    assert re.fullmatch("the batch has 20,000,0.. bytes", long.remark)
    assert read(reader, new_topic, offset=7).items[0].text == "behind"


def test_what_is_unpacked_has_a_limit(
    reader: MessageReader, brokers: Brokers, new_topic: str
) -> None:
    create_topic(brokers, new_topic, partitions=1)
    producer = Producer(brokers, new_topic, codec=Codec.ZSTD, batch_bytes=1)
    producer.send(b"x" * 17_000_000)
    producer.flush()
    (bomb,) = read(reader, new_topic).items
    assert bomb.remark.startswith("more than 16777216 bytes when unpacked")


def test_without_a_registry_bytes_are_shown(
    running_broker: BrokerProcess, brokers: Brokers, registry: RegistryClient, new_topic: str
) -> None:
    write(brokers, new_topic, [log_line(registry, new_topic, "hello")] * 3)
    nowhere = Cluster(brokers=(running_broker.bootstrap,), registry="http://127.0.0.1:9")
    reader = MessageReader({"test": nowhere}, lambda _: {}, PATIENT)
    try:
        for each in read(reader, new_topic).items:
            assert "hello" in ascii_of(each.text)
            assert "127.0.0.1:9" in each.remark
    finally:
        reader.close()


def test_brokers_decide_as_well(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    chroot = f"{zookeeper.address}/{uuid.uuid4().hex}"
    settings = {"authorization": {"super_users": ["broker", "alice"]}}
    with SecuredBroker(tmp_path, zookeeper=chroot, settings=settings) as secured:
        with Brokers(secured.bootstrap(Mechanism.SCRAM_SHA_256)) as brokers:
            write(brokers, "clicks", [b"secret"])
        address = f"127.0.0.1:{secured.locked}"
        for user, wrong in (("alice", None), ("bob", NotAllowed), ("alice", NotRead)):
            security = secured.security(Mechanism.SCRAM_SHA_256, user)
            port = address if wrong is not NotRead else "127.0.0.1:9"
            there = Cluster(brokers=(port,), security=security)
            reader = MessageReader({"test": there}, lambda _: {}, PATIENT)
            if wrong is None:
                assert read(reader, "clicks").items[0].text == "secret"
                continue
            with pytest.raises(wrong) as refusal:
                read(reader, "clicks")
            command = "penstock acls add bob --operation read --topic clicks"
            assert isinstance(refusal.value, Unanswerable)
            assert refusal.value.command == (command if wrong is NotAllowed else "")
            assert "secret" not in str(refusal.value)
