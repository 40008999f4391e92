"""Finds out why no host of an ensemble accepts connections, since kazoo only retries.

A server that is down or has no quorum yet may recover: there is no reason to give up. A mismatch of
TLS, or of trust in certificates, will not change by waiting, and has a specific message.
"""

import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from cluster.session.connections import encrypted
from ground.printable import plain_words
from ground.tls.client import BadTls, ClientTls, why

_WITHIN_S: Final = 2.0
_QUESTION: Final = b"srvr"  # a ZooKeeper answers in words, even if the command is not allowed
_ENOUGH: Final = 4096
# OpenSSL's name for an alert of the peer, which only a TLS peer sends.
_ALERT: Final = "ALERT"


class Probe:
    """Probes all hosts of an ensemble on a thread of its own, since a dead host takes time."""

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
        """The reasons found so far why waiting is useless, for each host that has one."""
        return [reason for reason in self._found if reason]

    @property
    def is_hopeless(self) -> bool:
        """Whether waiting is useless for all hosts."""
        return len(self.reasons) == len(self._hosts)

    def _ask(self) -> None:
        for host in self._hosts:
            self._found.append(why_never(host, self._tls))


def why_never(host_and_port: str, tls: ClientTls | None) -> str:
    """Returns why waiting for this host is useless; empty if waiting may help."""
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
            # A server rejects an untrusted client only after the first request.
            _asked(connection)
    except BadTls as error:
        return str(error)
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not trusted: {plain_words(error.verify_message)}"
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
    # No data is sent and nothing is trusted: this only checks whether it speaks TLS.
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
    except UnicodeError as error:  # not a valid DNS name
        raise OSError(str(error)) from None


def _asked(connection: socket.socket) -> bytes:
    connection.sendall(_QUESTION)
    return connection.recv(_ENOUGH)
