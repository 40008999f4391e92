"""Queries the status of a ZooKeeper with its four-letter word `srvr`, in the clear or through
TLS."""

import re
import socket
import ssl
from collections.abc import Sequence
from typing import Final

import msgspec

from ground.network.listening import is_everywhere
from ground.tls.client import BadTls, Tls, client_context, exchanged

_PATIENCE_S: Final = 2.0
_MOST_BYTES: Final = 4096
_MODE: Final = re.compile(rb"^Mode: ([a-z]{1,20})", re.MULTILINE)
_ZXID: Final = re.compile(rb"^Zxid: (0x[0-9a-f]{1,16})", re.MULTILINE)
_SERVES: Final = b"Zookeeper version"
_WAITS: Final = b"This ZooKeeper instance is not currently serving"
WAITING: Final = "waiting"


class Standing(msgspec.Struct, frozen=True):
    """The status of a server at one moment."""

    mode: str
    """`standalone`, `leader`, `follower`, `observer`; `waiting` without a quorum."""
    zxid: str = ""
    """Its last transaction."""

    @property
    def serves(self) -> bool:
        return self.mode != WAITING


class Asking:
    """Queries one server. Thread-safe."""

    def __init__(self, host: str, port: int, tls: Tls | None = None) -> None:
        self._address = ("127.0.0.1" if is_everywhere(host) else host, port)
        self._tls = exchanged((tls.ca, tls.certificate), lambda: _context(tls)) if tls else None

    def standing(self) -> Standing | None:
        """Returns the server's status; None if it does not answer, or if its answer is not
        understood."""
        try:
            answer = self._query()
        except (OSError, BadTls):
            return None
        if answer.startswith(_WAITS):
            return Standing(WAITING)
        mode, zxid = _MODE.search(answer), _ZXID.search(answer)
        if not answer.startswith(_SERVES) or mode is None:
            return None
        return Standing(mode[1].decode(), zxid[1].decode() if zxid else "")

    def _query(self) -> bytes:
        with socket.create_connection(self._address, timeout=_PATIENCE_S) as plain_socket:
            if self._tls is None:
                return _answer(plain_socket)
            # Raises after a reset, for which wrap_socket would leave it open.
            plain_socket.getpeername()
            with self._tls.current.wrap_socket(plain_socket) as tls_socket:
                return _answer(tls_socket)


def answers(host: str, port: int) -> bool:
    """Whether a ZooKeeper at this address serves requests, in the clear."""
    status = Asking(host, port).standing()
    return status is not None and status.serves


def serving(hosts: Sequence[str], tls: Tls | None = None) -> int:
    """Counts the servers of an ensemble, given as `host:port`, that serve requests; -1 if none
    answers, since four-letter words may be disabled. Blocks."""
    results = []
    for host in hosts:
        name, _, port = host.rpartition(":")
        results.append(Asking(name.strip("[]"), int(port), tls).standing())
    answers = [status for status in results if status is not None]
    return sum(status.serves for status in answers) if answers else -1


def _context(tls: Tls) -> ssl.SSLContext:
    """The address is queried directly, whatever name its certificate has."""
    context = client_context(tls)
    context.check_hostname = False
    return context


def _answer(connection: socket.socket) -> bytes:
    connection.sendall(b"srvr")
    answer = b""
    try:
        while len(answer) < _MOST_BYTES and (piece := connection.recv(_MOST_BYTES)):
            answer += piece
    except ssl.SSLEOFError:
        pass  # it has answered, and closed without a TLS close_notify
    return answer
