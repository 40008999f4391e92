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
import ssl
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from broker.api.operations import RULES
from broker.api.table import APIS
from client.admin.quotas import quotas
from client.admin.topics import all_topics, create_topic
from client.admin.users import users
from client.connection.brokers import Brokers
from client.connection.logins import Exchange, scram
from client.connection.security import Mechanism
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.secured_broker import USERS, SecuredBroker
from harness.processes.waiting import wait_until
from tests.broker.api.requests import codes
from tests.system.mutating import TOPICS, message
from tests.system.raw import Closed, RawConnection, int16, int32, request
from tests.system.raw_login import AUTHENTICATE, HANDSHAKE, begun, logged_in, over_tls, said
from wire.errors import ErrorCode
from wire.framing.codec import Api
from wire.framing.requests import request_frame

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
    """A request of that API which would be served, in its newest version."""
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


def cut_off(connection: RawConnection, key: int) -> None:
    """It asks, and is not answered."""
    with pytest.raises((Closed, OSError)):
        connection.send(frame_of(key)[2])
        answer = connection.answer(10)
        print(f"{APIS[key].name} was answered: {answer!r}")


def logged(secured: SecuredBroker, text: str) -> None:
    """Once at least: what is said again is counted."""
    wait_until(lambda: text in secured.broker.log(), what=f"it logs {text!r}")


def in_the_clear(secured: SecuredBroker, port: int | None = None) -> RawConnection:
    return RawConnection(f"127.0.0.1:{port or secured.plain}")


def with_tls(secured: SecuredBroker, port: int, certificate: str = "") -> RawConnection:
    context = ssl.create_default_context(cafile=str(secured.authority.ca))
    if certificate:
        context.load_cert_chain(certificate)
    return over_tls(f"127.0.0.1:{port}", context)


def test_without_a_login(secured: SecuredBroker) -> None:
    for key in KEYS:
        with in_the_clear(secured) as connection:
            cut_off(connection, key)
    logged(secured, "without a login")


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


def tried(connection: RawConnection, exchange: Exchange) -> None:
    """It has said its last word, and has not heard the answer."""
    begun(connection, "SCRAM-SHA-512")
    first = next(exchange)
    answer = connection.ask(AUTHENTICATE, 1, int32(len(first)) + first)
    (size,) = struct.unpack_from(">i", answer, 4)
    last = exchange.send(answer[8 : 8 + size])
    connection.send(request(AUTHENTICATE, 1, int32(len(last)) + last))


@pytest.mark.parametrize("how", ["wrong", "replayed"])
def test_with_a_wrong_password_or_a_proof_of_another_connection(
    secured: SecuredBroker, how: str
) -> None:
    heard: list[bytes] = []
    if how == "replayed":
        with in_the_clear(secured) as connection:
            begun(connection, "SCRAM-SHA-512")
            assert said(connection, recorded(heard, "bob"))[:2] == int16(0)
    with contextlib.ExitStack() as stack:
        connections = {key: stack.enter_context(in_the_clear(secured)) for key in KEYS}
        for each in connections.values():  # those who fail are kept waiting, so all do at once
            wrong = scram("sha512", "alice", "wrong", lambda: "a-nonce")
            tried(each, replayed(heard) if heard else wrong)
        for key, each in connections.items():
            assert each.answer()[:2] == int16(ErrorCode.sasl_authentication_failed)
            cut_off(each, key)
    logged(secured, "belongs to another attempt, user bob" if heard else "wrong password, user")


def test_with_an_expired_token(secured: SecuredBroker) -> None:
    token = f"n,,\1auth=Bearer {secured.token(seconds=-600)}\1\1".encode()
    with contextlib.ExitStack() as stack:
        connections = {key: stack.enter_context(with_tls(secured, secured.locked)) for key in KEYS}
        for each in connections.values():
            begun(each, "OAUTHBEARER")
            each.send(request(AUTHENTICATE, 1, int32(len(token)) + token))
        for each in connections.values():  # at once: a login that stands still is ended
            assert b"invalid_token" in each.answer()
            each.send(request(AUTHENTICATE, 1, int32(1) + b"\1"))
        for key, each in connections.items():
            assert each.answer()[:2] == int16(ErrorCode.sasl_authentication_failed)
            cut_off(each, key)


def test_with_a_revoked_certificate(secured: SecuredBroker) -> None:
    certificate = str(secured.revoked["lost"].both)
    for key in KEYS:
        with (
            pytest.raises((Closed, OSError)),
            with_tls(secured, secured.known, certificate) as lost,
        ):
            lost.send(frame_of(key)[2])
            lost.answer(10)
    logged(secured, "certificate revoked")


def test_in_the_clear_where_tls_is_spoken(secured: SecuredBroker) -> None:
    for key in KEYS:
        with in_the_clear(secured, secured.locked) as connection:
            cut_off(connection, key)
    logged(secured, "TLS handshake failed")


def test_after_the_end_of_a_login(chroot: str, tmp_path: Path) -> None:
    with (
        SecuredBroker(tmp_path, zookeeper=chroot, login_seconds=1) as secured,
        contextlib.ExitStack() as stack,
    ):
        connections = {key: stack.enter_context(in_the_clear(secured)) for key in KEYS}
        for each in connections.values():
            assert logged_in(each, "alice", USERS["alice"])[:2] == int16(0)
        time.sleep(1.1)
        for key, each in connections.items():
            cut_off(each, key)
        logged(secured, "after the end of its login")


@pytest.mark.parametrize("key", [key for key in KEYS if RULES[key]], ids=lambda key: APIS[key].name)
def test_logged_in_without_the_right(secured: SecuredBroker, key: int) -> None:
    api, version, frame = frame_of(key)
    with in_the_clear(secured) as connection:
        assert logged_in(connection, "alice", USERS["alice"])[:2] == int16(0)
        before = secured.broker.complaints("not authorized")
        connection.send(frame)
        answer = connection.answer(30)
    body = memoryview(answer)[1 if api.is_flexible(version) else 0 :]
    assert codes(api.decode_response(version, body)) & REFUSALS
    assert secured.broker.complaints("not authorized") > before
    logged(secured, "not authorized client=127.0.0.1 principal='alice'")
