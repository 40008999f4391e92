"""Logins at a broker: who gets in, by which mechanism, with whose client, and for how long."""

import contextlib
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import aiokafka.abc
import pytest
from confluent_kafka import KafkaError, Producer

from client.admin.topics import create_topic
from client.admin.users import set_password
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.security import Login, Mechanism, Security
from client.errors import ClientError, NotLetIn
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from ground.tls.client import Tls, client_context
from harness.penstock.secured_broker import USERS, SecuredBroker
from harness.processes.event_loops import on_event_loop
from harness.processes.waiting import wait_until
from tests.client.writing_and_reading import write_and_read_for
from tests.system.clients import kafka_python
from tests.system.clients.librdkafka import written_and_read
from tests.system.raw import METADATA, Closed, RawConnection, int16, int32, metadata_body, string
from tests.system.raw_login import AUTHENTICATE, HANDSHAKE, begun, logged_in, over_tls
from wire.errors import ErrorCode

WITHIN = 60.0
COUNT = 500
PASSWORDS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def secured(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredBroker]:
    directory = tmp_path_factory.mktemp("logins")
    with SecuredBroker(directory, zookeeper=f"{zookeeper.address}/logins") as secured:
        with Brokers(secured.bootstrap(Mechanism.SCRAM_SHA_512)) as brokers:
            create_topic(brokers, "common")
        yield secured


@pytest.mark.parametrize("mechanism", [*PASSWORDS, "OAUTHBEARER"])
def test_librdkafka(secured: SecuredBroker, mechanism: str) -> None:
    def token(_: object) -> tuple[str, float]:
        return secured.token(), time.time() + 3600

    settings = secured.librdkafka(mechanism)
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = token
        del settings["sasl.username"], settings["sasl.password"]
    values = [b"%d" % number for number in range(COUNT)]
    assert written_and_read(settings, f"librdkafka-{mechanism}", values) == values


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_kafka_python(secured: SecuredBroker, mechanism: str) -> None:
    settings = {
        "bootstrap_servers": f"localhost:{secured.locked}",
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(secured.authority.ca),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": USERS["alice"],
    }
    topic = f"kafka-python-{mechanism}"
    with contextlib.closing(kafka_python.KafkaProducer(**settings)) as producer:
        producer.send(topic, b"a message").get(WITHIN)
    with contextlib.closing(
        kafka_python.KafkaConsumer(
            **settings, auto_offset_reset="earliest", consumer_timeout_ms=30_000
        )
    ) as consumer:
        consumer.assign([kafka_python.TopicPartition(topic, 0)])
        assert next(consumer).value == b"a message"


@pytest.mark.parametrize("mechanism", [*PASSWORDS, "OAUTHBEARER"])
@on_event_loop
async def test_aiokafka(secured: SecuredBroker, mechanism: str) -> None:
    class Tokens(aiokafka.abc.AbstractTokenProvider):
        async def token(self) -> str:
            return secured.token()

    settings = {
        "bootstrap_servers": f"localhost:{secured.locked}",
        "security_protocol": "SASL_SSL",
        "ssl_context": client_context(Tls(ca=str(secured.authority.ca))),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": USERS["alice"],
        "sasl_oauth_token_provider": Tokens(),
    }
    producer = aiokafka.AIOKafkaProducer(**settings)
    await producer.start()
    try:
        await producer.send_and_wait("common", b"by aiokafka")
    finally:
        await producer.stop()


# Who does not get in


def not_let_in(security: Security, port: int) -> str:
    with pytest.raises(ClientError) as refused:
        Brokers(Bootstrap.of(f"127.0.0.1:{port}", security))
    return str(refused.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_and_a_user_who_is_not_there(
    secured: SecuredBroker, mechanism: str, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong")
    tls = Tls(ca=str(secured.authority.ca))
    said = []
    for user in ("alice", "nobody-knows"):
        login = Login(mechanism=Mechanism(mechanism), user=user, password_file=str(wrong))
        said.append(not_let_in(Security(tls=tls, login=login), secured.locked))
    assert all("invalid credentials with SASL mechanism" in each for each in said)
    assert len({each.replace("nobody-knows", "alice") for each in said}) == 1
    assert "user alice" in secured.broker.log()


def test_a_mechanism_that_the_listener_does_not_take(secured: SecuredBroker) -> None:
    security = secured.security(Mechanism.PLAIN)
    assert "the listener supports SCRAM-SHA-512" in not_let_in(security, secured.brokers)


def test_librdkafka_is_told(secured: SecuredBroker) -> None:
    errors: list[KafkaError] = []
    settings = secured.librdkafka("SCRAM-SHA-512", error_cb=errors.append)
    producer = Producer({**settings, "sasl.password": "wrong"})
    wait_until(lambda: producer.poll(0.1) or bool(errors), within=20, what="it is told")
    assert errors[0].code() == KafkaError._AUTHENTICATION


def test_steps_out_of_order_are_refused(secured: SecuredBroker) -> None:
    with RawConnection(f"127.0.0.1:{secured.plain}") as connection:
        answer = connection.ask(AUTHENTICATE, 0, int32(3) + b"abc")
        assert answer[:2] == int16(34)  # illegal SASL state
        with pytest.raises(Closed):
            connection.ask(HANDSHAKE, 1, string("SCRAM-SHA-512"))
    with RawConnection(f"127.0.0.1:{secured.plain}") as connection:
        assert connection.ask(HANDSHAKE, 1, string("GSSAPI"))[:2] == int16(33)


def test_a_large_frame_is_not_taken_before_a_login(secured: SecuredBroker) -> None:
    with (
        RawConnection(f"127.0.0.1:{secured.plain}") as connection,
        pytest.raises((Closed, OSError)),
    ):
        connection.send(int32(1_000_000) + int16(AUTHENTICATE) + bytes(1_000_000))
        connection.ask(HANDSHAKE, 1, string("SCRAM-SHA-512"))


# For how long


@pytest.fixture(scope="module")
def brief(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredBroker]:
    """Logins are good for two seconds, and have to be made in five."""
    with SecuredBroker(
        tmp_path_factory.mktemp("brief"),
        zookeeper=f"{zookeeper.address}/brief",
        login_seconds=2,
        settings={"limits": {"stalled_request_seconds": 5}},
    ) as secured:
        yield secured


@pytest.mark.parametrize("mechanism", [Mechanism.SCRAM_SHA_256, Mechanism.OAUTHBEARER])
def test_logins_are_made_anew_under_load(brief: SecuredBroker, mechanism: Mechanism) -> None:
    before = len(brief.broker.log())
    with Brokers(brief.bootstrap(mechanism), patience_seconds=5) as brokers:
        write_and_read_for(5, brokers, f"long-{mechanism}")
    assert "after the end of its login" not in brief.broker.log()[before:]


def test_librdkafka_logs_in_anew(brief: SecuredBroker) -> None:
    producer = Producer(brief.librdkafka("SCRAM-SHA-512"))
    failed: list[object] = []
    until = time.monotonic() + 5
    while time.monotonic() < until:
        producer.produce("long", b"x", on_delivery=lambda error, _: error and failed.append(error))
        producer.poll(0.05)
    assert producer.flush(WITHIN) == 0
    assert not failed


def test_who_does_not_log_in_in_time_or_anew_is_cut_off(brief: SecuredBroker) -> None:
    with (
        RawConnection(f"127.0.0.1:{brief.plain}") as idle,
        RawConnection(f"127.0.0.1:{brief.plain}") as connection,
    ):
        begun(idle, "SCRAM-SHA-512")
        answer = logged_in(connection, "alice", USERS["alice"])
        assert 0 < struct.unpack(">q", answer[-8:])[0] <= 2000
        assert connection.ask(METADATA, 1, metadata_body(None))
        logged_in(connection, "alice", USERS["alice"])
        time.sleep(2.5)
        with pytest.raises(Closed):
            connection.ask(METADATA, 1, metadata_body(None))
        assert "request of API 3 after the end of its login" in brief.broker.log()
        idle.wait_closed()
        assert "no login within the time limit" in brief.broker.log()


def test_a_connection_stays_with_its_user(secured: SecuredBroker) -> None:
    with RawConnection(f"127.0.0.1:{secured.plain}") as connection:
        logged_in(connection, "alice", USERS["alice"])
        assert logged_in(connection, "bob", USERS["bob"])[:2] == int16(58)
        with pytest.raises(Closed):
            connection.ask(METADATA, 1, metadata_body(None))


def test_who_has_come_by_certificate_becomes_nobody_else(secured: SecuredBroker) -> None:
    tls = secured.security(None, "alice").tls
    assert tls is not None
    with over_tls(f"127.0.0.1:{secured.known}", client_context(tls)) as connection:
        refused = connection.ask(HANDSHAKE, 1, string("SCRAM-SHA-512"))
        assert refused[:2] == int16(ErrorCode.illegal_sasl_state)
        refused = connection.ask(AUTHENTICATE, 1, int32(1) + b"n")
        assert refused[:2] == int16(ErrorCode.illegal_sasl_state)
        assert connection.ask(METADATA, 1, metadata_body(None))


# Users that change


def test_a_password_that_is_exchanged(secured: SecuredBroker) -> None:
    alice = secured.bootstrap(Mechanism.SCRAM_SHA_256)
    with Brokers(alice) as brokers:
        set_password(brokers, "carol", "first", 4096)
        file = secured.directory / "carol.password"
        file.write_text("first")
        security = secured.security(Mechanism.PLAIN, "carol")
        address = f"127.0.0.1:{secured.locked}"
        Brokers(Bootstrap.of(address, security)).close()
        set_password(brokers, "carol", "second", 4096)
        with pytest.raises(NotLetIn):
            Brokers(Bootstrap.of(address, security))
        file.write_text("second")
        Brokers(Bootstrap.of(address, security)).close()
