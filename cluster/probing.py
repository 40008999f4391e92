"""Why nobody at an address becomes our ZooKeeper: asked beside kazoo, which only tries again.

A server that is not there, or has no quorum yet, may come: there is no reason to give up. One that
speaks TLS where we do not, or the other way round, or that does not believe us or is not believed,
will not change by waiting, and says so in its own words.
"""

import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from cluster.connections import encrypted
from ground.printable import plain_words
from ground.tls import BadTls, ClientTls, why

_WITHIN_S: Final = 2.0
_QUESTION: Final = b"srvr"  # a ZooKeeper answers in words, be it that it may not be asked
_ENOUGH: Final = 4096
# What OpenSSL calls an alert of the other side, which only a peer sends that speaks TLS.
_ALERT: Final = "ALERT"


class Probe:
    """Of all hosts of an ensemble, on a thread of its own: one that is dead takes its time, while
    another may be what we wait for."""

    def __init__(self, hosts: Sequence[str], tls: ClientTls | None) -> None:
        self._hosts = hosts
        self._tls = tls
        self._found: list[str] = []
        self._thread = threading.Thread(target=self._ask, name="zookeeper probe", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    @property
    def reasons(self) -> list[str]:
        """Why waiting does not help, of each where it does not, as far as it is known."""
        return [each for each in self._found if each]

    @property
    def is_hopeless(self) -> bool:
        """Whether no host is left that may answer yet."""
        return len(self.reasons) == len(self._hosts)

    def _ask(self) -> None:
        for host in self._hosts:
            self._found.append(why_never(host, self._tls))


def why_never(host_and_port: str, tls: ClientTls | None) -> str:
    """Why waiting does not help; empty where it may."""
    host, _, port = host_and_port.rpartition(":")
    address = (host.strip("[]"), int(port))
    reason = _in_the_clear(address) if tls is None else _encrypted(address, tls)
    return f"ZooKeeper at {host_and_port}: {reason}" if reason else ""


def _encrypted(address: tuple[str, int], tls: ClientTls) -> str:
    try:
        connection = _connected(address)
    except OSError:
        return ""
    try:
        with encrypted(connection, tls, address[0]) as connection:
            # A server that does not believe a client says so only when it is asked something.
            _asked(connection)
    except BadTls as error:
        return str(error)
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not believed: {plain_words(error.verify_message)}"
    except ssl.SSLError as error:
        if _ALERT in (error.reason or ""):
            return f"TLS: {why(error, 'refused')}"
        return _no_tls(address)
    except OSError:
        return _no_tls(address)
    return ""


def _no_tls(address: tuple[str, int]) -> str:
    try:
        with _connected(address) as connection:
            answer = _asked(connection)
    except OSError:
        return ""
    return "it does not speak TLS at this port" if answer else ""


def _in_the_clear(address: tuple[str, int]) -> str:
    try:
        connection = _connected(address)
    except OSError:
        return ""
    with connection, suppress(OSError):
        if _asked(connection):
            return ""
    is_tls = _speaks_tls(address)
    return "it speaks TLS at this port: `zookeeper_security.tls` is missing" if is_tls else ""


def _speaks_tls(address: tuple[str, int]) -> bool:
    # Nothing is sent to it and nothing believed of it: it is only asked whether it knows TLS.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with _connected(address) as connection, context.wrap_socket(connection):
            return True
    except ssl.SSLError as error:
        return _ALERT in (error.reason or "")
    except OSError:
        return False


def _connected(address: tuple[str, int]) -> socket.socket:
    """Raises OSError."""
    try:
        return socket.create_connection(address, _WITHIN_S)
    except UnicodeError as error:  # no name that DNS could have
        raise OSError(str(error)) from None


def _asked(connection: socket.socket) -> bytes:
    connection.sendall(_QUESTION)
    return connection.recv(_ENOUGH)
