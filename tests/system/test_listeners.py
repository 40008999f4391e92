"""Several listeners of one broker: in the clear, with TLS, with certificates of clients."""

import contextlib
import shutil
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.security import Security
from client.errors import ClientError
from client.producing.producer import Producer as OwnProducer
from client.reading.consumer import Consumer as OwnConsumer
from client.reading.offsets import Beginning
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from ground.tls.client import Tls
from harness.logins.certificates import Authority
from harness.penstock.broker import BrokerProcess
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until
from tests.system.bystander import Bystander
from tests.system.clients.librdkafka import written_and_read
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


@pytest.mark.parametrize(("count", "size"), [(5_000, 100), (60, LARGE)])
def test_librdkafka_over_tls(listeners: Listeners, count: int, size: int) -> None:
    values = [b"%d " % number + bytes(size) for number in range(count)]
    settings = listeners.librdkafka(listeners.tls)
    assert written_and_read(settings, f"by-tls-{size}", values) == values


def test_librdkafka_with_a_certificate(listeners: Listeners) -> None:
    shown = {
        "ssl.certificate.location": str(listeners.me.certificate),
        "ssl.key.location": str(listeners.me.key),
    }
    values = [b"%d " % number + bytes(1_000) for number in range(1_000)]
    settings = listeners.librdkafka(listeners.known, **shown)
    assert written_and_read(settings, "by-certificate", values) == values


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
    with pytest.raises(KafkaException):
        AdminClient(listeners.librdkafka(listeners.known)).list_topics(timeout=5)
    wait_until(
        lambda: listeners.broker.complaints("TLS handshake failed") >= 3,
        what="it is complained about",
    )
    assert "listener=KNOWN error='peer did not return a certificate'" in listeners.broker.log()


def test_who_speaks_plainly_to_tls_and_tls_to_plain_is_cut_off(listeners: Listeners) -> None:
    with pytest.raises(ClientError, match="does it want TLS"):
        Brokers(Bootstrap.of(f"127.0.0.1:{listeners.tls}"))
    with pytest.raises(ClientError):
        Brokers(listeners.own(listeners.clear))
    said = "TLS handshake on a listener without TLS"
    wait_until(lambda: said in listeners.broker.log(), what="it is said")


@pytest.fixture(scope="module")
def attacked(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Listeners]:
    """Its certificates are exchanged, and handshakes with it are begun and not finished."""
    made = Listeners(tmp_path_factory.mktemp("attacked"), f"{zookeeper.address}/attacked")
    with made.broker:
        yield made


def test_an_exchanged_certificate_is_shown_to_the_next_and_disturbs_nobody(
    attacked: Listeners,
) -> None:
    before = len(attacked.broker.log())
    with Brokers(attacked.own(attacked.tls)) as brokers:
        create_topic(brokers, "kept")
        producer = OwnProducer(brokers, "kept")
        producer.send(b"before")
        producer.flush()
        other = attacked.authority.sign("another")
        shutil.copy(other.key, attacked.server.key)
        shutil.copy(other.certificate, attacked.server.certificate)
        assert shown_by(attacked) == "another"
        attacked.server.certificate.write_text("nonsense")
        assert shown_by(attacked) == "another"
        producer.send(b"after")
        producer.flush()
        log = attacked.broker.log()[before:]
    assert "disconnect" not in log
    assert log.count("cannot load changed certificates, keeping the previous ones") == 1


def shown_by(made: Listeners) -> str:
    context = ssl.create_default_context(cafile=str(made.authority.ca))
    with (
        socket.create_connection(("127.0.0.1", made.tls)) as opened,
        context.wrap_socket(opened, server_hostname="localhost") as connection,
    ):
        shown = connection.getpeercert() or {}
    return str(dict(each[0] for each in shown["subject"])["commonName"])


def test_handshakes_that_are_begun_and_not_finished_take_nothing_from_others(
    attacked: Listeners,
) -> None:
    create(attacked.broker.bootstrap, "bystander")
    bystander = Bystander(attacked.broker.bootstrap, "bystander")
    with contextlib.ExitStack() as stack:
        for number in range(700):
            opened = stack.enter_context(socket.create_connection(("127.0.0.1", attacked.tls)))
            if number % 2:
                opened.send(b"\x16\x03\x01\x02\x00\x01")
        with pytest.raises(OSError):
            shown_by(attacked)  # this address has no handshakes left
        bystander.finish()
        assert attacked.broker.http("/readyz") == (200, "ready\n")
        wait_until(
            lambda: attacked.broker.complaints("TLS handshake failed") >= 500,
            what="they are closed",
        )
        assert shown_by(attacked)


def test_a_listener_that_cannot_show_its_certificate(chroot: str, tmp_path: Path) -> None:
    made = Listeners(tmp_path, chroot)
    made.server.key.unlink()
    with pytest.raises(Exception, match="`certificate`"), made.broker:
        pass
