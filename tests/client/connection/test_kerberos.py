"""Logins by Kerberos, in a real realm: what is said to a broker, and what is not believed of one.

The broker's side is the same library's; Apache Kafka's own is in test_into_kerberized_kafka.
"""

import uuid
from pathlib import Path
from typing import Any

import pytest

from client.connection.credentials import Credentials
from client.connection.logins import Exchange, LoginFailed
from client.connection.security import Login, Mechanism
from harness.logins.kdc import REALM, Kdc
from harness.processes.waiting import wait_until

HOST = "127.0.0.1"
SERVICE = f"kafka/{HOST}"
NO_LAYER = b"\1\0\0\0"


class Broker:
    """Its side of one login."""

    def __init__(self, realm: Kdc) -> None:
        import gssapi  # noqa: PLC0415 -- not there without the extra

        store: dict[bytes | str, bytes | str] = {"keytab": str(realm.keytab(SERVICE))}
        creds = gssapi.Credentials(usage="accept", store=store)
        self._context: Any = gssapi.SecurityContext(usage="accept", creds=creds)

    def prove(self, token: bytes) -> bytes:
        said: bytes = self._context.step(token)
        assert self._context.complete
        return said

    def wrapped(self, offer: bytes) -> bytes:
        return bytes(self._context.wrap(offer, False).message)

    def unwrapped(self, choice: bytes) -> bytes:
        return bytes(self._context.unwrap(choice).message)

    @property
    def client(self) -> str:
        return str(self._context.initiator_name)


@pytest.fixture(autouse=True)
def service(realm: Kdc) -> None:
    """The KDC knows it."""
    realm.keytab(SERVICE)


@pytest.fixture
def agent() -> str:
    """A name that no other test uses."""
    return f"agent-{uuid.uuid4().hex[:8]}"


def login_of(name: str, keytab: Path, **more: str) -> Login:
    said = {"principal": f"{name}@{REALM}", "keytab": str(keytab), **more}
    return Login(mechanism=Mechanism.GSSAPI, **said)  # type: ignore[arg-type]


def log_in(realm: Kdc, saying: Exchange, offer: bytes = NO_LAYER) -> Broker:
    broker = Broker(realm)
    assert saying.send(broker.prove(next(saying))) == b""
    assert broker.unwrapped(saying.send(broker.wrapped(offer))) == NO_LAYER
    with pytest.raises(StopIteration):
        saying.send(b"")
    return broker


def why_not(login: Login, host: str = HOST) -> str:
    with pytest.raises(LoginFailed) as failed:
        next(Credentials(login).exchange(host))
    assert str(failed.value).isprintable()
    return str(failed.value)


def test_both_sides_prove_who_they_are(realm: Kdc, agent: str) -> None:
    """The KDC is asked once for all logins with a ticket that lives."""
    credentials = Credentials(login_of(agent, realm.keytab(agent)))
    for _ in range(3):
        assert log_in(realm, credentials.exchange(HOST)).client == f"{agent}@{REALM}"
    assert realm.asked(agent) == 1


def test_a_broker_may_offer_more_than_is_wanted(realm: Kdc, agent: str) -> None:
    credentials = Credentials(login_of(agent, realm.keytab(agent)))
    log_in(realm, credentials.exchange(HOST), b"\7\0\xff\xff")


def test_another_name_of_the_service(realm: Kdc, agent: str) -> None:
    realm.keytab("brokers/elsewhere.example")
    login = login_of(agent, realm.keytab(agent), service="brokers")
    assert next(Credentials(login).exchange("elsewhere.example"))


def test_tickets_that_somebody_else_gets(realm: Kdc, agent: str, tmp_path: Path) -> None:
    """`kinit`, for instance; and they end."""
    cache = tmp_path / "cache"
    by_cache = Login(mechanism=Mechanism.GSSAPI, ccache=str(cache))
    assert "No credentials cache found (run `kinit`" in why_not(by_cache)

    realm.kinit(agent, cache)
    log_in(realm, Credentials(by_cache).exchange(HOST))
    other = Login(mechanism=Mechanism.GSSAPI, ccache=str(cache), principal=f"other@{REALM}")
    assert "does not match desired name" in why_not(other)

    realm.kinit(agent, cache, life="1s")

    def ended() -> bool:
        try:
            next(Credentials(by_cache).exchange(HOST))
        except LoginFailed as failed:
            return "expired (run `kinit` again" in str(failed)
        return False

    wait_until(ended, within=60, what="the ticket ends", every=0.2)


def test_a_keytab_that_does_not_do(realm: Kdc, agent: str, tmp_path: Path) -> None:
    assert why_not(login_of(agent, tmp_path / "none")).endswith("cannot be read: no such file or "
                                                                "directory")  # fmt: skip
    keytab = realm.keytab(agent)
    no_key = f"no ticket for another@{REALM} with {keytab}: the keytab has no key for this"
    assert no_key in why_not(login_of("another", keytab))
    (tmp_path / "text").write_text("no keytab")
    assert "or is invalid: see `klist -k`" in why_not(login_of(agent, tmp_path / "text"))

    of_yesterday = keytab.read_bytes()
    realm.change_key(agent)
    login = login_of(agent, keytab)
    log_in(realm, Credentials(login).exchange(HOST))
    keytab.write_bytes(of_yesterday)
    assert "differs from the KDC's: export it again" in why_not(login)


def test_names_that_the_kdc_does_not_know(realm: Kdc, agent: str) -> None:
    login = login_of(agent, realm.keytab(agent))
    assert f"no ticket for kafka/elsewhere: Server kafka/elsewhere@{REALM} not found" in (
        why_not(login, "elsewhere")
    )
    realm.remove(agent)
    assert "the KDC knows no such principal" in why_not(login)


def test_a_kdc_that_is_away(realm: Kdc, agent: str) -> None:
    """Who has a ticket goes on with it."""
    login = login_of(agent, realm.keytab(agent))
    credentials = Credentials(login)
    log_in(realm, credentials.exchange(HOST))
    realm.kill()
    try:
        log_in(realm, credentials.exchange(HOST))
        assert "Cannot contact any KDC" in (said := why_not(login))
        assert said.endswith("(check that the KDC runs and that krb5.conf has its address)")
    finally:
        realm.start()


@pytest.mark.parametrize("offer", [b"\6\0\0\0", b"\0\0\0\0", b"\1", b"", b"\1\0\0\0\0"])
def test_an_offer_that_kafka_does_not_make(realm: Kdc, agent: str, offer: bytes) -> None:
    saying = Credentials(login_of(agent, realm.keytab(agent))).exchange(HOST)
    broker = Broker(realm)
    saying.send(broker.prove(next(saying)))
    with pytest.raises(LoginFailed, match=r"invalid GSSAPI response|requires a GSSAPI"):
        saying.send(broker.wrapped(offer))


def test_an_offer_by_somebody_else(realm: Kdc, agent: str) -> None:
    saying = Credentials(login_of(agent, realm.keytab(agent))).exchange(HOST)
    saying.send(Broker(realm).prove(next(saying)))
    with pytest.raises(LoginFailed, match="invalid GSSAPI response"):
        saying.send(NO_LAYER)


@pytest.mark.parametrize("answer", [b"", bytes(8)])
def test_who_cannot_prove_it_is_no_broker(realm: Kdc, agent: str, answer: bytes) -> None:
    saying = Credentials(login_of(agent, realm.keytab(agent))).exchange(HOST)
    next(saying)
    with pytest.raises(LoginFailed, match="the broker did not prove its identity"):
        saying.send(answer)


def test_a_proof_for_another_login_is_none(realm: Kdc, agent: str) -> None:
    credentials = Credentials(login_of(agent, realm.keytab(agent)))
    one, other = credentials.exchange(HOST), credentials.exchange(HOST)
    next(other)
    with pytest.raises(LoginFailed, match="the broker did not prove its identity"):
        other.send(Broker(realm).prove(next(one)))
