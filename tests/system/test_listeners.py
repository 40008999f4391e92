"""Several listeners of one broker: in the clear, with TLS, with certificates of clients."""

import contextlib
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from client.admin import create_topic
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.consumer import Consumer as OwnConsumer
from client.errors import ClientError
from client.offsets import Beginning
from client.producer import Producer as OwnProducer
from client.security import Security
from cluster.zookeeper import EmbeddedZooKeeper
from ground.tls import Tls
from harness.broker_process import BrokerProcess
from harness.certificates import Authority
from harness.server_process import free_ports
from harness.waiting import wait_until
from tests.system.bystander import Bystander
from tests.system.topics import create

WITHIN = 60.0
LARGE = 700_000  # more than one turn of sending, and than a socket takes at once


class Listeners:
    """A broker, and the ways to it."""

    def __init__(self, directory: Path, zookeeper: str, **more: Any) -> None:
        self.authority = Authority(directory / "authority")
        self.server = self.authority.sign("broker")
        self.me = self.authority.sign("me")
        shown = {"certificate": str(self.server.certificate), "key": str(self.server.key)}
        known = {**shown, "client_ca": str(self.authority.ca)}
        self.clear, self.tls, self.known = free_ports(3)
        listeners = [
            {"name": "LOCAL", "port": self.clear},
            {"name": "TLS", "port": self.tls, "tls": shown, "advertised_host": "localhost"},
            {"name": "KNOWN", "port": self.known, "tls": known},
        ]
        self.broker = BrokerProcess(
            directory,
            zookeeper=zookeeper,
            settings={"listeners": listeners, **more},
        )

    def own(self, port: int, certificate: str = "") -> Bootstrap:
        tls = Tls(ca=str(self.authority.ca), certificate=certificate)
        return Bootstrap.of(f"127.0.0.1:{port}", Security(tls=tls))

    def librdkafka(self, port: int, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.authority.ca),
            **more,
        }


@pytest.fixture(scope="module")
def listeners(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Listeners]:
    address = f"{zookeeper.address}/listeners"
    made = Listeners(tmp_path_factory.mktemp("listeners"), address)
    with made.broker:
        yield made


def written_and_read(settings: dict[str, Any], topic: str, count: int, size: int) -> None:
    """With librdkafka."""
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WITHIN)
    producer = Producer({**settings, "message.max.bytes": 2_000_000, "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, b"%d " % number + bytes(size), partition=0)
        producer.poll(0)
    assert producer.flush(WITHIN) == 0
    with contextlib.closing(
        Consumer({**settings, "group.id": "by-hand", "enable.auto.commit": False})
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        got: list[int] = []
        deadline = time.monotonic() + WITHIN
        while len(got) < count and time.monotonic() < deadline:
            for message in consumer.consume(100, 1.0):
                value = message.value()
                assert message.error() is None, message.error()
                assert value is not None
                assert len(value) > size
                got.append(int(value.split()[0]))
    assert got == list(range(count))


@pytest.mark.parametrize(("count", "size"), [(20_000, 100), (60, LARGE)])
def test_librdkafka_over_tls(listeners: Listeners, count: int, size: int) -> None:
    written_and_read(listeners.librdkafka(listeners.tls), f"by-tls-{size}", count, size)


def test_librdkafka_with_a_certificate(listeners: Listeners) -> None:
    me = listeners.me
    shown = {
        "ssl.certificate.location": str(me.certificate),
        "ssl.key.location": str(me.key),
    }
    written_and_read(listeners.librdkafka(listeners.known, **shown), "by-certificate", 1_000, 1_000)


@pytest.mark.parametrize("which", ["tls", "known"])
def test_our_own_client(listeners: Listeners, which: str) -> None:
    port: int = getattr(listeners, which)
    with Brokers(listeners.own(port, str(listeners.me.both))) as brokers:
        create_topic(brokers, f"own-{which}", partitions=2)
        producer = OwnProducer(brokers, f"own-{which}", batch_bytes=300_000)
        for number in range(5_000):
            producer.send(b"%d " % number * 50)
        producer.flush()
        with OwnConsumer(brokers, f"own-{which}", Beginning(), to_end=True) as consumer:
            got = sorted(int((each.record.value or b"").split()[0]) for each in consumer)
    assert got == list(range(5_000))


def test_clients_are_told_the_listener_that_they_came_to(listeners: Listeners) -> None:
    told = AdminClient(listeners.librdkafka(listeners.tls)).list_topics(timeout=WITHIN)
    assert [(each.host, each.port) for each in told.brokers.values()] == [
        ("localhost", listeners.tls)
    ]
    clear = AdminClient({"bootstrap.servers": f"127.0.0.1:{listeners.clear}"})
    assert [
        (each.host, each.port) for each in clear.list_topics(timeout=WITHIN).brokers.values()
    ] == [("127.0.0.1", listeners.clear)]


def test_without_a_certificate_nobody_comes_in_where_one_is_required(listeners: Listeners) -> None:
    other = Authority(listeners.authority.ca.parent / "other").sign("me")
    for certificate in ("", str(other.both)):
        with pytest.raises(ClientError):
            Brokers(listeners.own(listeners.known, certificate))
    wait_until(
        lambda: listeners.broker.complaints("TLS handshake failed") >= 2,
        within=10,
        what="it is complained about",
    )
    assert "listener=KNOWN error='peer did not return a certificate'" in listeners.broker.log()


def test_who_speaks_plainly_to_tls_and_tls_to_plain_is_cut_off(listeners: Listeners) -> None:
    with pytest.raises(ClientError, match="does it want TLS"):
        Brokers(Bootstrap.of(f"127.0.0.1:{listeners.tls}"))
    with pytest.raises(ClientError):
        Brokers(listeners.own(listeners.clear))
    wait_until(
        lambda: "TLS on a listener that has none" in listeners.broker.log(),
        within=10,
        what="it is said",
    )


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_are_not_spoken(listeners: Listeners, version: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection(("127.0.0.1", listeners.tls)) as opened,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(opened)


def test_an_exchanged_certificate_is_shown_to_the_next_and_disturbs_nobody(
    chroot: str, tmp_path: Path
) -> None:
    made = Listeners(tmp_path, chroot)
    with made.broker, Brokers(made.own(made.tls)) as brokers:
        create_topic(brokers, "kept")
        producer = OwnProducer(brokers, "kept")
        producer.send(b"before")
        producer.flush()
        other = made.authority.sign("another")
        shutil.copy(other.key, made.server.key)
        shutil.copy(other.certificate, made.server.certificate)
        assert shown_by(made) == "another"
        made.server.certificate.write_text("nonsense")
        assert shown_by(made) == "another"
        producer.send(b"after")
        producer.flush()
        assert "disconnect" not in made.broker.log()
    assert made.broker.log().count("certificates were exchanged, the old ones stay") == 1


def shown_by(made: Listeners) -> str:
    context = ssl.create_default_context(cafile=str(made.authority.ca))
    with (
        socket.create_connection(("127.0.0.1", made.tls)) as opened,
        context.wrap_socket(opened, server_hostname="localhost") as connection,
    ):
        shown = connection.getpeercert() or {}
    return str(dict(each[0] for each in shown["subject"])["commonName"])


def test_handshakes_that_are_begun_and_not_finished_take_nothing_from_others(
    chroot: str, tmp_path: Path
) -> None:
    made = Listeners(tmp_path, chroot)
    with made.broker, contextlib.ExitStack() as stack:
        create(made.broker.bootstrap, "bystander")
        bystander = Bystander(made.broker.bootstrap, "bystander")
        for number in range(700):
            opened = stack.enter_context(socket.create_connection(("127.0.0.1", made.tls)))
            if number % 2:
                opened.send(b"\x16\x03\x01\x02\x00\x01")
        assert shown_refused(made)
        bystander.finish()
        assert made.broker.http("/readyz") == (200, "ready\n")
        wait_until(
            lambda: made.broker.complaints("TLS handshake failed") >= 500,
            within=30,
            what="they are closed",
        )
        assert shown_by(made) == "broker"


def shown_refused(made: Listeners) -> bool:
    """Whether this address has no handshakes left."""
    try:
        shown_by(made)
    except OSError:
        return True
    return False


def test_a_listener_that_cannot_show_its_certificate(chroot: str, tmp_path: Path) -> None:
    made = Listeners(tmp_path, chroot)
    made.server.key.unlink()
    with pytest.raises(Exception, match="`certificate`"), made.broker:
        pass


def test_the_client_is_told_why_it_does_not_get_in(listeners: Listeners) -> None:
    admin = AdminClient(listeners.librdkafka(listeners.known))
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=5)
