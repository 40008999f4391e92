"""Logs in over new connections, again and again: SCRAM-SHA-512, as a client that has just begun.

Each login is a connection of its own, from one of several addresses: TLS's handshake where there is
TLS, ApiVersions, SaslHandshake, both steps of SCRAM, and the broker's proof is checked. What the
password comes to with the user's salt is computed once. All of that is done by a process of its
own, with some threads, so that it does not wait for whoever else measures.
"""

import contextlib
import itertools
import multiprocessing
import secrets
import socket
import ssl
import struct
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import msgspec

from bench.loads.requests import AnswerError, api_versions_request, frame, string
from bench.servers.locked_brokers import MECHANISM, PASSWORD, USER, LockedBroker, client_context
from ground.logins.scram import ScramCredential, ScramMechanism

_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_AT_ONCE: Final = 8
_PATIENCE: Final = 60.0
_SHA_512: Final = ScramMechanism.SHA_512


class Logins(msgspec.Struct, frozen=True):
    """How many, in which time, and what they cost the client."""

    count: int
    seconds: float
    client_cpu: float


class _Client:
    """One user's client. Threads may share it."""

    def __init__(self, port: int, ca: Path | None) -> None:
        self._port = port
        self._tls = None if ca is None else client_context(ca)
        self._salted: dict[tuple[bytes, int], tuple[bytes, ScramCredential]] = {}

    def log_in(self, source: str) -> None:
        """Raises AnswerError if it is not let in."""
        address = "127.0.0.1", self._port
        with socket.create_connection(address, _PATIENCE, (source, 0)) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                self._exchange(plain)
            else:
                with self._tls.wrap_socket(plain, server_hostname="localhost") as encrypted:
                    self._exchange(encrypted)

    def _exchange(self, sock: socket.socket) -> None:
        _ask(sock, api_versions_request())
        answer = _ask(sock, frame(_SASL_HANDSHAKE, 1, 1, string(MECHANISM)))
        _check(answer)
        nonce = secrets.token_hex(12)
        bare = f"n={USER},r={nonce}"
        salted_so = _say(sock, f"n,,{bare}")
        said = dict(each.split("=", 1) for each in salted_so.split(","))
        if not said["r"].startswith(nonce):
            raise AnswerError("the broker's nonce does not begin with the client's")
        client_key, credential = self._credential(b64decode(said["s"]), int(said["i"]))
        unproven = f"c=biws,r={said['r']}"
        signed = f"{bare},{salted_so},{unproven}".encode()
        signature = _SHA_512.hmac(credential.stored_key, signed)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        proven = _say(sock, f"{unproven},p={b64encode(proof).decode()}")
        if proven != f"v={b64encode(credential.signature(signed)).decode()}":
            raise AnswerError("the broker has not proven that it knows the password")

    def _credential(self, salt: bytes, iterations: int) -> tuple[bytes, ScramCredential]:
        """The key that the client proves with, and what the broker keeps of the password."""
        known = self._salted.get((salt, iterations))
        if known is None:
            salted = _SHA_512.salted(PASSWORD, salt, iterations)
            credential = ScramCredential.of_salted(_SHA_512, salted, salt, iterations)
            known = _SHA_512.hmac(salted, b"Client Key"), credential
            self._salted[salt, iterations] = known
        return known


def _say(sock: socket.socket, text: str) -> str:
    said = struct.pack(">i", len(text)) + text.encode()
    answer = _ask(sock, frame(_SASL_AUTHENTICATE, 1, 2, said))
    _check(answer)
    (message,) = struct.unpack_from(">h", answer, 6)
    start = 8 + max(0, message)
    (length,) = struct.unpack_from(">i", answer, start)
    return answer[start + 4 : start + 4 + length].decode()


def _check(answer: bytes) -> None:
    (error,) = struct.unpack_from(">h", answer, 4)
    if error:
        raise AnswerError(f"the login was answered with error {error}")


def _ask(sock: socket.socket, request: bytes) -> bytes:
    """The answer without its length prefix."""
    sock.sendall(request)
    received = bytearray()
    while len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
        some = sock.recv(2**14)
        if not some:
            raise AnswerError("the broker closed the connection")
        received += some
    return bytes(received[4:])


def _log_in_for(client: _Client, seconds: float, rate: float | None) -> Logins:
    """As often as it goes, or so many a second."""
    numbers = itertools.count()
    began, began_cpu = time.monotonic(), time.process_time()

    def one_after_the_other(thread: int) -> int:
        done = 0
        while True:
            due = began if rate is None else began + next(numbers) / rate
            time.sleep(max(0.0, due - time.monotonic()))
            if time.monotonic() - began >= seconds or due - began >= seconds:
                return done
            client.log_in(f"127.0.0.{1 + thread}")
            done += 1

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        count = sum(threads.map(one_after_the_other, range(_AT_ONCE)))
    return Logins(count, time.monotonic() - began, time.process_time() - began_cpu)


def _serve(port: int, ca: Path | None, pipe: Connection) -> None:
    """In a process of its own: what the pipe asks for, until it is closed."""
    client = _Client(port, ca)
    with contextlib.suppress(EOFError):
        client.log_in("127.0.0.1")
        pipe.send(None)
        while True:
            try:
                pipe.send(_log_in_for(client, *pipe.recv()))
            except (AnswerError, OSError, ssl.SSLError) as error:
                pipe.send(AnswerError(f"{type(error).__name__}: {error}"))


class LoginLoad:
    """Clients that wait to be told when to log in."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def begin(self, seconds: float, rate: float | None = None) -> Callable[[], Logins]:
        """Returns at once; what it returns waits until they are done."""
        self._pipe.send((seconds, rate))

        def end() -> Logins:
            done = self._pipe.recv()
            if isinstance(done, AnswerError):
                raise done
            assert isinstance(done, Logins)
            return done

        return end


@contextlib.contextmanager
def login_load(broker: LockedBroker, *, with_tls: bool) -> Iterator[LoginLoad]:
    """They have logged in once."""
    ours, theirs = multiprocessing.Pipe()
    arguments = broker.login_port(with_tls=with_tls), broker.ca if with_tls else None, theirs
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=arguments, daemon=True
    )
    process.start()
    theirs.close()
    try:
        try:
            ours.recv()
        except EOFError:
            raise AnswerError("nobody could log in") from None
        yield LoginLoad(ours)
    finally:
        ours.close()
        process.join(_PATIENCE)
        process.kill()
