"""A table of attempts: every API that is served, in every way that must not succeed.

    rows      each API of broker/api/table.py, with a request that would be served
    columns   no login · a wrong password · an expired token · a login that has ended · a revoked
              certificate · a replayed proof · in the clear to TLS · TLS with an old version ·
              the right login without the right

Each is refused, in a way that a client understands, with a line in the log, and nothing is changed:
topics, users, rules and quotas are the same afterwards. An API without a row cannot be: rows are
made of the table.
"""

import contextlib
import functools
import random
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from broker.api.operations import RULES
from broker.api.table import APIS
from client.admin import all_topics, create_topic
from client.brokers import Brokers
from client.logins import Exchange, scram
from client.quotas import quotas
from client.security import Mechanism
from client.users import users
from cluster.zookeeper import EmbeddedZooKeeper
from harness.secured_broker import USERS, SecuredBroker
from harness.waiting import wait_until
from tests.broker.api.requests import codes
from tests.system.mutating import TOPICS, message
from tests.system.raw import Closed, RawConnection, int16, int32, request
from tests.system.raw_login import AUTHENTICATE, HANDSHAKE, begun, over_tls, said
from wire.codec import Api
from wire.errors import ErrorCode
from wire.requests import request_frame

API_VERSIONS = 18
WITHOUT_A_LOGIN = {HANDSHAKE, AUTHENTICATE, API_VERSIONS}
REFUSALS = {
    ErrorCode.topic_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.cluster_authorization_failed,
    ErrorCode.unknown_topic_id,  # nobody is told what an id stands for
}
# Metadata, DeleteTopics: later versions take a name or an id, and an unknown id is no attempt.
_BY_NAME = {3: 9, 20: 5}
KEYS = sorted(APIS.keys() - WITHOUT_A_LOGIN)


@pytest.fixture(scope="module")
def secured(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredBroker]:
    directory = tmp_path_factory.mktemp("attempts")
    with SecuredBroker(
        directory,
        zookeeper=f"{zookeeper.address}/attempts",
        settings={"authorization": {"super_users": ["broker"]}},
        revoked=("lost",),
    ) as secured:
        with Brokers(secured.bootstrap(Mechanism.SCRAM_SHA_512, "broker")) as brokers:
            for topic in TOPICS:
                create_topic(brokers, topic)
            before = state(brokers)
        yield secured
        with Brokers(secured.bootstrap(Mechanism.SCRAM_SHA_512, "broker")) as brokers:
            assert state(brokers) == before, "something was changed"


def state(brokers: Brokers) -> object:
    topics = all_topics(brokers).topics
    return (
        {name: len(each.partitions) for name, each in topics.items()},
        users(brokers),
        quotas(brokers),
    )


@functools.cache
def frame_of(key: int) -> tuple[Api[Any, Any], int, bytes]:
    """A request of that API which asks for something, in its newest version."""
    api = APIS[key]
    version = _BY_NAME.get(key, api.versions[-1])
    for seed in range(10_000):
        made = _without_transactions(message(random.Random(seed), api.request))
        if _is_full(made) and getattr(made, "acks", True):  # else there is no answer
            body = bytes(api.encode_request(version, made))
            return api, version, request_frame(api, version, 1, "attempt", body)
    raise AssertionError(f"no request of {api.name} that asks for anything")


def _without_transactions(made: Struct) -> Struct:
    """There are none, whoever asks."""
    none = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
    return replace(made, **{name: none[name] for name in none.keys() & set(made.__struct_fields__)})


def _is_full(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(map(_is_full, value))
    if isinstance(value, Struct):
        return all(_is_full(getattr(value, name)) for name in value.__struct_fields__)
    return True


def cut_off(connection: RawConnection, frame: bytes) -> None:
    with pytest.raises((Closed, OSError)):
        connection.send(frame)
        connection.answer(10)


def logged(secured: SecuredBroker, text: str) -> None:
    """Once at least: what is said again is counted."""
    wait_until(lambda: text in secured.broker.log(), within=30, what=f"it logs {text!r}")


@pytest.fixture(params=KEYS, ids=[APIS[key].name for key in KEYS])
def asked(request: pytest.FixtureRequest) -> bytes:
    return frame_of(request.param)[2]


def test_without_a_login(secured: SecuredBroker, asked: bytes) -> None:
    with RawConnection(f"127.0.0.1:{secured.plain}") as connection:
        cut_off(connection, asked)
    logged(secured, "and it has not logged in")


def tried(secured: SecuredBroker, exchange: Exchange) -> RawConnection:
    """A connection that has said its last word, and has not heard the answer: those who fail are
    kept waiting for it, so all do at once."""
    connection = RawConnection(f"127.0.0.1:{secured.plain}")
    begun(connection, "SCRAM-SHA-512")
    first = next(exchange)
    answer = connection.ask(AUTHENTICATE, 1, int32(len(first)) + first)
    (size,) = struct.unpack_from(">i", answer, 4)
    last = exchange.send(answer[8 : 8 + size])
    connection.send(request(AUTHENTICATE, 1, int32(len(last)) + last))
    return connection


def recorded(heard: list[bytes], user: str) -> Exchange:
    exchange = scram("sha512", user, USERS[user], lambda: "a-nonce")
    token = next(exchange)
    while True:
        heard.append(token)
        try:
            token = exchange.send((yield token))
        except StopIteration:
            return


def replayed(heard: list[bytes]) -> Exchange:
    for token in heard:  # noqa: UP028 -- it does not hear what it is told
        yield token


@pytest.fixture(scope="module")
def with_wrong_passwords(secured: SecuredBroker) -> Iterator[Callable[[], RawConnection]]:
    wrong = [tried(secured, scram("sha512", "alice", "wrong", lambda: "a-nonce")) for _ in KEYS]
    with contextlib.ExitStack() as stack:  # those that other workers' tests would have taken
        for each in wrong:
            stack.enter_context(each)
        yield list(wrong).pop


@pytest.fixture(scope="module")
def with_replayed_proofs(secured: SecuredBroker) -> Iterator[Callable[[], RawConnection]]:
    heard: list[bytes] = []
    with RawConnection(f"127.0.0.1:{secured.plain}") as connection:
        begun(connection, "SCRAM-SHA-512")
        assert said(connection, recorded(heard, "bob"))[:2] == int16(0)
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(tried(secured, replayed(heard))) for _ in KEYS].pop


def test_with_a_wrong_password(
    with_wrong_passwords: Callable[[], RawConnection], secured: SecuredBroker, asked: bytes
) -> None:
    with with_wrong_passwords() as connection:
        assert connection.answer()[:2] == int16(ErrorCode.sasl_authentication_failed)
        cut_off(connection, asked)
    logged(secured, "wrong password, user alice")


def test_with_a_proof_of_another_connection(
    with_replayed_proofs: Callable[[], RawConnection], secured: SecuredBroker, asked: bytes
) -> None:
    with with_replayed_proofs() as connection:
        assert connection.answer()[:2] == int16(ErrorCode.sasl_authentication_failed)
        cut_off(connection, asked)
    logged(secured, "the nonce is another attempt's, user bob")


def connected(secured: SecuredBroker, port: int, certificate: str = "") -> RawConnection:
    context = ssl.create_default_context(cafile=str(secured.authority.ca))
    if certificate:
        context.load_cert_chain(certificate)
    return over_tls(f"127.0.0.1:{port}", context)


@pytest.fixture(scope="module")
def with_expired_tokens(secured: SecuredBroker) -> Iterator[Callable[[], RawConnection]]:
    token = f"n,,\1auth=Bearer {secured.token(seconds=-600)}\1\1".encode()
    with contextlib.ExitStack() as stack:
        expired = []
        for _ in KEYS:
            connection = stack.enter_context(connected(secured, secured.locked))
            begun(connection, "OAUTHBEARER")
            connection.send(request(AUTHENTICATE, 1, int32(len(token)) + token))
            expired.append(connection)
        for connection in expired:  # at once: a login that stands still is ended
            assert b"invalid_token" in connection.answer()
            connection.send(request(AUTHENTICATE, 1, int32(1) + b"\1"))
        yield expired.pop


def test_with_an_expired_token(
    with_expired_tokens: Callable[[], RawConnection], asked: bytes
) -> None:
    with with_expired_tokens() as connection:
        assert connection.answer()[:2] == int16(ErrorCode.sasl_authentication_failed)
        cut_off(connection, asked)


def test_with_a_revoked_certificate(secured: SecuredBroker, asked: bytes) -> None:
    certificate = str(secured.revoked["lost"].both)
    with pytest.raises((Closed, OSError)), connected(secured, secured.known, certificate) as lost:
        lost.send(asked)
        lost.answer(10)
    logged(secured, "certificate revoked")


def test_in_the_clear_where_tls_is_spoken(secured: SecuredBroker, asked: bytes) -> None:
    with RawConnection(f"127.0.0.1:{secured.locked}") as connection:
        cut_off(connection, asked)
    logged(secured, "TLS handshake failed")


def test_by_an_older_tls(secured: SecuredBroker, asked: bytes) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", secured.locked)) as opened,
        pytest.raises(OSError),
        context.wrap_socket(opened) as connection,
    ):
        connection.sendall(asked)


@pytest.fixture(scope="module")
def ended(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], RawConnection]]:
    """Connections whose login is over, one for each call."""
    directory: Path = tmp_path_factory.mktemp("ended")
    ended = SecuredBroker(directory, zookeeper=f"{zookeeper.address}/ended", login_seconds=1)
    with ended as secured, contextlib.ExitStack() as stack:
        connections = []
        for _ in KEYS:
            connection = stack.enter_context(RawConnection(f"127.0.0.1:{secured.plain}"))
            begun(connection, "SCRAM-SHA-512")
            exchange = scram("sha512", "alice", USERS["alice"], lambda: "a-nonce")
            assert said(connection, exchange)[:2] == int16(0)
            connections.append(connection)
        time.sleep(1.1)
        yield connections.pop
        logged(secured, "and its login has ended")


def test_after_the_end_of_a_login(ended: Callable[[], RawConnection], asked: bytes) -> None:
    with ended() as connection:
        cut_off(connection, asked)


@pytest.mark.parametrize("key", [key for key in KEYS if RULES[key]], ids=lambda key: APIS[key].name)
def test_logged_in_without_the_right(secured: SecuredBroker, key: int) -> None:
    api, version, frame = frame_of(key)
    with RawConnection(f"127.0.0.1:{secured.plain}") as connection:
        begun(connection, "SCRAM-SHA-512")
        exchange = scram("sha512", "alice", USERS["alice"], lambda: "a-nonce")
        assert said(connection, exchange)[:2] == int16(0)
        before = secured.broker.complaints("not authorized")
        connection.send(frame)
        answer = connection.answer(30)
    body = memoryview(answer)[1 if api.is_flexible(version) else 0 :]
    assert codes(api.decode_response(version, body)) & REFUSALS
    assert secured.broker.complaints("not authorized") > before
    logged(secured, "not authorized client=127.0.0.1 principal='alice'")
