"""ZooKeeper behind locks: a real one with TLS and logins, and what is said if they do not fit."""

import importlib.util
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.errors import NotAllowed, Unavailable
from cluster.session.operations import Create
from cluster.session.security import ZooKeeperSecurity
from cluster.session.session import Session, SessionState
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from ground.tls.client import Tls
from harness.logins.certificates import Authority
from harness.logins.made_secrets import made_secret
from harness.penstock.secured_zookeeper import SecuredZooKeeper
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until

USER, PASSWORD = "penstock", made_secret("a secret, 'quoted' = 7")
NEXT_PASSWORD = made_secret("the next one")
AT_ONCE = 8.0  # seconds, on a slow machine; what waits for a server waits longer

Open = Callable[..., Session]

needs_sasl = pytest.mark.skipif(
    importlib.util.find_spec("puresasl") is None, reason="pip install pure-sasl"
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[SecuredZooKeeper]:
    directory = tmp_path_factory.mktemp("secured")
    with SecuredZooKeeper(directory, authority, users={USER: PASSWORD}) as zookeeper:
        yield zookeeper


@pytest.fixture(scope="module")
def wanting_certificates(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[SecuredZooKeeper]:
    directory = tmp_path_factory.mktemp("wanting")
    with SecuredZooKeeper(directory, authority, wants_certificates=True) as zookeeper:
        yield zookeeper


@pytest.fixture
def tls(authority: Authority) -> Tls:
    return Tls(ca=str(authority.ca))


@pytest.fixture
def opened() -> Iterator[Open]:
    sessions: list[Session] = []

    def connect(hosts: str, *, secret: str | None = None, **security: object) -> Session:
        said = ZooKeeperSecurity(**security)  # type: ignore[arg-type]
        session = Session.connect(
            hosts, secret=secret, security=said, timeout_s=6, connect_timeout_s=30
        )
        sessions.append(session)
        return session

    yield connect
    for session in sessions:
        session.close()


@pytest.fixture
def password(secured: SecuredZooKeeper, tmp_path: Path) -> Path:
    """A file with the one that the server knows now."""
    path = tmp_path / "password"
    path.write_text(secured.users[USER] + "\n")
    return path


def login(password: Path) -> dict[str, str]:
    return {"user": USER, "password_file": str(password)}


def refused(connect: Callable[[], Session], kind: type[Exception], said: str) -> None:
    began = time.monotonic()
    with pytest.raises(kind, match=said):
        connect()
    assert time.monotonic() - began < AT_ONCE


def test_what_a_configuration_must_say() -> None:
    for wrong in (
        {"user": "x"},
        {"user": "x", "password_file": "a", "password_env": "b"},
        {"password_env": "b"},
    ):
        with pytest.raises(ValueError, match=r"`user`"):
            ZooKeeperSecurity(**wrong)  # type: ignore[arg-type]


def test_over_tls_a_secret_guards_nodes_as_before(
    secured: SecuredZooKeeper, tls: Tls, opened: Open
) -> None:
    first = opened(f"{secured.tls_address}/guarded", secret="shared", tls=tls)
    first.write([Create("/brokers/here", b"x")])
    second = opened(f"{secured.tls_address}/guarded", secret="shared", tls=tls)
    assert second.read("/brokers/here") is not None
    with pytest.raises(NotAllowed, match="another secret"):
        opened(f"{secured.address}/guarded", secret="another")


def test_a_certificate_that_is_wanted(
    wanting_certificates: SecuredZooKeeper, authority: Authority, opened: Open
) -> None:
    address = f"{wanting_certificates.tls_address}/wanted"
    mine = Tls(ca=str(authority.ca), certificate=str(authority.sign("me").both))
    assert opened(address, tls=mine).exists("/brokers")
    refused(
        lambda: opened(address, tls=Tls(ca=str(authority.ca))),
        Unavailable,
        "certificate required|bad certificate",
    )


def test_an_authority_that_is_not_believed(
    secured: SecuredZooKeeper, authority: Authority, tmp_path: Path, opened: Open
) -> None:
    for tls, said in (
        (Tls(ca=str(Authority(tmp_path / "other").ca)), "its certificate is not trusted: "),
        (Tls(ca=str(authority.ca), server_name="elsewhere"), "not valid for 'elsewhere'"),
        (Tls(), "its certificate is not trusted: "),
        (Tls(ca=str(tmp_path / "none")), f"`ca` {tmp_path}/none: no such file"),
    ):
        refused(lambda: opened(secured.tls_address, tls=tls), Unavailable, said)  # noqa: B023


def test_in_the_clear_to_where_tls_is_spoken_and_the_other_way_round(
    secured: SecuredZooKeeper, tls: Tls, opened: Open, zookeeper: EmbeddedZooKeeper
) -> None:
    refused(lambda: opened(secured.tls_address), Unavailable, "`zookeeper_security.tls` is missing")
    for plain in (secured.address, zookeeper.address):
        refused(lambda: opened(plain, tls=tls), Unavailable, "does not speak TLS")  # noqa: B023


def test_a_member_that_is_good_is_enough(secured: SecuredZooKeeper, tls: Tls, opened: Open) -> None:
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    hosts = f"{nobody},{secured.address},{secured.tls_address}/several"
    assert opened(hosts, tls=tls).exists("/brokers")


def test_one_that_is_not_there_is_waited_for_and_named(tls: Tls) -> None:
    began = time.monotonic()
    with pytest.raises(Unavailable, match="no ZooKeeper answers"):
        Session.connect(
            f"127.0.0.1:{free_ports(1)[0]}",
            secret=None,
            security=ZooKeeperSecurity(tls=tls),
            connect_timeout_s=1.5,
        )
    assert time.monotonic() - began >= 1.4


def test_a_password_that_is_not_there(
    secured: SecuredZooKeeper, tmp_path: Path, opened: Open
) -> None:
    said = "cannot be read" if importlib.util.find_spec("puresasl") else "zookeeper-login"
    wanted = login(tmp_path / "none")
    refused(lambda: opened(secured.address, **wanted), Unavailable, said)


@needs_sasl
def test_who_logs_in_guards_nodes(
    secured: SecuredZooKeeper, tls: Tls, opened: Open, password: Path
) -> None:
    address = f"{secured.tls_address}/logged-in"
    first = opened(address, tls=tls, **login(password))
    first.write([Create("/brokers/here", b"x")])
    again = opened(address, tls=tls, **login(password))
    again.write([Create("/brokers/there", b"x")])
    stranger = opened(f"{secured.address}/other")
    with pytest.raises(NotAllowed, match="denies access"):
        _ = Session.connect(f"{secured.address}/logged-in/below", secret=None)
    assert stranger.exists("/brokers")


@needs_sasl
def test_a_secret_keeps_guarding_where_somebody_logs_in(
    secured: SecuredZooKeeper, tls: Tls, opened: Open, password: Path
) -> None:
    before = opened(f"{secured.address}/both", secret="shared")
    after = opened(f"{secured.tls_address}/both", secret="shared", tls=tls, **login(password))
    after.write([Create("/brokers/here", b"x")])
    before.write([Create("/brokers/there", b"x")])


@needs_sasl
def test_a_password_that_is_wrong(
    secured: SecuredZooKeeper, tls: Tls, opened: Open, password: Path
) -> None:
    password.write_text("another")
    for address, way in ((secured.address, {}), (secured.tls_address, {"tls": tls})):
        refused(
            lambda: opened(address, **way, **login(password)),  # noqa: B023
            NotAllowed,
            "refuses the login",
        )


@needs_sasl
def test_a_login_where_there_are_none(
    wanting_certificates: SecuredZooKeeper, opened: Open, password: Path
) -> None:
    refused(
        lambda: opened(wanting_certificates.address, **login(password)),
        NotAllowed,
        "whether it supports logins at all",
    )
    time.sleep(1)  # what it has answered it may not have logged yet
    asked = wanting_certificates.log().count("saslServer is null")
    time.sleep(0.5)
    assert wanting_certificates.log().count("saslServer is null") == asked < 200


@needs_sasl
def test_a_password_that_is_changed_while_it_runs(
    secured: SecuredZooKeeper,
    tls: Tls,
    opened: Open,
    password: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """First on the server, then in the file: in between the session cannot be had."""
    session = opened(f"{secured.tls_address}/changing", tls=tls, **login(password))
    states: list[SessionState] = []
    session.add_listener(states.append)
    secured.stop()
    secured.users = {USER: NEXT_PASSWORD}
    secured.start()
    with caplog.at_level(logging.ERROR):
        wait_until(lambda: "refuses the login, trying again" in caplog.text, what="refused")
    password.write_text(NEXT_PASSWORD + "\n")

    def works() -> bool:
        try:
            return session.exists("/brokers")
        except (Unavailable, NotAllowed):
            return False

    wait_until(works, what="it is in again", every=0.2)
    assert SessionState.LOST in states
    session.write([Create("/brokers/here", b"x")])
    for secret in (PASSWORD, NEXT_PASSWORD):
        assert secret not in caplog.text
