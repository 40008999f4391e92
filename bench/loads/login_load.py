"""Logs in repeatedly over new connections with SCRAM-SHA-512, like clients that start.

Each login is a new connection, from one of several addresses: the TLS handshake if there is TLS,
ApiVersions, SaslHandshake, both steps of SCRAM, and a check of the broker's proof. The salted
password is computed once. All of this runs in a separate process with several threads.
"""

import contextlib
import itertools
import secrets
import socket
import ssl
import struct
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import msgspec

from bench.loads.child_process import child_process, receive
from bench.loads.requests import AnswerError, api_versions_request, frame, string
from bench.servers.locked_brokers import MECHANISM, PASSWORD, USER, LockedBroker, client_context
from ground.logins.scram import ScramCredential, ScramMechanism

_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_AT_ONCE: Final = 8
_PATIENCE: Final = 60.0
_SHA_512: Final = ScramMechanism.SHA_512


class Logins(msgspec.Struct, frozen=True):
    """The number of logins, the time they took, and the client's CPU time."""

    count: int
    seconds: float
    client_cpu: float


class _Client:
    """The client of one user; threads may share it."""

    def __init__(self, port: int, ca: Path | None) -> None:
        self._port = port
        self._tls = None if ca is None else client_context(ca)
        self._salted: dict[tuple[bytes, int], tuple[bytes, ScramCredential]] = {}

    def log_in(self, source: str) -> None:
        """Logs in over a new connection. Raises AnswerError if that fails."""
        address = "127.0.0.1", self._port
        with socket.create_connection(address, _PATIENCE, (source, 0)) as plain_socket:
            plain_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                self._exchange(plain_socket)
            else:
                with self._tls.wrap_socket(plain_socket, server_hostname="localhost") as tls_socket:
                    self._exchange(tls_socket)

    def _exchange(self, sock: socket.socket) -> None:
        _ask(sock, api_versions_request())
        answer = _ask(sock, frame(_SASL_HANDSHAKE, 1, 1, string(MECHANISM)))
        _check(answer)
        nonce = secrets.token_hex(12)
        bare_message = f"n={USER},r={nonce}"
        challenge = _authenticate(sock, f"n,,{bare_message}")
        fields = dict(field.split("=", 1) for field in challenge.split(","))
        if not fields["r"].startswith(nonce):
            raise AnswerError("the broker's nonce does not begin with the client's")
        client_key, credential = self._credential(b64decode(fields["s"]), int(fields["i"]))
        final_message = f"c=biws,r={fields['r']}"
        signed_message = f"{bare_message},{challenge},{final_message}".encode()
        signature = _SHA_512.hmac(credential.stored_key, signed_message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_answer = _authenticate(sock, f"{final_message},p={b64encode(proof).decode()}")
        if server_answer != f"v={b64encode(credential.signature(signed_message)).decode()}":
            raise AnswerError("the broker did not prove that it knows the password")

    def _credential(self, salt: bytes, iterations: int) -> tuple[bytes, ScramCredential]:
        """The client's key, and the broker's record of the password."""
        key_and_credential = self._salted.get((salt, iterations))
        if key_and_credential is None:
            salted_password = _SHA_512.salted(PASSWORD, salt, iterations)
            credential = ScramCredential.of_salted(_SHA_512, salted_password, salt, iterations)
            key_and_credential = _SHA_512.hmac(salted_password, b"Client Key"), credential
            self._salted[salt, iterations] = key_and_credential
        return key_and_credential


def _authenticate(sock: socket.socket, text: str) -> str:
    message = struct.pack(">i", len(text)) + text.encode()
    answer = _ask(sock, frame(_SASL_AUTHENTICATE, 1, 2, message))
    _check(answer)
    (error_text_size,) = struct.unpack_from(">h", answer, 6)
    start = 8 + max(0, error_text_size)
    (length,) = struct.unpack_from(">i", answer, start)
    return answer[start + 4 : start + 4 + length].decode()


def _check(answer: bytes) -> None:
    (error,) = struct.unpack_from(">h", answer, 4)
    if error:
        raise AnswerError(f"the login failed with error {error}")


def _ask(sock: socket.socket, request: bytes) -> bytes:
    """Returns the answer without its length prefix."""
    sock.sendall(request)
    buffer = bytearray()
    while len(buffer) < 4 or len(buffer) < 4 + struct.unpack_from(">i", buffer)[0]:
        data = sock.recv(2**14)
        if not data:
            raise AnswerError("the broker closed the connection")
        buffer += data
    return bytes(buffer[4:])


def _log_in_for(client: _Client, seconds: float, rate: float | None) -> Logins:
    """Log in at full speed, or at `rate` per second."""
    numbers = itertools.count()
    start_time, cpu_before = time.monotonic(), time.process_time()

    def run(thread: int) -> int:
        logins = 0
        while True:
            due_time = start_time if rate is None else start_time + next(numbers) / rate
            time.sleep(max(0.0, due_time - time.monotonic()))
            if time.monotonic() - start_time >= seconds or due_time - start_time >= seconds:
                return logins
            client.log_in(f"127.0.0.{1 + thread}")
            logins += 1

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        count = sum(threads.map(run, range(_AT_ONCE)))
    return Logins(count, time.monotonic() - start_time, time.process_time() - cpu_before)


def _serve(port: int, ca: Path | None, pipe: Connection) -> None:
    """Serve the pipe's commands in this process until it is closed."""
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
    """Controls the clients in their process."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def begin(self, seconds: float, rate: float | None = None) -> Callable[[], Logins]:
        """Starts the logins; returns a function that waits for their result."""
        self._pipe.send((seconds, rate))
        return partial(receive, self._pipe, Logins)


@contextlib.contextmanager
def login_load(broker: LockedBroker, *, with_tls: bool) -> Iterator[LoginLoad]:
    """Starts the process, which logs in once before it is used."""
    client = broker.login_port(with_tls=with_tls), broker.ca if with_tls else None
    with child_process(_serve, *client, patience=_PATIENCE) as pipe:
        try:
            pipe.recv()
        except EOFError:
            raise AnswerError("the first login failed") from None
        yield LoginLoad(pipe)
