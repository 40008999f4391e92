"""The client against Apache Kafka's own locks: every mechanism, and every way not to get in."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.security import Login, Mechanism, Security
from client.errors import ClientError, NotLetIn
from client.producing.producer import Producer
from client.reading.consumer import Consumer
from client.reading.offsets import Beginning
from ground.tls.client import Tls
from harness.kafka.apache_kafka import ApacheKafka, kafka_classpath, why_no_kafka
from harness.kafka.secured_kafka import MECHANISMS, USERS, secured_kafka, unsigned_token
from harness.logins.certificates import Authority
from harness.processes.server_process import free_ports
from tests.client.writing_and_reading import write_and_read_for

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(300)]
MESSAGES = 500
GOOD_FOR = 3_000  # milliseconds, a login at the broker


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


class Locked(NamedTuple):
    """One broker with two listeners."""

    kafka: ApacheKafka
    bootstrap: str
    by_certificate: str


@pytest.fixture(scope="module")
def locked(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    if kafka_classpath() is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka()}")
    settings = {
        "connections.max.reauth.ms": str(GOOD_FOR),
        "listener.name.ssl.ssl.client.auth": "required",
    }
    directory = tmp_path_factory.mktemp("kafka")
    kafka = secured_kafka(directory, authority, settings=settings)
    by_certificate = f"127.0.0.1:{free_ports(1)[0]}"
    properties = directory / "server.properties"
    said, own = properties.read_text(), f"SASL_SSL://{kafka.bootstrap}"
    said = said.replace(own, f"{own},SSL://{by_certificate}")
    properties.write_text(said.replace("SASL_SSL:SASL_SSL", "SASL_SSL:SASL_SSL,SSL:SSL"))
    with kafka:
        yield Locked(kafka, kafka.bootstrap, by_certificate)


def login(mechanism: Mechanism, directory: Path, user: str = "alice") -> Login:
    if mechanism is Mechanism.OAUTHBEARER:
        token = directory / "token"
        token.write_text(unsigned_token(user))
        return Login(mechanism=mechanism, token_file=str(token))
    password = directory / "password"
    password.write_text(USERS[user] + "\n")
    return Login(mechanism=mechanism, user=user, password_file=str(password))


def write_and_read(bootstrap: Bootstrap, topic: str) -> None:
    with Brokers(bootstrap) as brokers:
        create_topic(brokers, topic, partitions=2)
        producer = Producer(brokers, topic, batch_bytes=100_000)
        for number in range(MESSAGES):
            producer.send(b"%d " % number * 100)
        producer.flush()
        with Consumer(brokers, topic, Beginning(), to_end=True) as consumer:
            got = sorted(int((message.record.value or b"").split()[0]) for message in consumer)
    assert got == list(range(MESSAGES))


@pytest.mark.parametrize("mechanism", [Mechanism(each) for each in MECHANISMS])
def test_what_is_written_can_be_read(
    locked: Locked, authority: Authority, mechanism: Mechanism, tmp_path: Path
) -> None:
    security = Security(tls=Tls(ca=str(authority.ca)), login=login(mechanism, tmp_path))
    write_and_read(Bootstrap.of(locked.bootstrap, security), f"by-{mechanism.lower()}")


def test_a_certificate_says_who_one_is(locked: Locked, authority: Authority) -> None:
    mine = authority.sign("an-agent")
    tls = Tls(ca=str(authority.ca), certificate=str(mine.certificate), key=str(mine.key))
    bootstrap = Bootstrap.of(locked.by_certificate, Security(tls=tls))
    write_and_read(bootstrap, "by-certificate")
    with pytest.raises(ClientError):
        Brokers(Bootstrap.of(locked.by_certificate, Security(tls=Tls(ca=str(authority.ca)))))


@pytest.mark.parametrize("mechanism", [Mechanism.SCRAM_SHA_512, Mechanism.OAUTHBEARER])
def test_a_login_that_ends_is_made_anew_under_load(
    locked: Locked, authority: Authority, mechanism: Mechanism, tmp_path: Path
) -> None:
    security = Security(tls=Tls(ca=str(authority.ca)), login=login(mechanism, tmp_path))
    with Brokers(Bootstrap.of(locked.bootstrap, security), patience_seconds=5) as brokers:
        write_and_read_for(2.5 * GOOD_FOR / 1000, brokers, f"for-long-{mechanism.lower()}")
    assert "Disconnecting expired channel" not in locked.kafka.process.log()


@pytest.mark.parametrize("mechanism", [Mechanism(each) for each in MECHANISMS])
def test_a_wrong_secret(
    locked: Locked, authority: Authority, mechanism: Mechanism, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong-5e1f")
    said = (
        Login(mechanism=mechanism, token_file=str(wrong))
        if mechanism is Mechanism.OAUTHBEARER
        else Login(mechanism=mechanism, user="alice", password_file=str(wrong))
    )
    security = Security(tls=Tls(ca=str(authority.ca)), login=said)
    with pytest.raises(NotLetIn, match=f"login with {mechanism}: ") as refused:
        Brokers(Bootstrap.of(locked.bootstrap, security))
    assert "5e1f" not in str(refused.value)


def test_a_password_that_was_exchanged(
    locked: Locked, authority: Authority, tmp_path: Path
) -> None:
    """The next connection has the new one: nothing is started again."""
    said = login(Mechanism.SCRAM_SHA_256, tmp_path)
    bootstrap = Bootstrap.of(locked.bootstrap, Security(tls=Tls(ca=str(authority.ca)), login=said))
    right = Path(said.password_file).read_text()
    Path(said.password_file).write_text("of yesterday")
    with pytest.raises(NotLetIn):
        Brokers(bootstrap)
    Path(said.password_file).write_text(right)
    with Brokers(bootstrap) as brokers:
        brokers.refresh([])
