"""Every program and command into an Apache Kafka that wants tickets of Kerberos."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.security import Login, Mechanism, Security
from client.errors import NotLetIn
from ground.tls.client import Tls
from harness.kafka.apache_kafka import ApacheKafka, kafka_classpath, why_no_kafka
from harness.kafka.secured_kafka import secured_kafka
from harness.logins.certificates import Authority
from harness.logins.kdc import REALM, Kdc
from harness.penstock.agent import AgentProcess
from harness.penstock.registry import RegistryProcess
from tests.client.writing_and_reading import write_and_read_for
from tests.penstock.running import fresh_penstock

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(300)]
GOOD_FOR = 2_000  # milliseconds, a login at the broker
TICKETS_LIVE = "3 seconds"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def kafka(
    kdc: Kdc, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApacheKafka]:
    if kafka_classpath() is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka()}")
    settings = {"connections.max.reauth.ms": str(GOOD_FOR)}
    directory = tmp_path_factory.mktemp("kafka")
    with secured_kafka(directory, authority, settings=settings, kdc=kdc) as kafka:
        yield kafka


def security_of(realm: Kdc, authority: Authority, name: str, *, life: str = "1 day") -> Security:
    keytab = str(realm.keytab(name, life=life))
    login = Login(mechanism=Mechanism.GSSAPI, principal=f"{name}@{REALM}", keytab=keytab)
    return Security(tls=Tls(ca=str(authority.ca)), login=login)


def test_tickets_that_end_are_got_anew_under_load(
    realm: Kdc, kafka: ApacheKafka, authority: Authority
) -> None:
    """As are the logins that are made with them."""
    security = security_of(realm, authority, "busy", life=TICKETS_LIVE)
    with Brokers(Bootstrap.of(kafka.bootstrap, security), patience_seconds=60) as brokers:
        write_and_read_for(3 * GOOD_FOR / 1000, brokers, "busy")
    assert realm.asked("busy") > 1


def test_from_a_file_to_a_terminal(
    realm: Kdc, kafka: ApacheKafka, authority: Authority, tmp_path: Path
) -> None:
    """A registry and an agent put lines there, and commands show them."""
    programs = msgspec.to_builtins(security_of(realm, authority, "programs"))
    lines = tmp_path / "a.log"
    lines.write_text("by Kerberos\n")
    realm.kinit("programs", tmp_path / "cache")
    login = {"mechanism": "GSSAPI", "ccache": str(tmp_path / "cache")}
    person = tmp_path / "security.yaml"
    person.write_text(yaml.safe_dump({"tls": programs["tls"], "login": login}))
    asked = ("--bootstrap", kafka.bootstrap, "--security", str(person))
    for topic in ("lines", "_audit"):
        assert fresh_penstock("topics", "create", topic, *asked).returncode == 0
    registry = RegistryProcess(
        tmp_path / "registry", brokers=kafka.bootstrap, settings={"security": programs}
    )
    with registry:
        agent = AgentProcess(
            tmp_path / "agent",
            brokers=kafka.bootstrap,
            registry=registry.url,
            inputs=[{"paths": [str(lines)], "topic": "lines"}],
            settings={"security": programs},
        )
        with agent:
            events = ("--events", "--registry", registry.url)
            shown = fresh_penstock(
                "consume", "lines", *asked, *events, "--from", "beginning", "--count", "1"
            )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "by Kerberos" in shown.stdout


def test_who_is_not_let_in(
    realm: Kdc, kafka: ApacheKafka, authority: Authority, tmp_path: Path
) -> None:
    """By the KDC, which does not know whom one wants to see; and by the broker, which is not whom
    the ticket is for."""
    security = security_of(realm, authority, "stranger")
    assert security.login is not None
    other = msgspec.structs.replace(security.login, service="other")
    bootstrap = Bootstrap.of(kafka.bootstrap, msgspec.structs.replace(security, login=other))
    with pytest.raises(NotLetIn, match=r"login with GSSAPI: no ticket for other/127\.0\.0\.1: "):
        Brokers(bootstrap)
    realm.keytab("other/127.0.0.1")
    with pytest.raises(NotLetIn, match="login with GSSAPI: refused: "):
        Brokers(bootstrap)
