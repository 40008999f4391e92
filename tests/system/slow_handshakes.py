"""`python -m tests.system.slow_handshakes --connections 5000`: TLS that is begun and not finished.

So many connections at a time, from some addresses of this machine, at a broker of its own: some say
nothing, some half a greeting, some a byte now and then, some a whole greeting and then nothing. Who
is cut off comes again. Beside them work clients that do nothing wrong: how they are served before
and meanwhile, and what it costs the broker, is printed; the exit code is 1 if they stood still.
"""

import argparse
import contextlib
import errno
import resource
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from broker.connections.complaints import ComplaintKind
from harness.penstock.secured_broker import SecuredBroker
from tests.system.secured_alone import Beset, beset, secured_alone, source_of

OF_AN_ADDRESS: Final = 400  # below what a broker allows
_LOOK_EVERY_S: Final = 0.1
_NEW_A_LOOK: Final = 500


class _Slow(msgspec.Struct):
    """One connection: `left` is what it will send, a byte per poll."""

    sock: socket.socket
    left: bytes


def withstand(
    secured: SecuredBroker, *, connections: int, seconds: float, alone_seconds: float = 0.0
) -> "tuple[_Slows, Beset]":
    """Keep the connections for `seconds` after all have been opened."""
    with (
        beset(secured, alone_seconds=alone_seconds) as found,
        _Slows(secured.locked, connections) as slows,
    ):
        while slows.begun < connections:
            slows.look()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            slows.look()
            time.sleep(_LOOK_EVERY_S)
    return slows, found


class _Slows:
    """Keeps a number of connections open; closed ones are replaced."""

    def __init__(self, port: int, connections: int) -> None:
        self.begun = self.most_open = 0
        self._port = port
        self._wanted = connections
        self._greeting = _greeting()
        self._open: dict[int, _Slow] = {}

    def __enter__(self) -> "_Slows":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = self._wanted + 500
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._open.values():
            each.sock.close()

    def look(self) -> None:
        for number, slow in tuple(self._open.items()):
            if not _goes_on(slow):
                slow.sock.close()
                del self._open[number]
        for number in self._free(_NEW_A_LOOK):
            self._begin(number)
        self.most_open = max(self.most_open, len(self._open))

    def _free(self, most: int) -> Iterator[int]:
        free = (number for number in range(self._wanted) if number not in self._open)
        for _, number in zip(range(most), tuple(free), strict=False):
            yield number

    def _begin(self, number: int) -> None:
        sock = socket.socket()
        sock.bind((source_of(number // OF_AN_ADDRESS), 0))
        sock.settimeout(30)
        sock.connect(("127.0.0.1", self._port))
        sock.setblocking(False)
        said, left = (
            (b"", b""),
            (self._greeting[:100], b""),
            (b"", self._greeting),
            (self._greeting, b""),
        )[number % 4]
        with contextlib.suppress(OSError):
            sock.send(said)
        self._open[number] = _Slow(sock, left)
        self.begun += 1


def _goes_on(slow: _Slow) -> bool:
    """Send the next byte; returns whether the connection is still open."""
    try:
        if slow.left:
            slow.sock.send(slow.left[:1])
            slow.left = slow.left[1:]
        while slow.sock.recv(1 << 16):
            pass
    except OSError as error:
        return error.errno == errno.EAGAIN
    return False


def _greeting() -> bytes:
    """A ClientHello."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.system.slow_handshakes", description=__doc__)
    parser.add_argument("--connections", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    with secured_alone() as secured:
        slows, found = withstand(
            secured,
            connections=options.connections,
            seconds=options.seconds,
            alone_seconds=10.0,
        )
    given_up = found.counted(ComplaintKind.HANDSHAKE_FAILED)
    print(
        f"{slows.most_open} handshakes under way at most, {slows.begun} begun, {given_up} given up"
    )
    print(found)
    return int(found.meanwhile is None or found.meanwhile.is_standstill)


if __name__ == "__main__":
    sys.exit(main())
